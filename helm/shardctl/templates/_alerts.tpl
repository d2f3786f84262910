{{- /* A text with its words replaced. */ -}}
{{- define "shardctl.alerts.fill" -}}
{{- $text := .text }}
{{- range $word, $value := .with }}{{ $text = replace $word $value $text }}{{ end }}
{{- $text }}
{{- end }}

{{- /* An alert's threshold: a number, or one times the lease's seconds or the replicas; the user's before both. */ -}}
{{- define "shardctl.alerts.threshold" -}}
{{- $threshold := get .alert "threshold" }}
{{- if hasKey .change "threshold" }}
{{- toString .change.threshold }}
{{- else if kindIs "map" $threshold }}
{{- $number := mulf (get .numbers $threshold.of | float64) $threshold.times }}
{{- if $threshold.least }}{{ $number = maxf $number $threshold.least }}{{ end }}
{{- round $number 3 | toString }}
{{- else }}
{{- toString $threshold }}
{{- end }}
{{- end }}

{{- /* How many replicas are wanted. */ -}}
{{- define "shardctl.alerts.replicas" -}}
{{- if .Values.autoscaling.enabled }}{{ .Values.autoscaling.minReplicas }}{{ else }}{{ .Values.replicaCount }}{{ end }}
{{- end }}

{{- /* The lease in seconds, of config or of the configFiles; the program's default where it is not said, or said by a $(NAME). */ -}}
{{- define "shardctl.alerts.lease" -}}
{{- $lease := "" }}
{{- range $file := append (values (.Values.configFiles | default dict)) (toYaml (.Values.config | default dict)) }}
{{- $given := get (fromYaml $file) "lease" }}
{{- if kindIs "map" $given }}{{ with $given.duration }}{{ $lease = toString . }}{{ end }}{{ end }}
{{- end }}
{{- $seconds := 0.0 }}
{{- if regexMatch "^([0-9.]+(ms|s|m|h))+$" $lease }}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" $lease -1 }}
{{- $unit := regexFind "[a-z]+$" . }}
{{- $seconds = addf $seconds (mulf (trimSuffix $unit . | float64) (get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) $unit)) }}
{{- end }}
{{- end }}
{{- if gt $seconds 0.0 }}{{ $seconds }}{{ else }}20{{ end }}
{{- end }}
