#!/bin/sh
# KUBE_LOAD for a cluster of kind.
exec kind load image-archive "$1" --name shardctl-scenarios
