"""All that one stranger and one greedy free account can do to a server, at once. Loopback alone, and it ends by itself.

Everything is built on `flood`, which says the same over and over and reads whatever comes back, and on `hold`, which
keeps connections open and says little or nothing. Neither minds what it is answered.
"""

import asyncio
import base64
import contextlib
import dataclasses
import itertools
import json
import random
import resource
import socket
import time
import urllib.parse

STRANGER = [f"127.0.0.{last}" for last in range(66, 70)]
TENANT = [f"127.0.0.{last}" for last in range(80, 84)]
SILENT = 1_050  # sockets, at each of three listeners
MIB = 1 << 20
TINY_VALUES = b'{"name":[' + b'{"":0},' * 290_000 + b"0]}"


@dataclasses.dataclass
class Target:
    """A server, and what its attackers hold: nothing, or what a free account may have."""

    api: tuple
    auth: tuple
    mqtt: tuple
    origin: str  # of the identity provider
    signin: tuple = ()  # cookies and fields of the sign-in form, for the honest person's address
    tokens: list = ()  # API tokens of the greedy account
    endpoint: str = ""  # one of its fifty
    settings: tuple = ()  # cookies and fields of the form for its person's name
    authorize: str = ""  # what its person's app asks for
    receiver: tuple = ()  # where its endpoints lead
    attempts: object = None  # how many webhooks came there


def http(method, path, body=b"", token=None, kind="application/json", **headers):
    given = {"Host": "abuse", "Authorization": f"Bearer {token}" if token else None, **headers}
    given |= {"Content-Type": kind, "Content-Length": len(body)} if body or method == "POST" else {}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value is not None]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + body


def form(target, path, cookies, fields):
    body = urllib.parse.urlencode(fields).encode()
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    return http("POST", path, body, kind="application/x-www-form-urlencoded", Cookie=cookie, Origin=target.origin)


def socket_opening(token):
    key = base64.b64encode(random.randbytes(16)).decode()
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": 13, "Sec_WebSocket_Key": key}
    return http("GET", "/v1/socket", token=token, Sec_WebSocket_Protocol="platform.v1", **upgrade)


def frame(content):
    text = json.dumps(content).encode()
    return bytes([0x81, 0x80 | len(text)]) + bytes(4) + text  # masked with zeros


def mqtt_text(text):
    return len(text).to_bytes(2, "big") + text.encode()


def mqtt_packet(kind, body):
    length, size = b"", len(body)
    while not length or size:
        length += bytes([size % 128 | (0x80 if size >= 128 else 0)])
        size //= 128
    return bytes([kind]) + length + body


def mqtt_connect(token):
    """Under a name of its own, with a session that is to last."""
    name = f"greedy-{random.random()}"
    return mqtt_packet(
        0x10, mqtt_text("MQTT") + b"\x04\xc0\0\x3c" + mqtt_text(name) + mqtt_text("greedy") + mqtt_text(token)
    )


MQTT_SUBSCRIBE = mqtt_packet(0x82, b"\0\x01" + (mqtt_text("events/#") + b"\x01") * 50)


async def discard(reader):
    while await reader.read(MIB):
        pass


async def flood(until, address, sources, sent, opening=lambda: b"", pause=0.0):
    """Says the next of `sent` over and over on one connection, and opens another when that is ended."""
    sent = itertools.cycle(sent)
    while time.monotonic() < until:
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            source = (random.choice(sources), 0)
            reader, writer = await asyncio.wait_for(asyncio.open_connection(*address, local_addr=source), 5)
            reading = asyncio.ensure_future(discard(reader))
            try:
                writer.write(opening())
                while time.monotonic() < until and not reading.done():
                    writer.write(next(sent))
                    await asyncio.wait_for(writer.drain(), 10)
                    await asyncio.sleep(pause)
            finally:
                reading.cancel()
                writer.transport.abort()
        await asyncio.sleep(0.01)


def ended(connection):
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


async def hold(until, address, sources, count, opening=b"", drip=b""):
    """Keeps `count` connections open that begin well, read nothing, and say `drip` once a second."""
    held = []
    while time.monotonic() < until:
        for connection in [each for each in held if ended(each)]:
            held.remove(connection)
            connection.close()
        for _ in range(min(count - len(held), 100)):
            with contextlib.suppress(OSError):
                connection = socket.socket()
                connection.settimeout(0.1)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.bind((random.choice(sources), 0))
                connection.connect(address)
                connection.setblocking(False)
                held.append(connection)
                connection.send(opening)
        await asyncio.sleep(1 if len(held) == count else 0.1)
        for connection in held if drip else []:
            with contextlib.suppress(OSError):
                connection.send(drip)
    for connection in held:
        connection.close()


