"""The receiving side of webhooks: an address that keeps what it is sent, and libraries that receivers verify with."""

import base64
import collections
import dataclasses
import hashlib
import hmac
import http.server
import json
import pathlib
import subprocess
import threading
import time

import standardwebhooks.webhooks
import svix.webhooks

OTHER_SECRET = "whsec_" + base64.b64encode(b"a secret that nobody was given").decode()


def key_of(secret):
    return base64.b64decode(secret.removeprefix("whsec_"), validate=True)


def signature(secret, id, timestamp, body):
    """Over the very text of the headers, so that a test can sign what no library would."""
    signed = f"{id}.{timestamp}.".encode() + body
    return base64.b64encode(hmac.new(key_of(secret), signed, hashlib.sha256).digest()).decode()


@dataclasses.dataclass
class Delivery:
    """One request, as it came."""

    method: str
    headers: list  # pairs, so that a header that came twice shows
    body: bytes
    at: float
    answered: int

    def header(self, name):
        values = [value for key, value in self.headers if key.lower() == name]
        if len(values) != 1:
            raise AssertionError(f"{len(values)} headers {name} in a delivery, not one: {self.headers}")
        return values[0]

    @property
    def raw(self):
        """What a receiver hands to its library."""
        return dict(self.headers), self.body

    @property
    def id(self):
        return self.header("webhook-id")

    @property
    def timestamp(self):
        return int(self.header("webhook-timestamp"))

    @property
    def signatures(self):
        return self.header("webhook-signature").split(" ")

    @property
    def event(self):
        return json.loads(self.body)


class Receiver:
    """Listens on the loopback address. Each path has a record of its own, and answers of its own."""

    def __enter__(self):
        self.changed = threading.Condition()
        self.kept = collections.defaultdict(list)
        self.first = collections.defaultdict(collections.deque)
        self.then = collections.defaultdict(lambda: 200)
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                status = receiver.keep(self.path, self.command, self.headers.items(), body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_PUT = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def url(self, path):
        return f"http://127.0.0.1:{self.server.server_port}{path}"

    def answer(self, path, *first, then=200):
        """The next requests get the statuses of `first`, the ones after them `then`."""
        with self.changed:
            self.first[path], self.then[path] = collections.deque(first), then

    def keep(self, path, method, headers, body):
        with self.changed:
            status = self.first[path].popleft() if self.first[path] else self.then[path]
            self.kept[path].append(Delivery(method, list(headers), body, time.time(), status))
            self.changed.notify_all()
            return status

    def seen(self, path):
        with self.changed:
            return list(self.kept[path])

    def wait(self, path, count, seconds=10):
        """The deliveries to the path, once there are `count` of them."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.kept[path]) >= count, seconds):
                raise AssertionError(f"{len(self.kept[path])} deliveries after {seconds} s, not {count}")
            return list(self.kept[path])


@dataclasses.dataclass
class Verdict:
    accepted: bool
    meant: bool  # by the library's own error, not by one that it stumbled over
    why: str


class Libraries:
    """Two in Python, two in Node. Each is given the raw bytes and every header, and the secret as the API wrote it."""

    python = {
        "standardwebhooks (PyPI)": standardwebhooks.webhooks,
        "svix (PyPI)": svix.webhooks,
    }

    def __enter__(self):
        script = pathlib.Path(__file__).with_name("webhooks.js")
        self.node = subprocess.Popen(
            ["node", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        return self

    def __exit__(self, *_):
        self.node.stdin.close()
        try:
            self.node.wait(10)
        except subprocess.TimeoutExpired:
            self.node.kill()
            self.node.wait()
        self.node.stdout.close()

    def verdicts(self, secret, headers, body):
        """By name, what each library thinks."""
        asked = {"secret": secret, "headers": headers, "body": base64.b64encode(body).decode()}
        self.node.stdin.write(json.dumps(asked) + "\n")
        found = {name: self._ask(library, secret, headers, body) for name, library in self.python.items()}
        line = self.node.stdout.readline()
        if not line:
            raise AssertionError("the libraries in Node ended early")
        return {**found, **{name: Verdict(**verdict) for name, verdict in json.loads(line).items()}}

    def _ask(self, library, secret, headers, body):
        try:
            library.Webhook(secret).verify(body, headers)
        except library.WebhookVerificationError as refused:
            return Verdict(False, True, str(refused))
        except Exception as stumbled:  # a receiver would not take the delivery either
            return Verdict(False, False, f"{type(stumbled).__name__}: {stumbled}")
        return Verdict(True, True, "accepted")
