#!/usr/bin/env bash
# Checks the chart: all steps, or those named. What each does is in the comment of its function. Without WHOLE, which is
# set at night, the score is left out, and conform looks at the oldest and the newest version of Kubernetes only.
#
#   helm/tools/chart.sh [lint] [unittest] [readme] [conform] [score] [alerts] [package]
set -euo pipefail
shopt -s nullglob

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
chart=$(dirname "$tools")/shardctl
steps=("$@")
if [ ${#steps[@]} -eq 0 ]; then
    steps=(lint unittest readme conform alerts package)
    [ -z "${WHOLE:-}" ] || steps+=(score)
fi

work=$(mktemp -d)
step=start
started=$SECONDS
ended() {
    local status=$?
    rm -rf "$work"
    [ "$status" -eq 0 ] || printf '\n== chart: FAILED in %s, status %d\n' "$step" "$status" >&2
}
trap ended EXIT

PATH="$("$tools/build.sh"):$PATH"
# Nothing of the user's own settings, plugins or clusters.
export PATH HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm KUBECONFIG=/dev/null

# Each of these is installed by somebody, so each is linted, rendered and judged. The file says in its first line what
# it is for.
values=("$chart"/ci/*.yaml)
go -C "$tools" run ./schemas write "$work/schemas"
mapfile -t versions < <(ls "$work/schemas" | sort -V)
newest=${versions[-1]}
[ -n "${WHOLE:-}" ] || versions=("${versions[0]}" "$newest")

# render VERSION VALUES ARGUMENTS… as a cluster of that version with the Prometheus operator would get it.
render() {
    local version=$1 file=$2
    shift 2
    helm template shardctl "$chart" --namespace shardctl --kube-version "$version" --api-versions monitoring.coreos.com/v1 --values "$file" "$@"
}

# What Helm itself finds wrong, warnings included.
lint() {
    local file
    for file in "${values[@]}"; do
        helm lint --strict --quiet "$chart" --namespace shardctl --kube-version "$newest" --values "$file" || { echo "with $file"; return 1; }
    done
    echo "${#values[@]} values files"
}

# The suites of tests/: what is rendered from which values, and which values are refused with which words.
unittest() {
    local suites=("$chart"/tests/*_test.yaml)
    [ ${#suites[@]} -gt 0 ] || { echo "no suites in $chart/tests"; return 1; }
    helm-unittest --strict "$chart"
}

# README.md is what helm-docs makes of README.md.gotmpl and values.yaml.
readme() {
    mkdir "$work/readme"
    cp "$chart"/{Chart.yaml,values.yaml,README.md.gotmpl} "$work/readme"
    helm-docs --log-level warning --chart-search-root "$work/readme"
    diff -u "$chart/README.md" "$work/readme/README.md" || { echo "helm/shardctl/README.md is old: run make chart-docs"; return 1; }
}

# Every object is what each version of Kubernetes knows, down to the last field; rendering twice gives the same twice.
conform() {
    local version file name
    for version in "${versions[@]}"; do
        mkdir -p "$work/$version"
        for file in "${values[@]}"; do
            name=$(basename "$file")
            render "$version" "$file" >"$work/$version/$name" || { echo "with $file for Kubernetes $version"; return 1; }
        done
        printf 'Kubernetes %s: ' "$version"
        kubeconform_of "$version" -summary "$work/$version"
        refuses_mistakes "$version"
    done
    for file in "${values[@]}"; do
        render "$newest" "$file" | diff -u "$work/$newest/$(basename "$file")" - || { echo "rendered twice, $file gives two things"; return 1; }
    done
}

kubeconform_of() {
    local version=$1
    shift
    kubeconform -strict -kubernetes-version "$version.0" -schema-location "$work/schemas/$version/{{.ResourceKind}}{{.KindSuffix}}.json" "$@"
}

# A check that cannot fail is none: with any field mistyped, the schemas of the version must say so.
refuses_mistakes() {
    local version=$1 mistake
    for mistake in s/containerPort/containerport/ s/readinessProbe/readynessProbe/ s/matchLabels/matchlabels/; do
        if sed "$mistake" "$work/$version/$(basename "${values[0]}")" | kubeconform_of "$version" >"$work/mistakes"; then
            echo "Kubernetes $version: $mistake was not noticed"
            return 1
        fi
        grep -q 'additional properties' "$work/mistakes" || { cat "$work/mistakes"; return 1; }
    done
}

# No critical finding of kube-score, but for what score.ignore names with the reason. A check with a second word there
# is asked of those values files only that set the value of that name.
score() {
    local file name value ignored asked=""
    for file in "${values[@]}"; do
        ignored=()
        while read -r name value; do
            if [ -n "$value" ] && grep -q "^$value:" "$file"; then asked+=" $name"; else ignored+=(--ignore-test "$name"); fi
        done < <(sed -E 's/ *#.*//; /^$/d' "$tools/score.ignore")
        render "$newest" "$file" --skip-tests >"$work/scored"
        # A limit of the processor makes heartbeats late, which costs leases: no one should have to set one.
        go -C "$tools/kube-score" tool kube-score score --kubernetes-version "v$newest" --ignore-container-cpu-limit --output-format ci "${ignored[@]}" "$work/scored" >"$work/score" || {
            grep -F '[CRITICAL]' "$work/score" || cat "$work/score"
            echo "with $file"
            return 1
        }
    done
    for name in $(sed -nE 's/^([a-z-]+) +[^# ]+.*/\1/p' "$tools/score.ignore"); do
        [[ " $asked " == *" $name "* ]] || { echo "no values file in ci/ lets kube-score ask for $name"; return 1; }
    done
    echo "${#values[@]} values files"
}

# The alerts do what their tests say, by the program of Prometheus.
alerts() {
    promtool=$(command -v promtool || true)
    if [ -z "$promtool" ]; then
        echo "promtool is not there: install it (Debian: apt-get install prometheus)"
        return 1
    fi
    HELM=helm PROMTOOL=$promtool "$chart/promtests/run.sh"
}

# The package in dist/ holds nothing that only checks the chart, and renders as the directory does.
package() {
    local dist=$tools/../../dist archive
    helm package "$chart" --destination "$work/package" >/dev/null
    archive=$(echo "$work"/package/shardctl-*.tgz)
    if tar -tzf "$archive" | grep -E '^shardctl/(ci|tests|promtests|README\.md\.gotmpl)'; then
        echo "the package holds what only checks the chart: see .helmignore"
        return 1
    fi
    render "$newest" "${values[0]}" >"$work/whole"
    chart=$archive render "$newest" "${values[0]}" | diff -u "$work/whole" - || { echo "rendered from the package it is something else"; return 1; }
    mkdir -p "$dist"
    cp "$archive" "$dist"
    echo "dist/$(basename "$archive"), $(stat -c %s "$archive") bytes"
}

[ ${#values[@]} -gt 0 ] || { echo "no values files in $chart/ci"; exit 1; }
for step in "${steps[@]}"; do
    printf '== chart: %s\n' "$step"
    begin=$SECONDS
    "$step"
    printf '== chart: %s: %d s\n' "$step" $((SECONDS - begin))
done
printf '== chart: all well in %d s\n' $((SECONDS - started))
