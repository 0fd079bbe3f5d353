// What check/judges/mcp-clients asks of the SDKs in TypeScript: the one of today in both eras, and the one that most
// assistants still have. Each goes the whole way from the address of /mcp, with the person in check/person.py.
const { execFileSync } = require("node:child_process");
const path = require("node:path");
const sdk = require("@modelcontextprotocol/client");
const { Client: OldClient } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport: OldTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { UnauthorizedError: OldUnauthorized } = require("@modelcontextprotocol/sdk/client/auth.js");
const { proved, scenario } = require("./verdicts.js");

const { PORTICO_BASE_URL: baseUrl, PERSON_ID: personId, TOOL: read } = process.env;
const CALLBACK = "http://127.0.0.1:9/callback"; // nobody listens there: the judge reads the address itself
const STATE = "a-state-of-ours";
const LIMIT = 20000; // milliseconds for an answer
const way = JSON.parse(process.env.WAY);
const gone = Number(process.env.GONE_SECONDS) * 1000;
const mcp = new URL(`${baseUrl}/mcp`);

const today = (mode) => ({
  Client: sdk.Client,
  Transport: sdk.StreamableHTTPClientTransport,
  Unauthorized: sdk.UnauthorizedError,
  options: { versionNegotiation: { mode } },
  finish: (transport, answer) => transport.finishAuth(answer), // it checks `iss`, too
  version: (client) => client.getNegotiatedProtocolVersion(),
});

const old = {
  Client: OldClient,
  Transport: OldTransport,
  Unauthorized: OldUnauthorized,
  finish: (transport, answer) => transport.finishAuth(answer.get("code")),
  version: (client) => client.transport.protocolVersion,
};

function person(...words) {
  return execFileSync("python3", [path.join(__dirname, "person.py"), ...words], { encoding: "utf8" }).trim();
}

// What an SDK leaves to the program that it is in: to store things, and to send the person somewhere.
class Provider {
  redirectUrl = CALLBACK;
  clientMetadata = {
    client_name: "An assistant in TypeScript",
    redirect_uris: [CALLBACK],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  asked = [];

  state = () => STATE;
  clientInformation = () => this.client;
  saveClientInformation = (client) => (this.client = client);
  tokens = () => this.held;
  saveTokens = (tokens) => (this.held = tokens);
  codeVerifier = () => this.verifier;
  saveCodeVerifier = (verifier) => (this.verifier = verifier);
  discoveryState = () => this.discovered;
  saveDiscoveryState = (discovered) => (this.discovered = discovered);
  invalidateCredentials = (which) => which === "tokens" && (this.held = undefined);
  redirectToAuthorization = (url) => void this.asked.push(url);
}

class Assistant {
  provider = new Provider();
  trail = [];

  constructor(name, kind) {
    this.name = name;
    this.kind = kind;
  }

  proved(what, ...more) {
    proved(`${this.name}: ${what}`, ...more);
  }

  fetch = async (url, init = {}) => {
    const signals = [AbortSignal.timeout(LIMIT), init.signal].filter(Boolean);
    const answer = await fetch(url, { ...init, signal: AbortSignal.any(signals) });
    this.trail.push(`${init.method ?? "GET"} ${new URL(url).pathname} ${answer.status}`);
    return answer;
  };

  make() {
    const { Client, Transport, options } = this.kind;
    const transport = new Transport(mcp, { authProvider: this.provider, fetch: this.fetch });
    return [new Client({ name: "portico-check", version: "1.0.0" }, options), transport];
  }

  // The first try ends with the person on their way to the pages, as it would in a program with a browser.
  async connect() {
    const [early, refused] = this.make();
    const problem = await early.connect(refused).catch((problem) => problem);
    if (!(problem instanceof this.kind.Unauthorized)) throw problem ?? new Error("connected without a token");
    const answer = new URL(person(this.provider.asked[0].href)).searchParams;
    this.proved("the state comes back", answer.get("state") === STATE, answer.toString());
    await this.kind.finish(refused, answer);
    const [client, transport] = this.make();
    await client.connect(transport);
    return client;
  }

  // The error with which a call ends, or what came of it.
  call = (client, name) => client.callTool({ name, arguments: {} }).catch((problem) => problem);
}

async function inside(assistant, client, version) {
  const { provider, trail, kind } = assistant;
  assistant.proved(
    "refused, told where to ask, registered, allowed, in",
    way.every((step) => trail.includes(step)),
    trail,
  );
  const asked = provider.asked[0].searchParams;
  const right = asked.get("resource") === mcp.href && asked.get("code_challenge_method") === "S256";
  assistant.proved("it asked for /mcp, with PKCE", right, asked.toString());
  assistant.proved(`they speak ${version}`, kind.version(client) === version, kind.version(client));

  const { tools } = await client.listTools();
  const bare = tools.filter((tool) => !tool.outputSchema || !tool.annotations).map((tool) => tool.name);
  assistant.proved("lists the tools", tools.some((tool) => tool.name === read) && bare.length === 0, bare);
  const me = await client.callTool({ name: read, arguments: {} });
  const known =
    me.structuredContent?.subject === personId && me.structuredContent?.client_id === provider.client.client_id;
  assistant.proved(`${read} knows the person and the assistant`, !me.isError && known, me);
  const none = await assistant.call(client, "no_such_tool");
  assistant.proved("a tool that is not there is -32602", none.code === -32602, none);

  // It refreshes when a token is refused, not before.
  const before = provider.held;
  provider.held = { ...before, access_token: "not.a.token" };
  await client.callTool({ name: read, arguments: {} });
  const steps = trail.filter((step) => step.startsWith("POST")).slice(-3);
  const expected = ["POST /mcp 401", "POST /oauth2/token 200", "POST /mcp 200"];
  assistant.proved("it refreshed by itself, and called again", steps.join() === expected.join(), steps);
  assistant.proved("the refresh token was rotated", provider.held.refresh_token !== before.refresh_token);

  person("--disconnect", provider.client.client_id);
  const begin = Date.now();
  let refused;
  while (!((refused = await assistant.call(client, read)) instanceof Error) && Date.now() < begin + gone)
    await new Promise((go) => setTimeout(go, 50));
  assistant.proved("disconnected, it is refused in time", refused instanceof kind.Unauthorized, String(refused));
  assistant.proved("and so is its refresh", trail.includes("POST /oauth2/token 400"), trail.slice(-4));
  assistant.proved("and the person is to be asked again", provider.asked.length === 2, provider.asked.length);
}

async function wholePath(name, kind, version) {
  const assistant = new Assistant(name, kind);
  const client = await assistant.connect();
  try {
    await inside(assistant, client, version);
  } finally {
    await client.close();
  }
}

async function main() {
  for (const [name, kind, version] of [
    ["TypeScript, auto", today("auto"), "2026-07-28"],
    ["TypeScript, legacy", today("legacy"), "2025-11-25"],
    ["TypeScript of old", old, "2025-11-25"],
  ])
    await scenario(name, () => wholePath(name, kind, version));
}

main();
