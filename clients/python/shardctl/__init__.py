"""Run the keys that this process owns, each in one process at a time.

    import shardctl
    app = shardctl.connect()             # the replica beside this process: $SHARDCTL_APP

    @app.group("topics")
    def consume(lease):                  # or async def
        while not lease.cancelled.wait(0.1):
            work(lease.name, lease.token)
    app.run()                            # until SIGTERM

A function runs for each key of its group that this process may run. It returns soon after ``lease.cancelled`` is set;
a coroutine is cancelled. Only then may another process run the key. What returns before is started again after a
pause, unless it raises ``Done``. The replica gives a validity, which counts from when this process asked for it.
Functions are cancelled a quarter before its end, and at its end the process exits with status 75 if one still runs.
Let what a function writes to refuse a token that is smaller than one it has seen.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import http.client
import inspect
import json
import logging
import os
import random
import signal
import socket
import threading
import time
import uuid
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, TypeVar
from urllib.parse import quote

from ._connection import Connection, connect_to

__all__ = ["Application", "Done", "Error", "Lease", "LeaseLost", "Owner", "connect", "slot"]

log = logging.getLogger("shardctl")
_WAIT, _LOOK = 1.0, 0.1  # seconds that a call may wait for news, and between looks at the clock, at most
_F = TypeVar("_F", bound=Callable[["Lease"], Any])


def _now() -> float:
    """Seconds on a clock that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def slot(key: str, slots: int) -> int:
    """The slot of a key in a group with so many: the same number in every language."""
    if slots < 1:
        raise ValueError(f"slots {slots}: must be at least 1")
    h = 0xCBF29CE484222325
    for byte in key.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h = (h ^ h >> 33) * factor % 2**64
    return (h ^ h >> 33) % slots


class Error(Exception):
    """The replica refused a request, or was not reached: status 0."""

    def __init__(self, status: int, detail: str):
        super().__init__(f"{status}: {detail}" if status else detail)
        self.status = status


class LeaseLost(Error):
    """The key is another's, or no longer this process's under that token."""


class Done(Exception):
    """Raised by a function whose work is done: it is not started again under this lease."""


class Owner(NamedTuple):
    """Who owns a key, as far as the replica knows. The address is where requests for the key go."""

    instance: str
    address: str
    token: int


class Lease:
    """The hold on one key. Its methods may be called from any thread."""

    def __init__(self, app: Application, key: str, token: int):
        self._app, self.key, self.token = app, key, token
        self.group, _, self.name = key.partition("/")
        self.cancelled = threading.Event()  # set when the function has to return

    def valid(self) -> bool:
        """Whether the work may go on now. It was true a moment ago: send the token along as well."""
        return not self.cancelled.is_set() and self.deadline() > 0

    def deadline(self) -> float:
        """Seconds until the work must have ended. It grows again while the replica renews its lease."""
        return max(0.0, self._app._valid_to - _now())

    def value(self) -> Optional[bytes]:
        """What was kept with the key last; None when nothing was. Raises LeaseLost."""
        return self._app._request("GET", "value", self.key, self.token) or None

    def set_value(self, value: bytes) -> None:
        """Keep a value of at most 64 KiB with the key, for its next owner. Raises LeaseLost."""
        self._app._request("PUT", "value", self.key, self.token, value)


