{{/* How workers show who they are, and how what they say is encrypted. */}}

{{/* Not empty if the master makes its own certificates. */}}
{{- define "nfd.ownCertificates" -}}
{{- if and (eq .Values.master.auth "token") (not .Values.tls.enable) }}yes{{ end }}
{{- end }}

{{- define "nfd.masterSecurity" -}}
{{- if and (eq .Values.master.auth "mtls") (not .Values.tls.enable) }}
{{- fail "master.auth=mtls needs tls.enable=true" }}
{{- end -}}
- --auth={{ .Values.master.auth }}
{{- if eq .Values.master.auth "token" }}
- --worker-accounts={{ include "nfd.workerAccount" . }}
{{- end }}
{{- if .Values.master.serveReports }}
- --serve-reports
{{- end }}
{{- if .Values.master.servePage }}
- --serve-page
{{- end }}
{{- if .Values.master.pageDra }}
{{- if not .Values.master.servePage }}
{{- fail "master.pageDra=true needs master.servePage=true" }}
{{- end }}
- --page-dra
{{- end }}
{{- with .Values.master.clusterName }}
- {{ printf "--cluster-name=%s" . | quote }}
{{- end }}
{{- if include "nfd.ownCertificates" . }}
- --service-name={{ include "nfd.componentName" (dict "root" . "suffix" "master") }}
{{- end }}
- --certificate-objects={{ include "nfd.componentName" (dict "root" . "suffix" "master-ca") }}
{{- if .Values.tls.enable }}
{{ include "nfd.tlsFiles" . }}
{{- else if eq .Values.master.auth "none" }}
- --insecure
{{- end }}
{{- end }}

{{- define "nfd.workerSecurity" -}}
{{- if .Values.tls.enable }}
{{- include "nfd.tlsFiles" . }}
{{- else if include "nfd.ownCertificates" . -}}
- --server-ca-file=/etc/nfd-master-ca/ca.crt
{{- end }}
{{- if eq .Values.master.auth "token" }}
- --token-file=/var/run/secrets/tokens/nfd-master
{{- end }}
- --epoch-file=/etc/nfd-master-ca/epoch
{{- end }}

{{- define "nfd.tlsFiles" -}}
- --ca-file=/etc/kubernetes/node-feature-discovery/certs/ca.crt
- --cert-file=/etc/kubernetes/node-feature-discovery/certs/tls.crt
- --key-file=/etc/kubernetes/node-feature-discovery/certs/tls.key
{{- end }}

{{/* Not empty if this release's master is one of several in the cluster, each with Nodes or annotations of its own. */}}
{{- define "nfd.ownLease" -}}
{{- if or .Values.master.instance .Values.master.nodeLabelSelector }}yes{{ end }}
{{- end }}

{{- define "nfd.lease" -}}
{{- if include "nfd.ownLease" . }}{{ include "nfd.componentName" (dict "root" . "suffix" "master") }}{{ else }}nfd-master.nfd.kubernetes.io{{ end }}
{{- end }}

{{/* What the master may do in its own namespace. */}}
{{- define "nfd.masterRules" -}}
- apiGroups: [""]
  resources: [secrets{{ if include "nfd.ownCertificates" . }}, configmaps{{ end }}]
  resourceNames: [{{ include "nfd.componentName" (dict "root" . "suffix" "master-ca") }}]
  verbs: [get, list, watch, update]
{{- if not (include "nfd.ownCertificates" .) }}
- apiGroups: [""]
  resources: [configmaps] # the epoch, which asks workers for reports
  resourceNames: [{{ include "nfd.componentName" (dict "root" . "suffix" "master-ca") }}]
  verbs: [get, update]
{{- end }}
{{- $old := semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version }}
{{- $asked := .Values.master.rbac.lookUpPods }}
{{- if and (eq .Values.master.auth "token") (kindIs "bool" $asked | ternary $asked $old) }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
{{- end }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create] # RBAC cannot limit this verb to a name
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "nfd.lease" . }}]
  verbs: [get, update]
{{- end }}
