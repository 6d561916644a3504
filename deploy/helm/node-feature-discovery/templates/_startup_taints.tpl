{{/* startupTaints: which of them are refused, and how the master's flag and the label policy have them. */}}

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
