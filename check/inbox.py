"""The test inbox of an account, and requests for it that are signed well, badly or not at all."""

import time

import requests
from deliveries import OTHER_SECRET, signature

HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class Inbox:
    """The account's test inbox, from its sender's side and from its owner's."""

    def __init__(self, team):
        self.team = team
        self.record = team.call("POST", "/v1/webhooks/inboxes", {})["inbox"]
        self.address = self.record["address"]
        self.sender = requests.Session()
        self.sender.trust_env = False

    def post(self, headers, body):
        headers = {"Content-Type": "application/json", **headers}
        answer = self.sender.post(self.address, data=body, headers=headers, timeout=10)
        if (answer.status_code, answer.text) != (200, "{}"):
            raise AssertionError(f"the inbox answers 200 and {{}} (saw {answer.status_code} {answer.text})")

    def requests(self):
        """Newest first."""
        return self.team.call("GET", f"/v1/webhooks/inboxes/{self.record['id']}/requests", page_size=200)["requests"]

    def newest(self, headers, body):
        """What the inbox keeps of a request."""
        before = {each["id"] for each in self.requests()}
        self.post(headers, body)
        added = [each for each in self.requests() if each["id"] not in before]
        if len(added) != 1:
            raise AssertionError(f"one request more in the inbox, not {len(added)}")
        return added[0]


def signed(secret, body, id="msg_judge", timestamp=None, entries="v1,{good}"):
    """The headers of a request; `{good}` stands for the right signature, `{wrong}` for one that could be right."""
    timestamp = str(int(time.time())) if timestamp is None else timestamp
    good, wrong = signature(secret, id, timestamp, body), signature(OTHER_SECRET, id, timestamp, body)
    written = entries.format(good=good, wrong=wrong, part=good[:8], bare=good.rstrip("="))
    return dict(zip(HEADERS, (id, timestamp, written)))


def shifted(seconds):
    return lambda secret, body: signed(secret, body, timestamp=str(int(time.time()) + seconds))


def entries(text):
    return lambda secret, body: signed(secret, body, entries=text)


def without(name):
    return lambda secret, body: {key: value for key, value in signed(secret, body).items() if key != name}


# What is sent; how its headers are made; whether the specification's own rules for verifying a delivery accept it.
# The cases are those that the libraries' own tests share, and some more.
CASES = (
    ("signed well", lambda secret, body: signed(secret, body), True),
    ("no id", without("webhook-id"), False),
    ("no timestamp", without("webhook-timestamp"), False),
    ("no signature", without("webhook-signature"), False),
    ("an empty id", lambda secret, body: signed(secret, body, id=""), False),
    ("an empty timestamp", lambda secret, body: signed(secret, body, timestamp=""), False),
    ("a timestamp that is no number", lambda secret, body: signed(secret, body, timestamp="hello"), False),
    ("a wrong signature", entries("v1,{wrong}"), False),
    ("the signature of another secret", lambda _, body: signed(OTHER_SECRET, body), False),
    ("the signature of another body", lambda secret, body: signed(secret, body + b" "), False),
    ("the signature of another id", lambda secret, body: {**signed(secret, body), "webhook-id": "msg_other"}, False),
    ("an empty signature", entries("v1,"), False),
    ("part of a signature", entries("v1,{part}"), False),
    ("a signature without its padding", entries("v1,{bare}"), False),
    ("5 minutes and a second old", shifted(-301), False),
    ("5 minutes and a second ahead", shifted(301), False),
    ("4 minutes and 50 seconds old", shifted(-290), True),
    ("4 minutes and 50 seconds ahead", shifted(290), True),
    ("the right one of several", entries("v1,{wrong} v2,{wrong} v1,{good} v1,{wrong}"), True),
    ("the right one among words", entries("v1,bad v2,bad v1,{good} v1,bad"), True),
    ("the right signature under v2", entries("v2,{good}"), False),
    ("the right signature without a version", entries("{good}"), False),
)


def within_a_second(run):
    """What `run` answers when the clock's second is the same before and after: for cases that a second decides."""
    for _ in range(5):
        time.sleep(1 - time.time() % 1)
        second = int(time.time())
        answer = run()
        if int(time.time()) == second:
            return answer
    raise AssertionError("the machine is too slow to do it within a second")
