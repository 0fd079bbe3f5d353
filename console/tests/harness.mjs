// A real server, a real browser, and a watch on everything that goes wrong in it.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { AxeBuilder } from "@axe-core/playwright";
import { chromium } from "playwright-core";

const target = process.env.CARGO_TARGET_DIR ?? resolve(import.meta.dirname, "../../target");
const program = process.env.PORTICO_BIN ?? join(target, "debug/portico");
export const PASSWORD = "correct horse battery staple 9";
export const WAIT_MS = 15_000;
/** The folder that pictures of pages go to; none are taken where it is not named. */
const SCREENS = process.env.PORTICO_SCREENS;

const run = promisify(execFile);

async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer());
  await Promise.all(servers.map((server) => new Promise((done) => server.listen(0, "127.0.0.1", done))));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return ports;
}

/** A server in a folder of its own, which can be stopped and started again. */
export class Server {
  /** `more` is added to its configuration; FOLDER in it is the server's own folder. `files` are put there before it starts, `env` into its environment. */
  static async start({ more = "", files = {}, env = {} } = {}) {
    const server = new Server();
    server.folder = await mkdtemp(join(tmpdir(), "portico-console-"));
    const [api, auth, console] = await freePorts(3);
    server.api = `http://127.0.0.1:${api}`;
    server.auth = `http://localhost:${auth}`;
    server.console = `http://localhost:${console}`;
    const config = join(server.folder, "portico.toml");
    const plan = "[plans.free]\nmonthly_units = 1000000\ncalls_per_minute = 1000000\n";
    await writeFile(config, plan + more.replaceAll("FOLDER", server.folder));
    for (const [name, text] of Object.entries(files)) await writeFile(join(server.folder, name), text);
    const others = Object.entries(process.env).filter(([name]) => !name.startsWith("PORTICO_"));
    server.env = {
      ...Object.fromEntries(others),
      PORTICO_CONFIG: config,
      PORTICO_DATA_DIR: join(server.folder, "data"),
      PORTICO_BASE_URL: server.api,
      PORTICO_AUTH_URL: server.auth,
      PORTICO_CONSOLE_URL: server.console,
      PORTICO_LISTEN_API: `127.0.0.1:${api}`,
      PORTICO_LISTEN_AUTH: `localhost:${auth}`,
      PORTICO_LISTEN_CONSOLE: `localhost:${console}`,
      PORTICO_LISTEN_MQTT: "",
      PORTICO_LISTEN_METRICS: "",
      // Nobody outside of this machine is asked.
      PORTICO_DNS_RESOLVERS: "127.0.0.1:9",
      PORTICO_LOG: "warn",
      ...env,
    };
    await server.up();
    return server;
  }

  /** Starts the process, and waits until it says that it is ready. */
  async up() {
    this.process = spawn(program, ["serve"], { env: this.env, stdio: ["ignore", "pipe", "inherit"] });
    const lines = createInterface({ input: this.process.stdout });
    const ready = new Promise((done, fail) => {
      lines.on("line", (line) => {
        if (line.startsWith("setup ")) this.setup = line.slice("setup ".length);
        if (line.startsWith("ready ")) this.ready = line;
        // The link of the first start comes right after.
        if (this.ready && (this.setup || this.wasUp)) done();
      });
      this.process.once("exit", (code) => fail(new Error(`the server ended with ${code}`)));
    });
    await ready;
    this.wasUp = true;
  }

  async down() {
    const ended = new Promise((done) => this.process.once("exit", done));
    this.process.kill("SIGTERM");
    await ended;
    this.ready = undefined;
  }

  async end() {
    await this.down();
    await rm(this.folder, { recursive: true });
  }

  /** `portico admin`, on the same database. */
  async admin(...words) {
    const { stdout } = await run(program, ["admin", ...words, "--json"], { env: this.env });
    return JSON.parse(stdout);
  }

