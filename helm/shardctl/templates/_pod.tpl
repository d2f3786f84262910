{{/* Environment of the container, in the order in which pods show it; extraEnv comes last and may refer to these. */}}
{{- define "shardctl.env" -}}
{{- range $name, $path := dict
      "NODE_NAME" "spec.nodeName"
      "POD_IP" "status.podIP"
      "POD_NAME" "metadata.name"
      "POD_TEMPLATE_HASH" "metadata.labels['pod-template-hash']"
      "POD_UID" "metadata.uid"
      "ZONE" "metadata.labels['topology.kubernetes.io/zone']" }}
- name: {{ $name }}
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: {{ $path }}
{{- end }}
{{- if or .Values.store.uri .Values.store.existingSecret }}
- name: SHARDCTL_STORE_URI
  valueFrom:
    secretKeyRef:
      name: {{ include "shardctl.storeSecret" . }}
      key: {{ .Values.store.existingSecretKey }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "shardctl.volumeMounts" -}}
# The whole directory: what is mounted by subPath never changes.
- name: config
  mountPath: /etc/shardctl
  readOnly: true
# What a restarted container knows its predecessor by.
- name: run
  mountPath: /run/shardctl
- name: tmp
  mountPath: /tmp
{{- if include "shardctl.adminTokens" . }}
- name: admin-tokens
  mountPath: /etc/shardctl-admin
  readOnly: true
{{- end }}
{{- if .Values.app.image.repository }}
{{ include "shardctl.appMount" . }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "shardctl.appMount" -}}
- name: app
  mountPath: /run/shardctl-app
{{- end -}}

{{/*
The application is a sidecar, and not a container like the replica. So Kubernetes starts it before the replica, and ends
it after the replica has handed its keys over, which the application must agree to.
*/}}
{{- define "shardctl.app" -}}
{{- with .Values.app -}}
- name: app
  image: {{ include "shardctl.imageOf" (list $ .image) | quote }}
  imagePullPolicy: {{ .image.pullPolicy }}
  restartPolicy: Always
  {{- range $field, $value := pick . "command" "args" "envFrom" "resources" "startupProbe" "readinessProbe" }}
  {{- with $value }}
  {{ $field }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  env:
    - name: SHARDCTL_APP
      value: {{ ((include "shardctl.settings" $ | fromJson).app | default dict).listen }}
    {{- with .env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .securityContext | default $.Values.securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    {{- include "shardctl.appMount" $ | nindent 4 }}
    {{- with .volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
{{- end -}}

{{- define "shardctl.volumes" -}}
- name: config
  configMap:
    name: {{ include "shardctl.fullname" . }}
- name: run
  emptyDir:
    sizeLimit: 64Mi
- name: tmp
  {{- with .Values.tmpSizeLimit }}
  emptyDir:
    sizeLimit: {{ . }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- if .Values.app.image.repository }}
- name: app
  emptyDir:
    sizeLimit: 1Mi
{{- end }}
{{- if include "shardctl.adminTokens" . }}
- name: admin-tokens
  secret:
    secretName: {{ include "shardctl.adminSecret" . }}
    items:
      - key: {{ .Values.admin.existingSecretKey }}
        path: tokens
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A probe: dict "root" . "path" "/livez" "timing" .Values.livenessProbe. */}}
{{- define "shardctl.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  scheme: {{ include "shardctl.scheme" .root }}
{{ toYaml .timing }}
{{- end -}}

{{- define "shardctl.affinity" -}}
{{- if .Values.affinity -}}
{{ toYaml .Values.affinity }}
{{- else if .Values.spreadZones -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: topology.kubernetes.io/zone
        labelSelector:
          matchLabels:
            {{- include "shardctl.selectorLabels" . | nindent 12 }}
{{- end -}}
{{- end -}}

{{- define "shardctl.spread" -}}
{{- $own := dict "matchLabels" (include "shardctl.selectorLabels" . | fromYaml) -}}
{{- range .Values.topologySpreadConstraints }}
- {{ merge (dict "labelSelector" (.labelSelector | default $own)) (omit . "labelSelector") | toYaml | nindent 2 | trim }}
{{- end -}}
{{- end -}}

{{/* Whether something other than the chart sets how many pods there are: an autoscaler, or hands; empty: the chart does. */}}
{{- define "shardctl.scaledElsewhere" -}}
{{- if or .Values.autoscaling.enabled (.Values.keda | default dict).enabled (kindIs "invalid" .Values.replicaCount) -}}true{{- end -}}
{{- end -}}

{{/*
Who says how many pods there are: {by, replicas}. It is the chart, with replicaCount, or else an autoscaler, and then
`replicas` is left out. But where the Deployment was made with `replicas`, leaving them out would have Kubernetes set the default, 1, and
then so would every upgrade after it, since Helm removes what was in the last manifest: such a Deployment keeps getting what it
has just now. Its annotation says which of the two it is.
*/}}
{{- define "shardctl.scale" -}}
{{- $live := dict -}}
{{- $elsewhere := include "shardctl.scaledElsewhere" . -}}
{{- if $elsewhere -}}
{{- $live = lookup "apps/v1" "Deployment" .Release.Namespace (include "shardctl.fullname" .) | default dict -}}
{{- end -}}
{{- $marked := dig "metadata" "annotations" "shardctl.dev/replicas" "" $live -}}
{{- if not $elsewhere -}}
{{- dict "by" "chart" "replicas" .Values.replicaCount | toJson -}}
{{- else if or (not $live) (eq $marked "autoscaler") -}}
{{- dict "by" "autoscaler" | toJson -}}
{{- else -}}
{{- dict "by" "chart" "replicas" (max (dig "spec" "replicas" 1 $live | int) (include "shardctl.replicas" . | int)) | toJson -}}
{{- end -}}
{{- end -}}
