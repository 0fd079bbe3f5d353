// What check/judges/streams asks of the Node world: eventsource and MQTT.js come back by themselves after a cut, and
// have missed nothing; AsyncAPI's own parser reads the document of the streams.
const { execFileSync } = require("node:child_process");
const { once } = require("node:events");
const net = require("node:net");
const { isDeepStrictEqual } = require("node:util");
const { Parser } = require("@asyncapi/parser");
const { EventSource } = require("eventsource");
const mqtt = require("mqtt");
const { proved, scenario } = require("./verdicts.js");

const { PORTICO_BIN, PORTICO_BASE_URL: baseUrl, PORTICO_LISTEN_MQTT: broker } = process.env;
const SCOPES = "identity:read events:read webhooks:read webhooks:write";
const TYPE = "webhook.test";
const MISSED = 5;
const BAD_TOKEN = "not.a.token";
const ERROR = 0; // the severity, to the parser

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(found, what, seconds = 15) {
  for (const deadline = Date.now() + seconds * 1000; !found(); await pause(20))
    if (Date.now() > deadline) throw new Error(`after ${seconds} s still not: ${what}`);
}

function admin(...words) {
  const options = { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] };
  return JSON.parse(execFileSync(PORTICO_BIN, ["admin", ...words, "--json"], options));
}

// An account with a token, which causes events by asking for test events.
class Team {
  static async make(name) {
    const team = new Team();
    team.account = admin("account", "create", "--name", name).account_id;
    team.token = team.makeToken(SCOPES);
    const { inbox } = await team.call("POST", "/v1/webhooks/inboxes", {});
    const hook = { url: inbox.address, description: "A judge", event_types: ["key.created"] };
    team.endpoint = (await team.call("POST", "/v1/webhooks/endpoints", hook)).id;
    return team;
  }

  makeToken(scopes) {
    return admin("token", "create", "--account", this.account, "--scopes", scopes).token;
  }

