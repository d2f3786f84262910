#!/bin/sh
# KUBE_NODECTL for a cluster of kind: a node is a container, named as the node.
set -eu
verb=$1 node=$2
shift 2
case $verb in
cut)  docker network disconnect kind "$node" ;;
heal) docker network connect kind "$node" ;;
off)  docker kill "$node" ;;
on)   docker start "$node" ;;
sh)   exec docker exec "$node" "$@" ;;
*)    echo "unknown verb $verb: cut, heal, off, on or sh" >&2; exit 2 ;;
esac