  /** A person with the common password. */
  async person(email, name) {
    const child = spawn(program, ["admin", "person", "create", "--email", email, "--name", name, "--password-stdin", "--json"], {
      env: this.env,
      stdio: ["pipe", "pipe", "inherit"],
    });
    child.stdin.end(`${PASSWORD}\n`);
    let text = "";
    for await (const chunk of child.stdout) text += chunk;
    return JSON.parse(text);
  }

  async call(method, path, token, body) {
    const headers = { authorization: `Bearer ${token}`, ...(body && { "content-type": "application/json" }) };
    const answer = await fetch(this.api + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    return { status: answer.status, body: await answer.json() };
  }
}

let browser;

export async function openBrowser() {
  browser ??= await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  return browser;
}

export async function closeBrowser() {
  await browser?.close();
}

/** A page whose every error, refused policy and failed request fails the test, unless the test provokes them. */
export class Visitor {
  static async open({ scheme = "light", width = 1280, context } = {}) {
    const visitor = new Visitor();
    visitor.context =
      context ??
      (await (await openBrowser()).newContext({ colorScheme: scheme, viewport: { width, height: width < 500 ? 780 : 900 } }));
    visitor.page = await visitor.context.newPage();
    visitor.page.setDefaultTimeout(WAIT_MS);
    visitor.faults = [];
    visitor.provoked = [];
    visitor.#watch();
    return visitor;
  }

  #watch() {
    const note = (fault) => {
      if (!this.provoked.some((pattern) => pattern.test(fault))) this.faults.push(fault);
    };
    this.page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") note(`console: ${message.text()} ${message.location().url}`);
    });
    this.page.on("pageerror", (error) => note(`script: ${error.message}`));
    this.page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText ?? "";
      // A page that is left takes its requests back.
      if (why !== "net::ERR_ABORTED") note(`request: ${request.url()} ${why}`);
    });
    this.page.on("response", (response) => {
      if (response.status() >= 400) note(`answer: ${response.status()} ${response.request().method()} ${response.url()}`);
    });
    this.page.on("request", (request) => {
      if (!/^(http|ws):\/\/(localhost|127\.0\.0\.1):|^data:|^about:/.test(request.url())) note(`elsewhere: ${request.url()}`);
    });
  }

  /** What the test itself brings about. */
  provoke(...patterns) {
    this.provoked.push(...patterns);
  }

  async signIn(server, path = "/", email = "ada@example.com") {
    await this.page.goto(server.console + path);
    await this.page.getByLabel("E-mail", { exact: true }).fill(email);
    await this.page.getByLabel("Password").fill(PASSWORD);
    await this.page.getByRole("button", { name: "Sign in", exact: true }).click();
    await this.page.waitForURL(`${server.console}/**`);
    // By its element, since a dialog hides the page behind it from readers.
    await this.page.locator("h1").first().waitFor();
  }

  /** Goes on without loading the page anew, as a link does. */
  async go(path) {
    await this.page.evaluate((to) => window.history.pushState(null, "", to), path);
    await this.page.waitForFunction((to) => window.location.pathname + window.location.search === to, path);
    await this.page.locator("h1").first().waitFor();
    await this.page.waitForFunction(() => document.querySelector(".waiting") === null);
  }

  heading(name) {
    return this.page.getByRole("heading", { level: 1, name });
  }

  /** Nothing that is serious for people who cannot see, or not well. */
  async checkAccess(what) {
    const { violations } = await new AxeBuilder({ page: this.page }).analyze();
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(
      serious.map(({ id, nodes }) => `${what}: ${id} at ${nodes.map(({ target }) => target.join(" ")).join(", ")}`),
      [],
    );
  }

  async checkWidth(what) {
    const over = await this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(over <= 0, `${what} is ${over} px wider than the screen`);
  }

  /** Takes a picture of the whole page, to be looked at. */
  async picture(name) {
    if (!SCREENS) return;
    await mkdir(SCREENS, { recursive: true });
    await this.page.screenshot({ path: join(SCREENS, `${name}.png`), fullPage: true });
  }

  /** Ends the visit; nothing may have gone wrong in it. */
  async leave() {
    await this.page.close();
    assert.deepEqual(this.faults, []);
  }
}
