"""The provider of the judge of connections, code_host.mjs, and somebody with a browser who signs in there."""

import json
import os
import pathlib
import shutil
import subprocess
import urllib.parse

import requests
from person import Page

HERE = pathlib.Path(__file__).resolve().parent


class CodeHost:
    """`with CodeHost(clients, redirect_uri) as host:` has it running inside, at `host.origin`. `clients` are `id:secret`."""

    def __init__(self, clients, redirect_uri):
        self.env = {**os.environ, "CLIENTS": ",".join(clients), "REDIRECT_URI": redirect_uri}
        self.http = requests.Session()
        self.http.trust_env = False  # no proxy stands between us and it

    def __enter__(self):
        command = [shutil.which("node"), HERE / "code_host.mjs"]
        self.process = subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.origin = self.process.stdout.readline().strip()
        if not self.origin:
            raise SystemExit("the provider did not start")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def _steer(self, what, **query):
        return self.http.get(f"{self.origin}/judge/{what}", params=query, timeout=20).json()

    def give_tokens_a_life_of(self, seconds):
        self._steer("life", seconds=seconds)

    def forget(self):
        """From here on, `log` begins anew."""
        self._steer("forget")

    def log(self):
        return self._steer("log")

    def refreshes(self):
        return [entry for entry in self.log() if "refresh_token" in (entry["what"], entry.get("of"))]

    def calls(self):
        """The statuses with which it answered calls of its API."""
        return [entry["status"] for entry in self.log() if entry["what"] == "call"]

    def live(self):
        """How many access tokens and refresh tokens open something."""
        found = self._steer("live")
        return found["access"], found["refresh"]

    def end_access_tokens(self):
        self._steer("end")

    def disconnect(self):
        """The people take back what they allowed."""
        self._steer("disconnect")


class Visitor:
    """Somebody who signs in at the provider, with a browser that has no JavaScript; each begins without cookies."""

    def __init__(self, host, login):
        self.host, self.login = host, login
        self.http = requests.Session()
        self.http.trust_env = False

    def allow(self, url):
        """Signs in and allows what is asked for; what the provider sends back with them."""
        at = self._send("GET", url)
        while isinstance(at, Page):
            [form] = [form for form in at.forms if form.method == "post"]
            fields = dict(form.fields)
            if "login" in fields:
                fields |= {"login": self.login, "password": "any"}
            at = self._send("POST", form.action, fields)
        return at

    def deny(self, url):
        page = self._send("GET", url)
        if not isinstance(page, Page):
            raise AssertionError(f"the provider asks nothing: {page}")
        return self._send("GET", page.url + "/abort")

    def _send(self, method, url, form=None):
        """The page there, or the query of the address outside it to which the provider sends the browser."""
        for _ in range(8):
            if not url.startswith(self.host.origin + "/"):
                return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query)) | {"": url.partition("?")[0]}
            answer = self.http.request(method, url, data=form, allow_redirects=False, timeout=20)
            if answer.status_code not in (302, 303):
                if answer.status_code != 200:
                    raise AssertionError(f"the provider refuses: {answer.status_code} {json.dumps(answer.text)[:2000]}")
                return Page(url, answer.status_code, answer.headers, answer.text)
            method, form, url = "GET", None, urllib.parse.urljoin(url, answer.headers["Location"])
        raise AssertionError(f"a ring of redirects at {url}")
