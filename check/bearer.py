"""A way to a server for clients that cannot send a token: each request gets it, and a connection of its own.

Bytes go to and fro as they come, so that streams stay streams; when one side hangs up, so does the other. Whoever asks
by our own address asks the server by its own; other names, of a host or an origin, are the server's to refuse.
"""

import contextlib
import select
import socket
import socketserver
import threading
import urllib.parse

HEAD_LIMIT = 64 * 1024
IDLE_SECONDS = 120


class Request(socketserver.BaseRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            self.request.settimeout(IDLE_SECONDS)
            head, begun = self.head()
            with socket.create_connection(self.server.upstream, IDLE_SECONDS) as upstream:
                upstream.sendall(self.server.rewrite(head) + begun)
                self.to_and_fro(upstream)

    def head(self):
        """The lines of the request up to its body, and what of the body came with them."""
        read = b""
        while b"\r\n\r\n" not in read:
            if len(read) > HEAD_LIMIT or not (some := self.request.recv(65536)):
                raise ConnectionAbortedError("no request")
            read += some
        head, _, begun = read.partition(b"\r\n\r\n")
        return head.decode("latin-1").split("\r\n"), begun

    def to_and_fro(self, upstream):
        other = {self.request: upstream, upstream: self.request}
        while ready := select.select(list(other), [], [], IDLE_SECONDS)[0]:
            for each in ready:
                if not (some := each.recv(65536)):
                    return
                other[each].sendall(some)


class Proxy(socketserver.ThreadingTCPServer):
    """`with Proxy(base_url, token) as proxy:` has it at `proxy.url` inside."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, base_url, token):
        super().__init__(("127.0.0.1", 0), Request)
        there, here = urllib.parse.urlsplit(base_url), "{}:{}".format(*self.server_address)
        self.url, self.token, self.upstream = f"http://{here}", token, (there.hostname, there.port)
        self.names = {"host": (here, there.netloc), "origin": (self.url, base_url)}  # ours, and the server's

    def rewrite(self, head):
        first, *lines = head
        # A second request on the same connection would pass as it is, so there is none.
        kept = [f"Authorization: Bearer {self.token}", "Connection: close"]
        for line in lines:
            name, _, value = line.partition(":")
            ours, its = self.names.get(name.lower(), (None, None))
            if name.lower() not in ("authorization", "connection"):
                kept.append(f"{name}: {its}" if value.strip() == ours else line)
        return "\r\n".join([first, *kept, "", ""]).encode("latin-1")

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
