{{/*
Whether the caps have free capacity for the tasks. What only pods know, such as a cap of $(CAP), is left out: a sum that fails
here fails there, too.
*/}}

{{/* How many names a task's name makes: the product of its braces. Braces that depend on a variable count as one. */}}
{{- define "shardctl.names" -}}
{{- $count := 1 -}}
{{- range regexFindAll "\\{[^{}]*\\}" (toString .) -1 -}}
{{- $inside := . | trimPrefix "{" | trimSuffix "}" -}}
{{- if regexMatch "^[0-9]{1,9}\\.\\.[0-9]{1,9}$" $inside -}}
{{- $ends := splitList ".." $inside -}}
{{- $first := index $ends 0 | atoi -}}
{{- $last := index $ends 1 | atoi -}}
{{- $count = mul $count (add 1 (sub (max $first $last) (min $first $last))) -}}
{{- else -}}
{{- $count = mul $count (splitList "," $inside | len) -}}
{{- end -}}
{{- end -}}
{{- $count -}}
{{- end -}}

{{/* Groups of all files, joined: {name: {tasks, cap or null, chosen: whether they choose their instances}}. */}}
{{- define "shardctl.groups" -}}
{{- $groups := dict -}}
{{- $docs := values (include "shardctl.files" . | fromJson) | concat (list .Values.config) -}}
{{- range $doc := $docs -}}
{{- range $part := (kindIs "slice" $doc.groups | ternary $doc.groups list) -}}
{{- if kindIs "map" $part -}}
{{- $name := toString $part.name -}}
{{- $group := get $groups $name | default (dict "tasks" 0 "cap" nil "chosen" false) -}}
{{- range $task := (kindIs "slice" $part.tasks | ternary $part.tasks list) -}}
{{- if kindIs "map" $task -}}
{{- $_ := set $group "tasks" (add $group.tasks (include "shardctl.names" $task.name | atoi)) -}}
{{- end -}}
{{- end -}}
{{- if regexMatch "^[0-9]+$" (include "shardctl.whole" $part.cap) -}}
{{- $_ := set $group "cap" (include "shardctl.whole" $part.cap | atoi) -}}
{{- end -}}
{{- if (kindIs "map" $part.instances | ternary $part.instances dict).selector -}}
{{- $_ := set $group "chosen" true -}}
{{- end -}}
{{- $_ := set $groups $name $group -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/* A whole number as text: numbers come as floats, which print as 1e+06. */}}
{{- define "shardctl.whole" -}}
{{- if or (kindIs "float64" .) (kindIs "int" .) (kindIs "int64" .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* Replicas to count on: those that there are at least. 0 where it is not known, too. */}}
{{- define "shardctl.replicas" -}}
{{- get (include "shardctl.least" . | fromJson) "replicas" | int -}}
{{- end -}}

{{/* The value that says how many replicas there are at least: {field, replicas}. */}}
{{- define "shardctl.least" -}}
{{- if .Values.autoscaling.enabled -}}
{{- dict "field" "autoscaling.minReplicas" "replicas" .Values.autoscaling.minReplicas | toJson -}}
{{- else if (.Values.keda | default dict).enabled -}}
{{- dict "field" "keda.minReplicaCount" "replicas" .Values.keda.minReplicaCount | toJson -}}
{{- else -}}
{{- dict "field" "replicaCount" "replicas" .Values.replicaCount | toJson -}}
{{- end -}}
{{- end -}}

{{/*
Limits that tasks count against: [{what, limit, cap, tasks}], a cap per group and maxTasks over all. Groups that choose
their instances are left out: pods of other releases may own them.
*/}}
{{- define "shardctl.limits" -}}
{{- $limits := list -}}
{{- $all := 0 -}}
{{- range $name, $group := include "shardctl.groups" . | fromJson -}}
{{- if not $group.chosen -}}
{{- $all = add $all (int $group.tasks) -}}
{{- if not (kindIs "invalid" $group.cap) -}}
{{- $limits = append $limits (dict "what" (printf "group %s" $name) "limit" "cap" "cap" $group.cap "tasks" $group.tasks) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $most := include "shardctl.whole" (include "shardctl.settings" . | fromJson).maxTasks -}}
{{- if and (regexMatch "^[0-9]+$" $most) (ne $most "0") -}}
{{- $limits = append $limits (dict "what" "all groups" "limit" "maxTasks" "cap" (atoi $most) "tasks" $all) -}}
{{- end -}}
{{- toJson $limits -}}
{{- end -}}

{{/* Limits that the tasks pass, each a sentence with the sum. No replicas at all is intended, not a mistake. */}}
{{- define "shardctl.overflow" -}}
{{- $replicas := include "shardctl.replicas" . | int -}}
{{- $field := get (include "shardctl.least" . | fromJson) "field" -}}
{{- range include "shardctl.limits" . | fromJsonArray -}}
{{- $cap := int .cap -}}{{- $tasks := int .tasks -}}
{{- if and $replicas (lt (mul $replicas $cap | int) $tasks) }}
{{ .what }}: {{ include "shardctl.capacity" (dict "replicas" $replicas "limit" .) }} for {{ include "shardctl.plural" (list $tasks "task") }}: raise {{ if $cap }}{{ $field }} to at least {{ include "shardctl.quotient" (list $tasks $cap) }} or {{ end }}the {{ .limit }} to at least {{ include "shardctl.quotient" (list $tasks $replicas) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "4 replicas × cap 20 = capacity 80" */}}
{{- define "shardctl.capacity" -}}
{{- $cap := int .limit.cap -}}
{{ include "shardctl.plural" (list .replicas "replica") }} × {{ .limit.limit }} {{ $cap }} = capacity {{ mul .replicas $cap }}
{{- end -}}

{{- define "shardctl.plural" -}}
{{ index . 0 }} {{ index . 1 }}{{ if ne (index . 0 | int) 1 }}s{{ end }}
{{- end -}}

{{/* Rounded up. */}}
{{- define "shardctl.quotient" -}}
{{- $by := index . 1 | int -}}
{{- div (sub (add (index . 0 | int) $by) 1) $by -}}
{{- end -}}
