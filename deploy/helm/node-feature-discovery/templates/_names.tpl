{{/* Names, labels and images, as NFD's chart makes them. */}}

{{- define "nfd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "nfd.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* A component's name: the full name with a suffix, cut so that the suffix stays. */}}
{{- define "nfd.componentName" -}}
{{- $room := int (sub 62 (len .suffix)) }}
{{- printf "%s-%s" (include "nfd.fullname" .root | trunc $room | trimSuffix "-") .suffix }}
{{- end }}

{{- define "nfd.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "nfd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "nfd.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "nfd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "nfd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "nfd.metadata" -}}
name: {{ .name }}
namespace: {{ include "nfd.namespace" .root }}
labels:
  {{- include "nfd.labels" .root | nindent 2 }}
{{- end }}

{{- define "nfd.serviceAccountName" -}}
{{- $own := ne .suffix "" | ternary (include "nfd.componentName" .) (include "nfd.fullname" .root) }}
{{- .account.create | ternary (default $own .account.name) (default "default" .account.name) }}
{{- end }}

{{- define "nfd.masterAccount" -}}
{{- include "nfd.serviceAccountName" (dict "root" . "suffix" "" "account" .Values.master.serviceAccount) }}
{{- end }}

{{- define "nfd.workerAccount" -}}
{{- include "nfd.serviceAccountName" (dict "root" . "suffix" "worker" "account" .Values.worker.serviceAccount) }}
{{- end }}

{{- define "nfd.gpuAccount" -}}
{{- include "nfd.serviceAccountName" (dict "root" . "suffix" "gpu-feature-discovery" "account" .Values.gpu.serviceAccount) }}
{{- end }}

{{- define "nfd.gcAccount" -}}
{{- include "nfd.serviceAccountName" (dict "root" . "suffix" "gc" "account" .Values.gc.serviceAccount) }}
{{- end }}

{{- define "nfd.topologyUpdaterAccount" -}}
{{- include "nfd.serviceAccountName" (dict "root" . "suffix" "topology-updater" "account" .Values.topologyUpdater.serviceAccount) }}
{{- end }}

{{/* An image without a registry would be looked for on Docker Hub, where it is not. */}}
{{- define "nfd.image" -}}
{{- $shared := .root.Values.image }}
{{- $registry := $shared.registry | default "" | trimSuffix "/" }}
{{- if not (or $registry (contains "/" .image.repository)) }}
{{- fail "image.registry is empty: set it to the registry that has the images, such as --set image.registry=registry.example.com/team. For images that `make kind-load` has loaded onto the nodes: --set image.registry=localhost" }}
{{- end }}
{{- $repository := list $registry (trimPrefix "/" .image.repository) | compact | join "/" }}
{{- $common := empty $shared.repository | ternary $shared.tag "" }}
{{- printf "%s:%s" $repository (toString (coalesce .image.tag $common .root.Chart.AppVersion)) }}
{{- end }}

{{/* HTTP ports; metricsPort is what NFD's chart called them to v0.17. */}}
{{- define "nfd.masterHttpPort" -}}
{{- default .Values.master.httpPort .Values.master.metricsPort }}
{{- end }}

{{- define "nfd.workerHttpPort" -}}
{{- default .Values.worker.port .Values.worker.metricsPort }}
{{- end }}
