#!/usr/bin/env python3
"""A person with a browser that knows forms and cookies, and no JavaScript: signs in, and answers the consent page.

For judges in Python a module; others run  check/person.py [--deny] ADDRESS  for each authorization request, and read
the address that the app would be called back at, or  check/person.py --disconnect CLIENT  to end what an app may do.
Who they are is in PERSON_EMAIL and PERSON_PASSWORD.
Cookies are kept by hand: the jars of Python and Node do not send `Secure` ones to http://127.0.0.1, as browsers do.
"""

import dataclasses
import html.parser
import http.client
import http.cookies
import os
import sys
import urllib.parse


class Refused(Exception):
    """The pages did not lead where they should."""


@dataclasses.dataclass
class Form:
    path: str
    action: str
    method: str
    fields: list = dataclasses.field(default_factory=list)  # of (name, value), as they would be sent untouched
    buttons: list = dataclasses.field(default_factory=list)  # of (name, value)

    def names(self):
        return {name for name, _ in self.fields}


class Page(html.parser.HTMLParser):
    """One page: its forms, the links that have an id, and the text of elements that have one or say role="alert"."""

    VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

    def __init__(self, url, status, headers, body):
        super().__init__(convert_charrefs=True)
        self.url, self.status, self.headers, self.body = url, status, headers, body
        self.forms, self.links, self.texts, self.alert = [], {}, {}, ""
        self._named, self._inside, self._select, self._open = {}, None, None, []
        self.feed(body)
        self.close()

    def form(self, path, **hidden):
        """The form that is sent to this path of the server, with these values in it."""
        for form in self.forms:
            if form.path == path and set(hidden.items()) <= set(form.fields):
                return form
        raise Refused(f"no form for {path} {hidden or ''} at {self.summary()}")

    def has_form(self, path, **hidden):
        return any(form.path == path and set(hidden.items()) <= set(form.fields) for form in self.forms)

    def summary(self):
        said = f", which says {self.alert.strip()!r}" if self.alert.strip() else ""
        return f"{self.url} ({self.status}, forms for {[form.path for form in self.forms]}){said}"

    def _owner(self, attributes):
        return self._named.get(attributes["form"]) if "form" in attributes else self._inside

    def handle_starttag(self, tag, attributes):
        attributes = {name: value or "" for name, value in attributes}
        if tag not in self.VOID:
            self._open.append((tag, attributes.get("id"), attributes.get("role") == "alert"))
        if tag == "a" and attributes.get("id"):
            self.links[attributes["id"]] = urllib.parse.urljoin(self.url, attributes.get("href", ""))
        if tag == "form":
            action = urllib.parse.urljoin(self.url, attributes.get("action", ""))
            self._inside = Form(urllib.parse.urlsplit(action).path, action, attributes.get("method", "get").lower())
            self.forms.append(self._inside)
            self._named[attributes.get("id")] = self._inside
            return
        owner = self._owner(attributes)
        if owner is None or "disabled" in attributes:
            return
        name, value, kind = attributes.get("name"), attributes.get("value", ""), attributes.get("type", "").lower()
        if tag == "input" and kind in ("checkbox", "radio"):
            if name and "checked" in attributes:
                owner.fields.append((name, attributes.get("value", "on")))
        elif tag == "input" and kind not in ("submit", "button", "image", "reset"):
            if name:
                owner.fields.append((name, value))
        elif (tag == "button" and kind in ("", "submit")) or (tag == "input" and kind == "submit"):
            owner.buttons.append((name, value))
        elif tag == "textarea" and name:
            owner.fields.append((name, ""))
        elif tag == "select" and name:
            self._select = [owner, name, None]
        elif tag == "option" and self._select and (self._select[2] is None or "selected" in attributes):
            self._select[2] = value

    def handle_endtag(self, tag):
        if tag == "form":
            self._inside = None
        if tag == "li":
            self.handle_data("\n")
        if tag == "select" and self._select:
            owner, name, value = self._select
            if value is not None:
                owner.fields.append((name, value))
            self._select = None
        while any(opened[0] == tag for opened in self._open):
            if self._open.pop()[0] == tag:
                break

    def handle_data(self, data):
        for _, identity, alert in self._open:
            if identity:
                self.texts[identity] = self.texts.get(identity, "") + data
            if alert:
                self.alert += data


