{{/* What works but may surprise: one paragraph each. */}}
{{- define "shardctl.warnings" -}}
{{- $replicas := include "shardctl.replicas" . | int -}}
{{- $groups := include "shardctl.groups" . | fromJson -}}
{{- $tasks := include "shardctl.tasks" . | int -}}
{{- if eq $tasks 0 }}
* There are no tasks: give them as config.groups, or in configFiles.
{{- end -}}
{{- if and (eq $replicas 0) (include "shardctl.scaledElsewhere" .) }}
* The chart does not know how many replicas there will be, and cannot tell whether their caps hold all tasks.
{{- else if eq $replicas 0 }}
* There are no replicas: nothing runs until replicaCount is more than 0.
{{- else if eq $replicas 1 }}
* There is one replica: while it is replaced, or its node is away, no one runs its tasks. Two or more take over from each other.
{{- end -}}
{{- range include "shardctl.limits" . | fromJsonArray -}}
{{- $left := int (sub $replicas 1) -}}
{{- $tasks := int .tasks -}}
{{- if and (gt $replicas 1) (lt (mul $left (int .cap) | int) $tasks) }}
* {{ .what }}: losing one replica leaves too little capacity: {{ include "shardctl.capacity" (dict "replicas" $left "limit" .) }} for {{ include "shardctl.plural" (list $tasks "task") }}. Until it is back, {{ sub $tasks (mul $left (int .cap)) }} would run nowhere.
{{- end -}}
{{- end -}}
{{- with include "shardctl.runsCommands" . }}
* {{ . }}, and the image {{ $.Values.image.repository }} holds nothing but shardctl, not even a shell. Build one with
  your program: FROM …, COPY --from={{ $.Values.image.repository }} /shardctl /shardctl, ENTRYPOINT ["/shardctl"].
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and .enabled (kindIs "invalid" .minAvailable) (eq (include "shardctl.whole" .maxUnavailable) "0") }}
* podDisruptionBudget.maxUnavailable is 0: no node with a replica can be drained.
{{- else if and .enabled $replicas (regexMatch "^[0-9]+$" (include "shardctl.whole" .minAvailable)) (ge (include "shardctl.whole" .minAvailable | atoi) $replicas) }}
* podDisruptionBudget.minAvailable is {{ include "shardctl.whole" .minAvailable }} of {{ $replicas }}: no node with a replica can be drained.
{{- end -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled .Values.autoscaling.targetCPUUtilizationPercentage -}}
{{- range $name, $resources := dict "resources" .Values.resources "app.resources" .Values.app.resources }}
{{- if and (or (eq $name "resources") $.Values.app.image.repository) (not (dig "requests" "cpu" "" ($resources | default dict))) }}
* The autoscaler counts in percent of {{ $name }}.requests.cpu, which is not set: it knows no number.
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled .Values.autoscaling.targetCPUUtilizationPercentage (eq (toString (dig "requests" "cpu" "" (.Values.resources | default dict))) "50m") }}
* The autoscaler counts in percent of resources.requests.cpu, 50m by default, which fits shardctl alone: with tasks that
  need a processor it goes to maxReplicas at once. Request what a replica with its tasks needs.
{{- end -}}
{{- if contains "sqlite:" (printf "%s %s" .Values.store.uri (dig "store" "uri" "" .Values.config)) }}
* The store is a SQLite file: without a volume of its own it is gone with the pod, and with it which jobs are done.
{{- end -}}
{{- if .Values.store.existingSecret }}
* The store's URI is in the Secret {{ .Values.store.existingSecret }}, whose changes the chart cannot see. After one:
  kubectl --namespace {{ .Release.Namespace }} rollout restart deployment/{{ include "shardctl.fullname" . }}
{{- end -}}
{{- end -}}

{{- define "shardctl.tasks" -}}
{{- $all := 0 -}}
{{- range include "shardctl.groups" . | fromJson -}}{{- $all = add $all (int .tasks) -}}{{- end -}}
{{- $all -}}
{{- end -}}

{{/* What runs a command in an image that has none; empty: nothing. */}}
{{- define "shardctl.runsCommands" -}}
{{- if hasSuffix "shardctl/shardctl" .Values.image.repository -}}
{{- $what := ((include "shardctl.settings" . | fromJson).app | default dict).command | empty | ternary "" "config.app.command is set" -}}
{{- $docs := values (include "shardctl.files" . | fromJson) | concat (list .Values.config) -}}
{{- range $doc := $docs -}}
{{- range $group := (kindIs "slice" $doc.groups | ternary $doc.groups list) -}}
{{- $group = kindIs "map" $group | ternary $group dict -}}
{{- range $task := concat (kindIs "slice" $group.tasks | ternary $group.tasks list) (list ($group.defaults | default dict)) -}}
{{- if and (kindIs "map" $task) $task.exec -}}{{- $what = "There are tasks with exec" -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $what -}}
{{- end -}}
{{- end -}}
