#!/usr/bin/env bash
# Builds the tools that check the chart, at the versions that go.mod and kube-score/go.mod pin, and prints the directory that holds
# them: helm, helm-unittest, kubeconform, kube-score, helm-docs. They are kept in the user's cache, in a directory for each state of
# those files and version of Go: about two minutes once, nothing after that.
#
#   PATH="$(helm/tools/build.sh):$PATH"
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
state=$({ go env GOVERSION && cat go.mod go.sum kube-score/go.mod kube-score/go.sum build.sh; } | sha256sum | cut -c 1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/shardctl-tools
dir=$cache/$state
if [ ! -d "$dir" ]; then
    echo "building the tools of the chart into $dir (about two minutes, once)" >&2
    mkdir -p "$cache"
    made=$(mktemp -d "$cache/making.XXXXXX")
    trap 'rm -rf "$made"' EXIT
    begin=$SECONDS
    # helm tells its version to charts and people; only its own build script sets it.
    helm=$(go list -m -f '{{.Version}}' helm.sh/helm/v3)
    export CGO_ENABLED=0
    go build -trimpath -o "$made/" -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$helm" tool >&2
    go -C kube-score build -trimpath -o "$made/" -ldflags '-s -w' tool >&2
    chmod 755 "$made"
    # Whoever comes second keeps what the first one made.
    mv -T "$made" "$dir" 2>/dev/null || [ -x "$dir/helm" ]
    echo "built in $((SECONDS - begin)) s" >&2
fi
echo "$dir"
