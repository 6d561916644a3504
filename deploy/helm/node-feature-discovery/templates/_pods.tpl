{{/* What pods of all components have in common: `root` is the chart's context, `component` a block of the values. */}}

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
{{- if .component.tolerateNoSchedule }}
{{- $tolerations = append $tolerations (dict "operator" "Exists" "effect" "NoSchedule") }}
{{- end }}
{{- dict "tolerations" $tolerations | toYaml }}
{{- end }}

{{/* The value of a taint as text; a boolean may be one. */}}
{{- define "nfd.taintValue" -}}
{{- kindIs "invalid" .value | ternary "" (toString .value) }}
{{- end }}

{{/* Fails for a startup taint that the master refuses, by the same rules. */}}
{{- define "nfd.checkStartupTaint" -}}
{{- $parts := splitList "/" .key }}
{{- $prefix := initial $parts | join "/" }}
{{- $name := "^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" }}
{{- $label := "[a-z0-9]([-a-z0-9]*[a-z0-9])?" }}
{{- if not (regexMatch $name (last $parts)) }}
{{- fail (printf "startupTaints: key %q: the name must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends" .key) }}
{{- end }}
{{- if and (gt (len $parts) 1) (or (gt (len $prefix) 253) (not (regexMatch (printf "^%s([.]%s)*$" $label $label) $prefix))) }}
{{- fail (printf "startupTaints: key %q: the prefix must be a lower-case DNS subdomain of at most 253 characters" .key) }}
{{- end }}
{{- $value := include "nfd.taintValue" . }}
{{- if and $value (not (regexMatch $name $value)) }}
{{- fail (printf "startupTaints: key %q: value %q must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends" .key $value) }}
{{- end }}
{{- $reserved := list "readiness.k8s.io" "startup-taint.cluster-autoscaler.kubernetes.io" }}
{{- $own := regexMatch "(^|[.])(nfd|feature|profile)[.]node[.]kubernetes[.]io$" $prefix }}
{{- if and (regexMatch "(^|[.])(kubernetes|k8s)[.]io$" $prefix) (not (has $prefix $reserved)) (not $own) }}
{{- fail (printf "startupTaints: key %q: keys below kubernetes.io and k8s.io are not allowed, except %s and those of nfd (docs/readiness.md)" .key (printf "%s/" (join "/, " $reserved))) }}
{{- end }}
{{- end }}

{{/* The keys of startupTaints, here and in the master's configuration, as JSON. */}}
{{- define "nfd.startupTaintKeys" -}}
{{- $keys := list }}
{{- range .Values.startupTaints }}
{{- $keys = append $keys .key }}
{{- end }}
{{- range (.Values.master.config | default dict).startupTaints }}
{{- $keys = append $keys (regexReplaceAll "[=:].*$" (trim .) "") }}
{{- end }}
{{- $keys | uniq | toJson }}
{{- end }}

{{/* startupTaints as the master's flag takes them: KEY=VALUE:EFFECT, separated by commas. */}}
{{- define "nfd.startupTaints" -}}
{{- $texts := list }}
{{- range .Values.startupTaints }}
{{- include "nfd.checkStartupTaint" . }}
{{- $value := include "nfd.taintValue" . }}
{{- $texts = append $texts (printf "%s%s:%s" .key (empty $value | ternary "" (printf "=%s" $value)) .effect) }}
{{- end }}
{{- join "," $texts }}
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
