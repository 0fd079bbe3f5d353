// A domain from its name to its proof, with a mistake on the way, in a real browser; what changes elsewhere shows by itself.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, Server, Visitor } from "./harness.mjs";
import { Names } from "./names.mjs";

let names;
let server;
let team;

before(async () => {
  names = await Names.start(4);
  names.zone("acme.test", "ada.ns.cloudflare.com", "bob.ns.cloudflare.com");
  server = await Server.start({ env: names.env });
  const { user_id } = await server.person("ada@example.com", "Ada Lovelace");
  const { account_id } = await server.admin("account", "create", "--name", "Acme", "--owner", user_id);
  const { token } = await server.admin("person", "token", "--person", user_id);
  team = { account: account_id, token };
});
after(async () => {
  await server?.end();
  names?.end();
  await closeBrowser();
});

const call = async (method, path, body) => {
  const answer = await server.call(method, `/v1/accounts/orgs/${team.account}/domains${path}`, team.token, body);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};

test("a name is looked at while it is typed, and a deeper one is offered the domain above it", async () => {
  const ada = await Visitor.open();
  const { page } = ada;
  await ada.signIn(server, `/domains?account=${team.account}`);
  await page.getByRole("heading", { name: "No domains" }).waitFor();
  await page.getByRole("button", { name: "Add a domain" }).first().click();
  const field = page.getByLabel("Domain", { exact: true });
  for (const [typed, said] of [
    ["https://acme.test", "without https://"],
    ["me@acme.test", "e-mail address"],
    ["*.acme.test", "leave out the asterisk"],
    ["_x.acme.test", "no underscores"],
    ["1.2.3.4", "IP address"],
  ]) {
    await field.fill(typed);
    await page.getByRole("alert").getByText(said).waitFor();
    assert.equal(await page.getByRole("button", { name: "Add the domain" }).isDisabled(), true, typed);
  }
  // What only the server knows of a name.
  ada.provoke(/400 POST .*\/domains$/, /status of 400 .*\/domains$/);
  await field.fill("co.uk");
  await page.getByRole("button", { name: "Add the domain" }).click();
  await page.getByRole("alert").getByText("public suffix").waitFor();
  await field.fill("shop.acme.test");
  await page.getByRole("button", { name: "Add the domain" }).click();
  await page.getByRole("button", { name: "Prove acme.test" }).waitFor();
  await ada.checkAccess("which domain");
  await page.getByRole("button", { name: "Only shop.acme.test" }).click();
  await ada.heading("shop.acme.test").waitFor();
  await page.getByText("_portico-host-challenge.shop", { exact: true }).waitFor();
  await ada.leave();
});

test("a domain goes from its record to its proof, and a mistake is named", async () => {
  const ada = await Visitor.open();
  const { page } = ada;
  await ada.signIn(server, `/domains?account=${team.account}&new=domain`);
  await page.getByLabel("Domain", { exact: true }).fill("ACME.test");
  await page.getByRole("button", { name: "Add the domain" }).click();
  await ada.heading("acme.test").waitFor();
  const { domain } = await call("GET", "/acme.test");
  const record = page.getByRole("region", { name: "Publish this record" });
  await record.getByText("_portico-challenge", { exact: true }).waitFor();
  await record.getByText("_portico-challenge.acme.test", { exact: true }).waitFor();
  await record.getByText(domain.record_value, { exact: true }).waitFor();
  await record.getByText("The panel of Cloudflare").waitFor();
  assert.equal(await record.getByRole("button", { name: /^Copy the/ }).count(), 3);
  // The panel added the domain once more.
  names.txt("_portico-challenge.acme.test.acme.test", domain.record_value);
  await page.getByRole("button", { name: "Check now" }).click();
  await page.getByText("0 of 4 resolvers found the record.").waitFor();
  const note = page.locator(".note", { hasText: "It belongs at" });
  await note.locator("del").getByText("_portico-challenge.acme.test.acme.test", { exact: true }).waitFor();
  await ada.checkAccess("a mistake");
  await ada.checkWidth("a mistake");
  await ada.picture("domain-mistake");
  names.txt("_portico-challenge.acme.test.acme.test");
  names.txt("_portico-challenge.acme.test", "v=spf1 -all", domain.record_value);
  await page.getByRole("button", { name: "Check now" }).click();
  await page.getByText("4 of 4 resolvers found the record.").waitFor();
  await page.getByRole("table", { name: "Resolvers" }).getByText("found").first().waitFor();
  await page.getByRole("button", { name: "Confirm…" }).click();
  await page.getByText("it loses it now").waitFor();
  await page.getByRole("button", { name: "Confirm the domain" }).click();
  await page.getByRole("region", { name: "Keep this record" }).waitFor();
  await ada.checkAccess("a verified domain");
  // Somebody else checks, and the page says so by itself.
  names.txt("_portico-challenge.acme.test");
  await call("POST", "/acme.test/check", {});
  await page.getByText("This domain is not verified.").waitFor();
  await page.getByText("Its record is gone.").waitFor();
  await ada.checkAccess("a lost domain");
  // The same record proves it again.
  await page.getByText("the same record proves it").waitFor();
  await record.getByText(domain.record_value, { exact: true }).waitFor();
  names.txt("_portico-challenge.acme.test", domain.record_value);
  await page.getByRole("button", { name: "Check now" }).click();
  await page.getByRole("button", { name: "Confirm…" }).click();
  await page.getByRole("button", { name: "Confirm the domain" }).click();
  await page.getByRole("region", { name: "Keep this record" }).waitFor();
  // Added again instead, it has another one.
  names.txt("_portico-challenge.acme.test");
  await call("POST", "/acme.test/check", {});
  await page.getByText("This domain is not verified.").waitFor();
  await page.getByRole("button", { name: "Add it again" }).click();
  await page.getByText("This domain is not verified.").waitFor({ state: "hidden" });
  const { domain: renewed } = await call("GET", "/acme.test");
  assert.notEqual(renewed.record_value, domain.record_value);
  await record.getByText(renewed.record_value, { exact: true }).waitFor();
  await page.getByRole("button", { name: "Remove…" }).click();
  await page.getByRole("button", { name: "Remove the domain" }).click();
  await ada.heading("Domains").waitFor();
  await page.getByRole("table", { name: "Domains" }).getByText("shop.acme.test").waitFor();
  assert.equal(await page.getByRole("table", { name: "Domains" }).locator("tbody tr").count(), 1);
  await ada.leave();
});

test("a member reads, and changes nothing", async () => {
  const { user_id } = await server.person("bob@example.com", "Bob");
  const invitation = { email: "bob@example.com", role: "member" };
  const { body } = await server.call("POST", `/v1/accounts/orgs/${team.account}/invitations`, team.token, invitation);
  const { token } = await server.admin("person", "token", "--person", user_id);
  const accepted = await server.call("POST", "/v1/accounts/invitations/accept", token, { token: body.link.split("=").pop() });
  assert.equal(accepted.status, 200, JSON.stringify(accepted.body));
  const bob = await Visitor.open();
  const { page } = bob;
  await bob.signIn(server, `/domains?account=${team.account}`, "bob@example.com");
  await page.getByRole("link", { name: "shop.acme.test" }).click();
  await bob.heading("shop.acme.test").waitFor();
  for (const name of ["Check now", "Remove…", "Confirm…"]) {
    assert.equal(await page.getByRole("button", { name }).count(), 0, name);
  }
  await bob.leave();
});
