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
pause, unless it raises ``Done``.

The replica gives a validity, which counts from the moment at which this process asked for it. At three quarters of it
all functions are cancelled. When it is over and one of them still runs, the process exits with status 75. Let what a
function writes to refuse a token that is smaller than one it has seen.
"""

from __future__ import annotations

import asyncio
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
from typing import Any, Callable, Optional
from urllib.parse import quote

__all__ = ["Application", "Done", "Error", "Lease", "LeaseLost", "Owner", "connect"]

log = logging.getLogger("shardctl")

EXIT_STUCK = 75  # a function outlived the validity
_WAIT = 1.0  # seconds that a call may wait for news
_TIMEOUT = 10.0  # of one call
_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def _now() -> float:
    """Seconds on a clock that goes on while the machine sleeps, where there is one."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


class Error(Exception):
    """The replica refused a request, or was not reached."""

    def __init__(self, status: int, detail: str):
        super().__init__(f"{status}: {detail}" if status else detail)
        self.status = status


class LeaseLost(Error):
    """The key is another's, or no longer this process's under that token."""


class Done(Exception):
    """Raised by a function whose work is done: it is not started again under this lease."""


class Owner:
    """Who owns a key, as far as the replica knows. The address is where requests for the key go."""

    def __init__(self, instance: str, address: str, token: int):
        self.instance, self.address, self.token = instance, address, token


class Lease:
    """The hold on one key. Its methods may be called from any thread."""

    def __init__(self, app: "Application", key: str, token: int):
        self._app, self.key, self.token = app, key, token
        self.group, _, self.name = key.partition("/")
        self.cancelled = threading.Event()  # set when the function has to return

    def valid(self) -> bool:
        """Whether the work may go on now. It was true a moment ago: send the token along as well."""
        return not self.cancelled.is_set() and _now() < self._app._valid_to

    def deadline(self) -> float:
        """Seconds until the work must have ended. It grows again while the replica renews its lease."""
        return max(0.0, self._app._valid_to - _now())

    def value(self) -> Optional[bytes]:
        """What was kept with the key last; None when nothing was. Raises LeaseLost."""
        return self._app._request("GET", self._path(), token=self.token) or None

    def set_value(self, value: bytes) -> None:
        """Keep a value of at most 64 KiB with the key, for whoever owns it next. Raises LeaseLost."""
        self._app._request("PUT", self._path(), value, token=self.token)

    def _path(self) -> str:
        return f"/v1/value/{quote(self.group)}/{quote(self.name)}"


class _Run:
    """One function that runs for a lease, again after a pause while it returns by itself."""

    def __init__(self, app: "Application", lease: Lease, function: Callable[[Lease], Any]):
        self.app, self.lease, self.function, self.task = app, lease, function, None
        self.ended = threading.Event()
        if inspect.iscoroutinefunction(function):
            self.task = asyncio.run_coroutine_threadsafe(self._again_async(), app._event_loop())
            self.task.add_done_callback(lambda _: self._over())
        else:
            threading.Thread(target=self._again, name=lease.key, daemon=True).start()

    def cancel(self) -> None:
        if not self.lease.cancelled.is_set():
            self.lease.cancelled.set()
            if self.task is not None:
                self.app._event_loop().call_soon_threadsafe(self.task.cancel)

    def _again(self) -> None:
        try:
            for pause in _pauses():
                try:
                    self.function(self.lease)
                except Done:
                    return
                except Exception:
                    log.exception("%s failed", self.lease.key)
                if self.lease.cancelled.wait(pause):
                    return
        finally:
            self._over()

    async def _again_async(self) -> None:
        for pause in _pauses():
            try:
                await self.function(self.lease)
            except Done:
                return
            except Exception:
                log.exception("%s failed", self.lease.key)
            await asyncio.sleep(pause)

    def _over(self) -> None:
        self.ended.set()
        self.app._news()


def _pauses():
    """Seconds between starts: any time up to one second, doubled up to a minute."""
    ceiling = 1.0
    while True:
        yield random.uniform(0, ceiling)
        ceiling = min(60.0, ceiling * 2)


