{{/* Values of NFD's chart, of this or an older release, that have no effect here. One line for each value that is set,
     unless it is set to the behaviour of this chart. */}}

{{- define "nfd.gone" -}}
{{- $api := "reports always use gRPC" }}
{{- $probes := "probes use the HTTP port" }}
{{- $rules := "rules and third-party NodeFeatures always apply" }}
{{- $reasons := dict
  "enableNodeFeatureApi" $api
  "featureGates.NodeFeatureAPI" $api
  "gc.healthPort" $probes
  "image.repository" "this is NFD's image; it and image.tag are not used: see image.registry and master.image"
  "master.crdController" $rules
  "master.featureApi" $api
  "master.featureRulesController" $rules
  "master.healthPort" $probes
  "master.livenessProbe.grpc" $probes
  "master.readinessProbe.grpc" $probes
  "master.startupProbe.grpc" $probes
  "nodeFeatureRule" "the custom resource definitions are in crds/"
  "topologyGC" "replaced by gc; only nfd-topology-updater writes objects that need it"
  "topologyUpdater.healthPort" $probes
  "topologyUpdater.livenessProbe.grpc" $probes
  "topologyUpdater.readinessProbe.grpc" $probes
  "worker.healthPort" $probes
  "worker.livenessProbe.grpc" $probes
  "worker.ownerRefs" "the worker writes no objects that could have an owner"
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
