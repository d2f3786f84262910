"""An application in Python: a thread for each key that its replica assigns. It prints what begins and ends."""

import shardctl

app = shardctl.connect()


@app.group("topics")
def consume(lease: shardctl.Lease) -> None:
    print(lease.name, "begins with token", lease.token, flush=True)
    lease.cancelled.wait()  # where a consumer polls, until this is set
    print(lease.name, "ends with token", lease.token, flush=True)


app.run()
