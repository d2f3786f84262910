#!/usr/bin/env bash
# An application in shell. It runs COMMAND GROUP/NAME TOKEN for each key that its replica assigns, one process each, and
# kills it when the key has to go. The replica listens at $SHARDCTL_APP, unix:PATH. It needs curl, jq and Linux.
#
#   worker.sh COMMAND
set -u
declare -A pids=() tokens=()
app=$(cat /proc/sys/kernel/random/uuid) session='' seq=0 cancel_at=0 longest=0

now() { # in ms, on a clock that goes on while the machine sleeps
    local seconds
    read -r seconds _ </proc/uptime
    echo "${seconds/./}0"
}

mine() { # reports whether the socket is this user's, or root's: in a shared directory others may listen first
    case $(stat -c %u "${SHARDCTL_APP#unix:}" 2>/dev/null) in "$EUID" | 0) ;; *) return 1 ;; esac
}

stop() { # returns when nothing of the keys runs
    for key in "$@"; do
        kill -KILL "${pids[$key]}" 2>/dev/null
        wait "${pids[$key]}" 2>/dev/null
        unset "pids[$key]" "tokens[$key]"
    done
}
trap 'stop "${!pids[@]}"' EXIT
trap exit TERM INT

while :; do
    for key in "${!pids[@]}"; do # what ended by itself is started again
        kill -0 "${pids[$key]}" 2>/dev/null || stop "$key"
    done
    running=$(for key in "${!pids[@]}"; do printf '%s\t%s\n' "$key" "${tokens[$key]}"; done |
        jq -Rnc '[inputs / "\t" | {key: .[0], token: (.[1] | tonumber)}]')
    sent=$(now)
    within=$((${#pids[@]} > 0 ? cancel_at - sent : 10000)) # until then this loop looks at the clock
    reply=$(mine && jq -nc --arg app "$app" --arg session "$session" --argjson seq "$seq" --argjson running "$running" \
        '{$app, $session, $seq, $running, wait: 1, ready: true}' |
        curl -sf --max-time "$((within > 0 ? within / 1000 : 0)).$(printf %03d $((within > 1 ? within % 1000 : 1)))" \
            --unix-socket "${SHARDCTL_APP#unix:}" -H "Authorization: Bearer ${SHARDCTL_APP_TOKEN-}" \
            --data-binary @- http://localhost/v1/sync)
    [ "$(now)" -lt "$cancel_at" ] || stop "${!pids[@]}"
    if [ -z "$reply" ]; then
        sleep 0.2
        continue
    fi
    read -r new seq valid <<<"$(jq -r '"\(.session) \(.seq) \(.validFor * 1000 | floor)"' <<<"$reply")"
    if [ "$new" != "$session" ]; then
        stop "${!pids[@]}"
        session=$new longest=0
    fi
    longest=$((valid > longest ? valid : longest))
    cancel_at=$((sent + valid - longest / 3)) # from when the call was sent; the rest is for slow machines
    declare -A assigned=()
    while IFS=$'\t' read -r key token; do
        assigned[$key]=$token
    done < <(jq -r '.assigned[] | "\(.key)\t\(.token)"' <<<"$reply")
    for key in "${!pids[@]}"; do
        [ "${assigned[$key]-}" = "${tokens[$key]}" ] || stop "$key"
    done
    for key in "${!assigned[@]}"; do
        if [ -z "${pids[$key]-}" ] && [ "$(now)" -lt $((cancel_at - longest / 6)) ]; then
            "$1" "$key" "${assigned[$key]}" &
            pids[$key]=$! tokens[$key]=${assigned[$key]}
        fi
    done
done
