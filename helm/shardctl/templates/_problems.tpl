{{/* What a schema cannot say: one line for each thing that is wrong, beginning with the value's name. */}}
{{- define "shardctl.problems" -}}
{{ include "shardctl.problems.files" . }}
{{ include "shardctl.problems.store" . }}
{{ include "shardctl.problems.admin" . }}
{{ include "shardctl.problems.app" . }}
{{ include "shardctl.problems.fields" . }}
{{ include "shardctl.problems.names" . }}
{{ include "shardctl.problems.objects" . }}
{{ include "shardctl.overflow" . }}
{{- end -}}

{{/* Files that cannot be read, and fields that stand twice. */}}
{{- define "shardctl.problems.files" -}}
{{- $places := dict -}}
{{- $kinds := include "shardctl.kinds" . | fromYaml -}}
{{- range $field, $value := .Values.config -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $places $field "config" -}}{{- end -}}
{{- end -}}
{{- range $name, $text := .Values.configFiles -}}
{{- $doc := fromYaml $text -}}
{{- $here := printf "configFiles[%s]" $name -}}
{{- if eq $name "chart.yaml" }}
{{ $here }}: the chart writes a file of this name itself, choose another
{{- end -}}
{{- if hasKey $doc "Error" }}
{{ $here }}: is not YAML: {{ $doc.Error | replace "\n" " " }}
{{- else -}}
{{- range $field, $value := $doc -}}
{{- if not (or (kindIs "invalid" $value) (kindIs (get $kinds $field | default (kindOf $value)) $value)) }}
{{ $here }}: {{ $field }} must be a {{ eq (get $kinds $field) "map" | ternary "mapping" "list" }}
{{- end -}}
{{- if not (or (hasPrefix "x-" $field) (eq $field "version") (kindIs "invalid" $value)) -}}
{{- $first := get $places $field -}}
{{- if and (eq $field "groups") (eq $first "config") }}
groups: stand in config and in {{ $here }}: put all of them in one or the other
{{- else if and $first (ne $field "groups") }}
{{ $field }}: stands in {{ $first }} and in {{ $here }}: it may stand in one of them
{{- else -}}
{{- $_ := set $places $field $here -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "shardctl.problems.store" -}}
{{- $settings := include "shardctl.settings" . | fromJson -}}
{{- $store := kindIs "map" $settings.store | ternary $settings.store dict -}}
{{- $uri := toString ($store.uri | default "") -}}
{{- $byEnvironment := contains "$(SHARDCTL_STORE_URI" $uri -}}
{{- $made := .Values.store.uri -}}
{{- $existing := .Values.store.existingSecret -}}
{{- if not $uri }}
store.uri: the store in configFiles has none: add `uri: $(SHARDCTL_STORE_URI)` to it
{{- else if and $byEnvironment (not $made) (not $existing) }}
store.uri: is missing: give the store's URI, as mongodb://user:password@host/shardctl, or store.existingSecret with a Secret that holds it
{{- else if and $made $existing }}
store.uri: is set together with store.existingSecret: give one of them
{{- else if and (not $byEnvironment) (or $made $existing) }}
config.store.uri: is set together with store.{{ empty $made | ternary "existingSecret" "uri" }}: give one of them
{{- else if and (not $byEnvironment) (regexMatch "://[^/@]*:[^/@]*@" $uri) (not (contains "$(" $uri)) }}
config.store.uri: holds a password, which a ConfigMap shows to everybody: give it as store.uri, or in a Secret as store.existingSecret
{{- end -}}
{{- $single := and (eq (include "shardctl.replicas" . | int) 1) (not (include "shardctl.scaledElsewhere" .)) (eq .Values.strategy.type "Recreate") -}}
{{- if and (or (hasPrefix "sqlite:" $made) (hasPrefix "sqlite:" $uri)) (not $single) }}
store.uri: sqlite is a file on one machine, which pods on several cannot share: give the URI of a server, or for a trial replicaCount=1 and strategy.type=Recreate
{{- end -}}
{{- end -}}

