{{- /* A text with its words replaced. */ -}}
{{- define "shardctl.alerts.fill" -}}
{{- $text := .text }}
{{- range $word, $value := .with }}{{ $text = replace $word $value $text }}{{ end }}
{{- $text }}
{{- end -}}

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
{{- end -}}

{{- /* The lease in seconds, wherever it stands; the program's default where nothing or a $(NAME) does. */ -}}
{{- define "shardctl.alerts.lease" -}}
{{- $lease := (include "shardctl.settings" . | fromJson).lease -}}
{{- $seconds := include "shardctl.seconds" (kindIs "map" $lease | ternary $lease dict).duration -}}
{{- $seconds | default "20" -}}
{{- end -}}
