// A connection from its key to its end, with grants and calls on the way, and one by a sign-in, against providers on loopback.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, Server, Visitor } from "./harness.mjs";
import { ACME, KEY, LARGE, startProvider } from "./provider.mjs";

let provider;
let server;
let team;

before(async () => {
  provider = await startProvider();
  server = await Server.start({ env: provider.env });
  const { user_id } = await server.person("ada@example.com", "Ada Lovelace");
  const { account_id } = await server.admin("account", "create", "--name", "Acme", "--owner", user_id);
  const { token } = await server.admin("person", "token", "--person", user_id);
  team = { account: account_id, token, org: `/v1/accounts/orgs/${account_id}` };
  const deploy = await call("POST", "/tokens", { name: "deploy", scopes: ["connections:use", "connections:read"], days: 30 });
  await call("POST", "/tokens", { name: "reader", scopes: ["connections:read"], days: 30 });
  team.deploy = deploy.token;
});
after(async () => {
  await server?.end();
  await provider?.end();
  await closeBrowser();
});

const call = async (method, path, body) => {
  const answer = await server.call(method, team.org + path, team.token, body);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};

/** What the token of a program gets. */
const act = (connection, action, params) => server.call("POST", `${team.org}/connections/${connection}/actions/${action}`, team.deploy, { params });

const idOf = (page) => /con_[0-9A-Z]+/.exec(page.url())?.[0];

async function visit(path, email) {
  const visitor = await Visitor.open();
  await visitor.signIn(server, `${path}${path.includes("?") ? "&" : "?"}account=${team.account}`, email);
  return visitor;
}

/** The page of the connection of that name. */
async function visitConnection(name) {
  const { connections } = await call("GET", "/connections");
  const { id } = connections.find((each) => each.name === name);
  const ada = await visit(`/connections/${id}`);
  await ada.heading(name).waitFor();
  return { ada, page: ada.page, id };
}

test("a key that is refused stores nothing, and one that is taken makes the connection", async () => {
  const ada = await visit("/connections");
  const { page } = ada;
  await page.getByRole("heading", { name: "No connections" }).waitFor();
  await page.getByRole("button", { name: "Connect" }).first().click();
  await page.getByRole("list", { name: "What can be connected" }).waitFor();
  await ada.checkAccess("kinds");
  await page.getByRole("button", { name: /^GitHub / }).click();
  await page.getByRole("heading", { name: "Connect GitHub" }).waitFor();
  await ada.checkAccess("a form of a kind");
  ada.provoke(/400 POST .*\/connections$/, /status of 400 .*\/connections$/);
  const key = page.getByLabel("API key", { exact: true });
  await key.fill("ghp_wrong");
  await page.getByRole("button", { name: "Connect", exact: true }).last().click();
  await page.getByRole("alert").getByText("The provider refuses the credential.").waitFor();
  await page.getByText("Nothing was stored.").waitFor();
  await ada.picture("connection-refused");
  assert.deepEqual((await call("GET", "/connections")).connections, []);
  await key.fill(KEY);
  await page.getByRole("button", { name: "Connect", exact: true }).last().click();
  await ada.heading("octo-acme").waitFor();
  await page.getByRole("button", { name: "Test", exact: true }).click();
  await page.getByText("The test passed").waitFor();
  await ada.checkAccess("a connection");
  await page.getByText("As the API has it").click();
  assert.ok(!(await page.content()).includes(KEY), "the key is nowhere on the page");
  await ada.leave();
});