{{- define "shardctl.problems.admin" -}}
{{- with .Values.admin -}}
{{- $admin := (include "shardctl.settings" $ | fromJson).admin | default dict -}}
{{- if and .tokens .existingSecret }}
admin.tokens: stand beside admin.existingSecret: give one of them
{{- end -}}
{{- if and .expose (not (or .tokens .existingSecret)) }}
admin.expose: needs admin.tokens or admin.existingSecret: on the pod network everybody reaches it
{{- end -}}
{{- if include "shardctl.adminTokens" $ -}}
{{- $value := empty .expose | not | ternary "expose" (empty .tokens | ternary "existingSecret" "tokens") -}}
{{- if hasKey (include "shardctl.given" $ | fromJson) "admin" }}
admin.{{ $value }}: is set together with admin in configFiles, which the chart does not change: move that to config, less listen and tokensFile
{{- else if or (hasKey ($.Values.config.admin | default dict) "listen") (hasKey ($.Values.config.admin | default dict) "tokensFile") }}
config.admin: listen and tokensFile come from admin.port and admin.tokens: leave them out
{{- end -}}
{{- if eq (toString (int .port)) (include "shardctl.httpPort" $) }}
admin.port: {{ int .port }} is server.listen's port: give another
{{- else if and .expose (eq (int .port) (int $.Values.service.port)) }}
admin.port: {{ int .port }} is service.port as well: give another
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The application and its socket. */}}
{{- define "shardctl.problems.app" -}}
{{- $app := (include "shardctl.settings" . | fromJson).app | default dict -}}
{{- $listen := toString ($app.listen | default "") -}}
{{- with .Values.app -}}
{{- if .image.repository -}}
{{- if not (regexMatch "^unix:/run/shardctl-app(/[A-Za-z0-9][A-Za-z0-9._-]*){2}$" $listen) }}
config.app.listen: {{ $listen | default "is missing" }}: app.image needs a socket in a directory of the volume that both containers mount: give unix:/run/shardctl-app/socket/app.sock
{{- end -}}
{{- if $app.command }}
config.app.command: is set together with app.image: give one of them
{{- end -}}
{{- $user := dict "runAsUser" $.Values.podSecurityContext.runAsUser -}}
{{- $replica := get (merge (dict) $.Values.securityContext $user) "runAsUser" -}}
{{- $own := get (merge (dict) (.securityContext | default $.Values.securityContext) $user) "runAsUser" -}}
{{- if not (eq (toString $own) (toString $replica)) }}
app.securityContext.runAsUser: is {{ kindIs "invalid" $own | ternary "missing" (int64 $own) }}, and the replica's, which alone may use the socket, is {{ kindIs "invalid" $replica | ternary "missing" (int64 $replica) }}: give the same
{{- end -}}
{{- else -}}
{{- range $field := list "command" "args" "env" "envFrom" "resources" "securityContext" "volumeMounts" "startupProbe" "readinessProbe" -}}
{{- if get $.Values.app $field }}
app.{{ $field }}: is set without app.image.repository, and would go unread: give the image, or leave it out
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fields that the chart has to understand, and those that must differ from pod to pod. */}}
{{- define "shardctl.problems.fields" -}}
{{- $settings := include "shardctl.settings" . | fromJson -}}
{{- $listen := toString (($settings.server | default dict).listen | default ":8080") -}}
{{- if not (regexMatch ":[1-9][0-9]{0,4}$" $listen) }}
server.listen: {{ $listen }} does not end in a port, which probes and the Service need: give one, as :8080
{{- else if regexMatch "^(127\\.|localhost:|\\[::1\\])" $listen }}
server.listen: {{ $listen }} is not on the pod network, where probes and the other replicas ask: give one that is, as :8080
{{- end -}}
{{- $timeout := include "shardctl.shutdownTimeout" . -}}
{{- if eq (include "shardctl.seconds" $timeout) "" }}
shutdown.timeout: {{ $timeout }} is not a duration that the pod's terminationGracePeriodSeconds can be made of: give one, as 25s
{{- else if and .Values.terminationGracePeriodSeconds (lt (int .Values.terminationGracePeriodSeconds) (include "shardctl.gracePeriod" . | int)) }}
terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }} is too short for shutdown.timeout: leave it out, or give at least {{ include "shardctl.gracePeriod" . }}
{{- end -}}
{{- range list "affinity" "automountServiceAccountToken" "containers" "dnsConfig" "dnsPolicy" "enableServiceLinks" "hostAliases" "imagePullSecrets" "initContainers" "nodeSelector" "priorityClassName" "runtimeClassName" "securityContext" "terminationGracePeriodSeconds" "tolerations" "topologySpreadConstraints" "volumes" -}}
{{- if hasKey ($.Values.extraPodSpec | default dict) . }}
extraPodSpec.{{ . }}: is a field that the chart writes: use the value of its own
{{- end -}}
{{- end -}}
{{- range list "hostPID" "restartPolicy" "serviceAccount" "serviceAccountName" "shareProcessNamespace" -}}
{{- if hasKey ($.Values.extraPodSpec | default dict) . }}
extraPodSpec.{{ . }}: is a field that must be as the chart has it: leave it out
{{- end -}}
{{- end -}}
{{- if and (($.Values.extraPodSpec | default dict).hostNetwork) (not (include "shardctl.adminTokens" .)) }}
extraPodSpec.hostNetwork: brings the admin listener onto the node's loopback, where every process may ask for changes: give admin.tokens or admin.existingSecret
{{- end -}}
{{- $instance := toString ($settings.instance | default "") -}}
{{- if and (not (contains "$(" $instance)) (or (gt (include "shardctl.replicas" . | int) 1) (include "shardctl.scaledElsewhere" .)) }}
instance: {{ $instance }} is the same for all replicas: leave it out, and each has its pod's name
{{- end -}}
{{- end -}}

