"""Server-sent events as curl shows them: the bytes themselves, by which a client library would not be shaken."""

import contextlib
import json
import subprocess
import threading

from team import until


def parsed(block):
    """The fields of a block, in their order; a comment is a field without a name."""
    pairs = [line.partition(":") for line in block.split("\n")]
    return [(name, value.removeprefix(" ")) for name, _, value in pairs]


class Curl:
    """`curl --no-buffer` on a stream, until the end of the `with`."""

    def __init__(self, server, token=None, last_id=None, **query):
        self.words = ["curl", "--no-buffer", "--silent", "--show-error", "--include", "--max-time", "60", "--get"]
        for name, value in {"Authorization": token and f"Bearer {token}", "Last-Event-ID": last_id}.items():
            self.words += ["--header", f"{name}: {value}"] if value else []
        for name, values in query.items():
            for value in [values] if isinstance(values, str) else values:
                self.words += ["--data-urlencode", f"{name}={value}"]
        self.words.append(server.base_url + "/v1/events/stream")
        self.env, self.text, self.ended = server.env, "", False

    def __enter__(self):
        self.process = subprocess.Popen(self.words, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_):
        # The connection is cut, as by a network that fails: curl has no way of saying good-bye either.
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def _read(self):
        with contextlib.suppress(ValueError):  # closed at the end
            while chunk := self.process.stdout.read1():
                self.text += chunk.decode()
        self.ended = True

    @property
    def head(self):
        """Status and headers, once they are there."""
        until(lambda: "\r\n\r\n" in self.text or self.ended, "an answer to curl")
        first, *lines = self.text.partition("\r\n\r\n")[0].split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return int(first.split()[1]), {name.lower(): value for name, value in headers.items()}

    @property
    def problem(self):
        """What a stream that was refused answers."""
        until(lambda: self.ended, "the end of what is refused")
        return json.loads(self.text.partition("\r\n\r\n")[2])

    @property
    def blocks(self):
        # What comes after the last blank line is not whole yet.
        whole = self.text.partition("\r\n\r\n")[2].split("\n\n")[:-1]
        return [parsed(block) for block in whole]

    def first(self):
        """The block that opens the stream; from there on, nothing is missed."""
        return until(lambda: self.blocks, "the first block")[0]

    def events(self, count):
        """All events so far, once there are that many, as (cursor, type, envelope)."""

        def found():
            return [dict(block) for block in self.blocks if "data" in dict(block)]

        until(lambda: len(found()) >= count, f"{count} events over curl")
        return [(each.get("id"), each.get("event"), json.loads(each["data"])) for each in found()]
