#!/usr/bin/env bash
# again.sh GO-TEST-ARGUMENTS… runs go test. Packages that failed, and whose tests start processes that must keep time,
# are run once more: on a machine that stands still for seconds replicas rightly lose their leases. What failed first is
# printed. All other packages have no second attempt, least of all the proofs.
set -euo pipefail

processes='/(cmd/shardctl|docs|internal/(dev|discovery|guard|replica|status|test(broker|mongo|process|servers))|pkg/tasks(/subscribe(/[a-z]+)?)?)$'
most=3 # packages: more at once are no accident

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
go test "$@" 2>&1 | tee "$log" || status=$?
[ "$status" -ne 0 ] || exit 0

mapfile -t failed < <(sed -nE 's/^FAIL\t([^ \t]+).*/\1/p' "$log" | sort -u)
[ ${#failed[@]} -gt 0 ] && [ ${#failed[@]} -le "$most" ] || exit "$status"
for package in "${failed[@]}"; do
    [[ $package =~ $processes ]] || exit "$status"
done
sed -nE 's/^ *--- FAIL: /tried again: /p' "$log"
go test -count=1 -p 1 -timeout 30m "${failed[@]}"
