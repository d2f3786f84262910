#!/bin/sh
# Tests the alerts as the chart renders them: `promtool check rules`, then `promtool test rules` of every *.test.yaml
# beside this file.
#
#     helm/shardctl/promtests/run.sh
#
# HELM and PROMTOOL name the two programs (default: those of PATH; promtool is in Debian's package prometheus).
# The names in the alerts and in the dashboard are tested by `go test ./...` in test/alerts.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
chart=$(dirname "$here")
HELM=${HELM:-helm}
PROMTOOL=${PROMTOOL:-promtool}
for program in "$HELM" "$PROMTOOL"; do
	command -v "$program" >/dev/null || { echo "$0: $program is not there: set HELM and PROMTOOL" >&2; exit 2; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# render NAME ARGUMENTS… writes NAME.yaml: the rule's spec, which is what Prometheus reads.
render() {
	name=$1
	shift
	"$HELM" template shardctl "$chart" --namespace prod --kube-version 1.36.0 --values "$here/values.yaml" --show-only templates/prometheusrule.yaml "$@" >"$work/object"
	awk 'inside { sub(/^  /, ""); print } /^spec:/ { inside = 1 }' "$work/object" >"$work/$name.yaml"
	[ -s "$work/$name.yaml" ] || { echo "$0: nothing was rendered" >&2; exit 1; }
}

render rules
render changed --values "$here/changed.values.yaml"
"$PROMTOOL" check rules "$work/rules.yaml" "$work/changed.yaml"
cp "$here"/*.test.yaml "$work"
cd "$work"
"$PROMTOOL" test rules ./*.test.yaml
