#!/usr/bin/env python3
"""A server of its own for each judge, in a temporary folder, and `portico admin` beside it.

For judges in Python a module; the others are started through it:  check/server.py [--host NAME] COMMAND...
COMMAND finds the server in the PORTICO_* variables that the server itself was started with, its program in
PORTICO_BIN, and the link for the first sign-up in PORTICO_SETUP_URL.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

# What a caller may say to a judge; everything else that begins with PORTICO_ is for a server of the caller's own.
FOR_JUDGES = ("PORTICO_BIN", "PORTICO_SCREENS")
LOCAL = "127.0.0.1,localhost"


def free_ports(count):
    # All are held at once, so that no two are the same.
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def environment(folder, host):
    listeners = ("API", "AUTH", "CONSOLE", "MQTT", "METRICS")
    at = dict(zip(listeners, free_ports(len(listeners))))
    ours = {f"PORTICO_LISTEN_{name}": f"127.0.0.1:{port}" for name, port in at.items()}
    ours["PORTICO_BASE_URL"] = f"http://{host}:{at['API']}"
    ours["PORTICO_AUTH_URL"] = f"http://{host}:{at['AUTH']}"
    ours["PORTICO_CONSOLE_URL"] = f"http://{host}:{at['CONSOLE']}"
    ours["PORTICO_DATA_DIR"] = str(folder / "data")
    # Judges ask more often than any caller may.
    config = folder / "portico.toml"
    config.write_text("[plans.free]\nmonthly_units = 1000000000\ncalls_per_minute = 100000000\n")
    ours["PORTICO_CONFIG"] = str(config)
    # Nothing of a developer's own server may leak into this one, nor a proxy stand between us and it.
    others = {key: value for key, value in os.environ.items() if not key.startswith("PORTICO_")}
    return {**others, **ours, "NO_PROXY": LOCAL, "no_proxy": LOCAL}


def get(url, token=None):
    return fetch(urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {}))


def post(url, token, body):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return fetch(urllib.request.Request(url, json.dumps(body).encode(), headers))


def fetch(request):
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=10) as answer:
        return answer.read()


class Server:
    """`with Server() as server:` has it running inside; afterwards `server.failed()` tells whether all went well."""

    def __init__(self, binary=None, host="127.0.0.1", settings=None, config=""):
        """`host` is how the server is addressed, which listens on 127.0.0.1 anyway; `settings` are more variables, `config`
        is more of the configuration file."""
        self.binary, self.host, self.settings = binary or os.environ["PORTICO_BIN"], host, settings or {}
        self.config = config

    def __enter__(self):
        # Without this, a SIGTERM would skip the clean-up and leave the server running.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="portico-check-"))
        self.env = {**environment(self.folder, self.host), **self.settings}
        with (self.folder / "portico.toml").open("a") as file:
            file.write(self.config)
        self.base_url, self.auth_url = self.env["PORTICO_BASE_URL"], self.env["PORTICO_AUTH_URL"]
        self.died = False
        with (self.folder / "server.log").open("wb") as out:
            self.process = subprocess.Popen(
                [self.binary, "serve"], env=self.env, cwd=self.folder, stdout=out, stderr=out
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.died = self.process.poll() is not None
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log = self._log()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _log(self):
        return (self.folder / "server.log").read_text(errors="replace")

    def _wait_until_ready(self):
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError):
                get(self.base_url + "/readyz")
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the server is not ready:\n{self._log()[-4000:]}")
            time.sleep(0.05)

    def failed(self):
        """After the end: did the server die, panic or not stop in order? Says so, too."""
        if not self.died and self.process.returncode == 0 and "panicked at" not in self.log:
            return False
        print(f"the server died, panicked or did not stop in order ({self.process.returncode}):\n{self.log[-4000:]}")
        return True

    def admin(self, *words, stdin=None):
        command = [self.binary, "admin", *words, "--json"]
        done = subprocess.run(
            command,
            env=self.env,
            cwd=self.folder,
            input=stdin,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        )
        return json.loads(done.stdout)

    def setup_url(self):
        """The link for the first sign-up, which the server prints when its database is empty; it follows `ready`."""
        deadline = time.monotonic() + 10
        while not (line := re.search(r"^setup (\S+)$", self._log(), re.MULTILINE)):
            if time.monotonic() > deadline:
                return ""
            time.sleep(0.05)
        return line[1]


class Verdicts:
    """A line for each thing proved; one that fails ends its scenario, not the others."""

    def __init__(self):
        self.failed = False
        self.last = "nothing yet"

    def proved(self, what, holds, seen=""):
        if not holds:
            raise AssertionError(f"{what}{f' (saw {seen})' if seen != '' else ''}")
        print(f"ok      {what}", flush=True)
        self.last = what

    @contextlib.contextmanager
    def scenario(self, name):
        self.last = "nothing yet"
        try:
            yield
        except Exception as problem:  # whatever a client library raises about the server is its verdict
            print(f"FAILED  {name}: {type(problem).__name__}: {problem} (last proved: {self.last})", flush=True)
            self.failed = True


def main(words):
    host = "127.0.0.1"
    if words[0] == "--host":
        _, host, *words = words
    with Server(host=host) as server:
        given = {name: os.environ[name] for name in FOR_JUDGES if name in os.environ}
        env = {**server.env, **given, "PORTICO_SETUP_URL": server.setup_url()}
        process = subprocess.Popen(words, env=env)
        try:
            code = process.wait()
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
    return 1 if server.failed() else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
