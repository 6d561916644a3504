{{/* What pods of all components have in common, such as tolerations, probes and resources: `root` is the chart's context, `component` a block of the values. */}}

{{- define "nfd.podMetadata" -}}
labels:
  {{- include "nfd.selectorLabels" .root | nindent 2 }}
  role: {{ .role }}
  {{- with .component.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := merge (dict) (.checksums | default dict) (.component.annotations | default dict) }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The component's tolerations, and those of startupTaints, as a mapping for podSettings. */}}
{{- define "nfd.tolerations" -}}
{{- $tolerations := .component.tolerations | default list }}
{{- range .root.Values.startupTaints }}
{{- $exact := dict "key" .key "operator" "Equal" "value" (include "nfd.taintValue" .) "effect" .effect }}
{{- $tolerations = append $tolerations $exact }}
{{- end }}
{{- range (.root.Values.master.config | default dict).startupTaints }}
{{- $taint := regexFind "^[^=:]+(=[^=:]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$" (trim .) }}
{{- if $taint }}
{{- $parts := splitList ":" $taint }}
{{- $pair := splitList "=" (first $parts) }}
{{- $exact := dict "key" (first $pair) "operator" "Equal" "value" (rest $pair | join "") "effect" (last $parts) }}
{{- $tolerations = has $exact $tolerations | ternary $tolerations (append $tolerations $exact) }}
{{- end }}
{{- end }}
{{- if .component.tolerateNoSchedule }}
{{- $tolerations = append $tolerations (dict "operator" "Exists" "effect" "NoSchedule") }}
{{- end }}
{{- dict "tolerations" $tolerations | toYaml }}
{{- end }}

{{- define "nfd.podSettings" -}}
enableServiceLinks: false
{{- $component := .component }}
{{- with default .root.Values.global.imagePullSecrets .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with default .root.Values.priorityClassName $component.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if $component.hostNetwork }}
hostNetwork: true
{{- end }}
{{- if kindIs "bool" $component.hostUsers }}
hostUsers: {{ $component.hostUsers }}
{{- end }}
{{- range $key := list "dnsPolicy" "nodeSelector" "affinity" "tolerations" "initContainers" }}
{{- with get $component $key }}
{{ $key }}:{{ kindIs "string" . | ternary (printf " %s" (toString .)) (toYaml . | nindent 2) }}
{{- end }}
{{- end }}
{{- with $component.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "nfd.resources" -}}
{{- with .resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* An HTTP probe; `numbers` are delays and thresholds. */}}
{{- define "nfd.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
{{- range $key, $value := omit (.numbers | default dict) "grpc" "httpGet" }}
{{- if not (kindIs "invalid" $value) }}
{{ $key }}: {{ $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "nfd.featureGates" -}}
{{- $gates := list }}
{{- range $name, $on := .Values.featureGates }}
{{- $gates = append $gates (printf "%s=%v" $name $on) }}
{{- end }}
{{- with $gates }}
- --feature-gates={{ join "," . }}
{{- end }}
{{- end }}

{{- define "nfd.extraArgs" -}}
{{- range . }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "nfd.nodeName" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end }}

{{/* Annotations that change when a component's configuration does. */}}
{{- define "nfd.checksum" -}}
{{- $values := get (get .root.Values .component) "config" | toYaml }}
checksum/config: {{ .root.Values.checksumValuesOnly | ternary $values (include (printf "nfd.%sConfig" .component) .root) | sha256sum }}
{{- end }}

{{- define "nfd.hook" -}}
annotations:
  helm.sh/hook: post-delete
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
