{{/* Values of NFD's chart, of this or an older release, that have no effect here: one line for each that is set, unless
     to what we do anyway. */}}

{{- define "nfd.gone" -}}
{{- $api := "reports go over gRPC, always" }}
{{- $probes := "probes go to the HTTP port" }}
{{- $rules := "rules and third-party NodeFeatures are always looked at" }}
{{- $reasons := dict
  "enableNodeFeatureApi" $api
  "featureGates.NodeFeatureAPI" $api
  "gc.healthPort" $probes
  "image.repository" "that image is NFD's, and neither it nor image.tag is used: see image.registry and master.image"
  "master.crdController" $rules
  "master.featureApi" $api
  "master.featureRulesController" $rules
  "master.healthPort" $probes
  "master.livenessProbe.grpc" $probes
  "master.readinessProbe.grpc" $probes
  "master.startupProbe.grpc" $probes
  "nodeFeatureRule" "the custom resource definitions are in crds/"
  "topologyGC" "its place is gc: our own workers leave nothing to collect, nfd-topology-updater does"
  "topologyUpdater.healthPort" $probes
  "topologyUpdater.livenessProbe.grpc" $probes
  "topologyUpdater.readinessProbe.grpc" $probes
  "worker.healthPort" $probes
  "worker.livenessProbe.grpc" $probes
  "worker.ownerRefs" "no object is written that could have an owner"
  "worker.rbac" "the worker has no access to the API server"
  "worker.readinessProbe.grpc" $probes
}}
{{- $ours := dict "enableNodeFeatureApi" false "featureGates.NodeFeatureAPI" false
  "master.crdController" true "master.featureRulesController" true }}
{{- range $path, $reason := $reasons }}
{{- $at := $.Values }}
{{- range $key := splitList "." $path }}
{{- if kindIs "map" $at }}
{{- $at = get $at $key }}
{{- else }}
{{- $at = "" }}
{{- end }}
{{- end }}
{{- $same := and (hasKey $ours $path) (eq (toString (get $ours $path)) (toString $at)) }}
{{- if not (or $same (has (toString $at) (list "" "<nil>" "map[]"))) }}
* {{ $path }}: {{ $reason }}
{{- end }}
{{- end }}
{{- end }}
