"""The application of the conformance suite: it prints what begins and ends."""

import sys
import threading

import shardctl

app = shardctl.connect()
printing = threading.Lock()


def say(*words):
    with printing:
        print(*words, flush=True)


@app.group("work")
def work(lease):
    say("begin", lease.key, lease.token)
    lease.cancelled.wait()
    say("end", lease.key, lease.token)


@app.group("slow")
def slow(lease):
    say("begin", lease.key, lease.token)
    lease.cancelled.wait()
    threading.Event().wait(0.5)
    say("end", lease.key, lease.token)


@app.group("stuck")
def stuck(lease):
    say("begin", lease.key, lease.token)
    threading.Event().wait()


@app.group("values")
def values(lease):
    before = (lease.value() or b"").decode()
    lease.set_value((before + "x").encode())
    say("begin", lease.key, lease.token, before or "-")
    lease.cancelled.wait()
    say("end", lease.key, lease.token)


@app.group("done")
def done(lease):
    say("begin", lease.key, lease.token)
    raise shardctl.Done


@app.group("coroutines")
async def coroutine(lease):
    import asyncio

    say("begin", lease.key, lease.token)
    try:
        await asyncio.sleep(3600)
    finally:
        say("end", lease.key, lease.token)


app.run()
say("over")
sys.exit(0)