class _Run:
    """A function that runs for a lease. It is started again after a pause while it returns by itself."""

    def __init__(self, app: Application, lease: Lease, function: Callable[[Lease], Any]):
        self.app, self.lease, self.function = app, lease, function
        self.listed = json.dumps({"key": lease.key, "token": lease.token})  # what a call says of it
        self.is_async = inspect.iscoroutinefunction(function)
        self.task: Optional[asyncio.Task[None]] = None
        self.done, self.ended, self.pause, self.ceiling = False, False, 0.0, 1.0  # seconds; the next pause at most
        if self.is_async:
            app._post(self._launch)
        else:
            threading.Thread(target=self._thread, name=lease.key, daemon=True).start()

    def cancel(self) -> None:
        if not self.lease.cancelled.is_set():
            self.lease.cancelled.set()
            if self.ended:
                self.app._news()
            elif self.is_async:
                self.app._post(lambda: self.task and self.task.cancel())

    def _thread(self) -> None:
        try:
            while not (self.done or self.lease.cancelled.wait(self.pause)):
                with self._turn():
                    self.function(self.lease)
        finally:
            self._over()

    def _launch(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._coroutine())
        self.task.add_done_callback(lambda _: self._over())  # after its cleanup, also when it was cancelled

    async def _coroutine(self) -> None:
        while not (self.done or self.lease.cancelled.is_set()):
            await asyncio.sleep(self.pause)
            with self._turn():
                await self.function(self.lease)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One turn of the function. After it a pause of up to a second, doubled up to a minute; one after long work."""
        began = _now()
        try:
            yield
        except Done:
            self.done = True
        except (Exception, SystemExit, asyncio.CancelledError) as err:  # what it waited for may have been cancelled
            if not (isinstance(err, asyncio.CancelledError) and self.lease.cancelled.is_set()):
                log.exception("%s failed", self.lease.key)
        ceiling = 1.0 if _now() - began > 60 else self.ceiling
        self.pause, self.ceiling = random.uniform(0, ceiling), min(60.0, 2 * ceiling)

    def _over(self) -> None:
        self.ended = True
        self.app._news()


def connect(address: Optional[str] = None, token: Optional[str] = None) -> Application:
    """The application of the replica at unix:PATH or HOST:PORT: $SHARDCTL_APP, with the token $SHARDCTL_APP_TOKEN."""
    if not (address := address or os.environ.get("SHARDCTL_APP", "")):
        raise Error(0, "no address: give unix:PATH or HOST:PORT, or set SHARDCTL_APP")
    return Application(address, (token or os.environ.get("SHARDCTL_APP_TOKEN", "")).strip())


class Application:
    """This process as its replica knows it. Its methods may be called from any thread."""

    def __init__(self, address: str, token: str = ""):
        self._address, self._token, self._id, self._lock = address, token, str(uuid.uuid4()), threading.RLock()
        self._functions: dict[str, Callable[[Lease], Any]] = {}
        self._load: dict[str, float] = {}
        self._status: dict[str, str] = {}
        self._session, self._seq, self._listed = "", 0, ""  # of the newest reply; listed: "" after a change of runs
        self._due: dict[str, int] = {}  # what is assigned and has not begun
        self._runs: dict[str, _Run] = {}
        self._valid_to, self._cancel_at, self._longest, self._timeout = 0.0, 0.0, 0.0, 10.0
        self._ready, self._changed, self._ended = True, False, threading.Event()  # changed: since the last call
        self._waiting: Optional[socket.socket] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._posted: collections.deque[Callable[[], Any]] = collections.deque()

    def group(self, name: str) -> Callable[[_F], _F]:
        """Have the decorated function, or coroutine, run for each key of the group. Declare it before run."""
        def declare(function: _F) -> _F:
            self._functions[name] = function
            return function
        return declare

    def run(self) -> None:
        """Run keys until SIGTERM or SIGINT, and return when all have been handed over. Call it in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.drain())
        self.start()
        self._ended.wait()

    async def run_async(self) -> None:
        """As run, with coroutines in the running event loop. A cancelled call drains, and then ends."""
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.drain)
        self.start()
        try:
            await asyncio.to_thread(self._ended.wait)
        finally:
            self.drain()
            await asyncio.to_thread(self._ended.wait)

    def start(self) -> None:
        """Run keys in threads of this process, until drain."""
        if not self._functions:
            raise Error(0, "no group: declare a function by app.group(NAME)")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="shardctl-asyncio", daemon=True).start()
        threading.Thread(target=self._watch, name="shardctl-watch", daemon=True).start()
        threading.Thread(target=self._sync, name="shardctl-sync", daemon=True).start()

    def drain(self) -> None:
        """Take no more keys, and end once the replica has taken those that run."""
        self._ready = False
        self._news()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until drain is through. It returns whether it is."""
        return self._ended.wait(timeout)

    def owned(self) -> list[str]:
        """The keys that run here, in order."""
        with self._lock:
            return sorted(key for key, run in self._runs.items() if not run.ended)

    def owner(self, key: str) -> Optional[Owner]:
        """Who owns GROUP/NAME; None: it has none now."""
        try:
            reply = json.loads(self._request("GET", "owner", key))
        except Error as err:
            if err.status == 404:
                return None
            raise
        return Owner(reply["instance"], reply["address"], reply["token"])

    def set_load(self, key: str, load: float) -> None:
        """Say how much work a key is, in any unit, for a group with weightFrom: reported."""
        if not 0 <= load <= 1e15:
            raise ValueError(f"load {load}: must be from 0 to 1e15")
        self._load[key] = float(load)  # of a Decimal, too: JSON has none

    def set_status(self, status: Mapping[str, object]) -> None:
        """Show people these names and values with the instance, instead of those before. 16 of 256 bytes are kept."""
        self._status = {str(name): str(value) for name, value in status.items()}

    def _post(self, what: Callable[[], Any]) -> None:
        """Have the event loop do it. It is woken up once for all that is posted: each time costs a switch."""
        self._posted.append(what)
        if len(self._posted) == 1 and self._loop is not None:
            self._loop.call_soon_threadsafe(self._do_posted)

    def _do_posted(self) -> None:
        while self._posted:
            self._posted.popleft()()

    def _sync(self) -> None:
        """Make calls, one after the other in one thread. What follows is the protocol."""
        failures = 0
        while not self._ended.is_set():
            body, sent = self._body(), _now()
            try:
                reply = self._call(body)
                failures = 0
                self._obey(reply, sent)
            except Exception as err:  # also of a thread that could not be started
                if self._changed:
                    continue  # the call was given up for news
                if not self._ready and all(run.ended for run in self._runs.values()):
                    self._ended.set()  # nothing runs, so nothing has to be handed over
                failures += 1
                if failures in (1, 10, 100):
                    log.warning("the replica at %s does not answer: %s", self._address, err)
                time.sleep(random.uniform(0, min(1.0, 0.05 * 2 ** min(failures, 10))))

    def _body(self) -> bytes:
        """The next call. While nothing changes it takes no longer with more keys."""
        with self._lock:
            if self._changed:
                self._changed = False
                self._runs = {k: r for k, r in self._runs.items() if not (r.ended and r.lease.cancelled.is_set())}
                self._listed = ""
            load = {k: v for k, v in self._load.copy().items() if k in self._runs}
            head = json.dumps({"app": self._id, "session": self._session, "seq": self._seq, "ready": self._ready,
                               "load": load, "status": self._status})[:-1]
            if self._listed:
                return f'{head}, "same": {json.dumps(self._listed)}, "wait": {_WAIT}}}'.encode()
            return f'{head}, "running": [{", ".join([run.listed for run in self._runs.values()])}]}}'.encode()

    def _call(self, body: bytes) -> dict[str, Any]:
        with contextlib.closing(connect_to(self._address, self._timeout)) as connection:
            with self._lock:
                self._waiting = connection.sock if self._listed else None
                if self._waiting and self._changed:
                    raise OSError("there is news to send")
            return dict(json.loads(self._exchange(connection, "POST", "/v1/sync", body)))

    def _news(self) -> None:
        """Have what changed here be said at once: a call that waits is given up, and its reply not acted on."""
        with self._lock, contextlib.suppress(OSError):  # it is closed
            self._changed = True
            if self._waiting:
                self._waiting.shutdown(socket.SHUT_RDWR)

    def _obey(self, reply: dict[str, Any], sent: float) -> None:
        """Act on the reply to the newest call."""
        with self._lock:
            self._check()
            if reply["session"] != self._session:
                for run in self._runs.values():
                    run.cancel()
                if not all(run.ended for run in self._runs.values()):
                    raise Error(0, "its session is new, and something of the one before still runs")
                self._runs, self._due, self._valid_to, self._longest, reply["listed"] = {}, {}, 0.0, 0.0, ""
            elif reply["seq"] < self._seq:
                raise Error(0, "it repeated an older reply")
            self._session, self._seq, self._listed = reply["session"], reply["seq"], reply["listed"]
            self._timeout = _WAIT + max(0.5, reply["validFor"] / 4)
            self._longest = max(self._longest, reply["validFor"])
            self._valid_to = max(self._valid_to, sent + reply["validFor"])
            self._cancel_at = self._valid_to - self._longest / 4
            if reply["assigned"] is not None:
                assigned = {a["key"]: a["token"] for a in reply["assigned"]}
                for key, run in self._runs.items():
                    if assigned.get(key) != run.lease.token:
                        run.cancel()
                self._due = {key: token for key, token in assigned.items() if key not in self._runs}
            while self._due and _now() < self._valid_to - self._longest / 2:  # else they would be cancelled soon
                key, token = self._due.popitem()
                if function := self._functions.get(key.partition("/")[0]):
                    self._listed = ""
                    self._runs[key] = _Run(self, Lease(self, key, token), function)
            if not (self._ready or self._runs or self._due):
                self._ended.set()

    def _check(self) -> float:
        """Cancel what the validity no longer covers, or exit; return after how many seconds to look again."""
        with self._lock:
            if (now := _now()) < self._cancel_at:
                return min(_LOOK, self._cancel_at - now)
            left = [run for run in self._runs.values() if not run.ended]
            if left and now >= self._valid_to:
                log.critical("%d functions outlived their lease: exiting", len(left))
                os._exit(75)
            for run in left:
                run.cancel()
            return min(_LOOK, self._valid_to - now) if left else _LOOK

    def _watch(self) -> None:
        while not self._ended.wait(self._check()):
            pass

    def _request(self, method: str, what: str, key: str, token: int = 0, body: Optional[bytes] = None) -> bytes:
        path = "/".join(quote(part, "") for part in ("v1", what, *key.split("/", 1)))
        try:
            with contextlib.closing(connect_to(self._address, 10)) as connection:
                return self._exchange(connection, method, "/" + path, body, token)
        except (OSError, http.client.HTTPException) as err:
            raise Error(0, f"{self._address}: {err}") from err

    def _exchange(self, to: Connection, method: str, path: str, body: Optional[bytes], token: int = 0) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Shardctl-Fencing-Token": str(token)}
        to.request(method, path, body, headers)
        response = to.getresponse()
        text = response.read()
        if response.status < 300:
            return text
        detail = json.loads(text).get("detail") if text.startswith(b"{") else response.reason
        raise (LeaseLost if response.status == 409 and token else Error)(response.status, detail)
