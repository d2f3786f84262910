"""The application of the conformance suite: it prints what begins and ends."""

import asyncio
import decimal
import json
import pathlib
import sys
import threading
import time

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
    say("stopping", lease.key, lease.token)
    time.sleep(0.5)
    say("end", lease.key, lease.token)


@app.group("async")
async def coroutine(lease):
    say("begin", lease.key, lease.token)
    try:
        await asyncio.sleep(3600)
    finally:
        say("stopping", lease.key, lease.token)
        await asyncio.sleep(0.5)
        say("end", lease.key, lease.token)


@app.group("many")
async def many(lease):
    await asyncio.sleep(3600)


@app.group("count")
def count(lease):
    while not lease.cancelled.wait(0.1):
        say("owned", len(app.owned()))


@app.group("stuck")
def stuck(lease):
    say("begin", lease.key, lease.token)
    threading.Event().wait()


@app.group("busy")
async def busy(lease):
    say("begin", lease.key, lease.token)
    while True:
        pass


@app.group("values")
def values(lease):
    before = (lease.value() or b"").decode()
    lease.set_value((before + "é").encode())
    say("begin", lease.key, lease.token, before or "-")
    lease.cancelled.wait()
    lease.set_value((before + "é").encode())
    say("end", lease.key, lease.token)


@app.group("lost")
def lost(lease):
    try:
        lease.set_value(b"late")
    except shardctl.LeaseLost:
        say("lost")
    lease.cancelled.wait()


@app.group("done")
def done(lease):
    say("begin", lease.key, lease.token)
    raise shardctl.Done


@app.group("again")
def again(lease):
    say("begin", lease.key, lease.token)


@app.group("cancels")
async def cancels(lease):
    say("begin", lease.key, lease.token)
    waits = asyncio.ensure_future(asyncio.sleep(3600))
    asyncio.get_running_loop().call_later(0.1, waits.cancel)
    await waits


@app.group("cancels in a thread")
def cancels_in_thread(lease):
    asyncio.run(cancels(lease))


@app.group("status")
def status(lease):
    try:
        app.set_load(lease.key, decimal.Decimal("1.5"))
        app.set_load(lease.key, -1)
    except ValueError as err:
        say(err)
    app.set_status({"version": "é 1", "lag": 12})
    lease.cancelled.wait()
    app.set_status({"version": "é 2"})


@app.group("owner")
def owner(lease):
    found = app.owner(lease.key)
    say("owner", found.instance, found.address, found.token, app.owner("work/none") or "-")
    lease.cancelled.wait()


sys.stdout.reconfigure(encoding="utf-8")
if sys.argv[1:] == ["async"]:
    asyncio.run(app.run_async())
elif sys.argv[1:]:
    for v in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")):
        assert shardctl.slot(v["key"], v["slots"]) == v["slot"], v
    say("slots agree")
    sys.exit(0)
else:
    app.run()
say("over")
