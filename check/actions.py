"""What the judge of connections asks of the schemas of actions: validators that others wrote, jsonschema and jsonschema_rs,
find each one right, and say of parameters what the server says, which the judge hears by calling every action of every
kind. A provider that takes everything stands in the place of all of them."""

import http.server
import json
import socket
import struct
import threading

import jsonschema
import jsonschema_rs

# What the tests of all connectors look for, side by side.
YES = {
    "login": "acme", "id": 1, "username": "acme", "ok": True, "team": "Acme", "team_id": "T1",
    "bot": {"workspace_name": "Acme", "workspace_id": "w1"}, "displayName": "Acme", "accountId": "a1",
    "data": {"organization": {"id": "o1", "name": "Acme"}}, "email": "acme@example.com", "slug": "acme", "name": "Acme",
}  # fmt: skip
# Where an account's own service stands, for the kind `endpoint`.
OWN_HOST = "own.example.com"
LISTS = ("/api/0/organizations/", "/v1/models")
# Values of every type. Each parameter is sent all of them.
VALUES = ["", "a", "/a", "ab" * 40, "é" * 300, 0, 1, -1, 1.0, 2.5, 10**6, True, None, [], ["a"], {}, {"a": "b"}]
# Nothing that an answer holds, since there it would be taken out.
KEY = "the-key-of-the-judge"
# The credential and the configuration of kinds that do not take a key alone.
SPECIAL = {
    "jira": {"credentials": {"email": "a@example.com", "token": KEY}, "config": {"site": "acme"}},
    "endpoint": {"secret": KEY},
}


class YesProvider:
    """`with YesProvider() as provider:` has it running inside."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.server.asked += 1
            is_list = self.path.partition("?")[0].endswith(LISTS)
            body = json.dumps([YES] if is_list else YES).encode()
            self.send_response(200)
            for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, *_):
            pass

    # Whatever the server may call there: those whose kinds the catalogue has are known when it runs.
    CONNECTORS = "github gitlab slack linear notion jira sentry anthropic openai stripe".split()

    def __enter__(self):
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.Handler)
        self.http.daemon_threads = True
        self.http.asked = 0
        self.port = self.http.server_port
        self.dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.dns.bind(("127.0.0.1", 0))
        for serve in (self.http.serve_forever, self.tell_addresses):
            threading.Thread(target=serve, daemon=True).start()
        return self

    def tell_addresses(self):
        """Every name has the address 127.0.0.1."""
        while True:
            try:
                query, peer = self.dns.recvfrom(4096)
            except OSError:
                return
            end = query.index(b"\0", 12) + 5
            is_v4 = query[end - 4 : end - 2] == b"\0\1"
            found = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton("127.0.0.1") if is_v4 else b""
            self.dns.sendto(query[:2] + struct.pack(">HHHHH", 0x8180, 1, is_v4, 0, 0) + query[12:end] + found, peer)

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()
        self.dns.close()

    @property
    def asked(self):
        """How many requests came."""
        return self.http.asked

    def settings(self):
        bases = ",".join(f"{name}=http://127.0.0.1:{self.port}/{name}" for name in self.CONNECTORS)
        return {
            "PORTICO_CONNECTIONS_BASE_URLS": bases,
            "PORTICO_CONNECTIONS_HOSTS": OWN_HOST,
            "PORTICO_EGRESS_ALLOW": "127.0.0.0/8",
            "PORTICO_EGRESS_NAME_SERVERS": "{}:{}".format(*self.dns.getsockname()),
        }


def wanted(provider, kind):
    """What makes a connection of that kind."""
    wanted = {"kind": kind, **SPECIAL.get(kind, {"credentials": {"api_key": KEY}})}
    return wanted | {"config": {"base_url": f"http://{OWN_HOST}:{provider.port}/own"}} if kind == "endpoint" else wanted


def fitting(kind, schema):
    """A value that a parameter takes. Paths below the account's own service begin with a slash, and others do not."""
    text = "/a" if kind == "endpoint" else "a"
    long = text * schema.get("minLength", 1)
    values = schema.get("default"), *schema.get("enum", ()), text, long, schema.get("minimum", 1), True, {}, [], [{"a": "b"}]
    return next(value for value in values if value is not None and jsonschema.Draft202012Validator(schema).is_valid(value))


