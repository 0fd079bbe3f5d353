#!/usr/bin/env python3
"""What check/judges/streams asks: curl, websockets, wscat, paho-mqtt and mosquitto's commands listen, are cut and come
back, and call; check/streams.js has the clients of the Node world do the same.

The truth about an event is what the API lists, about a call what REST answers. Each scenario has an account of its own.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import websockets.exceptions
from mqtt import REPLIES, SESSION_SECONDS, V3, V5, Mosquitto, Paho, mosquitto_rr
from server import Server, Verdicts, get
from sockets import SUBPROTOCOL, Frames, Socket, Wscat
from sse import Curl
from team import Team, until

TYPE = "webhook.test"
BAD_TOKEN = "not.a.token"
NO_EVENT = "evt_00000000000000000000000000"  # could be one, but never was
MISSED = 5  # as many happen while a client is away
BAD_CREDENTIALS, NOT_AUTHORIZED, QUOTA_EXCEEDED, TAKEN_OVER = 0x86, 0x87, 0x97, 0x8E
NOT_AGAIN = range(4000, 4100)  # the close codes after which a client does not come back

verdicts = Verdicts()
proved = verdicts.proved


def named(problem):
    """The fields that a problem complains of."""
    return [detail["field"] for detail in problem["details"] if detail["type"] == "field"]


class Judge:
    def __init__(self, server):
        self.server = server
        self.frames = None
        self.rpc = {}

    def team(self, name):
        return Team(self.server, name)

    def same(self, what, team, seen, ids):
        """These events and no others, in order, each as the API lists it."""
        proved(f"{what}: exactly those, in order", [event["id"] for event in seen] == ids, (seen, ids))
        kinds = {(event["type"], event["account_id"]) for event in seen}
        proved(f"{what}: of the right type and account", kinds <= {(TYPE, team.account)}, kinds)
        proved(f"{what}: each as the API lists it", seen == team.listed(ids), seen)


def documents(judge):
    with verdicts.scenario("documents"):
        judge.frames = Frames(json.loads(get(judge.server.base_url + "/frames.json")))
        proved("/frames.json: jsonschema reads it", True)
        wrong = (
            {"type": "nothing"},
            {"type": "call", "id": "1"},
            {"type": "subscribe"},
            {"type": "auth", "token": 1},
            [],
        )
        allowed = [frame for frame in wrong if judge.frames.allows("ClientFrame", frame)]
        proved("/frames.json: it refuses what is no frame", not allowed, allowed)
        paths = json.loads(get(judge.server.base_url + "/openapi.json"))["paths"]
        judge.rpc = {
            (method.upper(), path): operation.get("x-platform-rpc")
            for path, operations in paths.items()
            for method, operation in operations.items()
        }
        proved("/openapi.json: GET /v1/me has a method for sockets", judge.rpc["GET", "/v1/me"])


def sse(judge):
    with verdicts.scenario("curl"):
        team, other, server = judge.team("curl"), judge.team("Others"), judge.server
        with Curl(server, team.token) as curl:
            status, headers = curl.head
            seen = status, headers["content-type"].partition(";")[0], "no-cache" in headers.get("cache-control", "")
            proved("curl: an event stream, which no cache keeps", seen == (200, "text/event-stream", True), headers)
            opening = dict(curl.first())
            names = [name for name, _ in curl.first()]
            proved("curl: first come retry and id", sorted(names) == ["id", "retry"], names)
            proved("curl: it says to come back after 2 seconds", opening["retry"] == "2000", opening)
            other.cause()
            ids = team.cause(2)
            events = curl.events(2)
            judge.same("curl, what it hears", team, [event for _, _, event in events], ids)
            names = [name for name, _ in curl.blocks[1]]
            proved("curl: id, event and data, each once", sorted(names) == ["data", "event", "id"], names)
            proved("curl: the name of an event is its type", {type for _, type, _ in events} == {TYPE}, events)
            cursors = [opening["id"], *(cursor for cursor, _, _ in events)]
            proved("curl: the cursor moves with each event", all(cursors) and len(set(cursors)) == 3, cursors)

        start, _, last = cursors
        missed = team.cause(MISSED)
        for how, place, expected in (
            ("by Last-Event-ID", {"last_id": last}, missed),
            ("by after", {"after": last}, missed),
            ("by Last-Event-ID, which wins over after", {"last_id": last, "after": start}, missed),
            ("by the id of an event", {"last_id": ids[-1]}, missed),
            ("by the first block's cursor", {"after": start}, ids + missed),
            ("for one type of two", {"after": start, "types": ["key.created", TYPE]}, ids + missed),
            ("for another type", {"after": start, "types": "key.created"}, []),
        ):
            with Curl(server, team.token, **place) as curl:
                curl.first()
                curl.events(len(expected))
                time.sleep(0.3)  # for what should not come
                judge.same(f"curl, resumed {how}", team, [event for _, _, event in curl.events(0)], expected)
        with Curl(server, team.token, last_id=last) as curl:
            curl.first()
            more = team.cause(2)
            events = curl.events(MISSED + 2)
            judge.same("curl, resumed while more happens", team, [event for _, _, event in events], missed + more)


def sse_refused(judge):
    with verdicts.scenario("curl is refused"):
        team, server = judge.team("curl, refused"), judge.server
        without = team.make_token("identity:read")["token"]
        for what, curl, status, code, fields in (
            ("without a token", Curl(server), 401, "unauthenticated", []),
            ("with a bad token", Curl(server, BAD_TOKEN), 401, "unauthenticated", []),
            ("without the scope", Curl(server, without), 403, "forbidden", []),
            ("with a bad after", Curl(server, team.token, after="nowhere"), 400, "bad_request", ["after"]),
            ("with a bad id", Curl(server, team.token, last_id="nowhere"), 400, "bad_request", ["Last-Event-ID"]),
            ("with an unknown key", Curl(server, team.token, nothing="1"), 400, "bad_request", ["nothing"]),
        ):
            with curl:
                (seen, headers), problem = curl.head, curl.problem
            told = seen, problem["code"], named(problem)
            proved(
                f"curl, {what}: {status} {code} {' '.join(fields)}".rstrip(), told == (status, code, fields), problem
            )
            proved(f"curl, {what}: the problem is of this request", problem["request_id"] == headers["x-request-id"])


def sockets(judge):
    with verdicts.scenario("websockets"):
        team, other, frames, server = judge.team("websockets"), judge.team("Others"), judge.frames, judge.server
        with Socket(frames, server, team.token) as socket:
            chosen = socket.connection.subprotocol
            proved("websockets: the subprotocol is ours", chosen == SUBPROTOCOL, chosen)
            proved("websockets, token in the header: ready comes first", socket.read()["type"] == "ready")
            start = socket.result("subscribe", "all")["cursor"]
            other.cause()
            ids = team.cause(2)
            events = socket.events(2)
            judge.same("websockets, what it hears", team, [frame["event"] for frame in events], ids)
            cursors = [start, *(frame["cursor"] for frame in events)]
            proved("websockets: the cursor moves with each event", len(set(cursors)) == 3, cursors)

        missed = team.cause(MISSED)
        with Socket(frames, server) as socket:
            socket.send("auth", token=team.token)
            proved("websockets, token in the first frame: ready comes first", socket.read()["type"] == "ready")
            for how, id, asked, expected in (
                ("after the last event", "1", {"after": cursors[-1]}, missed),
                ("after what the subscription answered", "2", {"after": start}, ids + missed),
                ("for one type of two", "3", {"after": start, "types": ["key.created", TYPE]}, ids + missed),
                ("for another type", "4", {"after": start, "types": ["key.created"]}, []),
            ):
                socket.result("subscribe", id, **asked)
                events = socket.events(len(expected))
                quiet = socket.silent(0.3)
                what = f"websockets, resumed {how}"
                judge.same(what, team, [frame["event"] for frame in events], expected)
                proved(f"{what}: and then nothing", quiet, socket.aside)
                gone = socket.result("unsubscribe", id)
                proved(f"{what}: unsubscribed", gone == {}, gone)
            team.cause()
            proved("websockets: who unsubscribed hears nothing", socket.silent())


def one_subscription(judge):
    with verdicts.scenario("websockets, one subscription at a time"):
        team = judge.team("Several")
        with Socket(judge.frames, judge.server, team.token) as socket:
            socket.read()
            start = socket.result("subscribe", "all")["cursor"]
            ids = team.cause(2)
            first = socket.events(2)
            judge.same("websockets, one subscription", team, [frame["event"] for frame in first], ids)
            socket.result("unsubscribe", "all")
            socket.result("subscribe", "again", after=start, types=[TYPE])
            second = socket.events(2)
            judge.same("websockets, another after it", team, [frame["event"] for frame in second], ids)


def calls(judge):
    with verdicts.scenario("calls over websockets"):
        team, frames, server, rpc = judge.team("Calls"), judge.frames, judge.server, judge.rpc
        events = f"/v1/accounts/orgs/{team.account}/events"
        test = rpc["POST", "/v1/webhooks/endpoints/{endpoint_id}/test"]
        with Socket(frames, server, team.token) as socket:
            most = socket.read()["calls_max"]
            seen = socket.result("call", "me", method=rpc["GET", "/v1/me"], params={})
            proved("websockets: a call is answered as GET /v1/me is", seen == team.call("GET", "/v1/me"), seen)
            team.cause(3)
            params = {"org_id": team.account, "type": TYPE, "page_size": 2}
            seen = socket.result("call", "list", method=rpc["GET", "/v1/accounts/orgs/{org_id}/events"], params=params)
            expected = team.call("GET", events, type=TYPE, page_size=2)
            proved("websockets: and a call with parameters", seen["events"] == expected["events"], seen)

            asked = {"method": test, "params": {"endpoint_id": team.endpoint}, "idempotency_key": "judge"}
            seen = [socket.result("call", id, **asked) for id in ("first", "again")]
            header = {"Idempotency-Key": "judge"}
            seen.append(team.call("POST", f"/v1/webhooks/endpoints/{team.endpoint}/test", {}, header))
            proved("websockets: with a key it runs once, over REST too", seen[0] == seen[1] == seen[2], seen)

            for id in range(most):
                socket.send("call", id=str(id), method=rpc["GET", "/v1/me"], params={})
            found = [socket.answer(str(id))["type"] for id in reversed(range(most))]
            proved(f"websockets: {most} calls side by side are all answered", found == ["answer"] * most, found)
            socket.send("call", id="slow", method=test, params={"endpoint_id": team.endpoint})
            socket.send("cancel", id="slow")
            frame = socket.answer("slow")
            fits = frame["type"] == "answer" or frame["problem"]["code"] == "cancelled"
            proved("websockets: a cancelled call has one end", fits and socket.silent(0.3), frame)
        refused_calls(judge, team)


def refused_calls(judge, team):
    rpc, me = judge.rpc, judge.rpc["GET", "/v1/me"]
    units = {"method": rpc["GET", "/v1/accounts/orgs/{org_id}/units"], "params": {"org_id": team.account}}
    with Socket(judge.frames, judge.server, team.token) as socket:
        socket.read()
        for what, type, asked, code, fields in (
            ("a call without its scope", "call", units, "forbidden", []),
            ("an unknown method", "call", {"method": "no.such.method", "params": {}}, "not_found", None),
            ("an unknown parameter", "call", {"method": me, "params": {"nothing": 1}}, "bad_request", ["nothing"]),
            ("a bad cursor", "subscribe", {"after": "nowhere"}, "bad_request", ["after"]),
        ):
            problem = socket.problem(type, what, **asked)
            told = problem["code"], problem["request_id"]
            proved(f"websockets, {what}: {code}, and no request id", told == (code, ""), problem)
            if fields is not None:
                proved(f"websockets, {what}: it names {fields or 'no field'}", named(problem) == fields, problem)
        for what, message in (
            ("no JSON", "hello"),
            ("no frame", '{"type": "nothing", "id": "x"}'),
            ("a call of nothing", '{"type": "call", "id": "y"}'),
        ):
            socket.raw(message)
            frame = socket.next(lambda frame: frame["type"] == "error")
            proved(f"websockets, {what}: bad_request", frame["problem"]["code"] == "bad_request", frame)


def sockets_refused(judge):
    with verdicts.scenario("websockets is refused"):
        team, frames, server = judge.team("websockets, refused"), judge.frames, judge.server
        try:
            with Socket(frames, server, BAD_TOKEN):
                raise AssertionError("a bad token opened a socket")
        except websockets.exceptions.InvalidStatus as refused:
            told = refused.response.status_code, json.loads(refused.response.body)["code"]
        proved("websockets, a bad token in the header: 401 and a problem", told == (401, "unauthenticated"), told)
        for what, first in (
            ("a bad token", {"type": "auth", "token": BAD_TOKEN}),
            ("a call before a token", {"type": "call", "id": "1", "method": "identity.me.get", "params": {}}),
        ):
            with Socket(frames, server) as socket:
                socket.send(**first)
                seen, code = socket.end()
            told = [frame["problem"]["code"] for frame in seen if frame["type"] == "error"]
            ok = code in NOT_AGAIN and len(told) == 1 and "ready" not in [frame["type"] for frame in seen]
            proved(f"websockets, {what} in the first frame: it is told not to come back", ok, (seen, code))
        with Socket(frames, server) as socket:
            began = time.monotonic()
            seen, code = socket.end()
            took = time.monotonic() - began
        proved("websockets, no token: the server closes after 5 seconds", 4 < took < 7 and code, (took, code, seen))
        without = team.make_token("identity:read")["token"]
        try:
            with Socket(frames, server, without) as socket:
                socket.read()
                told = socket.problem("subscribe", "1")["code"]
        except websockets.exceptions.InvalidStatus as refused:
            told = json.loads(refused.response.body)["code"]
        proved("websockets, without the scope: no subscription", told == "forbidden", told)


def wscat(judge):
    with verdicts.scenario("wscat"):
        team, frames, server = judge.team("wscat"), judge.frames, judge.server
        call = {"type": "call", "id": "me", "method": judge.rpc["GET", "/v1/me"], "params": {}}
        subscribe = {"type": "subscribe", "id": "all"}
        with Wscat(frames, server, team.token, call, subscribe) as client:
            ready, *answers = client.read(3)
            found = {frame["id"]: frame.get("result") for frame in answers}
            proved("wscat: ready comes first", ready["type"] == "ready", ready)
            proved("wscat: a call is answered as GET /v1/me is", found["me"] == team.call("GET", "/v1/me"), found)
            ids = team.cause(1)
            [event] = client.read(1)
            judge.same("wscat, what it hears", team, [event["event"]], ids)
        missed = team.cause(MISSED)
        with Wscat(frames, server, team.token, {**subscribe, "after": event["cursor"]}) as client:
            events = client.read(MISSED + 2)[2:]
            judge.same("wscat, what it missed", team, [frame["event"] for frame in events], missed)
        with Wscat(frames, server, BAD_TOKEN) as client:
            said = client.said()
            proved("wscat, a bad token: 401", "401" in said, said)


def resync(judge):
    """A client that comes from where the log does not reach is told so, and begins with the oldest event."""
    with verdicts.scenario("resync"):
        team = judge.team("Resync")
        [id] = team.cause()
        told = {"recovered": False}
        with Curl(judge.server, team.token, last_id=NO_EVENT, types=TYPE) as curl:
            (_, type, data), (_, _, event) = curl.events(2)
            proved("curl, from nowhere: resync comes first", type == "resync" and told.items() <= data.items(), data)
            judge.same("curl, from nowhere, then", team, [event], [id])
        with Curl(judge.server, team.token, after=data["oldest"], types=TYPE) as curl:
            judge.same("curl, from the oldest", team, [event for _, _, event in curl.events(1)], [id])
        with Socket(judge.frames, judge.server, team.token) as socket:
            socket.read()
            socket.result("subscribe", "1", after=NO_EVENT, types=[TYPE])
            frame = socket.read()
            proved("websockets, from nowhere: resync comes first", frame["type"] == "resync", frame)
            judge.same("websockets, from nowhere, then", team, [socket.read()["event"]], [id])


def payloads(messages):
    return [json.loads(message.payload) for message in messages]


def mqtt(judge, name, version, transport):
    with verdicts.scenario(name):
        team, other, server = judge.team(name), judge.team("Others"), judge.server
        same_client = {"version": version, "transport": transport, "id": "judge"}
        with Paho(server, team.token, **same_client, keep=True) as client:
            told = client.connect()
            proved(f"{name}: connected, with a new session", told == (0, False), told)
            codes = client.subscribe("events/#")
            proved(f"{name}: events/# is granted with QoS 1", codes == [1], codes)
            other.cause()
            ids = team.cause(2)
            messages = client.wait(2)
            judge.same(f"{name}, what it hears", team, payloads(messages), ids)
            topics = {(message.topic, message.qos, message.retain) for message in messages}
            proved(f"{name}: the topic has the type", topics == {(f"events/{TYPE}", 1, False)}, topics)
            if version == V5:
                event_properties(name, messages, ids)
            time.sleep(0.3)  # until the server has the acknowledgements
            client.cut()

        missed = team.cause(MISSED)
        with Paho(server, team.token, **same_client, keep=True) as client:
            told = client.connect()
            proved(f"{name}: cut and connected again, its session was there", told == (0, True), told)
            client.wait(MISSED)
            more = team.cause(1)
            messages = client.wait(MISSED + 1)
            judge.same(f"{name}, what it missed", team, payloads(messages), missed + more)
            client.cut()

        team.cause(1)
        with Paho(server, team.token, **same_client) as client:
            told = client.connect()
            proved(f"{name}: whoever wants a clean start has no session", told == (0, False), told)
            client.subscribe("events/+")
            judge.same(f"{name}, after a clean start", team, payloads(client.messages), [])
            ids = team.cause(1)
            judge.same(f"{name}, by events/+", team, payloads(client.wait(1)), ids)


def event_properties(name, messages, ids):
    found = [dict(message.properties.UserProperty) for message in messages]
    proved(f"{name}: the id is a property", [each.get("event_id") for each in found] == ids, found)
    cursors = {each.get("cursor") for each in found}
    proved(f"{name}: the cursor is a property", all(cursors) and len(cursors) == len(ids), found)
    types = {message.properties.ContentType for message in messages}
    proved(f"{name}: the content type is JSON", types == {"application/json"}, types)


def mqtt_again(judge):
    """At least once: what was not acknowledged comes again."""
    for version, name in ((V3, "paho-mqtt 3.1.1"), (V5, "paho-mqtt 5")):
        with verdicts.scenario(f"{name} does not acknowledge"):
            team = judge.team(name)
            with Paho(judge.server, team.token, version, id="judge", keep=True, by_hand=True) as client:
                client.connect()
                client.subscribe("events/#")
                ids = team.cause(2)
                first, second = client.wait(2)
                client.client.ack(first.mid, first.qos)
                time.sleep(0.3)  # until the server has it
                client.cut()
            with Paho(judge.server, team.token, version, id="judge", keep=True) as client:
                client.connect()
                messages = client.wait(1)
                judge.same(f"{name}, what it did not acknowledge", team, payloads(messages), ids[1:])
                proved(f"{name}: what comes again is marked so", messages[0].dup)


def mqtt_filters(judge):
    with verdicts.scenario("paho-mqtt, filters and topics"):
        team, server = judge.team("Filters"), judge.server
        foreign = "#", "+/+", "$SYS/#", "other/topic", "rpc/#", "$share/group/events/#"
        for version, name, refusal in ((V3, "paho-mqtt 3.1.1", 0x80), (V5, "paho-mqtt 5", NOT_AUTHORIZED)):
            with Paho(server, team.token, version) as client:
                client.connect()
                codes = dict(zip(foreign, client.subscribe(*foreign)))
                if version == V5:
                    shared = codes.pop(foreign[-1])
                    # MQTT 5 has a code of its own for shared subscriptions.
                    proved(f"{name}: a shared subscription is refused", shared in (NOT_AUTHORIZED, 0x9E), shared)
                proved(f"{name}: other filters are refused", set(codes.values()) == {refusal}, codes)
                codes = client.subscribe("events/key.created", f"events/{TYPE}")
                proved(f"{name}: a type is a filter", codes == [1, 1], codes)
                ids = team.cause(1)
                judge.same(f"{name}, by type", team, payloads(client.wait(1)), ids)
        with Paho(server, team.token) as client:
            client.connect()
            code = client.publish(f"events/{TYPE}", "{}")
            proved("paho-mqtt 5: to publish elsewhere is not authorized", code == NOT_AUTHORIZED, code)


def mqtt_refused(judge):
    with verdicts.scenario("paho-mqtt is refused"):
        team, server = judge.team("paho-mqtt, refused"), judge.server
        without = team.make_token("identity:read")["token"]
        for version, transport, name in KINDS:
            for what, token, code in (
                ("a bad token", BAD_TOKEN, BAD_CREDENTIALS),
                ("without the scope", without, NOT_AUTHORIZED),
            ):
                with Paho(server, token, version, transport) as client:
                    told, _ = client.connect()
                proved(f"{name}, {what}: {code:#x}", told == code, f"{told:#x}")


def mqtt_calls(judge):
    with verdicts.scenario("calls over MQTT"):
        team, server, rpc = judge.team("Calls over MQTT"), judge.server, judge.rpc
        me = rpc["GET", "/v1/me"]
        expected = "answer", team.call("GET", "/v1/me")
        seen = mosquitto_rr(server, team.token, me, {})
        proved("mosquitto_rr: a call is answered as GET /v1/me is", seen == expected, seen)
        outcome, problem = mosquitto_rr(server, team.token, "no.such.method", {})
        seen = outcome, problem["code"], problem["request_id"]
        proved("mosquitto_rr: a call of nothing is a problem", seen == ("error", "not_found", ""), problem)

        for transport in ("tcp", "websockets"):
            name = f"paho-mqtt 5, {transport}"
            with Paho(server, team.token, transport=transport) as client:
                client.connect()
                codes = client.subscribe(REPLIES)
                proved(f"{name}: a topic for replies is granted", codes[0] < 0x80, codes)
                seen = client.call(me, {}, b"\x00\xff one")
                proved(f"{name}: a call is answered as GET /v1/me is", seen == expected, seen)
                outcome, problem = client.call(me, {"nothing": 1}, b"two")
                seen = outcome, problem["code"], named(problem), problem["request_id"]
                proved(f"{name}: a refusal is a problem", seen == ("error", "bad_request", ["nothing"], ""), problem)
                test, params = rpc["POST", "/v1/webhooks/endpoints/{endpoint_id}/test"], {"endpoint_id": team.endpoint}
                key = {"UserProperty": ("idempotency_key", transport)}
                seen = [client.call(test, params, tag, **key) for tag in (b"three", b"four")]
                proved(f"{name}: with a key it runs once", seen[0] == seen[1] and seen[0][0] == "answer", seen)


def mosquitto(judge):
    with verdicts.scenario("mosquitto_sub"):
        team, server = judge.team("mosquitto_sub"), judge.server
        for version, more in (("311", []), ("5", ["-x", str(SESSION_SECONDS)])):
            name, words = f"mosquitto_sub {version}", ["-V", version, "-i", f"judge-{version}", "-c", *more]
            with Mosquitto(server, team.token, *words, "-C", "2", "-W", "10") as client:
                client.subscribed()
                ids = team.cause(2)
                client.end()
            judge.same(f"{name}, what it hears", team, payloads_of(client.messages), ids)
            missed = team.cause(MISSED)
            with Mosquitto(server, team.token, *words, "-W", "2") as client:
                client.end()
            judge.same(f"{name}, what it missed", team, payloads_of(client.messages), missed)
            with Mosquitto(server, BAD_TOKEN, "-V", version, "-W", "5") as client:
                code = client.end()
            proved(f"{name}, a bad token: it is told so", code in (4, BAD_CREDENTIALS, 5), (code, client.said))


def payloads_of(messages):
    return [json.loads(message["payload"]) for message in messages]


def taken_over(judge):
    with verdicts.scenario("paho-mqtt is taken over"):
        team, other, server = judge.team("Taken over"), judge.team("Others"), judge.server
        with Paho(server, team.token, id="judge") as first, Paho(server, other.token, id="judge") as stranger:
            first.connect()
            stranger.connect()
            with Paho(server, team.token, id="judge") as second:
                second.connect()
                told = first.ended()
                proved("paho-mqtt 5: another with its id takes over", told == (TAKEN_OVER, True), told)
            proved("paho-mqtt 5: of the same account alone", stranger.heard.empty())


def revoked(judge):
    with verdicts.scenario("revocation"):
        team, server = judge.team("Revocation"), judge.server
        made = team.make_token("events:read")
        token = made["token"]
        with (
            Curl(server, token) as curl,
            Socket(judge.frames, server, token) as socket,
            Paho(server, token) as five,
            Paho(server, token, V3) as three,
            Socket(judge.frames, server, team.token) as bystander,
        ):
            curl.first(), socket.read(), bystander.read()
            five.connect(), three.connect()
            began = time.monotonic()
            server.admin("revoke", made["token_id"])
            told = five.ended()
            proved("revocation: MQTT 5 is told that it is not authorized", told == (NOT_AUTHORIZED, True), told)
            three.ended()
            frames, code = socket.end()
            kinds = [frame["type"] for frame in frames]
            proved(
                "revocation: the socket is told not to come back",
                code in NOT_AGAIN and "closing" in kinds,
                (frames, code),
            )
            until(lambda: curl.ended, "the end of the stream")
            # Before that, it may have heard of its own revocation.
            _, type, data = curl.events(1)[-1]
            # On a stream the call that opened it has an id; only frames of a socket or of MQTT have none.
            named = data.get("request_id", "").startswith("req_")
            fits = (type, data.get("code")) == ("error", "unauthenticated") and named
            proved("revocation: the stream ends with a problem", fits, (type, data))
            took = time.monotonic() - began
            proved("revocation: everything has ended within 5 seconds", took < 5, took)
            proved("revocation: another token's socket goes on", bystander.ask("subscribe", "1")["type"] == "answer")
        with Curl(server, token) as curl:
            proved("revocation: and nothing opens again", curl.head[0] == 401, curl.text)


def limits(judge):
    """32 streams, sockets and MQTT connections a token, of whatever kind, and 128 an account."""
    server = judge.server
    with verdicts.scenario("limits"), contextlib.ExitStack() as held:
        team = judge.team("Limits")
        for _ in range(10):
            held.enter_context(Curl(server, team.token)).first()
            held.enter_context(Socket(judge.frames, server, team.token)).read()
            held.enter_context(Paho(server, team.token)).connect()
        held.enter_context(Curl(server, team.token)).first()
        last = held.enter_context(Curl(server, team.token))
        proved("limits: 32 at once are served", last.head[0] == 200, last.text)
        curl = held.enter_context(Curl(server, team.token))
        seen = curl.head[0], curl.problem["code"]
        proved("limits: the 33rd stream is refused", seen == (429, "rate_limited"), curl.text)
        try:
            with Socket(judge.frames, server, team.token):
                raise AssertionError("the 33rd socket was opened")
        except websockets.exceptions.InvalidStatus as refused:
            seen = refused.response.status_code
        proved("limits: the 33rd socket is refused", seen == 429, seen)
        code, _ = held.enter_context(Paho(server, team.token)).connect()
        proved("limits: the 33rd MQTT connection is refused", code == QUOTA_EXCEEDED, code)
        other = team.make_token("events:read")["token"]
        proved("limits: another token has its own", held.enter_context(Curl(server, other)).head[0] == 200)
        last.__exit__()
        until(lambda: opens(server, team.token), "a free place after one has left")
        proved("limits: who leaves makes room", True)

    with verdicts.scenario("limits of an account"), contextlib.ExitStack() as held:
        team = judge.team("Limits of an account")
        tokens = [team.make_token("events:read")["token"] for _ in range(4)]
        for token in tokens * 32:
            held.enter_context(Socket(judge.frames, server, token)).read()
        with Curl(server, team.token) as curl:
            proved("limits: the 129th of an account is refused", curl.head[0] == 429, curl.text)


def opens(server, token):
    with Curl(server, token) as curl:
        return curl.head[0] == 200


def signs_of_life(judge, since, curl, client):
    with verdicts.scenario("signs of life"):
        time.sleep(max(0, since + 17 - time.monotonic()))
        comments = [block for block in curl.blocks if [name for name, _ in block] == [""]]
        proved("curl: a comment at least every 15 seconds", comments, curl.text)
        proved("wscat: a ping at least every 15 seconds", client.pings, client.pings)


def node(judge):
    env = {**judge.server.env, "PORTICO_BIN": os.environ["PORTICO_BIN"]}
    script = pathlib.Path(__file__).with_name("streams.js")
    with verdicts.scenario("the clients in Node"):
        # It has a line of its own for each thing that fails.
        verdicts.failed |= subprocess.run(["node", str(script)], env=env, timeout=300).returncode != 0


KINDS = (
    (V3, "tcp", "paho-mqtt 3.1.1"),
    (V5, "tcp", "paho-mqtt 5"),
    (V3, "websockets", "paho-mqtt 3.1.1 over WebSocket"),
    (V5, "websockets", "paho-mqtt 5 over WebSocket"),
)


def main():
    with Server() as server:
        judge = Judge(server)
        documents(judge)
        if not judge.frames:
            return 1
        quiet = judge.team("Quiet")
        with Curl(server, quiet.token) as curl, Wscat(judge.frames, server, quiet.token) as client:
            since = time.monotonic()
            sse(judge)
            sse_refused(judge)
            sockets(judge)
            one_subscription(judge)
            calls(judge)
            sockets_refused(judge)
            wscat(judge)
            resync(judge)
            for version, transport, name in KINDS:
                mqtt(judge, name, version, transport)
            mqtt_again(judge)
            mqtt_filters(judge)
            mqtt_refused(judge)
            mqtt_calls(judge)
            mosquitto(judge)
            taken_over(judge)
            revoked(judge)
            limits(judge)
            node(judge)
            signs_of_life(judge, since, curl, client)
    with verdicts.scenario("frames"):
        seen, refused = judge.frames.seen, judge.frames.refused
        proved(f"/frames.json: it allows each of the {seen} frames that went by", seen and not refused, refused)
    return 1 if server.failed() or verdicts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