class Person:
    def __init__(self, auth_url, email, password, code=None):
        """`code` is asked for the second factor, if the sign-in wants one."""
        self.origin, self.email, self.password, self.code = auth_url, email, password, code
        self.cookies = {}

    def authorize(self, url, decision="allow"):
        """Answers every page that stands between an authorization request and the app; the address of the app."""
        at = self.open(url)
        for _ in range(6):
            if isinstance(at, str):
                return at
            if "to-app" in at.links:
                return at.links["to-app"]
            if at.status != 200:
                break
            if at.has_form("/signin/code"):
                at = self.submit(at, "/signin/code", code=self.code())
            elif at.has_form("/signin"):
                at = self.submit(at, "/signin", email=self.email, password=self.password)
            elif at.has_form("/consent"):
                at = self.submit(at, "/consent", button=("decision", decision))
            else:
                break
        raise Refused(f"stopped at {at if isinstance(at, str) else at.summary()}")

    def disconnect(self, client_id):
        """Ends, in their settings, what they let an app do."""
        page = self.open(self.origin + "/settings")
        if page.has_form("/signin"):
            page = self.submit(page, "/signin", email=self.email, password=self.password)
        self.submit(page, "/settings/apps/end", hidden={"client": client_id})

    def open(self, url):
        """The page at an address of the server, or the address outside it to which the server sends the person."""
        return self._send("GET", url, None)

    def submit(self, page, path, button=None, hidden=None, **values):
        form = page.form(path, **(hidden or {}))
        if form.method != "post" or "csrf" not in form.names():
            raise Refused(f"the form for {path} is not a POST with `csrf`: {form}")
        if unknown := set(values) - form.names():
            raise Refused(f"the form for {path} has no field {unknown}: {form}")
        if button and button not in form.buttons:
            raise Refused(f"the form for {path} has no button {button}: {form.buttons}")
        fields = [(name, values.get(name, value)) for name, value in form.fields]
        if button:
            fields.append(button)
        body = urllib.parse.urlencode(fields)
        return self._send("POST", form.action, body)

    def _send(self, method, url, body):
        for _ in range(8):
            if not url.startswith(self.origin + "/"):
                return url
            status, headers, text = self._exchange(method, url, body)
            if status not in (302, 303):
                return Page(url, status, headers, text)
            method, body, url = "GET", None, urllib.parse.urljoin(url, headers["Location"])
        raise Refused(f"a ring of redirects at {url}")

    def _exchange(self, method, url, body):
        parts = urllib.parse.urlsplit(url)
        headers = {
            "Accept": "text/html",
            "Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
        }
        if body is not None:
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.origin}
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
        try:
            connection.request(method, urllib.parse.urlunsplit(("", "", parts.path, parts.query, "")), body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        for line in answer.headers.get_all("Set-Cookie", []):
            self._keep(line)
        return answer.status, answer.headers, text

    def _keep(self, line):
        for name, cookie in http.cookies.SimpleCookie(line).items():
            # Browsers drop a cookie with this prefix unless all of that holds.
            if name.startswith("__Host-") and not (cookie["secure"] and cookie["path"] == "/" and not cookie["domain"]):
                raise Refused(f"a browser refuses this cookie: {line.split('=')[0]}")
            if not cookie["httponly"] or cookie["samesite"].lower() != "lax":
                raise Refused(f"a cookie that is not HttpOnly and SameSite=Lax: {line.split('=')[0]}")
            if cookie.value and cookie["max-age"] != "0":
                self.cookies[name] = cookie.value
            else:
                self.cookies.pop(name, None)


def main(words):
    person = Person(os.environ["PORTICO_AUTH_URL"], os.environ["PERSON_EMAIL"], os.environ["PERSON_PASSWORD"])
    if "--disconnect" in words:
        person.disconnect(words[-1])
    else:
        print(person.authorize(words[-1], "deny" if "--deny" in words else "allow"))


if __name__ == "__main__":
    main(sys.argv[1:])
