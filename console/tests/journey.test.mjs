// The way of somebody who is new, from the link of the first start to a verified delivery, and on.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { closeBrowser, PASSWORD, Server, Visitor } from "./harness.mjs";

const run = promisify(execFile);
const steps = [];
/** Each begins where the one before ended. */
const step = (name, run) => steps.push([name, run]);
let server;
let ada;

before(async () => {
  server = await Server.start();
  ada = await Visitor.open();
});
after(async () => {
  await server?.end();
  await closeBrowser();
});

/** What stands in the block of code of that label. */
const code = (visitor, label) => visitor.page.locator("figure.code", { hasText: label }).locator("pre").innerText();

const shell = async (command) => JSON.parse((await run("bash", ["-c", command])).stdout);

step("the link of the first start leads by way of signing up into the console", async () => {
  assert.match(server.ready, / console=127\.0\.0\.1:\d+/);
  const { page } = ada;
  await page.goto(server.setup);
  await page.getByLabel("E-mail", { exact: true }).fill("ada@example.com");
  await page.getByLabel("Your name").fill("Ada Lovelace");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Create account" }).click();
  await ada.heading("Overview").waitFor();
  await page.getByRole("heading", { name: "First steps" }).waitFor();
  await page.getByRole("status").filter({ hasText: "Live" }).waitFor();
});

let command;

step("a token is made, shown once, and works with the curl that is shown", async () => {
  const { page } = ada;
  await page.getByRole("link", { name: "Make a token" }).click();
  await page.getByLabel("Name", { exact: true }).fill("laptop");
  await page.getByRole("button", { name: "Make the token" }).click();
  await page.getByRole("heading", { name: "The token laptop" }).waitFor();
  await page.keyboard.press("Escape");
  await page.mouse.click(5, 5);
  command = await code(ada, "Try it");
  assert.equal((await shell(command)).name, "laptop");
  const token = await code(ada, "Token");
  await page.getByRole("button", { name: "I have kept it" }).click();
  await page.getByRole("row", { name: /laptop/ }).waitFor();
  assert.ok(!(await page.content()).includes(token), "it is nowhere on the page any more");
});

step("the test inbox receives a test event, valid, without a reload", async () => {
  const { page } = ada;
  await page.getByRole("link", { name: "Webhooks" }).click();
  await page.getByRole("link", { name: "Test inbox", exact: true }).click();
  await page.getByRole("button", { name: "Make the test inbox" }).click();
  await page.getByRole("button", { name: "Make an endpoint for it" }).click();
  await page.getByRole("button", { name: "Make the endpoint", exact: true }).click();
  await page.getByRole("button", { name: "I have kept it" }).click();
  await page.getByRole("link", { name: "Test inbox", exact: true }).click();
  await page.getByRole("button", { name: "Send a test event" }).click();
  const row = page.getByRole("row").filter({ hasText: "webhook.test" }).first();
  await row.getByText("valid", { exact: true }).waitFor();
  await row.click();
  await page.getByText("The signature is that of an endpoint").waitFor();
  await page.keyboard.press("Escape");
});

step("the delivery stands at the endpoint with its attempt, and the secret is rotated", async () => {
  const { page } = ada;
  await page.getByRole("link", { name: "Its endpoint" }).click();
  await page.getByRole("row").filter({ hasText: "webhook.test" }).getByText("delivered").first().waitFor();
  await page.getByRole("button", { name: "Rotate the secret…" }).click();
  await page.getByRole("button", { name: "Rotate", exact: true }).click();
  assert.match(await code(ada, "Signing secret"), /^whsec_/);
  await page.getByRole("button", { name: "I have kept it" }).click();
  await page.getByText("The old and the new secret both sign").waitFor();
  await page.getByRole("button", { name: "Send a test", exact: true }).click();
  await page.getByText("A test event was sent").waitFor();
});

step("the first steps are done", async () => {
  const { page } = ada;
  await page.getByRole("link", { name: "Overview", exact: true }).first().click();
  await ada.heading("Overview").waitFor();
  await page.getByRole("heading", { name: /Calls by day/ }).waitFor();
  // The first call is written down within a minute; the other two steps are done at once.
  await page.getByText("webhook.test").first().waitFor();
});