def instances(kind, schema):
    """Parameters, right and wrong: nothing, what must be, all there is, one more, and each one with every value."""
    properties = schema.get("properties", {})
    required = {name: fitting(kind, properties[name]) for name in schema.get("required", ())}
    whole = {name: fitting(kind, each) for name, each in properties.items()}
    yield from ({}, required, whole, {**required, "no_such_parameter": 1})
    for name, each in properties.items():
        yield {other: value for other, value in required.items() if other != name}
        bounds = [each.get("minimum", 0) - 1, each.get("maximum", 10**9) + 1, "a" * (each.get("maxLength", 1000) + 1)]
        for value in (*VALUES, *bounds):
            yield {**required, name: value}


def leads_elsewhere(kind, value):
    """Is it a text that no schema refuses, and that makes another path where it is part of one?"""
    return isinstance(value, str) and (value == "" or value.startswith("/") != (kind == "endpoint"))


def refused_fields(account, path, params):
    """The parameters that the server refuses; none where it takes them all."""
    answer = account.answer("POST", path, {"params": params}, account.person)
    if answer.status_code >= 500 or answer.status_code == 429:
        raise AssertionError(f"{params}: {answer.status_code} {answer.text}")
    details = answer.json().get("details", [])
    fields = [detail["field"].split(".") for detail in details if detail["type"] == "field"]
    return {field[1].split("[")[0] for field in fields if field[0] == "params"}


def judge_schema(what, kind, schema, proved):
    """Is it a schema, closed, and of one mind in both validators? Answers one of them."""
    jsonschema.Draft202012Validator.check_schema(schema)
    python, rust = jsonschema.Draft202012Validator(schema), jsonschema_rs.Draft202012Validator(schema)
    is_closed = schema["type"] == "object" and schema["additionalProperties"] is False
    told = [params for params in instances(kind, schema) if python.is_valid(params) != rust.is_valid(params)]
    proved(f"{what}: a closed schema, on which validators agree", is_closed and not told, (schema, told))
    return python


def judge_action(account, provider, kind, path, action, proved):
    what, schema, before = f"{kind} {action['name']}", json.loads(action["schema"]), provider.asked
    validator = judge_schema(what, kind, schema, proved)
    fits, wrong, count = 0, [], 0
    for params in instances(kind, schema):
        count += 1
        # In all of the API, null is as if it were left out.
        is_right = validator.is_valid({name: value for name, value in params.items() if value is not None})
        fields = refused_fields(account, path, params)
        if is_right and fields and all(leads_elsewhere(kind, params.get(name)) for name in fields):
            continue
        fits += is_right
        if bool(fields) == is_right:
            wrong.append((params, fields))
    proved(f"{what}: of {count} calls, the server takes and refuses what they do", not wrong, wrong[:3])
    sent = provider.asked - before
    proved(f"{what}: and sends what it takes, {sent} calls", 0 < sent == fits, (sent, fits))


def judge(account, provider, proved):
    kinds = account.ask("GET", "/v1/connections/kinds?page_size=200")["kinds"]
    names = {kind["name"] for kind in kinds}
    proved("every connector is in the catalogue", names >= {*YesProvider.CONNECTORS, "endpoint"}, names)
    account.person = account.person_token()
    for kind in kinds:
        connection = account.to("POST", "", wanted(provider, kind["name"]))["connection"]["id"]
        for action in kind["actions"]:
            path = f"{account.path}/{connection}/actions/{action['name']}"
            judge_action(account, provider, kind["name"], path, action, proved)