def silent_and_slow(until, target, sources, token=None):
    """Sockets that hold a place: without a word, with half a head, with half a body, with an answer that waits."""
    begun = http("POST", "/v1/webhooks/endpoints", b" " * MIB, token)[: -MIB + 1]
    for address in (target.api, target.auth, target.mqtt):
        yield hold(until, address, sources, SILENT)
    yield hold(until, target.api, sources, 200, b"GET /healthz HTTP/1.1\r\n", b"a: b\r\n")
    yield hold(until, target.api, sources, 200, begun, b" ")
    yield hold(until, target.api, sources, 200, http("GET", "/openapi.json") * 8)


def stranger(until, target):
    """Whoever has nothing but the address."""
    cookies, fields = target.signin
    wrong = [form(target, "/signin", cookies, {**fields, "password": f"wrong-wrong-{number}"}) for number in range(99)]
    keys = [http("POST", "/oauth2/token", b"grant_type=client_credentials", kind="application/x-www-form-urlencoded")]
    app = b'{"redirect_uris":["http://127.0.0.1:9/callback"],"token_endpoint_auth_method":"none"}'
    claims = target.tokens[0].rsplit(".", 1)[0]
    forged = [http("GET", "/v1/me", token=f"{claims}.{'A' * 80}{number:06}") * 50 for number in range(99)]
    yield from silent_and_slow(until, target, STRANGER)
    for source in STRANGER:
        yield flood(until, target.auth, [source], wrong)
        yield flood(until, target.auth, [source], [http("GET", f"/oauth2/auth?{target.authorize}") * 20])
        yield flood(until, target.auth, [source], [http("POST", "/oauth2/register", app)] + keys * 9)
        yield flood(until, target.api, [source], forged)
        yield flood(until, target.mqtt, [source], [b""], lambda: mqtt_connect("abc"), 0.02)


def tenant(until, target):
    """Whoever has a free account, a team's worth of API tokens and fifty endpoints where nobody answers."""
    calls, bodies, fan_out, streams, clients = target.tokens
    cookies, fields = target.settings
    names = [form(target, "/settings/name", cookies, {**fields, "name": f"Eve {number}"}) for number in range(99)]
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    authorize = http("GET", f"/oauth2/auth?{target.authorize}", Cookie=cookie)
    endpoint = f"/v1/webhooks/endpoints/{target.endpoint}"
    changes = [http("PATCH", endpoint, b'{"description":"%d"}' % number, fan_out) for number in range(99)]
    subscribing = frame({"type": "subscribe", "id": "s"}) + frame({"type": "unsubscribe", "id": "s"})
    calling = frame({"type": "call", "id": "c", "method": "identity.me.get", "params": {}})
    yield from silent_and_slow(until, target, TENANT, calls)
    yield receive(until, target)
    for _ in range(16):
        yield flood(until, target.api, TENANT, [http("POST", "/v1/webhooks/endpoints", TINY_VALUES, bodies)])
    for _ in range(4):
        yield flood(until, target.auth, TENANT, names)
        yield flood(until, target.auth, TENANT, [authorize])
        yield flood(until, target.api, TENANT, [http("GET", "/v1/me", token=calls) * 100])
        yield flood(until, target.api, TENANT, changes)
        yield flood(until, target.api, TENANT, [(subscribing + calling) * 50], lambda: socket_opening(streams))
        yield flood(until, target.mqtt, TENANT, [b""], lambda: mqtt_connect(clients), 0.02)
        yield flood(until, target.mqtt, TENANT, [MQTT_SUBSCRIBE], lambda: mqtt_connect(clients))
    yield hold(until, target.api, TENANT, 64, http("GET", "/v1/events/stream", token=streams))


class Names(asyncio.DatagramProtocol):
    """A name server for which every name is this machine."""

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, asked, sender):
        end = asked.index(0, 12) + 5
        is_ipv4 = asked[end - 4 : end - 2] == b"\0\x01"
        head = asked[:2] + b"\x81\x80\0\x01\0" + bytes([is_ipv4]) + bytes(4)
        address = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x7f\0\0\x01" if is_ipv4 else b""
        self.transport.sendto(head + asked[12:end] + address, sender)


async def receive(until, target):
    """Takes the connections of webhooks, and says nothing until they give up."""

    async def take(reader, writer):
        with target.attempts.get_lock():
            target.attempts.value += 1
        # What still runs at the end is cancelled, which the library would report.
        with contextlib.suppress(asyncio.CancelledError):
            await discard(reader)
        writer.close()

    loop = asyncio.get_running_loop()
    names, _ = await loop.create_datagram_endpoint(Names, local_addr=target.receiver)
    async with await asyncio.start_server(take, *target.receiver):
        await asyncio.sleep(until - time.monotonic())
    names.close()


def attack(attacks, target, until):
    """All of `attacks` at once, until then; for a process of its own."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def all_at_once():
        await asyncio.wait([asyncio.ensure_future(each) for each in attacks(until, target)], timeout=until - time.monotonic() + 1)

    asyncio.run(all_at_once())
