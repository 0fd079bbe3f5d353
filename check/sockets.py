"""A WebSocket of the library websockets, and wscat; every frame that goes by is held against /frames.json."""

import contextlib
import json
import queue
import subprocess
import threading
import time

import jsonschema
import websockets.sync.client
from team import until

SUBPROTOCOL = "platform.v1"
FINAL = ("answer", "error")


class Frames:
    """The schema of the frames; how many were held against it, and how many it does not allow."""

    def __init__(self, schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        self.seen = self.refused = 0
        self.validators = {
            side: jsonschema.Draft202012Validator({"$defs": schema["$defs"], "$ref": f"#/$defs/{side}"})
            for side in ("ClientFrame", "ServerFrame")
        }

    def allows(self, side, frame):
        return self.validators[side].is_valid(frame)

    def check(self, side, frame):
        self.seen += 1
        wrong = jsonschema.exceptions.best_match(self.validators[side].iter_errors(frame))
        if wrong:
            self.refused += 1
            raise AssertionError(f"a {side} that /frames.json does not allow: {wrong.message} in {json.dumps(frame)}")


class Socket:
    """`with Socket(frames, server, token) as socket:`; without a token, the first frame has to bring one."""

    def __init__(self, frames, server, token=None):
        self.frames, self.aside = frames, []
        self.url = server.base_url.replace("http", "ws", 1) + "/v1/socket"
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __enter__(self):
        self.connection = websockets.sync.client.connect(
            self.url, subprotocols=[SUBPROTOCOL], additional_headers=self.headers, proxy=None, close_timeout=5
        )
        self.connection.__enter__()
        return self

    def __exit__(self, *_):
        self.connection.close()

    def send(self, type, **fields):
        frame = {"type": type, **fields}
        self.frames.check("ClientFrame", frame)
        self.raw(json.dumps(frame))

    def raw(self, message):
        self.connection.send(message)

    def read(self, seconds=10):
        frame = json.loads(self.connection.recv(timeout=seconds))
        self.frames.check("ServerFrame", frame)
        return frame

    def next(self, fits, seconds=10):
        """The next frame of a kind; what comes in between is kept for whoever asks for it."""
        for place, frame in enumerate(self.aside):
            if fits(frame):
                return self.aside.pop(place)
        deadline = time.monotonic() + seconds
        while not fits(frame := self.read(deadline - time.monotonic())):
            self.aside.append(frame)
        return frame

    def answer(self, id):
        """The frame that ends a call or answers a subscription."""
        return self.next(lambda frame: frame["type"] in FINAL and frame.get("id") == id)

    def ask(self, type, id, **fields):
        self.send(type, id=id, **fields)
        return self.answer(id)

    def result(self, type, id, **fields):
        frame = self.ask(type, id, **fields)
        if frame["type"] != "answer":
            raise AssertionError(f"{type} {fields} was answered with {frame}")
        return frame["result"]

    def problem(self, type, id, **fields):
        frame = self.ask(type, id, **fields)
        if frame["type"] != "error":
            raise AssertionError(f"{type} {fields} was not refused but answered with {frame}")
        return frame["problem"]

    def events(self, count):
        return [self.next(lambda frame: frame["type"] == "event") for _ in range(count)]

    def silent(self, seconds=0.5):
        """Whether nothing more comes, for as long as that."""
        with contextlib.suppress(TimeoutError):
            self.aside.append(self.read(seconds))
        return not self.aside

    def end(self, seconds=10):
        """The frames until the server closes, and the code with which it does."""
        frames = []
        try:
            while True:
                frames.append(self.read(seconds))
        except websockets.exceptions.ConnectionClosed as closed:
            return self.aside + frames, closed.rcvd.code if closed.rcvd else None


class Wscat:
    """wscat, which sends its frames as soon as it is connected, and shows what comes."""

    def __init__(self, frames, server, token, *sent):
        self.frames, self.env = frames, server.env
        self.words = ["wscat", "--connect", server.base_url.replace("http", "ws", 1) + "/v1/socket"]
        self.words += ["--header", f"Authorization: Bearer {token}", "--subprotocol", SUBPROTOCOL]
        # It goes on listening until its input ends.
        self.words += ["--show-ping-pong", "--wait", "-1"]
        for frame in sent:
            frames.check("ClientFrame", frame)
            self.words += ["--execute", json.dumps(frame)]

    def __enter__(self):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.words, env=self.env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.lines, self.pings = queue.Queue(), 0
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("Received ping"):
                self.pings += 1
            else:
                self.lines.put(line)

    def read(self, count):
        frames = [json.loads(self.lines.get(timeout=10)) for _ in range(count)]
        for frame in frames:
            self.frames.check("ServerFrame", frame)
        return frames

    def said(self):
        """What it complains of, when it ends by itself."""
        until(lambda: self.process.poll() is not None, "the end of wscat")
        return self.process.stderr.read()
