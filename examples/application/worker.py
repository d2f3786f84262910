"""An application in Python: a thread for each key that its replica assigns. It logs what begins and ends."""

import logging

import shardctl

logging.basicConfig(level=logging.INFO, format="%(message)s")  # a line is one write, whichever threads log
app = shardctl.connect()


@app.group("topics")
def consume(lease: shardctl.Lease) -> None:
    logging.info("%s begins with token %d", lease.name, lease.token)
    lease.cancelled.wait()  # where a consumer polls, until this is set
    logging.info("%s ends with token %d", lease.name, lease.token)


app.run()
