{{- define "shardctl.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "shardctl.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A name with an ending that is kept when the whole is too long: dict "root" . "suffix" "admin". */}}
{{- define "shardctl.named" -}}
{{- $limit := int (sub 62 (len .suffix)) -}}
{{- printf "%s-%s" (include "shardctl.fullname" .root | trunc $limit | trimSuffix "-") .suffix -}}
{{- end -}}

{{/* What Services and Deployments select by. It never changes: a Deployment's selector cannot. */}}
{{- define "shardctl.selectorLabels" -}}
app.kubernetes.io/name: {{ include "shardctl.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Of the pod of helm test, which no Service and no Deployment may take for a replica. */}}
{{- define "shardctl.testLabels" -}}
app.kubernetes.io/name: {{ include "shardctl.name" . | trunc 58 | trimSuffix "-" }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "shardctl.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "shardctl.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with omit .Values.commonLabels "app.kubernetes.io/name" "app.kubernetes.io/instance" }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "shardctl.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "shardctl.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "shardctl.image" -}}
{{- include "shardctl.imageOf" (list . (merge (dict "tag" (default .Chart.AppVersion .Values.image.tag)) .Values.image)) -}}
{{- end -}}

{{/*
The name of an image. Arguments: the root, {repository, tag, digest}. global.imageRegistry takes the place of the registry in the
repository, which is its first part where that has a dot or a port, or is localhost.
*/}}
{{- define "shardctl.imageOf" -}}
{{- $root := index . 0 -}}
{{- with index . 1 -}}
{{- $repository := .repository -}}
{{- with ($root.Values.global | default dict).imageRegistry -}}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") -}}
{{- end -}}
{{- $repository }}{{ with .tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "shardctl.storeSecret" -}}
{{- .Values.store.existingSecret | default (include "shardctl.named" (dict "root" . "suffix" "store")) -}}
{{- end -}}

{{- define "shardctl.adminSecret" -}}
{{- .Values.admin.existingSecret | default (include "shardctl.named" (dict "root" . "suffix" "admin")) -}}
{{- end -}}

{{/* Whether the admin listener asks for tokens, on whatever address. */}}
{{- define "shardctl.adminTokens" -}}
{{- with .Values.admin -}}{{- if or .expose .tokens .existingSecret -}}true{{- end -}}{{- end -}}
{{- end -}}
