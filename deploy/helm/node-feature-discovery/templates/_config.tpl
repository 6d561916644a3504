{{/* The configuration files. */}}

{{- define "nfd.masterConfig" -}}
{{- with .Values.master.config }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* What the master may write; the job that prunes goes by it, too. */}}
{{- define "nfd.masterPolicy" -}}
{{- with .Values.master.extraLabelNs -}}
- --extra-label-ns={{ join "," . }}
{{ end }}
{{- with .Values.master.denyLabelNs -}}
- --deny-label-ns={{ join "," . }}
{{ end }}
{{- with .Values.master.resourceLabels -}}
- --resource-labels={{ join "," . }}
{{ end }}
{{- if .Values.master.enableTaints -}}
- --enable-taints
{{ end }}
{{- end }}

{{- define "nfd.topologyUpdaterConfig" -}}
{{- with .Values.topologyUpdater.config }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* nfd-worker.conf, with what gpu.mode and gpu.migStrategy say laid under it. */}}
{{- define "nfd.workerConfig" -}}
{{- $config := deepCopy (.Values.worker.config | default dict) }}
{{- if eq .Values.gpu.mode "worker" }}
{{- if ne .Values.gpu.migStrategy "none" }}
{{- $gpu := dict "sources" (dict "nvidia" (dict "migStrategy" .Values.gpu.migStrategy)) }}
{{- $config = mergeOverwrite $gpu $config }}
{{- end }}
{{- else }}
{{- $core := $config.core | default dict }}
{{- $chosen := $core.featureSources | default (list "all") }}
{{- $core = set $core "featureSources" (append (without $chosen "nvidia" "-nvidia") "-nvidia") }}
{{- $config = set $config "core" $core }}
{{- end }}
{{- with $config }}
{{- toYaml . }}
{{- end }}
{{- end }}
