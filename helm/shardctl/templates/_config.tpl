{{/*
The configuration is `config`, `configFiles` and what the chart fills in. Definitions here give JSON, for `fromJson`.
None of them fails: _problems.tpl says what is wrong, all of it at once.
*/}}

{{/* What is of another kind in a configuration, by field. */}}
{{- define "shardctl.kinds" -}}
groups: slice
{{- range list "labels" "pod" "store" "lease" "rebalance" "shutdown" "server" "admin" "metrics" "log" "app" }}
{{ . }}: map
{{- end }}
{{- end -}}

{{/* configFiles, parsed: {name: document}. One that is not YAML is {}, and what is of a wrong kind is left out. */}}
{{- define "shardctl.files" -}}
{{- $kinds := include "shardctl.kinds" . | fromYaml -}}
{{- $files := dict -}}
{{- range $name, $text := .Values.configFiles -}}
{{- $read := fromYaml $text -}}
{{- $doc := dict -}}
{{- range $field, $value := hasKey $read "Error" | ternary dict $read -}}
{{- if or (not (hasKey $kinds $field)) (kindIs (get $kinds $field) $value) -}}
{{- $_ := set $doc $field $value -}}
{{- end -}}
{{- end -}}
{{- $_ := set $files $name $doc -}}
{{- end -}}
{{- toJson $files -}}
{{- end -}}

{{/* What stands in configFiles but groups: {field: value}. */}}
{{- define "shardctl.given" -}}
{{- $given := dict -}}
{{- range $name, $doc := include "shardctl.files" . | fromJson -}}
{{- range $field, $value := omit $doc "groups" -}}
{{- if not (or (hasPrefix "x-" $field) (kindIs "invalid" $value)) -}}
{{- $_ := set $given $field $value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $given -}}
{{- end -}}

{{/* `config` and what the chart fills in: nothing that is given, here or in configFiles, is changed. */}}
{{- define "shardctl.own" -}}
{{- $own := dict -}}
{{- range $field, $value := .Values.config -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $own $field $value -}}
{{- end -}}
{{- end -}}
{{- $fill := dict
      "version" 1
      "instance" "$(POD_NAME)"
      "zone" "$(ZONE:-)"
      "rollout" "$(POD_TEMPLATE_HASH:-)"
      "revision" .Release.Revision
      "store" (dict "uri" "$(SHARDCTL_STORE_URI)")
      "pod" (dict "uid" "$(POD_UID)" "container" "shardctl" "dir" "/run/shardctl") -}}
{{- if include "shardctl.adminTokens" . -}}
{{- $_ := set $fill "admin" (dict "listen" (printf "%s:%d" (ternary "" "127.0.0.1" (not (empty .Values.admin.expose))) (int .Values.admin.port)) "tokensFile" "/etc/shardctl-admin/tokens") -}}
{{- end -}}
{{- $given := include "shardctl.given" . | fromJson -}}
{{- range $field, $value := $fill -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $own $field)) -}}
{{- $both := deepCopy (get $own $field) -}}
{{- range $inner, $text := $value -}}
{{- if not (hasKey $both $inner) -}}
{{- $_ := set $both $inner $text -}}
{{- end -}}
{{- end -}}
{{- $_ := set $own $field $both -}}
{{- else if not (or (hasKey $own $field) (and (hasKey $given $field) (ne $field "version"))) -}}
{{- $_ := set $own $field $value -}}
{{- end -}}
{{- end -}}
{{- toJson $own -}}
{{- end -}}

{{/* Everything but the lists, wherever it stands: {field: value}. */}}
{{- define "shardctl.settings" -}}
{{- $settings := include "shardctl.given" . | fromJson -}}
{{- range $field, $value := omit (include "shardctl.own" . | fromJson) "groups" -}}
{{- if not (hasPrefix "x-" $field) -}}
{{- $_ := set $settings $field $value -}}
{{- end -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{/* The ConfigMap's content: {file: text}. */}}
{{- define "shardctl.data" -}}
{{- $data := dict -}}
{{- range $name, $text := .Values.configFiles -}}
{{- $_ := set $data $name $text -}}
{{- end -}}
{{- $_ := set $data (.Values.configFiles | empty | ternary "shardctl.yaml" "chart.yaml") (include "shardctl.own" . | fromJson | toYaml) -}}
{{- toYaml $data -}}
{{- end -}}

{{/* Changes with what running pods do not take up by themselves. */}}
{{- define "shardctl.configChecksum" -}}
{{- omit (include "shardctl.settings" . | fromJson) "revision" | toJson | sha256sum -}}
{{- end -}}

{{/* The port of server.listen; empty when it ends in none. */}}
{{- define "shardctl.httpPort" -}}
{{- $server := (include "shardctl.settings" . | fromJson).server | default dict -}}
{{- $server.listen | default ":8080" | toString | regexFind "[0-9]+$" -}}
{{- end -}}

{{/* HTTPS where server.tls is set, else HTTP. */}}
{{- define "shardctl.scheme" -}}
{{- $server := (include "shardctl.settings" . | fromJson).server | default dict -}}
{{- $tls := kindIs "map" $server.tls | ternary $server.tls dict -}}
{{- $tls.certFile | empty | ternary "HTTP" "HTTPS" -}}
{{- end -}}

{{/* Seconds of a duration as Go writes it, such as 1m30s, rounded up; empty when it is none. */}}
{{- define "shardctl.seconds" -}}
{{- $text := toString . -}}
{{- if eq $text "0" -}}
0
{{- else if regexMatch "^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$" $text -}}
{{- $units := dict "ns" 0.000000001 "us" 0.000001 "µs" 0.000001 "ms" 0.001 "s" 1 "m" 60 "h" 3600 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9.]+[a-zµ]+" $text -1 -}}
{{- $sum = addf $sum (mulf (regexFind "[0-9.]+" .) (get $units (regexFind "[a-zµ]+" .))) -}}
{{- end -}}
{{- ceil $sum | int -}}
{{- end -}}
{{- end -}}

{{/* shutdown.timeout as it is written. */}}
{{- define "shardctl.shutdownTimeout" -}}
{{- $timeout := ((include "shardctl.settings" . | fromJson).shutdown | default dict).timeout -}}
{{- kindIs "invalid" $timeout | ternary "25s" $timeout -}}
{{- end -}}

{{/* How long pods get to end: what tasks get, and five seconds to say so to the store. */}}
{{- define "shardctl.gracePeriod" -}}
{{- add 5 (include "shardctl.seconds" (include "shardctl.shutdownTimeout" .) | default "25") -}}
{{- end -}}