  async call(method, path, body) {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const answer = await fetch(baseUrl + path, { method, headers, body: body && JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  async cause(count = 1) {
    const ids = [];
    for (let each = 0; each < count; each++)
      ids.push((await this.call("POST", `/v1/webhooks/endpoints/${this.endpoint}/test`, {})).event_id);
    return ids;
  }

  // These events and no others, in order, each as the API lists it.
  async same(what, seen, ids) {
    const path = `/v1/accounts/orgs/${this.account}/events?page_size=200`;
    const listed = new Map((await this.call("GET", path)).events.map((event) => [event.id, event]));
    const found = seen.map((event) => event.id);
    proved(`${what}: exactly those, in order`, isDeepStrictEqual(found, ids), { found, ids });
    const truth = ids.map((id) => listed.get(id));
    proved(`${what}: each as the API lists it`, isDeepStrictEqual(seen, truth), seen);
  }
}

// Stands between a client and the server, and cuts every connection when it is told to.
class Relay {
  static async before(address) {
    const relay = new Relay();
    const [host, port] = address.split(":");
    relay.pairs = new Set();
    relay.open = true;
    relay.server = net.createServer((near) => {
      if (!relay.open) return near.destroy();
      const far = net.connect(Number(port), host);
      const pair = [near, far];
      relay.pairs.add(pair);
      near.pipe(far).pipe(near);
      for (const side of pair) {
        side.on("error", () => {});
        side.on("close", () => {
          pair.forEach((each) => each.destroy());
          relay.pairs.delete(pair);
        });
      }
    });
    relay.server.listen(0, "127.0.0.1");
    await once(relay.server, "listening");
    relay.address = `127.0.0.1:${relay.server.address().port}`;
    return relay;
  }

  cut() {
    this.open = false;
    for (const pair of this.pairs) pair.forEach((each) => each.destroy());
  }

  close() {
    this.cut();
    this.server.close();
  }
}

// The library lets its caller add headers, which a browser's EventSource does not.
function withToken(token) {
  return (url, init) => fetch(url, { ...init, headers: { ...init.headers, authorization: `Bearer ${token}` } });
}

async function eventSource() {
  const team = await Team.make("eventsource");
  const relay = await Relay.before(new URL(baseUrl).host);
  const source = new EventSource(`http://${relay.address}/v1/events/stream`, { fetch: withToken(team.token) });
  const seen = [];
  const cursors = new Set();
  let opened = 0;
  source.addEventListener("open", () => opened++);
  source.addEventListener(TYPE, (message) => {
    seen.push(JSON.parse(message.data));
    cursors.add(message.lastEventId);
  });
  try {
    await until(() => opened === 1, "eventsource is open");
    await pause(300); // for the first block, which it does not show
    relay.cut();
    const ids = await team.cause(MISSED);
    relay.open = true;
    await until(() => seen.length >= MISSED, "what happened before the first event");
    await team.same("eventsource, cut before its first event", seen, ids);

    ids.push(...(await team.cause(2)));
    await until(() => seen.length >= MISSED + 2, "two events");
    await team.same("eventsource, what it hears", seen, ids);
    proved("eventsource: each with a cursor of its own", cursors.size === MISSED + 2, [...cursors]);

    relay.cut();
    ids.push(...(await team.cause(MISSED)));
    const began = Date.now();
    relay.open = true;
    await until(() => seen.length >= 2 * MISSED + 2, "what was missed");
    const took = Date.now() - began;
    proved("eventsource: it comes back after the 2 seconds that it was told", took < 4000, took);
    ids.push(...(await team.cause(1)));
    await until(() => seen.length >= 2 * MISSED + 3, "one more");
    await team.same("eventsource, cut between events", seen, ids);
  } finally {
    source.close();
    relay.close();
  }
}

async function eventSourceRefused() {
  const team = await Team.make("eventsource, refused");
  for (const [what, token, status] of [
    ["a bad token", BAD_TOKEN, 401],
    ["without the scope", team.makeToken("identity:read"), 403],
  ]) {
    const source = new EventSource(`${baseUrl}/v1/events/stream`, { fetch: withToken(token) });
    const [error] = await once(source, "error");
    const closed = source.readyState === EventSource.CLOSED;
    proved(`eventsource, ${what}: ${status}, and it stays away`, error.code === status && closed, error.code);
  }
}

function connect(team, url, protocolVersion, more = {}) {
  const properties = protocolVersion === 5 ? { sessionExpiryInterval: 300 } : undefined;
  const asked = { protocolVersion, properties, username: "judge", password: team.token, reconnectPeriod: 200, ...more };
  return mqtt.connect(url, { clientId: "judge", clean: false, ...asked });
}

async function mqttJs(name, address, url, protocolVersion) {
  const team = await Team.make(name);
  const relay = await Relay.before(address);
  // It subscribes once: after the cut, the session has to know.
  const client = connect(team, url(relay.address), protocolVersion, { resubscribe: false });
  const seen = [];
  const sessions = [];
  client.on("connect", (packet) => sessions.push(packet.sessionPresent));
  client.on("message", (topic, payload) => topic === `events/${TYPE}` && seen.push(JSON.parse(payload)));
  client.on("error", () => {}); // the relay refuses while it is cut
  try {
    const [granted] = await client.subscribeAsync("events/#", { qos: 1 });
    proved(`${name}: events/# is granted with QoS 1`, granted.qos === 1, granted);
    const ids = await team.cause(2);
    await until(() => seen.length >= 2, "two events");
    await team.same(`${name}, what it hears`, seen, ids);
    await pause(300); // until the server has the acknowledgements

    relay.cut();
    ids.push(...(await team.cause(MISSED)));
    relay.open = true;
    await until(() => seen.length >= MISSED + 2, "what was missed");
    ids.push(...(await team.cause(1)));
    await until(() => seen.length >= MISSED + 3, "one more");
    await team.same(`${name}, cut and back by itself`, seen, ids);
    proved(`${name}: its session was there`, isDeepStrictEqual(sessions, [false, true]), sessions);
  } finally {
    await client.endAsync(true);
    relay.close();
  }
}

async function mqttJsRefused(name, address, url, protocolVersion) {
  const team = await Team.make(`${name}, refused`);
  const codes = protocolVersion === 5 ? [0x86, 0x87] : [4, 5];
  const tokens = [BAD_TOKEN, team.makeToken("identity:read")];
  for (const [place, what] of ["a bad token", "without the scope"].entries()) {
    const client = connect(team, url(address), protocolVersion, { password: tokens[place], reconnectPeriod: 0 });
    const told = await new Promise((done) => client.once("error", done).once("connect", done));
    await client.endAsync(true);
    proved(`${name}, ${what}: ${codes[place]}`, told instanceof Error && told.code === codes[place], told);
  }
}

async function mqttJsCalls(name, address, url) {
  const team = await Team.make(`${name}, calls`);
  const { paths } = await (await fetch(`${baseUrl}/openapi.json`)).json();
  const client = connect(team, url(address), 5);
  const replyTo = "rpc/reply/judge";
  try {
    await client.subscribeAsync(replyTo, { qos: 1 });
    const reply = once(client, "message");
    const properties = { responseTopic: replyTo, correlationData: Buffer.from("a tag") };
    await client.publishAsync(`rpc/${paths["/v1/me"].get["x-platform-rpc"]}`, "{}", { qos: 1, properties });
    const [topic, payload, packet] = await reply;
    const told = [topic, String(packet.properties.correlationData), packet.properties.userProperties.outcome];
    proved(`${name}: the reply is to the call`, isDeepStrictEqual(told, [replyTo, "a tag", "answer"]), told);
    const expected = await team.call("GET", "/v1/me");
    proved(`${name}: a call is answered as GET /v1/me is`, isDeepStrictEqual(JSON.parse(payload), expected));
    const refused = await client.publishAsync("elsewhere", "{}", { qos: 1 }).catch((problem) => problem);
    proved(`${name}: to publish elsewhere is not authorized`, refused.code === 0x87, refused);
  } finally {
    await client.endAsync(true);
  }
}

async function asyncApi() {
  const text = await (await fetch(`${baseUrl}/asyncapi.json`)).text();
  const { document, diagnostics } = await new Parser().parse(text);
  const errors = diagnostics.filter((each) => each.severity === ERROR);
  const told = errors.map((each) => `${each.path.join(".")}: ${each.message}`);
  proved("AsyncAPI's parser: /asyncapi.json has no error", document && !errors.length, told);
  proved("AsyncAPI's parser: it is of version 3", document.version().startsWith("3."), document.version());
}

async function main() {
  await scenario("AsyncAPI", asyncApi);
  await scenario("eventsource", eventSource);
  await scenario("eventsource is refused", eventSourceRefused);
  for (const [how, address, url] of [
    ["TCP", broker, (at) => `mqtt://${at}`],
    ["WebSocket", new URL(baseUrl).host, (at) => `ws://${at}/mqtt`],
  ]) {
    for (const [version, protocolVersion] of [
      ["3.1.1", 4],
      ["5", 5],
    ]) {
      const name = `MQTT.js ${version} over ${how}`;
      await scenario(name, () => mqttJs(name, address, url, protocolVersion));
      await scenario(`${name} is refused`, () => mqttJsRefused(name, address, url, protocolVersion));
    }
    const name = `MQTT.js 5 over ${how}`;
    await scenario(`${name}, calls`, () => mqttJsCalls(name, address, url));
  }
}

// Node ends without a word when nothing is left to wait for, though a promise is still open.
let finished = false;
process.on("exit", () => {
  if (finished) return;
  console.log("FAILED  the clients in Node ended early: one of them waits for what will never come");
  process.exitCode = 1;
});
main().then(() => (finished = true));