test("an action is tried by a form of its parameters, and one that cannot be taken back asks first", async () => {
  const { ada, page, id } = await visitConnection("octo-acme");
  await page.getByLabel("Action", { exact: true }).first().selectOption("get_issue");
  const tryIt = page.getByRole("region", { name: "Try an action" });
  await tryIt.getByText("reads what is private and reads what strangers wrote").waitFor();
  await tryIt.getByLabel("Owner").fill("acme");
  await tryIt.getByLabel("Repo").fill("app");
  await tryIt.getByLabel("Number").fill("1");
  await tryIt.getByRole("button", { name: "Call get_issue" }).click();
  await tryIt.locator(".tried").getByText("200", { exact: true }).waitFor();
  assert.match(await tryIt.locator(".tried pre").innerText(), new RegExp(`"id": ${LARGE}\\b`), "its numbers are the provider's");
  await ada.checkAccess("an answer");
  await ada.checkWidth("an answer");
  await ada.picture("action-answered");
  const history = page.getByRole("table", { name: "History" });
  await history.getByRole("row", { name: /get_issue/ }).waitFor();
  assert.match(page.url(), /try=get_issue/);

  await tryIt.getByLabel("Action", { exact: true }).selectOption("create_issue");
  for (const [name, value] of [["Owner", "acme"], ["Repo", "app"], ["Title", "Second"], ["Labels", "bug"]]) await tryIt.getByLabel(name).fill(value);
  await tryIt.getByRole("button", { name: "Call create_issue" }).click();
  await tryIt.getByRole("alert").getByText("This is not JSON.").waitFor();
  await tryIt.getByLabel("Labels").fill('["bug"]');
  await tryIt.getByRole("button", { name: "Call create_issue" }).click();
  await tryIt.locator(".tried").getByText("201", { exact: true }).waitFor();
  assert.deepEqual(JSON.parse(provider.calls.at(-1).body), { title: "Second", labels: ["bug"] });

  // What may have been done is not repeated without asking.
  ada.provoke(/400 POST .*\/actions\/create_issue$/, /status of 400 .*\/actions\/create_issue$/);
  provider.broken.add("POST /repos/acme/app/issues");
  await tryIt.getByRole("button", { name: "Call create_issue" }).click();
  await tryIt.getByRole("alert").getByText("Nobody knows whether the provider did it").waitFor();
  provider.broken.clear();
  await tryIt.getByRole("button", { name: "Call create_issue" }).click();
  await page.getByRole("heading", { name: "Call create_issue again?" }).waitFor();
  await page.getByRole("button", { name: "Call it" }).click();
  await tryIt.locator(".tried").getByText("201", { exact: true }).waitFor();

  await tryIt.getByLabel("Action", { exact: true }).selectOption("merge_pull_request");
  for (const [name, value] of [["Owner", "acme"], ["Repo", "app"], ["Number", "3"]]) await tryIt.getByLabel(name).fill(value);
  const before = provider.calls.length;
  await tryIt.getByRole("button", { name: "Call merge_pull_request" }).click();
  await page.getByRole("heading", { name: "Call merge_pull_request?" }).waitFor();
  await ada.picture("action-asks");
  assert.equal(provider.calls.length, before, "nothing is sent before it is confirmed");
  await page.getByRole("button", { name: "Call it" }).click();
  await tryIt.locator(".tried").getByText("200", { exact: true }).waitFor();
  assert.equal(provider.calls.at(-1).call, "PUT /gh/repos/acme/app/pulls/3/merge");

  // What the provider says of its refusal, and what the history keeps of it.
  ada.provoke(/400 POST .*\/actions\/get_issue$/, /status of 400 .*\/actions\/get_issue$/);
  await tryIt.getByLabel("Action", { exact: true }).selectOption("get_issue");
  for (const [name, value] of [["Owner", "acme"], ["Repo", "app"], ["Number", "9"]]) await tryIt.getByLabel(name).fill(value);
  await tryIt.getByRole("button", { name: "Call get_issue" }).click();
  await tryIt.getByText("The provider said: Not Found").waitFor();
  await page.getByRole("group", { name: "Outcome" }).getByRole("button", { name: "Failed" }).click();
  await history.getByText("There is no such thing at the provider.").waitFor();
  await history.locator("tbody tr").nth(2).waitFor({ state: "detached" });
  await history.locator("tbody tr").first().click();
  await page.getByRole("dialog").getByText("a person tried it").waitFor();
  await ada.picture("connection-use");
  assert.equal(idOf(page), id);
  await ada.leave();
});

