// What check/judges/connections asks of the SDKs in TypeScript: the one of today in both eras, and the one that most
// assistants still have. Each calls a tool that a person grants, and loses it when the grant is revoked.
const sdk = require("@modelcontextprotocol/client");
const { Client: OldClient } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport: OldTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { proved, scenario } = require("./verdicts.js");

const { PORTICO_BASE_URL: baseUrl, TOKEN: token, PERSON_TOKEN: personToken, TOOL: tool, GRANTS: grants } = process.env;
const lost = Number(process.env.LOST_SECONDS) * 1000;
const mcp = new URL(`${baseUrl}/mcp`);
const call = { name: tool, arguments: { project: "7" } };
const expected = JSON.stringify([{ iid: 1, title: "One" }]);

async function ask(method, path, bearer, body) {
  const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
  const answer = await fetch(baseUrl + path, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

const grant = async () => (await ask("POST", grants, personToken, { consumer: process.env.CONSUMER })).grant.id;
const revoke = (id) => ask("DELETE", `${grants}/${id}`, token);

/** Resolves when the list of tools has changed, or fails when that takes too long. */
function changes(client, method) {
  let tell;
  client.setNotificationHandler(method, () => tell?.());
  return () =>
    new Promise((done, failed) => {
      tell = done;
      setTimeout(() => failed(new Error("nobody told of a change")), lost).unref();
    });
}

async function called(name, client) {
  const { tools } = await client.listTools();
  proved(`${name}: granted, the tool is listed`, tools.some((each) => each.name === tool), tools.length);
  const answer = await client.callTool(call);
  const right = !answer.isError && JSON.stringify(answer.structuredContent.result) === expected;
  proved(`${name}: it answers as the action does`, right, answer);
}

async function refusedInTime(name, client) {
  const begin = Date.now();
  let problem;
  while (!((problem = await client.callTool(call).catch((problem) => problem)) instanceof Error))
    if (Date.now() > begin + lost) break;
  proved(`${name}: revoked, a call is refused within two seconds`, problem.code === -32602, problem);
  const { tools } = await client.listTools();
  proved(`${name}: and the tool is away`, !tools.some((each) => each.name === tool), tools.length);
}

async function story(name, client, listen) {
  const transport = { requestInit: { headers: { authorization: `Bearer ${token}` } } };
  await client.connect(new (client instanceof OldClient ? OldTransport : sdk.StreamableHTTPClientTransport)(mcp, transport));
  let id;
  try {
    const changed = listen ? changes(client, "notifications/tools/list_changed") : undefined;
    if (listen) await client.listen({ toolsListChanged: true });
    let told = changed?.();
    id = await grant();
    if (listen) proved(`${name}: granted, the client is told`, (await told) === undefined);
    await called(name, client);
    told = changed?.();
    await revoke(id);
    if (listen) proved(`${name}: revoked, it is told`, (await told) === undefined);
    await refusedInTime(name, client);
  } finally {
    // Twice does no harm.
    if (id) await revoke(id).catch(() => {});
    await client.close();
  }
}

async function main() {
  const about = { name: "portico-check", version: "1.0.0" };
  const today = (mode) => new sdk.Client(about, { versionNegotiation: { mode } });
  await scenario("TypeScript, auto", () => story("TypeScript, auto", today("auto"), true));
  await scenario("TypeScript, legacy", () => story("TypeScript, legacy", today("legacy"), false));
  await scenario("TypeScript of old", () => story("TypeScript of old", new OldClient(about), false));
}

main();
