{{/* Values of NFD's chart, of this or an older release, that have no effect here: one line for each that is set. */}}

{{- define "nfd.gone" -}}
{{- $api := "reports go over gRPC, always" }}
{{- $objects := "no object is written that could have an owner" }}
{{- $probes := "probes go to the HTTP port" }}
{{- $reasons := dict
  "image.repository" "that image is NFD's, so neither it nor image.tag is used: see image.registry and each component's image"
  "enableNodeFeatureApi" $api
  "featureGates.NodeFeatureAPI" $api
  "master.featureApi" $api
  "master.crdController" "rules and third-party NodeFeatures are always looked at"
  "master.featureRulesController" "rules are always looked at"
  "master.healthPort" $probes
  "master.livenessProbe.grpc" $probes
  "master.readinessProbe.grpc" $probes
  "master.startupProbe.grpc" $probes
  "worker.healthPort" $probes
  "worker.livenessProbe.grpc" $probes
  "worker.readinessProbe.grpc" $probes
  "worker.ownerRefs" $objects
  "worker.rbac" "the worker has no access to the API server"
  "gc" "there is nothing to collect: no object is kept per node"
  "topologyUpdater" "it is not part of this chart; NFD's own runs beside it"
}}
{{- range $path, $reason := $reasons }}
{{- $at := $.Values }}
{{- range $key := splitList "." $path }}
{{- if kindIs "map" $at }}
{{- $at = get $at $key }}
{{- else }}
{{- $at = "" }}
{{- end }}
{{- end }}
{{- if not (has (toString $at) (list "" "<nil>" "map[]")) }}
* {{ $path }}: {{ $reason }}
{{- end }}
{{- end }}
{{- end }}
