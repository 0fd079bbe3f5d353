"""Targets of services that fail in every way, and callers that look at each byte of what comes of it.

A target answers as the query of the request says (`how`), or as its mood says. The right answer of a number is the same
everywhere, so a caller knows whether what came is whole and right.
"""

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import random
import re
import socket
import struct

TEXT_BYTES = 1024
DRIP_SECONDS = 0.005
MOODY = 0.15  # of the answers of a target that has a mood: with more it would be left out, and seen by no call
# Answers that are whole and right, and those that break off in their head or in their body.
RIGHT = ("length", "chunked", "closing", "drip", "interim", "told")
BROKEN_HEAD = (
    "hangup", "reset", "hang", "half-head", "garbage", "bad-line", "two-lengths", "length-and-chunked", "bare-lines",
    "folded", "old-chunked", "long-head", "zero",
)
BROKEN_BODY = ("half-body", "half-chunks", "reset-body", "bad-chunk", "long-chunk", "no-last-chunk")
# Right answers, behind which comes what nobody asked for: the next call on the connection must not get it.
MORE = ("more", "two-answers")


def right_answer(number):
    text = hashlib.sha256(str(number).encode()).hexdigest() * (TEXT_BYTES // 64)
    return json.dumps({"number": number, "text": text}).encode()


def head(status, *lines):
    return "\r\n".join([f"HTTP/1.1 {status} X", "content-type: application/json", *lines, "", ""]).encode()


def chunks(body, size=100):
    for at in range(0, len(body), size):
        piece = body[at : at + size]
        yield b"%x\r\n%b\r\n" % (len(piece), piece)


@dataclasses.dataclass
class Seen:
    """A request as it came, byte by byte."""

    head: bytes
    body: bytes

    @property
    def path(self):
        return self.head.split(b" ", 2)[1].decode("latin-1")

    def headers(self):
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]