class _Connection(http.client.HTTPConnection):
    """One connection to the replica, over a Unix socket or TCP."""

    def __init__(self, address: str):
        self._path = address.removeprefix("unix:") if address.startswith("unix:") else ""
        host = "localhost" if self._path else address.removeprefix("http://")
        super().__init__(host, timeout=_TIMEOUT)

    def connect(self) -> None:
        if not self._path:
            return super().connect()
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def connect(address: Optional[str] = None, token: Optional[str] = None) -> "Application":
    """The application of the replica at unix:PATH or HOST:PORT; default $SHARDCTL_APP, and its token $SHARDCTL_APP_TOKEN."""
    address = address or os.environ.get("SHARDCTL_APP", "")
    if not address:
        raise Error(0, "no address: give one, or set SHARDCTL_APP")
    return Application(address, token or os.environ.get("SHARDCTL_APP_TOKEN", ""))


class Application:
    """This process as its replica knows it. Its methods may be called from any thread."""

    def __init__(self, address: str, token: str = ""):
        self._address, self._token, self._id = address, token, str(uuid.uuid4())
        self._functions: dict[str, Callable[[Lease], Any]] = {}
        self._lock = threading.RLock()
        self._runs: dict[str, _Run] = {}
        self._load: dict[str, float] = {}
        self._session, self._seq, self._valid_to, self._cancel_at = "", 0, 0.0, 0.0
        self._assigned: dict[str, int] = {}
        self._listed, self._listing = "", None
        self._ready, self._ended = True, threading.Event()
        self._changed, self._calling = False, None
        self._moved = threading.Condition(self._lock)
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def group(self, name: str) -> Callable[[Callable[[Lease], Any]], Callable[[Lease], Any]]:
        """Have the decorated function, or coroutine, run for each key of the group."""

        def declare(function: Callable[[Lease], Any]) -> Callable[[Lease], Any]:
            self._functions[name] = function
            return function

        return declare

    def run(self) -> None:
        """Run keys until SIGTERM or SIGINT, and return when all have been handed over. Call it in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.drain())
        self.start()
        while not self._ended.wait(0.2):
            pass

    def start(self) -> None:
        """Run keys in threads of this process, until drain."""
        if not self._functions:
            raise Error(0, "no group: declare a function by app.group(NAME)")
        threading.Thread(target=self._watch, name="shardctl-watch", daemon=True).start()
        threading.Thread(target=self._sync, name="shardctl-sync", daemon=True).start()

    def drain(self) -> None:
        """Take no more keys, and end once the replica has taken those that run."""
        self._ready = False
        self._news()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until drain is through."""
        return self._ended.wait(timeout)

    def owned(self) -> list[str]:
        """The keys that run here, GROUP/NAME, in order."""
        with self._lock:
            return sorted(self._runs)

    def owner(self, key: str) -> Optional[Owner]:
        """Who owns GROUP/NAME; None: nobody now."""
        group, _, name = key.partition("/")
        try:
            reply = json.loads(self._request("GET", f"/v1/owner/{quote(group)}/{quote(name)}"))
        except Error as err:
            if err.status == 404:
                return None
            raise
        return Owner(reply["instance"], reply["address"], reply["token"])

    def set_load(self, key: str, load: float) -> None:
        """Say how much work a key is, in any unit, for a group with weightFrom: reported."""
        with self._lock:
            self._load[key] = load

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="shardctl-asyncio", daemon=True).start()
            return self._loop

    # What follows is the protocol. Calls are one after the other, in one thread.

    def _sync(self) -> None:
        failures = 0
        while True:
            body, sent = self._call_body(), _now()
            try:
                reply = self._call(body)
                failures = 0
            except (OSError, http.client.HTTPException, Error) as err:
                if self._interrupted():
                    continue
                failures += 1
                if failures in (1, 10, 100):
                    log.warning("the replica at %s does not answer: %s", self._address, err)
                time.sleep(random.uniform(0, min(1.0, 0.05 * 2**failures)))
                continue
            if self._obey(reply, sent):
                self._ended.set()
                return

    def _call_body(self) -> dict:
        with self._lock:
            self._changed = False
            self._runs = {k: r for k, r in self._runs.items() if not r.ended.is_set() or not r.lease.cancelled.is_set()}
            running = {k: r.lease.token for k, r in self._runs.items()}
            body = {
                "app": self._id, "session": self._session, "seq": self._seq, "wait": _WAIT,
                "ready": self._ready, "load": self._load,
            }
            if self._listed and running == self._listing:
                body["same"] = self._listed
            else:
                self._listing = running
                body["running"] = [{"key": k, "token": t} for k, t in running.items()]
            return body

    def _call(self, body: dict) -> dict:
        connection = _Connection(self._address)
        try:
            connection.connect()
            with self._lock:
                self._calling = connection.sock
                if self._changed:
                    raise OSError("there is news to send")
            connection.request("POST", "/v1/sync", json.dumps(body), self._headers())
            return json.loads(_read(connection.getresponse()))
        finally:
            with self._lock:
                self._calling = None
            connection.close()

    def _news(self) -> None:
        """Have what changed here be said at once: the call that waits is given up, and its reply not acted on."""
        with self._lock:
            self._changed = True
            if self._calling is not None:
                try:
                    self._calling.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _interrupted(self) -> bool:
        with self._lock:
            return self._changed

    def _obey(self, reply: dict, sent: float) -> bool:
        """Act on the reply to the newest call. It returns whether all is over."""
        with self._lock:
            self._check()
            if reply["session"] != self._session:
                self._stop_all()
                self._valid_to = self._cancel_at = 0.0
                self._session, self._assigned, self._listed = reply["session"], {}, ""
            self._seq, self._listed = reply["seq"], reply["listed"]
            if sent + reply["validFor"] > self._valid_to:
                self._valid_to = sent + reply["validFor"]
                self._cancel_at = sent + reply["validFor"] * 0.75
                self._moved.notify_all()
            if reply["assigned"] is not None:
                self._assigned = {a["key"]: a["token"] for a in reply["assigned"]}
            for key, run in self._runs.items():
                if self._assigned.get(key) != run.lease.token:
                    run.cancel()
            for key, token in self._assigned.items():
                function = self._functions.get(key.partition("/")[0])
                if key not in self._runs and function is not None and _now() < self._cancel_at:
                    self._runs[key] = _Run(self, Lease(self, key, token), function)
            return not self._ready and not self._runs and not self._assigned

    def _stop_all(self) -> None:
        """Cancel what runs and wait until it has ended; the process ends when that takes longer than it may."""
        for run in self._runs.values():
            run.cancel()
        for run in self._runs.values():
            while not run.ended.wait(0.01):
                self._check()
        self._runs = {}

    def _check(self) -> None:
        """Cancel and end what the validity no longer covers."""
        now = _now()
        left = [r for r in self._runs.values() if not r.ended.is_set()]
        if left and now >= self._valid_to:
            log.critical("%d functions outlived their lease: exiting", len(left))
            os._exit(EXIT_STUCK)
        if now >= self._cancel_at:
            for run in left:
                run.cancel()

    def _watch(self) -> None:
        """Look at the clock when something comes due, however long calls take."""
        while not self._ended.is_set():
            with self._lock:
                self._check()
                due = min((t for t in (self._cancel_at, self._valid_to) if t > _now()), default=_now() + 0.1)
                self._moved.wait(min(0.1, due - _now()))

    def _request(self, method: str, path: str, body: Optional[bytes] = None, token: int = 0) -> bytes:
        connection = _Connection(self._address)
        try:
            headers = self._headers()
            if token:
                headers["Shardctl-Fencing-Token"] = str(token)
            connection.request(method, path, body, headers)
            return _read(connection.getresponse())
        except (OSError, http.client.HTTPException) as err:
            raise Error(0, f"{self._address}: {err}") from err
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


def _read(response: http.client.HTTPResponse) -> bytes:
    body = response.read()
    if response.status < 300:
        return body
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = response.reason
    raise (LeaseLost if response.status == 409 else Error)(response.status, detail)
