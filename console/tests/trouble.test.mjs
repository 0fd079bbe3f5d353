// What an open page does when something ends under it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, PASSWORD, Server, Visitor } from "./harness.mjs";

let server;

before(async () => {
  server = await Server.start();
  await server.person("ada@example.com", "Ada Lovelace");
});
after(async () => {
  await server?.end();
  await closeBrowser();
});

test("a server that starts again is found again by an open page", async () => {
  const ada = await Visitor.open();
  await ada.signIn(server, "/events");
  const live = ada.page.getByRole("status").filter({ hasText: "Live" });
  await live.waitFor();
  ada.provoke(/ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE|WebSocket|503/);
  await server.down();
  const notice = ada.page.getByText("The server cannot be reached");
  await notice.waitFor();
  await server.up();
  await notice.waitFor({ state: "detached" });
  await live.waitFor();
  await ada.leave();
});

test("a lost network is told, and what happened meanwhile is there when it is back", async () => {
  const ada = await Visitor.open();
  await ada.signIn(server, "/events");
  await ada.page.getByRole("status").filter({ hasText: "Live" }).waitFor();
  ada.provoke(/ERR_INTERNET_DISCONNECTED|WebSocket/);
  // The other pages were fetched when nobody waited for them.
  await ada.page.waitForFunction(() => performance.getEntriesByType("resource").some(({ name }) => name.includes("/assets/chart-")));
  await ada.context.setOffline(true);
  await ada.page.getByRole("link", { name: "Usage" }).click();
  await ada.page.getByText("The server cannot be reached").waitFor();
  await ada.context.setOffline(false);
  await ada.page.getByText("The server cannot be reached").waitFor({ state: "detached" });
  await ada.page.getByRole("heading", { name: "Price list" }).waitFor();
  await ada.leave();
});

test("a session that ends while a form is half filled loses nothing that was typed", async () => {
  const ada = await Visitor.open();
  await ada.signIn(server, "/keys?tab=tokens&new=token");
  const { page } = ada;
  await page.getByLabel("Name", { exact: true }).fill("half filled");
  ada.provoke(/400 POST .*oauth2.token|status of 400/);
  // In another window the person signs out of the browser, and the console's tokens end with the session.
  const other = await Visitor.open({ context: ada.context });
  await other.page.goto(`${server.auth}/signout`);
  await other.page.getByRole("button", { name: "Sign out" }).click();
  await other.page.getByLabel("E-mail", { exact: true }).waitFor();
  await other.leave();
  // The page learns of it by its stream, which ends with the session.
  const ended = page.getByRole("dialog").getByText("Your session has ended");
  await ended.waitFor();
  const popup = ada.context.waitForEvent("page");
  await page.getByRole("dialog").getByRole("button", { name: "Sign in again" }).click();
  const window = await popup;
  await window.getByLabel("E-mail", { exact: true }).fill("ada@example.com");
  await window.getByLabel("Password").fill(PASSWORD);
  await window.getByRole("button", { name: "Sign in", exact: true }).click();
  await ended.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Make the token" }).click();
  await page.getByRole("heading", { name: "The token half filled" }).waitFor();
  await page.getByRole("button", { name: "I have kept it" }).click();
  await ada.leave();
});

test("what is refused is told in a sentence with the request's id, and stays", async () => {
  const ada = await Visitor.open();
  await ada.signIn(server, "/webhooks?new=endpoint");
  const { page } = ada;
  ada.provoke(/400/);
  await page.getByLabel("Address", { exact: true }).fill("https://127.0.0.1/hook");
  await page.getByRole("button", { name: "Make the endpoint", exact: true }).click();
  const alert = page.getByRole("alert").filter({ hasText: "Request" });
  await alert.getByRole("button", { name: /Copy req_/ }).waitFor();
  assert.equal(await page.getByLabel("Address", { exact: true }).inputValue(), "https://127.0.0.1/hook");
  await ada.leave();
});