class Target:
    """`async with Target() as target:` listens at `target.address` inside. What has a `mood` answers so, now and then."""

    def __init__(self, mood=None, keeps=False):
        self.mood, self.keeps, self.seen, self.calls, self.port, self.open = mood, keeps, [], 0, 0, set()

    @classmethod
    def at(cls, port):
        """One that listens there already, in another process."""
        target = cls()
        target.port = port
        return target

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        self.kill()

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port, backlog=1024)
        self.port = self.server.sockets[0].getsockname()[1]

    def kill(self):
        """As the system does with a process that is killed: nobody listens, and no connection goes on."""
        self.server.close()
        for writer in self.open:
            writer.transport.abort()

    async def serve(self, reader, writer):
        self.open.add(writer)
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
            while await self.serve_one(reader, writer):
                pass
        self.open.discard(writer)
        writer.close()

    async def serve_one(self, reader, writer):
        """Answers a request; may there be another one?"""
        request = (await reader.readuntil(b"\r\n\r\n"))[:-4]
        body = await read_body(request, reader)
        self.calls += 1
        if self.keeps:
            self.seen.append(Seen(request, body))
        asked = re.search(rb"[?&]how=([a-z-]+)", request.split(b"\r\n")[0])
        how = self.mood if self.mood and random.random() < MOODY else asked[1].decode() if asked else "length"
        number = re.search(rb"/items/(\d+)", request)
        answer = right_answer(int(number[1])) if number else b'{"n":1}'
        return await getattr(self, how.replace("-", "_"))(writer, answer)

    async def length(self, writer, answer):
        writer.write(head(200, f"content-length: {len(answer)}") + answer)
        await writer.drain()
        return True

    async def chunked(self, writer, answer):
        for piece in (head(200, "transfer-encoding: chunked"), *chunks(answer), b"0\r\n\r\n"):
            writer.write(piece)
            await asyncio.sleep(0)
        return True

    async def closing(self, writer, answer):
        writer.write(head(200, "connection: close") + answer)
        await writer.drain()

    async def drip(self, writer, answer):
        whole = head(200, f"content-length: {len(answer)}") + answer
        for at in range(0, len(whole), 40):
            writer.write(whole[at : at + 40])
            await asyncio.sleep(DRIP_SECONDS)
        return True

    async def interim(self, writer, answer):
        writer.write(b"HTTP/1.1 103 Early\r\nportico-account: forged\r\nlink: </x>\r\n\r\n")
        return await self.length(writer, answer)

    async def told(self, writer, answer):
        own = ("portico-units: 3", "portico-account: forged", "connection: x-secret", "x-secret: 1", "keep-alive: timeout=1")
        writer.write(head(200, f"content-length: {len(answer)}", *own) + answer)
        await writer.drain()
        return True

    async def hangup(self, writer, answer):
        pass

    async def reset(self, writer, answer):
        never_linger(writer)

    async def hang(self, writer, answer):
        await asyncio.sleep(30)

    async def half_head(self, writer, answer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-half: ")

    async def zero(self, writer, answer):
        writer.write(b"\0")

    async def garbage(self, writer, answer):
        writer.write(random.randbytes(500))

    async def bad_line(self, writer, answer):
        writer.write(b"HTTP/1.1 200 OK\r\nno colon here\r\ncontent-length: 2\r\n\r\n{}")

    async def two_lengths(self, writer, answer):
        writer.write(head(200, "content-length: 2", f"content-length: {len(answer)}") + answer)

    async def length_and_chunked(self, writer, answer):
        writer.write(head(200, "content-length: 2", "transfer-encoding: chunked") + b"".join(chunks(answer)) + b"0\r\n\r\n")

    async def bare_lines(self, writer, answer):
        writer.write(b"HTTP/1.1 200 OK\ncontent-length: 2\n\n{}")

    async def folded(self, writer, answer):
        writer.write(head(200, "x-a: b", " content-length: 2") + b"{}")

    async def old_chunked(self, writer, answer):
        writer.write(b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")

    async def long_head(self, writer, answer):
        writer.write(head(200, f"x-long: {'x' * 100_000}", "content-length: 2") + b"{}")
        await writer.drain()

    async def half_body(self, writer, answer):
        writer.write(head(200, f"content-length: {len(answer)}") + answer[: len(answer) // 2])

    async def half_chunks(self, writer, answer):
        writer.write(head(200, "transfer-encoding: chunked") + b"".join(list(chunks(answer))[:5]))

    async def reset_body(self, writer, answer):
        await self.half_body(writer, answer)
        await asyncio.sleep(0.01)
        never_linger(writer)

    async def bad_chunk(self, writer, answer):
        writer.write(head(200, "transfer-encoding: chunked") + b"5\r\n{\"n\":\r\nxyz\r\n1}\r\n0\r\n\r\n")
        await asyncio.sleep(1)

    async def long_chunk(self, writer, answer):
        writer.write(head(200, "transfer-encoding: chunked") + b"5\r\n{\"n\":1}\r\n0\r\n\r\n")
        await asyncio.sleep(1)

    async def no_last_chunk(self, writer, answer):
        writer.write(head(200, "transfer-encoding: chunked") + b"".join(chunks(answer)))

    async def more(self, writer, answer):
        await self.length(writer, answer)
        writer.write(random.randbytes(200))
        return True

    async def two_answers(self, writer, answer):
        wrong = b'{"number":0,"text":"of nobody"}'
        writer.write(head(200, f"content-length: {len(answer)}") + answer + head(200, f"content-length: {len(wrong)}") + wrong)
        await writer.drain()
        return True

    async def ticks(self, writer, answer):
        """A stream of events, until there are a thousand or nobody listens."""
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for number in range(1000):
            data = b"data: %d\n\n" % number
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()
            await asyncio.sleep(0.1)
        writer.write(b"0\r\n\r\n")
        return True


def never_linger(writer):
    """Whoever is connected gets a reset instead of an end."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read_body(request, reader):
    """The body of a request or an answer with this head; fails when it is not whole or its framing is not clear."""
    lines = [line.partition(b":") for line in request.split(b"\r\n")[1:]]
    framing = [(name.lower(), value.strip()) for name, _, value in lines]
    lengths = [value for name, value in framing if name == b"content-length"]
    codings = [value for name, value in framing if name == b"transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise AssertionError(f"its framing is said twice: {request}")
    if lengths:
        return await reader.readexactly(int(lengths[0]))
    body = b""
    while codings:
        size = int((await reader.readuntil(b"\r\n"))[:-2].split(b";")[0], 16)
        body += await reader.readexactly(size)
        end = await reader.readexactly(2) if size else await reader.readuntil(b"\r\n")
        if end != b"\r\n":
            raise AssertionError(f"a chunk ends with {end}")
        if not size:
            break
    return body


class Caller:
    """A connection to the gateway that is opened anew when it has ended."""

    def __init__(self, api, token):
        self.api, self.token, self.pipes = api, token, None

    async def call(self, path, method="GET", body=b"", more=()):
        """The status, the head and the body of the answer; the status is None when it was cut."""
        lines = [f"{method} {path} HTTP/1.1", "host: a", f"authorization: Bearer {self.token}", *more]
        if body:
            lines += ["content-type: application/json", f"content-length: {len(body)}"]
        sent = "\r\n".join([*lines, "", ""]).encode() + body
        if self.pipes is None:
            self.pipes = await asyncio.open_connection(*self.api)
        reader, writer = self.pipes
        answer = b""
        try:
            writer.write(sent)
            answer = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20))[:-4]
            content = await asyncio.wait_for(read_body(answer, reader), 20)
        except TimeoutError:
            raise AssertionError(f"{path} has no end within 20 s") from None
        except (OSError, EOFError, ValueError):
            self.close()
            return None, answer, b""
        if b"connection: close" in answer.lower():
            self.close()
        return int(answer.split(b" ", 2)[1]), answer, content

    def close(self):
        if self.pipes:
            self.pipes[1].close()
        self.pipes = None


def document(name, more=()):
    """What the service is: items that are read and written, and paths of any kind."""
    ok = {"200": {"description": "It went well."}}
    text = {"type": "string"}
    number = {"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}
    how = {"name": "how", "in": "query", "schema": text}
    taken = {"application/json": {"schema": {"type": "object", "additionalProperties": True}}, "application/octet-stream": {}}
    path = {"name": "name", "in": "path", "required": True, "schema": text}
    paths = {
        f"/v1/{name}/items/{{number}}": {
            "get": {"operationId": "get", "parameters": [number, how], "responses": ok},
            "post": {
                "operationId": "post",
                "parameters": [number, how],
                "requestBody": {"content": taken},
                "responses": ok,
            },
        },
        f"/v1/{name}/any/{{name}}": {
            "get": {"operationId": "any", "parameters": [path], "responses": ok},
            "post": {
                "operationId": "anyPost",
                "parameters": [path],
                "requestBody": {"content": taken},
                "responses": ok,
            },
        },
    }
    paths |= {f"/v1/{name}/{one}": {"get": {"operationId": one, "responses": ok}} for one in more}
    scope = f"{name}:use"
    flows = {"clientCredentials": {"tokenUrl": "https://auth.test/token", "scopes": {scope: f"Use {name}."}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "version": "1"},
        "security": [{name: [scope]}],
        "paths": paths,
        "components": {"securitySchemes": {name: {"type": "oauth2", "flows": flows}}},
    }
