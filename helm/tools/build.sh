#!/usr/bin/env bash
# Builds the tools that check the chart, at the versions that go.mod pins, and prints the directory that holds them:
# helm, helm-unittest, kubeconform, helm-docs. They are kept in the user's cache, in a directory for each state of those
# files and version of Go: about two minutes once, nothing after that.
#
#   PATH="$(helm/tools/build.sh):$PATH"
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
state=$({ go env GOVERSION && cat go.mod go.sum build.sh; } | sha256sum | cut -c 1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/shardctl-tools
dir=$cache/$state
if [ ! -d "$dir" ]; then
    echo "building the tools of the chart into $dir (about two minutes, once)" >&2
    mkdir -p "$cache"
    made=$(mktemp -d "$cache/making.XXXXXX")
    trap 'rm -rf "$made"' EXIT
    begin=$SECONDS
    # As helm's own Makefile does it: its version, which charts and people ask for, and the Kubernetes that it renders
    # for by default.
    helm=helm.sh/helm/v3
    kubernetes=$(go list -m -f '{{.Version}}' k8s.io/client-go | cut -d. -f2)
    flags="-s -w -X $helm/internal/version.version=$(go list -m -f '{{.Version}}' $helm)"
    for package in pkg/lint/rules pkg/chartutil; do
        flags+=" -X $helm/$package.k8sVersionMajor=1 -X $helm/$package.k8sVersionMinor=$kubernetes"
    done
    # Without -trimpath, whose standard library would be another one than that of everything else.
    export CGO_ENABLED=0
    go build -o "$made/" -ldflags "$flags" tool >&2
    chmod 755 "$made"
    # Anyone who comes second keeps what the first one made.
    mv -T "$made" "$dir" 2>/dev/null || [ -x "$dir/helm" ]
    echo "built in $((SECONDS - begin)) s" >&2
fi
echo "$dir"
