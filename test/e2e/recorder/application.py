"""The application of the end-to-end scenarios: it records each key as the command recorder does, in the same form.

After SIGUSR1 its functions go on when they are cancelled, so that the process ends when its validity does.
Environment: RECORD_DIR; RECORD_PERIOD, in seconds; START_DELAY, seconds that it takes to start.
"""

import argparse
import asyncio
import json
import os
import signal
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../clients/python"))

import shardctl

PERIOD = float(os.environ.get("RECORD_PERIOD", "0.02"))  # seconds


def timestamp():
    return struct.pack("<qq", time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns())


class FromArrival(shardctl.Application):
    """Counts the validity from when a reply arrives, which is wrong: two may run then."""

    def _obey(self, reply, sent):
        super()._obey(reply, shardctl._now())


disobeys = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: disobeys.set())
time.sleep(float(os.environ.get("START_DELAY", "0")))
parser = argparse.ArgumentParser()
parser.add_argument("--from-arrival", action="store_true")
parser.add_argument("--group", default="topics")
parser.add_argument("--coroutines", action="store_true", help="a coroutine for each key, and no thread")
parser.add_argument("--linger", type=float, default=0, help="seconds that a function goes on when it is cancelled")
args = parser.parse_args()
if args.from_arrival:
    app = FromArrival(os.environ["SHARDCTL_APP"])
else:
    app = shardctl.connect()


def record_of(lease):
    """The file of a run, with its beginning."""
    header = {
        "key": lease.key, "token": lease.token, "session": os.environ.get("SHARDCTL_SESSION", ""),  # none without a command
        "instance": os.environ["SHARDCTL_INSTANCE"], "pid": os.getpid(), "period": int(PERIOD * 1e9),
    }
    name = f"{lease.key.replace('/', '_')}-{lease.token}-{os.getpid()}.rec"
    file = open(os.path.join(os.environ["RECORD_DIR"], name), "ab", buffering=0)
    if file.tell() == 0:  # else it runs again under its token, after a pause
        file.write(b"shardctl-record-1\n" + json.dumps(header).encode() + b"\n" + timestamp())
    return file


def record(lease):
    with record_of(lease) as file:
        while not lease.cancelled.wait(PERIOD):
            file.write(timestamp())
        end = time.monotonic() + args.linger
        while disobeys.is_set() or time.monotonic() < end:
            time.sleep(PERIOD)
            file.write(timestamp())


async def record_in_coroutine(lease):
    with record_of(lease) as file:
        while True:
            await asyncio.sleep(PERIOD)
            file.write(timestamp())


app.group(args.group)(record_in_coroutine if args.coroutines else record)
app.run()
