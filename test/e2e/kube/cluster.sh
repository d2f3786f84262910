#!/usr/bin/env bash
# cluster.sh: finds a cluster for the scenarios and runs them in it; `make cluster` runs it. Arguments go to the test
# program, such as -ginkgo.focus=drained. In this order:
#
#   1. KUBECONFIG names one: README.md says which variables the scenarios want besides.
#   2. A rig that makes one of this machine (CLUSTER_RIG, or ../shared/cluster beside the repository), where it is and
#      we are root. At first it compiles Kubernetes, which takes a quarter of an hour; with CLUSTER_RIG_BUILD=no only a
#      rig that has done so counts.
#   3. kind, where it is installed and Docker runs.
#
# Otherwise it says so, and ends with status 3: nothing was tested.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
timeout=40m
work=$(mktemp -d)
undo=()

clean() {
    local i
    for ((i = ${#undo[@]} - 1; i >= 0; i--)); do eval "${undo[i]}" || true; done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

say() { printf '==== scenarios of the chart: %s\n' "$*"; }

export SHARDCTL_TEST=${SHARDCTL_TEST:-cluster}
# What is tested is in the image: the scenarios need no program of this machine.
export SHARDCTL_E2E_BINARY=${SHARDCTL_E2E_BINARY:-/bin/true}

# images makes the archives, unless somebody has.
images() {
    if [ -z "${KUBE_IMAGES:-}" ]; then
        say "building images"
        "$here/images.sh" "$work/images"
        export KUBE_IMAGES=$work/images
    fi
}

# controller compiles the test of examples/controller, which one scenario runs, unless somebody has.
controller() {
    if [ -z "${KUBE_CONTROLLER:-}" ]; then
        go -C "$root/examples/controller" test -c -o "$work/controller.test" .
        export KUBE_CONTROLLER=$work/controller.test
    fi
}

# records makes the directory for records, unless somebody has.
records() {
    if [ -z "${KUBE_RECORDS:-}" ]; then
        mkdir -p "$1"
        export KUBE_RECORDS=$1
    fi
}

in_given_cluster() {
    say "in the cluster of $KUBECONFIG"
    images
    controller
    cd "$root"
    go test -v -count=1 -timeout "$timeout" ./test/e2e/kube "$@"
}

# The rig keeps itself and what it builds out of the repository.
rig_home=${CLUSTER_RIG_HOME:-$HOME/.cache/cluster}

# three_nodes brings the rig's cluster up, again when a node has not come: what is left of the cluster before may stand
# in its way.
three_nodes() {
    local try
    for try in 1 2 3; do
        NODES=3 NODE_GRACE=20s "$rig_home/up.sh" real
        for _ in {1..20}; do
            [ "$("$rig_home/k" get nodes --no-headers | grep -cw Ready)" -lt 3 ] || return 0
            sleep 1
        done
        say "a node is missing (try $try)"
        "$rig_home/down.sh"
        sleep 5
    done
    return 1
}

in_rig() {
    local rig=$1
    shift
    say "in a cluster of this machine, made by $rig"
    # There is no network inside: everything is compiled and fetched before.
    images
    controller
    (cd "$root" && go test -c -o "$work/kube.test" ./test/e2e/kube)
    (cd "$root" && go build -o "$work/recorder" ./test/e2e/recorder) # into the cache, where the scenarios build it again
    if [ -z "${KUBE_MONGODB_URI:-}" ]; then # a test that is skipped fetches nothing, hence "required"
        (cd "$root" && SHARDCTL_TEST=mongo,required go test -count=1 -run '^TestNodesListenWhereTheyAreAsked$' ./test/testmongo)
    fi
    [ -x "$rig_home/up.sh" ] || "$rig/install.sh" "$rig_home"
    "$rig_home/build-all.sh" >"$work/build.log" 2>&1 || { tail -20 "$work/build.log"; return 1; }
    if [ -f "$rig_home/c/ns.pid" ] && kill -0 "$(cat "$rig_home/c/ns.pid")" 2>/dev/null; then
        say "it is up already, and is left so"
    else
        undo+=("$rig_home/down.sh")
        three_nodes
    fi
    "$here/rig.sh" "$rig_home" "$work/rig"
    # /tmp is the same inside and on all nodes; /run, /var and /etc are not.
    records "$work/records"
    chmod 755 "$work"
    "$rig_home/in" env -C "$here" KUBECTL="$work/rig/bin/kubectl" HELM="$work/rig/bin/helm" KUBE_LOAD="$work/rig/load" \
        KUBE_NODECTL="$work/rig/nodectl" KUBE_HOST_ADDRESS=10.99.0.1 KUBE_FAULT_NODES="n2 n3" GOPROXY=off \
        "$work/kube.test" -test.v -test.timeout "$timeout" -ginkgo.v "$@"
}

compiled_or_may() {
    [ "${CLUSTER_RIG_BUILD:-yes}" != no ] || [ -x "$rig_home/bin/kubelet" ]
}

in_kind() {
    say "in a cluster of kind"
    images
    controller
    records "$work/records"
    chmod 755 "$work"
    sed "s#@RECORDS@#$KUBE_RECORDS#g" "$here/kind.yaml" >"$work/kind.yaml"
    undo+=("kind delete cluster --name shardctl-scenarios")
    kind create cluster --name shardctl-scenarios --config "$work/kind.yaml" --kubeconfig "$work/kubeconfig" --wait 2m
    export KUBECONFIG=$work/kubeconfig KUBE_LOAD=$here/kind-load.sh KUBE_NODECTL=$here/kind-nodectl.sh
    KUBE_HOST_ADDRESS=$(docker network inspect kind --format '{{range .IPAM.Config}}{{println .Gateway}}{{end}}' | grep -m1 -E '^[0-9.]+$')
    export KUBE_HOST_ADDRESS
    cd "$root"
    go test -v -count=1 -timeout "$timeout" ./test/e2e/kube "$@"
}

rig=${CLUSTER_RIG:-$root/../shared/cluster}
if [ -n "${KUBECONFIG:-}" ]; then
    in_given_cluster "$@"
elif [ -x "$rig/install.sh" ] && [ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ] && compiled_or_may; then
    in_rig "$(cd "$rig" && pwd)" "$@"
elif command -v kind >/dev/null && docker info >/dev/null 2>&1; then
    in_kind "$@"
else
    say "NOT RUN, since there is no cluster and nothing to make one with${CLUSTER_RIG_BUILD:+ (CLUSTER_RIG_BUILD=$CLUSTER_RIG_BUILD)}"
    echo "Set KUBECONFIG, or install kind and start Docker, or, as root on Linux, set CLUSTER_RIG (test/e2e/kube/README.md)."
    exit 3
fi
