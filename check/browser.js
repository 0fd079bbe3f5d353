// What check/judges/browser asks, of Chromium by way of Playwright. Every page that is opened is listened to: an error
// on the console or a request to another origin fails the judge, wherever it happens. axe-core looks for what keeps
// people from using a page.
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const axe = require("axe-core");
const { chromium } = require("playwright-core");
const { proved, scenario } = require("./verdicts.js");

const { PORTICO_BIN, PORTICO_AUTH_URL: authUrl, PORTICO_SETUP_URL: setupUrl, PORTICO_SCREENS: screens } = process.env;
const { PORTICO_CONSOLE_URL: consoleUrl, PORTICO_BASE_URL: baseUrl } = process.env;
const PASSWORD = "correct horse battery staple";
const EMAIL = "ada@example.com";
const SIZES = [
  { width: 390, height: 844 },
  { width: 1280, height: 900 },
];
// Chromium asks its maker for much at each start, and here nobody would answer.
const FLAGS = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

// Everything that a page did and no page should do, and the addresses that the judge itself opened and was refused.
const complaints = [];
const refused = new Set();

function admin(words, input) {
  const stdio = ["pipe", "pipe", "inherit"];
  return JSON.parse(execFileSync(PORTICO_BIN, ["admin", ...words, "--json"], { encoding: "utf8", input, stdio }));
}

const python = (...words) => execFileSync("python3", ["-c", ...words], { encoding: "utf8" }).trim();

// An app that waits for people to come back to it.
async function makeApp(name) {
  let arrived;
  const server = http.createServer((request, answer) => {
    arrived(new URL(request.url, app.redirectUri));
    answer
      .writeHead(200, { "content-type": "text/html" })
      .end("<!doctype html><title>Back</title><link rel=icon href=data:,>");
  });
  await new Promise((go) => server.listen(0, "127.0.0.1", go));
  server.unref(); // the judge may end before the app does
  const redirectUri = `http://127.0.0.1:${server.address().port}/callback`;
  const words = [
    "app",
    "create",
    "--name",
    name,
    "--redirect-uri",
    redirectUri,
    "--scopes",
    "identity:read account:read",
  ];
  const app = { name, redirectUri, origin: new URL(redirectUri).origin, clientId: admin(words).client_id };
  app.cameBack = () => new Promise((go) => (arrived = go));
  app.close = () => server.close();
  return app;
}

function authorizationRequest(app) {
  const url = new URL(`${authUrl}/oauth2/auth`);
  url.search = new URLSearchParams({
    client_id: app.clientId,
    redirect_uri: app.redirectUri,
    response_type: "code",
    state: "a-state-of-ours",
    scope: "identity:read account:read",
    audience: "platform-api",
    code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    code_challenge_method: "S256",
  });
  return url.href;
}

async function open(browser, options = {}, otherOrigins = []) {
  const context = await browser.newContext({ viewport: SIZES[1], ...options });
  context.setDefaultTimeout(15_000);
  const complain = (text, url) => complaints.push({ text, url });
  context.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== "data:" && origin !== authUrl && !otherOrigins.includes(origin))
      complain("a request", request.url());
  });
  context.on("response", (response) => {
    if (response.request().isNavigationRequest() && response.status() < 500) refused.add(response.url());
  });
  context.on("console", (message) => {
    if (message.type() === "error") complain(message.text(), message.location().url);
  });
  context.on("weberror", (problem) => complain(`${problem.error()}`, problem.page()?.url()));
  return { context, page: await context.newPage() };
}

async function at(page, where) {
  try {
    await page.waitForURL((url) => url.origin === authUrl && url.pathname === where);
  } catch {
    const text = await page.locator("body").innerText();
    throw new Error(
      `the browser should be at ${where}, and stands at ${page.url()}: ${text.replace(/\s+/g, " ").slice(0, 300)}`,
    );
  }
}

const formOf = (page, ...names) =>
  page.locator(`form${names.map((name) => `:has([name="${name}"])`).join("")}`).first();
const send = (form) => form.locator('button:not([type="button"]), input[type="submit"]').first().click();

async function signIn(page, password = PASSWORD, email = EMAIL) {
  const form = formOf(page, "email", "password");
  await form.locator('[name="email"]').fill(email);
  await form.locator('[name="password"]').fill(password);
  await send(form);
}

async function signOut(page) {
  await page.goto(`${authUrl}/signout`);
  await send(page.locator('form[action^="/signout"]').first());
  await page.waitForLoadState();
  await page.goto(`${authUrl}/settings`);
  await at(page, "/signin");
}

