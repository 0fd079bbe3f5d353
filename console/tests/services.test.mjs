// What a company's own service brings stands wherever the platform's own does, and nothing breaks where it cannot be had.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { closeBrowser, Server, Visitor } from "./harness.mjs";
import { MARKUP, startParcels } from "./parcels.mjs";

const run = promisify(execFile);
let parcels;
let server;

before(async () => {
  parcels = await startParcels();
  server = await Server.start(parcels.settings);
  await server.person("ada@example.com", "Ada Lovelace");
});
after(async () => {
  await server?.end();
  await parcels?.end();
  await closeBrowser();
});

test("its scopes are offered by their words, under the name of the service", async () => {
  const ada = await Visitor.open();
  const { page } = ada;
  await ada.signIn(server, "/keys?tab=tokens&new=token");
  const scopes = page.getByRole("list", { name: "Parcels" });
  assert.equal(await scopes.getByLabel(/Look at parcels.*parcels:read, 2 operations/).isChecked(), true, "to read everything is to read these too");
  assert.equal(await scopes.getByLabel(/Send parcels on their way/).isChecked(), false);
  await ada.checkAccess("scopes of a service");
  await page.getByRole("button", { name: "My own choice" }).click();
  await scopes.getByLabel(/Send parcels on their way/).check();
  await page.getByLabel("Name", { exact: true }).fill("sender");
  await page.getByRole("button", { name: "Make the token" }).click();
  await page.getByRole("heading", { name: "The token sender" }).waitFor();
  await page.getByRole("button", { name: "I have kept it" }).click();
  await page.getByRole("row", { name: /sender/ }).click();
  await page.getByRole("dialog").getByText("parcels:send", { exact: true }).waitFor();
  await ada.leave();
});

test("its routes stand in the reference, and a try reaches it", async () => {
  const ada = await Visitor.open();
  const { page } = ada;
  await ada.signIn(server);
  await ada.go("/reference");
  await page.getByRole("heading", { level: 2, name: "Parcels" }).waitFor();
  await page.getByRole("link", { name: "Look at a parcel" }).click();
  await ada.heading("Look at a parcel").waitFor();
  await page.getByText(MARKUP).waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  await page.locator(".facts", { hasText: "Service" }).getByText("Parcels", { exact: true }).waitFor();
  await ada.checkAccess("a route of a service");
  await page.getByRole("button", { name: "Make a test token" }).click();
  await page.getByLabel("parcel-id").fill("p 1");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator(".tried").getByText("200").waitFor();
  assert.equal(parcels.calls.length, 1);
  assert.equal(parcels.calls[0].call, "GET /v1/parcels/p%201");
  assert.match(parcels.calls[0].headers["portico-account"], /^acc_/);
  // The program is one in every language, and does the same.
  for (const [language, program, ...words] of [["curl", "bash", "-c"], ["TypeScript", "node", "--input-type=module", "-e"], ["Python", "python3", "-c"]]) {
    await page.getByRole("button", { name: language, exact: true }).click();
    const text = await page.locator("figure.code", { hasText: language }).locator("pre").first().innerText();
    assert.match((await run(program, [...words, text])).stdout, /250/, language);
  }
  assert.equal(parcels.calls.length, 4);
  await ada.leave();
});

test("the reference of a service is open to everybody, by its address and by the search", async () => {
  const somebody = await Visitor.open();
  const { page } = somebody;
  await page.goto(`${server.console}/reference/parcels.sendParcel`);
  await somebody.heading("Send a parcel").waitFor();
  await page.getByText("Parcels within it.").first().waitFor({ state: "attached" });
  await page.keyboard.press("Control+k");
  await page.locator(".finder input:focus").waitFor();
  await page.locator(".finder input").first().fill("list parcels");
  await page.locator(".finder input").first().press("Enter");
  await somebody.heading("List parcels").waitFor();
  await page.goto(`${server.console}/reference/events/parcel.delivered`);
  await somebody.heading("parcel.delivered").waitFor();
  // The fields of what it refers to are told, too.
  await page.locator(".ref-name", { hasText: "grams" }).first().waitFor({ state: "attached" });
  await somebody.leave();
});

test("its events can be subscribed, its routes found and looked for in the log", async () => {
  const ada = await Visitor.open();
  const { page } = ada;
  await ada.signIn(server, "/webhooks?new=endpoint");
  await page.getByLabel(/parcel\.delivered.*A parcel was handed over/).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await ada.go("/events?tab=types");
  await page.getByRole("row", { name: /parcel\.delivered/ }).waitFor();
  await page.keyboard.press("Control+k");
  await page.locator(".finder input:focus").waitFor();
  await page.keyboard.type("send a parcel");
  await page.getByRole("option", { name: /Send a parcel Parcels/ }).click();
  await ada.heading("Send a parcel").waitFor();
  await ada.go("/requests");
  await page.locator("optgroup[label=Parcels] option", { hasText: "parcels.getParcel" }).waitFor({ state: "attached" });
  await page.getByLabel("Operation").selectOption("parcels.getParcel");
  await page.getByRole("grid", { name: "Requests" }).getByRole("row").filter({ hasText: "parcels.getParcel" }).first().click();
  await page.getByRole("dialog").locator(".facts", { hasText: "Service" }).getByText("Parcels", { exact: true }).waitFor();
  await page.getByRole("link", { name: "This operation" }).click();
  await ada.heading("Look at a parcel").waitFor();
  await ada.leave();
});

test("where the documents cannot be had, what was built in stays", async () => {
  const ada = await Visitor.open();
  const { page } = ada;
  ada.provoke(/ERR_FAILED|503/);
  await page.route(/openapi\.json/, (route) => route.abort());
  await page.route(/asyncapi\.json/, (route) => route.fulfill({ status: 503, headers: { "access-control-allow-origin": "*" } }));
  await ada.signIn(server, "/keys?new=key");
  await page.getByLabel(/webhooks:read, \d+ operations/).waitFor();
  assert.equal(await page.getByText("parcels:read").count(), 0);
  await page.goto(`${server.console}/reference/identity.me.get`);
  await ada.heading("See who the caller is").waitFor();
  await page.goto(`${server.console}/reference/parcels.getParcel`);
  await page.getByText("There is no such page").waitFor();
  await ada.leave();
});
