"""Requests that try to be two, or to say what the gateway alone says, over HTTP/1.1 and HTTP/2."""

import asyncio
import contextlib

FORGED = "forged"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, END_HEADERS, ACK = 1, 4, 1

# Headers of a GET. Most are refused; of the others the forged one ends at the gateway.
HEADERS_OF_HTTP1 = [
    "portico-account: forged",
    "Portico-Account: forged",
    "PORTICO-SUBJECT: forged",
    "portico_account: forged",
    "PORTICO_ACCOUNT: forged",
    "portico.account: forged",
    "portico~account: forged",
    "portico-_account: forged",
    "portico-: forged",
    "portico-account : forged",
    "portico-account\t: forged",
    " portico-account: forged",
    "x-a: b\r\n portico-account: forged",
    "x-a: b\r\n\tportico-account: forged",
    "x-a:\r\n portico-account: forged",
    "x-a: b\nportico-account: forged",
    "x-a: b\rportico-account: forged",
    "x-a: b\r\r\nportico-account: forged",
    "x-a: b\0portico-account: forged",
    "x-a: b\x0bportico-account: forged",
    "portico-account: forged\r\nportico-account: forged",
    "portico-scopes: forged\r\nportico_scopes: forged",
    "portico-assertion: forged",
    "portico-role: forged",
    "portico-units: forged",
    "connection: portico-account\r\nportico-account: forged",
    "connection: close, portico-account",
    "connection: portico-assertion, portico-kind, x-request-id, forwarded, host, content-length",
    "connection: te\r\nte: forged",
    "keep-alive: forged",
    "upgrade: forged\r\nconnection: upgrade",
    "upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nconnection: upgrade, http2-settings",
    "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13",
    "proxy-authorization: forged",
    "proxy-connection: forged",
    "cookie: forged=1",
    "Cookie2: forged",
    "authorization : Bearer forged",
    "x-request-id: mine\r\nx-request-id: forged",
    "x_request_id: forged",
    "x-request_id: forged",
    "forwarded: for=forged",
    "x-forwarded-for: forged",
    "x-forwarded-host: forged",
    "x_forwarded_for: forged",
    "x-forwarded-anything: forged",
    "host : forged",
    "host: forged",
    "trailer: portico-account",
    "expect: forged",
    "x-\xe9: forged",
    ": forged",
    "no colon: but\r\nforged",
]
# What a caller may put where an item has its name. Whatever arrives is what was sent, byte by byte.
NAMES = [
    "a%252Fb", ";", "a;b=c", "a.", "a..", "a...", "...", "a%2E", "a%00", "a%0d%0a",
    "a%0d%0aportico-account:%20b", "a?x=%0d%0ay", "a?portico-account=1", "a%20HTTP/1.1", "a%C0%AF", "%u002e", "a//", "a/",
    "a#b", "a\\b", "a\\..\\b", "\xe9", "a%", "a%zz", "~", "*", "@", "a:b", "a|b", "a^b", "a{b}", "a`b", "a\"b", "a<b>",
]
# Ways up, which a service that decodes paths could walk: no such request arrives.
WAYS_UP = [
    "a%2Fb", "a%2fb", "a%5Cb", "..", ".", "%2e", "%2E%2e", ".%2e", "..%2Fsmuggled", "..%2fitems%2F1", "%2e%2e%2fsmuggled", "a%2F..%2F..%2Fsmuggled", "..%5Csmuggled",
    "..;%2Fsmuggled", "a%2F..;%2Fsmuggled", "..;", "..;a=b", "%2e%2e;", "a%2F.", "a%2F..",
]