test("a grant says what it means, warns, lets a token call, and is revoked", async () => {
  const { ada, page, id } = await visitConnection("octo-acme");
  const grants = page.getByRole("region", { name: "Grants" });
  await grants.getByText("Nobody may use it").waitFor();
  assert.equal((await act(id, "get_issue", { owner: "acme", repo: "app", number: 1 })).status, 403);
  await grants.getByRole("button", { name: "Grant", exact: true }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Token", { exact: true }).selectOption("reader");
  await form.getByText("so it can call no action").waitFor();
  await form.getByLabel("Token", { exact: true }).selectOption("deploy");
  await form.getByText("Whoever has this grant reads what is private and reads what strangers wrote.").waitFor();
  assert.equal(await form.getByRole("checkbox").count(), 5, "only what reads");
  await form.getByRole("button", { name: "Writing too" }).click();
  await form.getByText("Together these are dangerous.").waitFor();
  await ada.checkAccess("a grant");
  await ada.picture("grant-trifecta");
  await form.getByRole("button", { name: "Grant", exact: true }).click();
  await page.getByRole("heading", { name: "Granted, with a warning" }).waitFor();
  await page.getByRole("button", { name: "Keep it" }).click();
  const row = grants.getByRole("row", { name: /token deploy/ });
  await row.getByText("reads what is private, reads what strangers wrote and sends something out").waitFor();
  const read = await act(id, "get_issue", { owner: "acme", repo: "app", number: 1 });
  assert.equal(read.status, 200, JSON.stringify(read.body));
  assert.equal((await act(id, "merge_pull_request", { owner: "acme", repo: "app", number: 3 })).status, 403);
  await page.getByRole("group", { name: "Outcome" }).getByRole("button", { name: "Refused" }).click();
  await page.getByRole("table", { name: "History" }).getByText("The caller has no grant for it.").first().waitFor();
  await row.getByRole("button", { name: /^Revoke the grant to/ }).click();
  await page.getByRole("button", { name: "Revoke the grant", exact: true }).click();
  await grants.getByText("Nobody may use it").waitFor();
  assert.equal((await act(id, "get_issue", { owner: "acme", repo: "app", number: 1 })).status, 403);
  await grants.getByLabel("Show ended ones too").check();
  await grants.getByText("revoked", { exact: true }).waitFor();
  await ada.picture("grants-ended");

  // Some actions alone, for a while.
  await grants.getByRole("button", { name: "Grant", exact: true }).click();
  await form.getByLabel("Token", { exact: true }).selectOption("deploy");
  await form.getByRole("button", { name: "Only some" }).click();
  await form.getByRole("checkbox", { name: /get_repository/ }).check();
  await form.getByRole("button", { name: "7 days" }).click();
  await form.getByText("Whoever has this grant reads what is private.").waitFor();
  await form.getByRole("button", { name: "Grant", exact: true }).click();
  await grants.getByRole("row", { name: /get_repository/ }).waitFor();
  assert.equal((await act(id, "get_issue", { owner: "acme", repo: "app", number: 1 })).status, 403);
  await ada.leave();
});

test("a pause, a credential that ends, and another one", async () => {
  const { ada, page, id } = await visitConnection("octo-acme");
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByText("This connection is paused.").waitFor();
  await page.getByText("resume it to try its actions").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByText("This connection is paused.").waitFor({ state: "detached" });
  provider.keys.delete(KEY);
  await page.getByRole("button", { name: "Test", exact: true }).click();
  await page.getByText("This connection needs another credential.").waitFor();
  await ada.checkAccess("a connection without a credential");
  ada.provoke(/400 PATCH .*\/connections\/con_/, /status of 400 .*\/connections\/con_/);
  await page.getByRole("button", { name: "Reconnect…" }).first().click();
  await page.getByLabel("API key", { exact: true }).fill("ghp_wrong");
  await page.getByRole("button", { name: "Reconnect", exact: true }).click();
  await page.getByText("Nothing was stored.").waitFor();
  provider.keys.set("ghp_second", ACME);
  await page.getByLabel("API key", { exact: true }).fill("ghp_second");
  await page.getByRole("button", { name: "Reconnect", exact: true }).click();
  await page.getByText("This connection needs another credential.").waitFor({ state: "detached" });
  assert.equal((await call("GET", `/connections/${id}`)).connection.status, "active");
  await ada.leave();
});

test("a person signs in at the provider and comes back to the connection, or to the reason", async () => {
  const ada = await visit("/connections?new=connection&kind=gitlab");
  const { page } = ada;
  const begin = async () => {
    await page.getByRole("button", { name: "Sign-in", exact: true }).click();
    await page.getByRole("button", { name: "Sign in to GitLab" }).click();
    await page.getByRole("heading", { name: "Allow it?" }).waitFor();
  };
  await page.getByRole("heading", { name: "Connect GitLab" }).waitFor();
  ada.provoke(/400 POST .*\/connect\/complete$/, /status of 400 .*\/connect\/complete$/);
  await begin();
  await page.getByRole("link", { name: "Deny" }).click();
  await page.getByText("You did not allow it").waitFor();
  await ada.checkAccess("a sign-in that failed");
  await ada.picture("sign-in-failed");
  assert.ok(!/code=|error=/.test(page.url()), "what was brought does not stay in the address");
  // Whoever loads it again is told the same, though its state is used up.
  await page.reload();
  await page.getByText("You did not allow it").waitFor();
  await page.getByRole("link", { name: "To the connections" }).click();
  await ada.heading("Connections").waitFor();
  assert.match(page.url(), new RegExp(team.account), "it is in the account where it began");
  await page.goto(`${server.console}/connections?account=${team.account}&new=connection&kind=gitlab`);
  await begin();
  const back = await page.getByRole("link", { name: "Allow" }).getAttribute("href");
  await page.getByRole("link", { name: "Allow" }).click();
  await ada.heading("acme-gitlab").waitFor();
  assert.ok(!/code=|state=/.test(page.url()), "neither the code nor the state stays in the address");
  assert.match(page.url(), new RegExp(team.account), "it is in the account where it began");
  const id = idOf(page);
  // Whoever comes back a second time is told what became of it.
  await page.goto(back);
  await ada.heading("acme-gitlab").waitFor();
  assert.equal(idOf(page), id);
  const { connections } = await call("GET", "/connections");
  assert.equal(connections.filter(({ kind }) => kind === "gitlab").length, 1);
  await page.goto(`${server.console}/connections/callback`);
  await page.getByText("There is nothing to complete").waitFor();
  await ada.leave();
});

test("where the operator has no OAuth client, the account brings its own", async () => {
  const ada = await visit("/connections?new=connection&kind=slack");
  const { page } = ada;
  const form = page.getByRole("dialog");
  await form.getByText(`${server.console}/connections/callback`).waitFor();
  assert.equal(await form.getByRole("button", { name: "Sign in to Slack" }).isDisabled(), true);
  await form.getByLabel("Client id").fill("1234.5678");
  await form.getByLabel("Client secret").fill("slack-client-secret");
  await ada.checkAccess("an OAuth client");
  await ada.picture("own-client");
  await form.getByRole("button", { name: "Save the client" }).click();
  await form.getByText("You go to Slack, allow it there, and come back here.").waitFor();
  assert.equal(await form.getByRole("button", { name: "Sign in to Slack" }).isEnabled(), true);
  const { connector } = await call("GET", "/connections/connectors/slack");
  assert.equal(connector.client.source, "account");
  assert.equal(connector.client.client_id, "1234.5678");
  await ada.leave();
});

test("a connection is renamed, and deleted by its name", async () => {
  const { ada, page } = await visitConnection("octo-acme");
  await page.getByRole("button", { name: "Change" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Code host");
  await page.getByRole("button", { name: "Save" }).click();
  await ada.heading("Code host").waitFor();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByText("1 grant ends with it").waitFor();
  assert.equal(await page.getByRole("button", { name: "Delete the connection" }).isDisabled(), true);
  await page.getByRole("dialog").getByRole("textbox").fill("Code host");
  await page.getByRole("button", { name: "Delete the connection" }).click();
  await ada.heading("Connections").waitFor();
  const table = page.getByRole("table", { name: "Connections" });
  await table.getByText("acme-gitlab").waitFor();
  assert.equal(await table.locator("tbody tr").count(), 1);
  // The provider does not say that it ended its tokens.
  await table.getByRole("link", { name: "acme-gitlab" }).click();
  await ada.heading("acme-gitlab").waitFor();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete the connection" }).click();
  await page.getByText("did not say that it has").waitFor();
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("heading", { name: "No connections" }).waitFor();
  await ada.leave();
});

test("an own service on a host that is not proven is refused, and says what to do", async () => {
  const ada = await visit("/connections?new=connection&kind=endpoint");
  const { page } = ada;
  ada.provoke(/400 POST .*\/connections$/, /status of 400 .*\/connections$/);
  await page.getByLabel("Base URL").fill("https://api.acme.test/v1");
  await page.getByLabel("Secret", { exact: true }).fill("s3cret");
  await page.getByRole("button", { name: "Connect", exact: true }).last().click();
  await page.getByText("is not in a domain that this account has proven").waitFor();
  await ada.picture("own-service-refused");
  await page.getByLabel("Auth").selectOption("none");
  assert.equal(await page.getByLabel("Secret", { exact: true }).count(), 0);
  await page.getByLabel("Auth").selectOption("header");
  await page.getByLabel("Header name").waitFor();
  await ada.leave();
});

test("a member reads, and changes nothing", async () => {
  provider.keys.set(KEY, ACME);
  const { connection } = await call("POST", "/connections", { kind: "github", credentials: { api_key: KEY } });
  const { user_id } = await server.person("bob@example.com", "Bob");
  const { link } = await call("POST", "/invitations", { email: "bob@example.com", role: "member" });
  const { token } = await server.admin("person", "token", "--person", user_id);
  const accepted = await server.call("POST", "/v1/accounts/invitations/accept", token, { token: link.split("=").pop() });
  assert.equal(accepted.status, 200, JSON.stringify(accepted.body));
  const bob = await visit(`/connections/${connection.id}`, "bob@example.com");
  const { page } = bob;
  await bob.heading("octo-acme").waitFor();
  await page.getByRole("region", { name: "History" }).waitFor();
  for (const name of ["Test", "Change", "Pause", "Reconnect…", "Delete…", "Grant"]) {
    assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
  }
  assert.equal(await page.getByRole("region", { name: "Try an action" }).count(), 0);
  await bob.leave();
});
