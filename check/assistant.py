"""An assistant made with Python's SDK of the Model Context Protocol, and the person who uses it."""

import asyncio
import contextlib
import time
import urllib.parse

import httpx2
import mcp
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

CALLBACK = "http://127.0.0.1:9/callback"  # nobody listens there: the assistant reads the address itself
LIMIT_SECONDS = 120


class Assistant:
    """One with what it stores, the person who uses it, and the trail that it leaves."""

    def __init__(self, mcp_url, person, tokens=None):
        self.mcp_url, self.person = mcp_url, person
        self.tokens, self.client_info = tokens, None
        self.asked, self.trail = [], []
        metadata = OAuthClientMetadata(
            client_name="An assistant in Python", redirect_uris=[CALLBACK], token_endpoint_auth_method="none"
        )
        self.provider = OAuthClientProvider(mcp_url, metadata, self, self.send_person, self.called_back)

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client_info

    async def set_client_info(self, client_info):
        self.client_info = client_info

    async def send_person(self, url):
        self.asked.append(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query)))
        self.address = await asyncio.to_thread(self.person.authorize, url)

    async def called_back(self):
        return AuthorizationCodeResult(**dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.address).query)))

    async def remember(self, answer):
        self.trail.append(f"{answer.request.method} {answer.request.url.path} {answer.status_code}")

    def let_expire(self):
        """From here the SDK has to refresh by itself before it calls."""
        self.provider.context.token_expiry_time = time.time() - 1

    @contextlib.asynccontextmanager
    async def connected(self, mode):
        hooks = {"response": [self.remember]}
        async with httpx2.AsyncClient(auth=self.provider, timeout=20, trust_env=False, event_hooks=hooks) as http:
            transport = streamable_http_client(self.mcp_url, http_client=http)
            async with mcp.Client(transport, mode=mode, read_timeout_seconds=30) as client:
                yield client


def run(coroutine):
    """Its end, in time; of the troubles that came together in a task group, the first."""
    try:
        asyncio.run(asyncio.wait_for(coroutine, LIMIT_SECONDS))
    except BaseExceptionGroup as group:
        first = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