def bodies(token):
    """Heads and bodies of a POST whose ends can be taken for two, and what would come of it."""
    inner = f"GET /v1/mirror/any/smuggled HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n"
    size = len(inner)
    chunked = f"{size:x}\r\n{inner}\r\n0\r\n\r\n"
    both = "content-length: {}\r\ntransfer-encoding: chunked"
    return [
        (both.format(5 + size), f"0\r\n\r\n{inner}"),
        (both.format(4), chunked),
        ("transfer-encoding: chunked\r\ncontent-length: 4", chunked),
        (f"content-length: 0\r\ncontent-length: {size}", inner),
        (f"content-length: {size}\r\ncontent-length: 0", inner),
        (f"content-length: {size}\r\ncontent-length: {size}", inner),
        (f"content-length: {size}, {size}", inner),
        (f"content-length: +{size}", inner),
        (f"content-length: 0x{size:x}", inner),
        (f"content-length: {size} 0", inner),
        (f"content-length: -0\r\nx-a: {size}", inner),
        (f"content-length: 0{size}x", inner),
        (f"content-length : {size}", inner),
        (f"content_length: {size}", ""),
        (f"content-length:\r\n {size}", inner),
        (f"content-length: 0\n content-length: {size}", inner),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked", chunked),
        ("transfer-encoding: chunked\r\ntransfer-encoding: identity", chunked),
        ("transfer-encoding: identity, chunked", chunked),
        ("transfer-encoding: chunked, identity", chunked),
        ("transfer-encoding: xchunked", chunked),
        ("transfer-encoding: \"chunked\"", chunked),
        ("transfer-encoding:\x0bchunked", chunked),
        ("transfer-encoding: chunked\0", chunked),
        ("transfer-encoding : chunked", chunked),
        (" transfer-encoding: chunked", chunked),
        ("transfer_encoding: chunked", ""),
        ("transfer-encoding:\r\n chunked", chunked),
        ("transfer-encoding\n: chunked", chunked),
        ("x-a: b\ntransfer-encoding: chunked", chunked),
        ("transfer-encoding: gzip, chunked", chunked),
        ("transfer-encoding: chunked", f"0\n\n{inner}"),
        ("transfer-encoding: chunked", f"0\r\n\n{inner}"),
        ("transfer-encoding: chunked", f"-1\r\n{inner}\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked", f"0x0\r\n\r\n{inner}"),
        ("transfer-encoding: chunked", f"1 0\r\n{inner}\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked", f"ffffffffffffffffff\r\n{inner}\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked", f"0;\n\r\n\r\n{inner}"),
        ("transfer-encoding: chunked", f"1;a=\"\r\n\"\r\nx\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked", f"1\r\nxx\r\n0\r\n\r\n{inner}"),
        ("transfer-encoding: chunked", f"1\r\nx\r\n0\r\nportico-account: forged\r\ncontent-length: 0\r\n\r\n"),
        ("transfer-encoding: chunked", f"1\r\nx\r\n0\r\nx-a: b\nportico-account: forged\r\n\r\n"),
        ("content-length: 3\r\nexpect: 100-continue", "abc"),
        ("content-length: 0\r\nconnection: content-length", ""),
        (f"content-length: {size}\r\nconnection: content-length", inner),
        ("transfer-encoding: chunked\r\nconnection: transfer-encoding", chunked),
    ]


def first_lines(token):
    """Whole requests whose first line is not what it should be."""
    rest = f"host: a\r\nauthorization: Bearer {token}\r\n\r\n"
    lines = [
        "GET http://forged/v1/mirror/any/a HTTP/1.1",
        "GET https://forged:1/v1/mirror/any/a HTTP/1.1",
        "GET http://forged@a/v1/mirror/any/a HTTP/1.1",
        "GET HTTP://a/v1/mirror/any/a HTTP/1.1",
        "GET //forged/v1/mirror/any/a HTTP/1.1",
        "GET /v1//mirror/any/a HTTP/1.1",
        "GET /V1/mirror/any/a HTTP/1.1",
        "GET /v1/mirror/any/a HTTP/1.0",
        "GET /v1/mirror/any/a HTTP/1.2",
        "GET /v1/mirror/any/a HTTP/2.0",
        "GET /v1/mirror/any/a HTTP/0.9",
        "GET /v1/mirror/any/a",
        "GET /v1/mirror/any/a  HTTP/1.1",
        "GET /v1/mirror/any/a b HTTP/1.1",
        "GET /v1/mirror/any/a\tHTTP/1.1",
        "GET  /v1/mirror/any/a HTTP/1.1",
        " GET /v1/mirror/any/a HTTP/1.1",
        "\r\n\r\nGET /v1/mirror/any/a HTTP/1.1",
        "get /v1/mirror/any/a HTTP/1.1",
        "GET /v1/mirror/any/a HTTP/1.1 HTTP/1.1",
        "GET /v1/mirror/any/a HTTP/1.1\r\nGET /v1/mirror/any/smuggled HTTP/1.1",
        "GET a:80 HTTP/1.1",
        "CONNECT a:80 HTTP/1.1",
        "CONNECT /v1/mirror/any/a HTTP/1.1",
        "TRACE /v1/mirror/any/a HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "HEAD /v1/mirror/any/a HTTP/1.1",
        "PRI * HTTP/2.0\r\n\r\nSM",
    ]
    return [f"{line}\r\n{rest}" for line in lines]


async def say(api, sent, piece=1 << 20):
    """Sends bytes, in pieces of that size, and reads until the server has ended the connection or says nothing for a while."""
    reader, writer = await asyncio.open_connection(*api)
    heard = b""
    with contextlib.suppress(OSError, asyncio.TimeoutError):
        for at in range(0, len(sent), piece):
            writer.write(sent[at : at + piece])
            await asyncio.sleep(0)
        await writer.drain()
        while some := await asyncio.wait_for(reader.read(65536), 2 if not heard else 0.3):
            heard += some
    writer.close()
    return heard


