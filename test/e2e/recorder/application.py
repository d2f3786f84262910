"""The application of the end-to-end scenarios: it records each key as the command recorder does, in the same form."""

import json
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../clients/python"))

import shardctl

PERIOD = 0.02  # seconds


def timestamp():
    return struct.pack("<qq", time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns())


app = shardctl.connect()


@app.group("topics")
def record(lease):
    header = {
        "key": lease.key, "token": lease.token, "session": os.environ["SHARDCTL_SESSION"],
        "instance": os.environ["SHARDCTL_INSTANCE"], "pid": os.getpid(), "period": int(PERIOD * 1e9),
    }
    name = f"{lease.key.replace('/', '_')}-{lease.token}-{os.getpid()}.rec"
    with open(os.path.join(os.environ["RECORD_DIR"], name), "xb", buffering=0) as file:
        file.write(b"shardctl-record-1\n" + json.dumps(header).encode() + b"\n" + timestamp())
        while not lease.cancelled.wait(PERIOD):
            file.write(timestamp())


app.run()
