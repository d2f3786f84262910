#!/bin/sh
# Stands for your consumer: consume --topic NAME. It ends well when it is asked to.
echo "consuming $2 with token $SHARDCTL_FENCING_TOKEN on $SHARDCTL_INSTANCE"
trap 'exit 0' TERM INT
while :; do
    sleep 5 &
    wait $!
done
