{{- /* What ServiceMonitor and PodMonitor have in common. Arguments: the root and the values of the one. */ -}}

{{- define "shardctl.monitor.metadata" -}}
{{- $root := index . 0 }}{{ $monitor := index . 1 -}}
metadata:
  name: {{ include "shardctl.fullname" $root }}
  namespace: {{ $monitor.namespace | default $root.Release.Namespace }}
  labels:
    {{- include "shardctl.labels" $root | nindent 4 }}
    {{- with $monitor.additionalLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $monitor.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "shardctl.monitor.selectors" -}}
namespaceSelector:
  matchNames:
    - {{ .Release.Namespace }}
selector:
  matchLabels:
    {{- include "shardctl.selectorLabels" . | nindent 4 }}
{{- end }}

{{- define "shardctl.monitor.endpoint" -}}
{{- $root := index . 0 }}{{ $monitor := index . 1 -}}
path: /metrics
scheme: {{ include "shardctl.scheme" $root | lower }}
{{- with $monitor.interval }}
interval: {{ . }}
{{- end }}
{{- with $monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
honorLabels: {{ $monitor.honorLabels }}
{{- with $monitor.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $monitor.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