// Looks at a page as people of all kinds would, and keeps its pictures. What it finds does not end the way on.
const inspect = (page, name) => scenario(name, () => inspectClosely(page, name));

async function inspectClosely(page, name) {
  for (const size of SIZES) {
    await page.setViewportSize(size);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      if (screens) {
        fs.mkdirSync(screens, { recursive: true });
        const file = `${name}-${size.width}x${size.height}${colorScheme === "dark" ? "-dark" : ""}.png`;
        await page.screenshot({ path: path.join(screens, file), fullPage: true });
      }
      const { violations } = await page.evaluate(`${axe.source}; axe.run(document, { preload: false })`);
      const bad = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
      const told = bad.map(
        ({ id, help, nodes }) =>
          `${id}: ${help}: ${nodes
            .map(({ html }) => html)
            .join(" ")
            .slice(0, 400)}`,
      );
      if (bad.length) throw new Error(`axe-core, ${name}, ${size.width} wide, ${colorScheme}: ${told.join("; ")}`);
    }
    await page.emulateMedia({ colorScheme: null });
    const excess = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    if (excess > 0) throw new Error(`${name} is ${excess} pixels too wide for ${size.width}`);
  }
  const [title, language] = await page.evaluate("[document.title, document.documentElement.lang]");
  if (!title || !language) throw new Error(`${name} has no title or no language`);
  proved(`${name}: nothing serious to axe-core and nothing too wide, small and large, light and dark`, true);
}

async function firstStart(browser) {
  proved("the first start prints a link to sign up", setupUrl?.startsWith(authUrl), setupUrl);
  const { context, page } = await open(browser, {}, [consoleUrl, baseUrl, baseUrl.replace("http", "ws")]);
  await page.goto(setupUrl);
  await inspect(page, "signup");
  const form = formOf(page, "email", "name", "password");
  await form.locator('[name="email"]').fill(EMAIL);
  await form.locator('[name="name"]').fill("Ada Lovelace");
  await form.locator('[name="password"]').fill(PASSWORD);
  await send(form);
  // The console may ask the provider who is there, and comes back.
  await page.waitForURL((url) => url.origin === consoleUrl && url.pathname === "/");
  proved("the link leads by way of signing up into the console", true);
  await page.goto(`${authUrl}/settings`);
  await at(page, "/settings");
  await inspect(page, "settings");
  await context.close();

  const other = await open(browser);
  const answer = await other.page.goto(setupUrl);
  const usable = await formOf(other.page, "email", "name", "password").count();
  proved("the link works once", answer.status() >= 400 || !usable, answer.status());
  await other.context.close();
}

async function signingIn(browser) {
  const { context, page } = await open(browser);
  await page.goto(`${authUrl}/settings`);
  await at(page, "/signin");
  await inspect(page, "signin");
  await signIn(page, "not the password");
  await page.getByRole("alert").first().waitFor();
  proved("a wrong password is told in an alert", (await page.getByRole("alert").first().innerText()).length > 10);
  await inspect(page, "signin-refused");
  await signIn(page);
  await at(page, "/settings");
  proved("the right one leads where the person was going", true);
  await signOut(page);
  proved("signing out ends the session", true);
  await context.close();
}

async function consent(browser) {
  const [app, unwanted] = [await makeApp("Graph paper"), await makeApp("Second thoughts")];
  const { context, page } = await open(browser, {}, [app.origin, unwanted.origin]);
  await page.goto(authorizationRequest(app));
  await at(page, "/signin");
  await signIn(page);
  await at(page, "/consent");
  const text = await page.locator("body").innerText();
  proved(
    "the consent page names the app, and the host that it leads to",
    text.includes(app.name) && text.includes("127.0.0.1"),
    text,
  );
  await inspect(page, "consent");
  const allowed = await decide(page, app, "allow");
  proved(
    "allowing it leads back to the app with a code",
    allowed.get("code") && allowed.get("state") === "a-state-of-ours",
    [...allowed],
  );

  await page.goto(authorizationRequest(unwanted));
  await at(page, "/consent");
  const denied = await decide(page, unwanted, "deny");
  proved(
    "so does denying another, which asks without a new sign-in, with access_denied",
    denied.get("error") === "access_denied",
    [...denied],
  );
  await context.close();
}

// Presses a button of the consent page; what the app is told then.
async function decide(page, app, decision) {
  const back = app.cameBack();
  await page.locator(`button[name="decision"][value="${decision}"]`).click();
  const address = await atMost(10, back, () => `the browser stands at ${page.url()}`);
  await page.waitForURL((url) => url.origin === app.origin);
  app.close();
  return address.searchParams;
}

