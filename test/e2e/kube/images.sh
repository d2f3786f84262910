#!/usr/bin/env bash
# images.sh DIR: the image archives that the scenarios put on the nodes. They are our image with the scenarios' own
# programs in it, twice under different versions, two images that should never have been released, and an application.
set -euo pipefail

dir=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
platform=linux/$(go env GOARCH)

# image TAG VERSION FLAG…
image() {
    local tag=$1 version=$2
    shift 2
    go -C image run . build --platform "$platform" --version "$version" --tag "shardctl.test/shardctl:$tag" --archive "$dir/$tag.tar" \
        --add-go ./test/e2e/recorder=/recorder --add-go ./test/e2e/kube/glutton=/glutton --add-go ./test/e2e/kube/dud=/dud "$@"
}

image one 0.0.1
image two 0.0.2
image exits 0.0.3 --entrypoint /dud --entrypoint exit
image hangs 0.0.4 --entrypoint /dud --entrypoint hang
test/e2e/kube/application-image.py shardctl.test/application:one "$dir/application.tar"