{{/* Braces that make no names. */}}
{{- define "shardctl.problems.names" -}}
{{- $docs := values (include "shardctl.files" . | fromJson) | concat (list .Values.config) -}}
{{- range $doc := $docs -}}
{{- range $group := (kindIs "slice" $doc.groups | ternary $doc.groups list) -}}
{{- $tasks := (kindIs "map" $group | ternary $group dict).tasks -}}
{{- range $task := (kindIs "slice" $tasks | ternary $tasks list) -}}
{{- $name := (kindIs "map" $task | ternary $task dict).name | toString -}}
{{- range regexFindAll "\\{[^{}]*\\}" $name -1 -}}
{{- if not (or (contains "," .) (contains "$(" .) (regexMatch "^\\{[0-9]{1,9}\\.\\.[0-9]{1,9}\\}$" .)) }}
group {{ $group.name }}: the task {{ $name }} has the braces {{ . }}, allowed are {a,b}, {1..9} and {01..99}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Objects that contradict each other or themselves. */}}
{{- define "shardctl.problems.objects" -}}
{{- range $name, $change := .Values.prometheusRule.rules -}}
{{- if hasKey (($change | default dict).labels | default dict) "severity" }}
prometheusRule.rules.{{ $name }}.labels.severity: would be another severity: give it as prometheusRule.rules.{{ $name }}.severity
{{- end -}}
{{- end -}}
{{- if hasKey (.Values.prometheusRule.additionalRuleLabels | default dict) "severity" }}
prometheusRule.additionalRuleLabels.severity: would be one for all alerts: give it for each, as prometheusRule.rules.NAME.severity
{{- end -}}
{{- with .Values.service -}}
{{- if and (eq (toString .clusterIP) "None") (ne .type "ClusterIP") }}
service.clusterIP: None is for the type ClusterIP, and service.type is {{ .type }}: leave it out
{{- else if and (eq (toString .clusterIP) "None") (ne (toString (int .port)) (include "shardctl.httpPort" $)) }}
service.port: {{ int .port }} is not the pods' own, which a headless Service leads to: give {{ include "shardctl.httpPort" $ }}
{{- end -}}
{{- if and .externalTrafficPolicy (eq .type "ClusterIP") }}
service.externalTrafficPolicy: is for the types NodePort and LoadBalancer, and service.type is {{ .type }}: leave it out
{{- end -}}
{{- range $field, $value := pick . "loadBalancerClass" "loadBalancerSourceRanges" -}}
{{- if and $value (ne $.Values.service.type "LoadBalancer") }}
service.{{ $field }}: is for the type LoadBalancer, and service.type is {{ $.Values.service.type }}: leave it out
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.keda -}}
{{- if .enabled -}}
{{- range $field := list "minReplicaCount" "maxReplicaCount" "pollingInterval" -}}
{{- if not (get $.Values.keda $field) }}
keda.{{ $field }}: is missing: give a number of 1 or more
{{- end -}}
{{- end -}}
{{- if $.Values.autoscaling.enabled }}
keda.enabled: is set together with autoscaling.enabled: choose one of them
{{- end -}}
{{- if gt (int .minReplicaCount) (int .maxReplicaCount) }}
keda.minReplicaCount: {{ int .minReplicaCount }} is more than keda.maxReplicaCount, {{ int .maxReplicaCount }}
{{- end -}}
{{- if not .triggers }}
keda.triggers: there is nothing to scale by: give at least one
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int .minReplicas) (int .maxReplicas) }}
autoscaling.minReplicas: {{ int .minReplicas }} is more than autoscaling.maxReplicas, {{ int .maxReplicas }}
{{- end -}}
{{- if not (or .targetCPUUtilizationPercentage .targetMemoryUtilizationPercentage .metrics) }}
autoscaling.metrics: there is nothing to scale by: set targetCPUUtilizationPercentage, targetMemoryUtilizationPercentage or metrics
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