step("a revoked token is refused", async () => {
  const { page } = ada;
  await page.goto(`${server.console}/keys?tab=tokens`);
  await page.getByRole("row", { name: /laptop/ }).click();
  await page.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("button", { name: "Revoke the token" }).click();
  await page.getByText("No tokens").waitFor();
  let answer;
  for (const began = Date.now(); Date.now() - began < 2500; ) {
    answer = await shell(command);
    if (answer.code === "unauthenticated") break;
  }
  assert.equal(answer.code, "unauthenticated");
});

step("a team is made, a member is invited, accepts as another person, and the account is switched", async () => {
  const { page } = ada;
  await page.getByRole("button", { name: /Ada Lovelace Personal/ }).click();
  await page.getByRole("menuitem", { name: "Make a team" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Acme Robotics");
  await page.getByRole("button", { name: "Make the team" }).click();
  await page.getByRole("button", { name: /Acme Robotics Team, owner/ }).waitFor();
  await page.getByRole("link", { name: "Members" }).click();
  await page.getByRole("button", { name: "Invite somebody" }).click();
  await page.getByLabel("E-mail", { exact: true }).fill("grace@example.com");
  await page.getByRole("button", { name: "Invite", exact: true }).click();
  const link = await code(ada, "Invitation");
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("row", { name: /grace@example.com/ }).waitFor();

  const grace = await Visitor.open();
  await grace.page.goto(link);
  await grace.page.getByLabel("Your name").fill("Grace Hopper");
  await grace.page.getByLabel("Password").fill(PASSWORD);
  await grace.page.getByRole("button", { name: "Create account" }).click();
  await grace.heading("Overview").waitFor();
  await grace.page.getByRole("button", { name: /Grace Hopper Personal/ }).click();
  await grace.page.getByRole("menuitemradio", { name: /Acme Robotics/ }).click();
  await grace.page.getByRole("button", { name: /Acme Robotics Team, member/ }).waitFor();
  assert.equal(await grace.page.getByRole("link", { name: "Keys and tokens" }).count(), 0, "a member makes no keys");
  await grace.leave();

  // Her arrival is an event, so the open page shows it by itself.
  await page.getByRole("heading", { name: "2 members" }).waitFor();
  await page.getByRole("button", { name: /Acme Robotics Team, owner/ }).click();
  await page.getByRole("menuitemradio", { name: /Ada Lovelace/ }).click();
  await page.getByRole("button", { name: /Ada Lovelace Personal/ }).waitFor();
});

step("the live tail shows what happens, and waits while it is paused", async () => {
  const { page } = ada;
  await page.getByRole("link", { name: "Events", exact: true }).click();
  await page.getByRole("button", { name: "Pause" }).click();
  const rows = page.getByRole("table", { name: "Events" }).getByRole("row");
  await page.getByRole("row").filter({ hasText: "audit.event" }).first().waitFor();
  const seen = await rows.count();
  const other = await Visitor.open({ context: ada.context });
  await other.page.goto(`${server.console}/keys?new=key`);
  await other.page.getByLabel("Name", { exact: true }).fill("production");
  await other.page.getByRole("button", { name: "Make the key" }).click();
  await other.page.getByRole("button", { name: "I have kept it" }).click();
  await other.leave();
  await page.getByText(/Paused, [12] new event/).waitFor();
  assert.equal(await rows.count(), seen, "nothing moves while somebody reads");
  await page.getByRole("button", { name: "Go on" }).click();
  await page.getByRole("row").filter({ hasText: "key.created" }).first().waitFor();
});

step("the reference answers a try with the real answer", async () => {
  const { page } = ada;
  await page.getByRole("link", { name: "Reference and guides" }).click();
  await ada.heading("Reference and guides").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("who the caller");
  await page.keyboard.press("Enter");
  await ada.heading("See who the caller is").waitFor();
  await page.getByRole("button", { name: "Make a test token" }).click();
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator(".tried").getByText("200").waitFor();
  assert.match(await page.locator(".tried").innerText(), /x-request-id: req_[\s\S]*"Reference test token"/);
  for (const language of ["TypeScript", "Python"]) {
    await page.getByRole("button", { name: language }).click();
    const text = await code(ada, language);
    const [program, flag] = language === "Python" ? ["python3", "-c"] : ["node", "--input-type=module"];
    const args = language === "Python" ? [flag, text] : [flag, "-e", text];
    assert.match((await run(program, args)).stdout, /Reference test token/, language);
  }
});

test("the way of somebody who is new", async () => {
  for (const [name, run] of steps) {
    await run().catch((error) => {
      throw new Error(`${name}: ${error.message}`, { cause: error });
    });
  }
  await ada.leave();
});
