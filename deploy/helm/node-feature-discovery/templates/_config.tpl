{{/* The configuration files, and which values contradict each other. */}}

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

{{/* gpu.mode, unless gfd.enabled of the device plugin's chart is false. */}}
{{- define "nfd.gpuMode" -}}
{{- if kindIs "bool" .Values.gfd.enabled }}
{{- if and .Values.gfd.enabled (eq .Values.gpu.mode "off") }}
{{- fail "gfd.enabled=true and gpu.mode=off contradict each other" }}
{{- end }}
{{- .Values.gfd.enabled | ternary .Values.gpu.mode "off" }}
{{- else }}
{{- .Values.gpu.mode }}
{{- end }}
{{- end }}

{{/* The MIG strategy: in the worker, its configuration takes precedence over gpu.migStrategy. */}}
{{- define "nfd.migStrategy" -}}
{{- $config := eq (include "nfd.gpuMode" .) "worker" | ternary .Values.worker.config dict | default dict }}
{{- $nvidia := ($config.sources | default dict).nvidia | default dict }}
{{- $nvidia.migStrategy | default .Values.gpu.migStrategy }}
{{- end }}

{{/* The ConfigMap with the device plugin's configurations; empty without one. */}}
{{- define "nfd.pluginConfigs" -}}
{{- if and .Values.config.name .Values.config.map }}
{{- fail "set config.name or config.map, not both" }}
{{- else if ne (include "nfd.gpuMode" .) "off" }}
{{- if .Values.config.map }}
{{- include "nfd.componentName" (dict "root" . "suffix" "device-plugin-configs") }}
{{- else }}
{{- .Values.config.name }}
{{- end }}
{{- end }}
{{- end }}

{{/* Not empty on OpenShift. */}}
{{- define "nfd.openShift" -}}
{{- $found := .Capabilities.APIVersions.Has "config.openshift.io/v1" }}
{{- if kindIs "bool" .Values.openshift.enabled | ternary .Values.openshift.enabled $found }}yes{{ end }}
{{- end }}

{{/* nfd-worker.conf, with what gpu.mode, gpu.migStrategy and openshift.enabled say laid under it. */}}
{{- define "nfd.workerConfig" -}}
{{- $config := deepCopy (.Values.worker.config | default dict) }}
{{- if include "nfd.openShift" . }}
{{- $fields := list "ID" "VERSION_ID" "VERSION_ID.major" "VERSION_ID.minor" }}
{{- $fields = concat $fields (list "OSTREE_VERSION" "RHEL_VERSION" "OPENSHIFT_VERSION") }}
{{- $config = mergeOverwrite (dict "sources" (dict "system" (dict "osReleaseLabels" $fields))) $config }}
{{- end }}
{{- if eq (include "nfd.gpuMode" .) "worker" }}
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
