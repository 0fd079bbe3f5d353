"""MQTT clients that others wrote: paho-mqtt in either version, over TCP and over a WebSocket, and mosquitto."""

import json
import os
import queue
import socket
import subprocess
import threading
import urllib.parse

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from team import until

V3, V5 = paho.MQTTv311, paho.MQTTv5
REPLIES = "rpc/reply/judge"
SESSION_SECONDS = 300


class Paho:
    """A client that stays away once it is cut; whoever comes back under its id is another one."""

    def __init__(self, server, token, version=V5, transport="tcp", id="", keep=False, by_hand=False):
        """`keep` asks for a session that outlives the connection; `by_hand` leaves messages unacknowledged."""
        self.version, self.keep = version, keep
        clean = None if version == V5 else not keep
        self.client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            id,
            clean_session=clean,
            protocol=version,
            transport=transport,
            reconnect_on_failure=False,
            manual_ack=by_hand,
        )
        self.client.username_pw_set("judge", token)
        self.address = server.env["PORTICO_LISTEN_MQTT"]
        if transport == "websockets":
            self.address = urllib.parse.urlsplit(server.base_url).netloc
            self.client.ws_set_options(path="/mqtt")
        self.messages, self.heard = [], queue.Queue()
        self.client.on_connect = lambda _client, _data, flags, code, _more: self.heard.put(
            ("connected", code.value, flags.session_present)
        )
        self.client.on_disconnect = lambda _client, _data, flags, code, _more: self.heard.put(
            ("ended", code.value, flags.is_disconnect_packet_from_server)
        )
        self.client.on_subscribe = lambda _client, _data, _mid, codes, _more: self.heard.put(
            ("subscribed", *(code.value for code in codes))
        )
        self.client.on_publish = lambda _client, _data, _mid, code, _more: self.heard.put(("published", code.value))
        self.client.on_message = lambda _client, _data, message: self.messages.append(message)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()

    def _next(self, what):
        kind, *told = self.heard.get(timeout=10)
        if kind != what:
            raise AssertionError(f"paho-mqtt was to be {what}, and is {kind} {told}")
        return told

    def connect(self):
        """The reason code (also for 3.1.1, whose codes paho-mqtt translates), and whether a session was there."""
        host, port = self.address.split(":")
        more = {}
        if self.version == V5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = SESSION_SECONDS if self.keep else 0
            more = {"clean_start": not self.keep, "properties": properties}
        self.client.connect(host, int(port), keepalive=30, **more)
        self.client.loop_start()
        return tuple(self._next("connected"))

    def subscribe(self, *filters):
        self.client.subscribe([(each, 1) for each in filters])
        return self._next("subscribed")

    def publish(self, topic, payload, **properties):
        """The reason code of the acknowledgement."""
        more = Properties(PacketTypes.PUBLISH)
        for name, value in properties.items():
            setattr(more, name, value)
        self.client.publish(topic, payload, qos=1, properties=more if self.version == V5 else None)
        return self._next("published")[0]

    def wait(self, count):
        """The first messages, once there are that many."""
        until(lambda: len(self.messages) >= count, f"{count} messages for paho-mqtt")
        return list(self.messages)

    def ended(self):
        """The reason code with which the server ends the connection, and whether it said so."""
        return tuple(self._next("ended"))

    def call(self, method, params, tag, **properties):
        """How the call over MQTT 5 went, and its payload; `tag` has to come back."""
        count = len(self.messages)
        asked = {"ResponseTopic": REPLIES, "CorrelationData": tag, **properties}
        code = self.publish(f"rpc/{method}", json.dumps(params), **asked)
        if code >= 0x80:
            raise AssertionError(f"a call of {method} was refused with {code:#x}")
        [reply] = self.wait(count + 1)[count:]
        told = reply.topic, getattr(reply.properties, "CorrelationData", None)
        if told != (REPLIES, tag):
            raise AssertionError(f"the reply to {method} came to {told}")
        return dict(reply.properties.UserProperty)["outcome"], json.loads(reply.payload)

    def cut(self):
        """Ends the connection without a word; the server sees no DISCONNECT."""
        with socket.socket(fileno=os.dup(self.client.socket().fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)
        self._next("ended")
        self.client.loop_stop()


class Mosquitto:
    """mosquitto_sub on `events/#`, as long as its words say; `-V` names the version of the protocol."""

    def __init__(self, server, token, *words):
        self.env = server.env
        # By the line, so that what it says is there as soon as it is said.
        self.words = ["stdbuf", "-oL", "mosquitto_sub", *options(server, token), "-d", "-q", "1", "-t", "events/#"]
        self.words += ["-F", "%j", *words]

    def __enter__(self):
        out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(self.words, env=self.env, text=True, **out)
        self.said = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reader.join(10)

    def _read(self):
        for line in self.process.stdout:
            self.said.append(line)

    def subscribed(self):
        return until(lambda: any(line.startswith("Subscribed") for line in self.said), "mosquitto_sub has subscribed")

    def end(self):
        """Its exit code, once it has heard all that it waited for, or has waited long enough."""
        code = self.process.wait(30)
        self.reader.join(10)
        return code

    @property
    def messages(self):
        return [json.loads(line) for line in self.said if line.startswith("{")]


def options(server, token):
    host, port = server.env["PORTICO_LISTEN_MQTT"].split(":")
    return ["-h", host, "-p", port, "-u", "judge", "-P", token]


def mosquitto_rr(server, token, method, params, *words):
    """What mosquitto_rr, which sends a request and waits for its response, says of a call."""
    command = ["mosquitto_rr", *options(server, token), "-V", "5", "-q", "1", "-W", "10", "-F", "%j"]
    command += ["-t", f"rpc/{method}", "-e", REPLIES, "-m", json.dumps(params), *words]
    done = subprocess.run(command, env=server.env, capture_output=True, text=True, timeout=30)
    if done.returncode or not done.stdout:
        raise AssertionError(f"mosquitto_rr ended with {done.returncode}: {done.stdout}{done.stderr}")
    reply = json.loads(done.stdout)
    return reply["properties"]["user-properties"]["outcome"], json.loads(reply["payload"])
