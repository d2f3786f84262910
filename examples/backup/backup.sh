#!/bin/sh
# Copies a directory, one copy at a time, from however many machines it is started:
#
#   shardctl lock backup --config shardctl.yaml -- examples/backup/backup.sh FROM TO
#
# Each copy is named by the fencing token of its run. The token rises from run to run, so a run that lost its lock while
# it copied finds that TO/latest is newer, and leaves it alone.
set -eu
from=$1 to=$2 token=$SHARDCTL_FENCING_TOKEN

mkdir -p "$to"
cp -R "$from" "$to/$token.part"
mv "$to/$token.part" "$to/$token"

latest=$(readlink "$to/latest" || echo 0)
if [ "$token" -le "$latest" ]; then
	echo "run $token is older than $latest, which stays the latest" >&2
	exit 1
fi
ln -sfn "$token" "$to/latest"
echo "copied as $token"
