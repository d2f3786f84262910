#!/usr/bin/env bash
# run.sh [--reached] SUITE… runs suites of tests, each a target of the Makefile, one after the other, and prints a table
# with the wall clock and the processor time of each. It goes on after a suite has failed and exits with status 1 then.
# What they install (targets SUITE-install) comes meanwhile, until the first of these has its turn.
#
# With --reached it leaves out the suites below whose files the change does not touch. The change is what differs from
# SHARDCTL_CI_BASE, by default from where this branch left origin/main; on main itself, from the newest commit that is a
# day older than HEAD.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# What a suite depends on: Go packages, with all that they and their tests import, and folders of other files. What is
# of this module depends on how it is built as well. A suite that is not listed depends on everything.
declare -A packages=(
    [mongo]="./pkg/store/mongo ./pkg/fence/fencemongo ./pkg/idempotency/idempotencymongo ./test/testmongo"
    [stores]="./pkg/store/... ./test/mutexes ./test/testservers ./test/e2e/stores"
    [brokers]="./internal/subscribe/... ./test/testbroker ./test/e2e/brokers"
    [clients]="./internal/application ./test/clients"
    [page]="./internal/status"
)
declare -A folders=(
    [models]="pkg/elect pkg/store/internal pkg/store/quorum pkg/balancer internal/reconcile pkg/idempotency internal/weights test/search"
    [clients]="clients" [page]="test/browser" [chart]="helm config test/alerts"
    [modules]="bench helm/tools test/alerts examples/controller" [image-test]="image Dockerfile .dockerignore"
)
build="go.mod go.sum Makefile .ci test/run.sh test/suites"

base() {
    local fork head
    head=$(git rev-parse HEAD)
    fork=$(git merge-base origin/main HEAD 2>/dev/null) || fork=$head
    if [ -n "${SHARDCTL_CI_BASE:-}" ]; then
        echo "$SHARDCTL_CI_BASE"
    elif [ "$fork" != "$head" ]; then
        echo "$fork"
    else
        git rev-list -1 --first-parent --before="$(($(git show -s --format=%ct HEAD) - 24 * 60 * 60))" HEAD
    fi
}

# reached SUITE: whether the change touches what the suite depends on. Where that cannot be told, it does.
reached() {
    local suite=$1 file dir dirs
    [ -n "${packages[$suite]:-}${folders[$suite]:-}" ] || return 0
    dirs=${folders[$suite]:-}
    if [ -n "${packages[$suite]:-}" ]; then
        # shellcheck disable=SC2086 # several packages
        dirs+=" $build $(go list -deps -test -f '{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}' ${packages[$suite]} |
            sed "s#^$PWD/##" | sort -u | tr '\n' ' ')" || return 0
    fi
    for file in $changed; do
        for dir in $dirs; do
            case $file in
            "$dir" | "$dir"/*) return 0 ;;
            esac
        done
    done
    return 1
}

changed=
if [ "${1:-}" = --reached ]; then
    shift
    from=$(base)
    changed=$(git diff --name-only "${from:?no commit is a day older than HEAD: set SHARDCTL_CI_BASE}" HEAD | grep -v '\.md$')
    echo "==== the change is since $(git rev-parse --short "$from")"
    only_reached=1
fi

suites=() installs=() table=$'suite\tresult\twall s\tprocessor s\n'
for suite in "$@"; do
    if [ -n "${only_reached:-}" ] && ! reached "$suite"; then
        table+="$suite"$'\tnot reached\t\t\n'
        continue
    fi
    suites+=("$suite")
    ! make --dry-run "$suite-install" >/dev/null 2>&1 || installs+=("$suite-install")
done

status=0
times=$(mktemp) installed=$(mktemp) installing=
trap 'rm -f "$times" "$installed"; [ -z "$installing" ] || kill "$installing"' EXIT
TIMEFORMAT='%0R %0U %0S'
# timed NAME COMMAND…: runs it, and adds a line to the table.
timed() {
    local name=$1 result=passed wall user system
    shift
    { time "$@" 2>&4 || result=FAILED; } 4>&2 2>"$times"
    [ "$result" = passed ] || status=1
    read -r wall user system < <(tail -n 1 "$times")
    table+="$name"$'\t'"$result"$'\t'"$wall"$'\t'"$((user + system))"$'\n'
}

if [ ${#installs[@]} -gt 0 ]; then
    make --no-print-directory --keep-going "${installs[@]}" >"$installed" 2>&1 &
    installing=$!
fi
for suite in "${suites[@]}"; do
    if [ -n "$installing" ] && [[ " ${installs[*]} " == *" $suite-install "* ]]; then
        echo "==== make ${installs[*]}"
        timed "(waiting for what is installed)" wait "$installing"
        installing=
        cat "$installed"
    fi
    echo "==== make $suite"
    timed "$suite" make --no-print-directory "$suite"
done
printf '\n%s' "$table" | column -t -s $'\t' 2>/dev/null || printf '%s' "$table"
exit "$status"
