#!/usr/bin/env python3
"""What check/judges/autobahn asks: the cases of Autobahn's fuzzing client that need no echo, on two sides of the door.

Before a token has come, the socket only waits; behind it, the loop is another one. The suite brings no token and knows
of no `ready`, so a relay adds the one and takes the other away; every other byte goes through as it is.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.parse

from server import Server, Verdicts

CASES = ["2.*", "3.*", "4.*", "5.*", "6.*", "7.*"]
# These want their message back, which our socket answers with an error, since it is no frame of ours.
ECHOES = """
    3.2 3.3 3.4 4.1.3 4.1.4 4.1.5 4.2.3 4.2.4 4.2.5 5.3 5.4 5.5 5.6 5.7 5.8 5.15 5.19 5.20 6.1.* 6.2.* 6.5.*
    6.6.2 6.6.5 6.6.7 6.6.9 6.6.11 6.7.* 6.9.* 6.11.1 6.11.2 6.11.3 6.11.4 6.22.* 6.23.* 7.1.1 7.1.6
""".split()
COUNT = 140
PASSED = {"OK", "NON-STRICT", "INFORMATIONAL"}  # as the suite itself counts
LIMIT_SECONDS = 300

verdicts = Verdicts()
proved = verdicts.proved


class Relay:
    """Signs in whoever connects to it."""

    def __init__(self, address, token):
        self.target, self.header = address, f"\r\nAuthorization: Bearer {token}\r\n".encode()

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.listener.getsockname()[1]}/v1/socket"

    def _accept(self):
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        with near, socket.create_connection(self.target) as far, near.makefile("rb") as asked, far.makefile(
            "rb"
        ) as told:
            far.sendall(head(asked).replace(b"\r\n", self.header, 1))
            near.sendall(head(told))
            there = threading.Thread(target=pass_on, args=(asked, far), daemon=True)
            there.start()
            skip_frame(told)
            pass_on(told, near)
            there.join()


def head(stream):
    lines = iter(stream.readline, b"\r\n")
    return b"".join(lines) + b"\r\n"


def skip_frame(stream):
    """Reads the frame that says `ready`; the server does not mask, and the frame is a small one."""
    first, length = stream.read(2)
    if first != 0x81 or length > 126:
        raise AssertionError(f"the first frame is {first:#x} with {length}, not a small text")
    stream.read(int.from_bytes(stream.read(2), "big") if length == 126 else length)


def pass_on(source, target):
    # The suite looks at who ends the connection, so an end is passed on, too.
    with contextlib.suppress(OSError):
        while chunk := source.read1():
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def judge(server, name, url):
    with verdicts.scenario(name):
        folder = server.folder / "autobahn"
        spec = {"outdir": str(folder), "servers": [{"agent": "portico", "url": url}], "cases": CASES}
        (server.folder / "spec.json").write_text(json.dumps({**spec, "exclude-cases": ECHOES}))
        words = [os.environ["AUTOBAHN_PYTHON"], "-m", "autobahntestsuite.wstest", "--mode", "fuzzingclient"]
        words += ["--spec", str(server.folder / "spec.json")]
        done = subprocess.run(
            words, cwd=server.folder, capture_output=True, text=True, errors="replace", timeout=LIMIT_SECONDS
        )
        proved(f"{name}: the suite ran", done.returncode == 0, done.stdout + done.stderr)
        results = json.loads((folder / "index.json").read_text())["portico"]
        proved(f"{name}: it ran {COUNT} cases", len(results) == COUNT, len(results))
        failed = []
        for case, result in sorted(results.items()):
            if not {result["behavior"], result["behaviorClose"]} <= PASSED:
                report = json.loads((folder / result["reportfile"]).read_text())
                failed.append(f"{case}: {report['result']} {report['resultClose']} Received: {report['received']}")
        proved(f"{name}: all of them pass", not failed, "\n".join(failed))


def main():
    with Server() as server:
        account = server.admin("account", "create", "--name", "Autobahn")["account_id"]
        token = server.admin("token", "create", "--account", account, "--scopes", "events:read")["token"]
        address = urllib.parse.urlsplit(server.base_url)
        judge(server, "Autobahn, before a token", f"ws://{address.netloc}/v1/socket")
        with Relay((address.hostname, address.port), token) as relay:
            judge(server, "Autobahn, with a token", relay.url)
    return 1 if server.failed() or verdicts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