def number(value, prefix):
    """A whole number of HPACK behind a prefix of so many bits."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes([value])
    value, out = value - most, bytes([most])
    while value >= 128:
        out, value = out + bytes([value % 128 | 128]), value // 128
    return out + bytes([value])


def field(name, value):
    name, value = name.encode("latin-1"), value.encode("latin-1")
    return b"\0" + number(len(name), 7) + name + number(len(value), 7) + value


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def requests_of_http2(token):
    """Fields and bodies of requests that HTTP/1.1 could not carry as they are."""
    known = [("authorization", f"Bearer {token}")]
    inner = f"GET /v1/mirror/any/smuggled HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n"

    def request(method="GET", path="/v1/mirror/any/a", scheme="http", authority="a", more=(), body=None, trailers=None, first=()):
        pseudo = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
        return [*first, *pseudo, *known, *more], body, trailers

    post = {"method": "POST", "body": b"abc"}
    kind = ("content-type", "application/octet-stream")
    inner_body = f"0\r\n\r\n{inner}".encode()
    return [
        request(more=[("portico-account", "forged")]),
        request(more=[("portico_account", "forged")]),
        request(more=[("portico-account", "forged"), ("portico-account", "forged")]),
        request(more=[("Portico-Account", "forged")]),
        request(more=[("x-a", "b\r\nportico-account: forged")]),
        request(more=[("x-a", "b\nportico-account: forged")]),
        request(more=[("x-a", "b\0portico-account: forged")]),
        request(more=[("x-a\r\nportico-account", "forged")]),
        request(more=[("x-a: b\r\nportico-account", "forged")]),
        request(more=[("portico-account: forged\r\nx", "y")]),
        request(more=[("portico-account ", "forged")]),
        request(more=[(" portico-account", "forged")]),
        request(more=[("", "forged")]),
        request(more=[("connection", "portico-account")]),
        request(more=[("connection", "portico-assertion, x-request-id")]),
        request(more=[("te", "forged")]),
        request(more=[("host", "forged")]),
        request(more=[("cookie", "forged=1"), ("cookie", "forged=2")]),
        request(more=[(":portico-account", "forged")]),
        request(more=[(":path", "/v1/mirror/any/smuggled")]),
        request(more=[(":authority", "forged")]),
        request(first=[(":path", "/v1/mirror/any/smuggled")]),
        request(first=[("x-a", "b")]),
        request(first=[(":status", "200")]),
        request(first=[(":protocol", "websocket")]),
        request(path="/v1/mirror/any/a HTTP/1.1\r\nportico-account: forged\r\nx: y"),
        request(path="/v1/mirror/any/a HTTP/1.1\r\n\r\n" + inner),
        request(path="/v1/mirror/any/a b"),
        request(path="/v1/mirror/any/a\tb"),
        request(path="http://forged/v1/mirror/any/a"),
        request(path="v1/mirror/any/a"),
        request(path="*"),
        request(path=""),
        request(method="GET /v1/mirror/any/smuggled HTTP/1.1\r\nhost: a\r\n\r\nGET"),
        request(method="GET\tx"),
        request(method="CONNECT"),
        request(scheme="http://forged/v1/mirror/any/smuggled?"),
        request(scheme="https"),
        request(authority="forged\r\nportico-account: forged"),
        request(authority="forged@a"),
        request(authority=""),
        request(**post, more=[kind, ("transfer-encoding", "chunked")]),
        request(method="POST", body=inner_body, more=[kind, ("transfer-encoding", "chunked")]),
        request(method="POST", body=inner_body, more=[kind, ("content-length", "0")]),
        request(method="POST", body=inner_body, more=[kind, ("content-length", "5")]),
        request(method="POST", body=inner_body, more=[kind, ("content-length", "5000")]),
        request(method="POST", body=inner_body, more=[kind, ("content-length", "5"), ("content-length", str(len(inner_body)))]),
        request(method="POST", body=inner_body, more=[kind, ("content-length", f"+{len(inner_body)}")]),
        request(**post, more=[kind], trailers=[("portico-account", "forged")]),
        request(**post, more=[kind], trailers=[("x-a", "b\r\nportico-account: forged")]),
        request(**post, more=[kind], trailers=[(":path", "/v1/mirror/any/smuggled")]),
        request(**post, more=[kind], trailers=[("content-length", "3")]),
        request(more=[("upgrade", "websocket"), ("connection", "upgrade")]),
        request(more=[("keep-alive", "forged"), ("proxy-connection", "forged")]),
        request(more=[("x-request-id", "mine"), ("x-request-id", "forged"), ("forwarded", "for=forged")]),
    ]


async def say_http2(api, fields, body, trailers):
    """Sends one request, and waits until its stream or the connection has ended."""
    block = b"".join(field(name, value) for name, value in fields)
    sent = PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS | (END_STREAM if body is None else 0), 1, block)
    if body is not None:
        sent += frame(DATA, 0 if trailers else END_STREAM, 1, body)
    if trailers:
        sent += frame(HEADERS, END_HEADERS | END_STREAM, 1, b"".join(field(*each) for each in trailers))
    reader, writer = await asyncio.open_connection(*api)
    with contextlib.suppress(OSError, EOFError, asyncio.TimeoutError):
        writer.write(sent)
        while True:
            head = await asyncio.wait_for(reader.readexactly(9), 3)
            payload = await asyncio.wait_for(reader.readexactly(int.from_bytes(head[:3], "big")), 3)
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind == SETTINGS and not flags & ACK:
                writer.write(frame(SETTINGS, ACK, 0))
            if kind in (RST_STREAM, GOAWAY) or stream == 1 and flags & END_STREAM:
                writer.close()
                return kind, payload
    writer.close()
    return None, b""
