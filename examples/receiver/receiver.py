"""Takes the messages that subscriptions deliver by HTTP, and rejects old tokens:

    python3 examples/receiver/receiver.py --listen 127.0.0.1:8000

It needs nothing but Python 3.9 or later. main.go beside it does the same in Go.
"""

import argparse
import base64
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

MAX_BODY = 32 << 20  # bytes of a request
BATCH = "application/cloudevents-batch+json"


def work(event_id, data, token):
    """Works on one message. What it raises says why the message failed."""
    if not data:
        raise ValueError("there is nothing in it")
    print(event_id, token, base64.b64encode(data).decode(), flush=True)


def media_type(text):
    return (text or "").split(";")[0].strip().lower()


def data_of(event):
    """The body of an event of a batch, in bytes."""
    if "data_base64" in event:
        return base64.b64decode(event["data_base64"])
    if "data" not in event:
        return b""
    media = media_type(event.get("datacontenttype"))
    if media and not media.endswith("json"):
        return event["data"].encode()  # what is no JSON stands there as a string
    return json.dumps(event["data"], ensure_ascii=False, separators=(",", ":")).encode()


class Receiver(BaseHTTPRequestHandler):
    """Works on messages, one after another. It remembers the largest token of each key.

    A service that keeps what it does in a database keeps the token there, too, beside what it protects. It also
    remembers the ids of messages there, since one may come again.
    """

    protocol_version = "HTTP/1.1"  # connections are used again
    disable_nagle_algorithm = True
    timeout = 120  # seconds that a connection may be silent
    lock = threading.Lock()
    tokens = {}

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True  # the body is not read
            return self.answer(413, f"Content-Length must be there, and at most {MAX_BODY}")
        body = self.rfile.read(int(length))
        try:
            key, token = self.headers["Shardctl-Key"], int(self.headers["Shardctl-Fencing-Token"])
            if not key:
                raise ValueError("Shardctl-Key is missing")
            batch = media_type(self.headers.get("Content-Type")) == BATCH
            if batch:
                events = [(event["id"], data_of(event)) for event in json.loads(body)]
            else:
                events = [(unquote(self.headers["Ce-Id"]), body)]  # attributes in headers are percent-encoded
        except (KeyError, TypeError, ValueError) as error:
            return self.answer(400, f"this is no CloudEvent in binary or batched mode: {error!r}")
        with self.lock:  # no newer token may come between the comparison and the work
            newest = self.tokens.get(key, token)
            if token < newest:
                return self.answer(409, f"token {token} of {key} is old, {newest} has been seen")
            self.tokens[key] = token
            failed = {}
            for event_id, data in events:
                try:
                    work(event_id, data, token)
                except Exception as error:  # whatever it is, the message comes again
                    failed[event_id] = str(error)
        if not failed:
            self.answer(204)
        elif batch:
            self.answer(207, json.dumps({"failed": failed}), "application/json")
        else:
            self.answer(422, failed[events[0][0]])

    def answer(self, status, text="", content_type="text/plain; charset=utf-8"):
        body = text.encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Says nothing of requests: work says what counts."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # connections that wait to be accepted

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # who sends may leave
            super().handle_error(request, client_address)


def main():
    parser = argparse.ArgumentParser(description="Takes the messages that subscriptions deliver by HTTP.")
    parser.add_argument("--listen", default="127.0.0.1:8000", help="address to listen on")
    host, port = parser.parse_args().listen.rsplit(":", 1)
    server = Server((host, int(port)), Receiver)
    print("listening on %s:%d" % server.server_address[:2], flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