async function atMost(seconds, promise, where) {
  let timer;
  const late = new Promise(
    (_, fail) => (timer = setTimeout(() => fail(new Error(`nothing came; ${where()}`)), seconds * 1000)),
  );
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function withoutScripts(browser) {
  const app = await makeApp("Plain paper");
  const { context, page } = await open(browser, { javaScriptEnabled: false }, [app.origin]);
  await page.goto(authorizationRequest(app));
  await at(page, "/signin");
  await signIn(page);
  await at(page, "/consent");
  const params = await decide(page, app, "allow");
  proved("without JavaScript: sign-in and consent lead back to the app with a code", params.get("code"), [...params]);
  await page.goto(`${authUrl}/settings`);
  proved("without JavaScript: the settings open", await formOf(page, "current_password", "new_password").count());
  await context.close();
}

async function codes(browser) {
  const email = "grace@example.com";
  admin(["person", "create", "--email", email, "--name", "Grace Hopper", "--password-stdin"], PASSWORD);
  const { context, page } = await open(browser);
  await page.goto(`${authUrl}/settings/totp`);
  await at(page, "/signin");
  await signIn(page, PASSWORD, email);
  await at(page, "/settings/totp");
  await inspect(page, "totp");
  const secret = await page.locator("#totp-secret").innerText();
  const form = formOf(page, "code", "current_password");
  await form.locator('[name="code"]').fill(python("import pyotp, sys; print(pyotp.TOTP(sys.argv[1]).now())", secret));
  await form.locator('[name="current_password"]').fill(PASSWORD);
  await send(form);
  const recovery = await page.locator("#recovery-codes li").first().innerText();
  await inspect(page, "recovery-codes");
  await signOut(page);
  await page.goto(`${authUrl}/signin`);
  await signIn(page, PASSWORD, email);
  await at(page, "/signin/code");
  await inspect(page, "signin-code");
  await formOf(page, "code").locator('[name="code"]').fill(recovery);
  await send(formOf(page, "code"));
  await at(page, "/settings");
  proved("codes of an app can be turned on, and a recovery code does in their place", true);
  await context.close();
}

async function passkeys(browser) {
  const { context, page } = await open(browser);
  const devtools = await context.newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  const options = {
    protocol: "ctap2",
    transport: "internal",
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
    automaticPresenceSimulation: true,
  };
  const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", { options });
  const held = async () => (await devtools.send("WebAuthn.getCredentials", { authenticatorId })).credentials;

  await page.goto(`${authUrl}/settings`);
  await at(page, "/signin");
  await signIn(page);
  await at(page, "/settings");
  const place = page.locator("details", { hasText: "Add a passkey" });
  await place.locator("summary").click();
  await place.locator('[name="name"]').fill("This laptop");
  await place.locator('[name="current_password"]').fill(PASSWORD);
  await send(place);
  for (let tries = 0; !(await held()).length && tries < 50; tries++) await page.waitForTimeout(100);
  const [credential] = await held();
  proved(
    "a passkey is made, for this site, kept on the device",
    credential?.rpId === "localhost" && credential.isResidentCredential,
    credential,
  );
  await page.getByText("This laptop").waitFor();
  proved("and is listed in the settings", true);
  await inspect(page, "settings-passkey");

  await signOut(page);
  await page.goto(`${authUrl}/signin`);
  await page.getByRole("button", { name: /sign in with a passkey/i }).click();
  await at(page, "/settings");
  proved("the passkey signs in, without a word typed", true);
  const [used] = await held();
  proved("it was really used", used.signCount > credential.signCount, [credential.signCount, used.signCount]);
  await context.close();
}

async function main() {
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: FLAGS,
    chromiumSandbox: process.getuid() !== 0,
  });
  try {
    await scenario("first start", () => firstStart(browser));
    await scenario("signing in", () => signingIn(browser));
    await scenario("consent", () => consent(browser));
    await scenario("without JavaScript", () => withoutScripts(browser));
    await scenario("codes", () => codes(browser));
    await scenario("passkeys", () => passkeys(browser));
    await scenario("what pages may not do", async () => {
      // Chromium counts a page that is itself a refusal among the errors.
      const left = complaints.filter(
        ({ text, url }) => !(text.startsWith("Failed to load resource") && refused.has(url)),
      );
      proved("no page asked another origin for anything, and none left an error on the console", !left.length, left);
    });
  } finally {
    await browser.close();
  }
}

main().catch((problem) => {
  console.log(`FAILED  ${problem.stack}`);
  process.exitCode = 1;
});
