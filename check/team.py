"""An account that things happen in, for the judges of event streams: a token, a way to cause events, and the truth."""

import time

import requests

SCOPES = "identity:read events:read webhooks:read webhooks:write"


def until(found, what, seconds=10):
    """What `found` answers, as soon as that is something."""
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} s still not: {what}")
        time.sleep(0.02)
    return answer


class Team:
    def __init__(self, server, name):
        self.server = server
        self.account = server.admin("account", "create", "--name", name)["account_id"]
        self.token = self.make_token(SCOPES)["token"]
        self.session = requests.Session()
        self.session.trust_env = False  # no proxy stands between us and the server
        self.session.headers["Authorization"] = f"Bearer {self.token}"
        inbox = self.call("POST", "/v1/webhooks/inboxes", {})["inbox"]
        hook = {"url": inbox["address"], "description": "A judge", "event_types": ["key.created"]}
        self.endpoint = self.call("POST", "/v1/webhooks/endpoints", hook)["id"]

    def make_token(self, scopes):
        """Of which `token.created` and `audit.event` tell."""
        return self.server.admin("token", "create", "--account", self.account, "--scopes", scopes)

    def call(self, method, path, body=None, headers=None, **query):
        url = self.server.base_url + path
        answer = self.session.request(method, url, json=body, headers=headers, params=query, timeout=20)
        if answer.status_code // 100 != 2:
            raise AssertionError(f"{method} {path} {body}: {answer.status_code} {answer.text}")
        return answer.json()

    def cause(self, count=1):
        """The ids of that many new events, which are `webhook.test` and nothing else."""
        path = f"/v1/webhooks/endpoints/{self.endpoint}/test"
        return [self.call("POST", path, {})["event_id"] for _ in range(count)]

    def listed(self, ids):
        """The events as the API lists them."""
        listed = self.call("GET", f"/v1/accounts/orgs/{self.account}/events", page_size=200)["events"]
        by_id = {event["id"]: event for event in listed}
        return [by_id.get(id) for id in ids]
