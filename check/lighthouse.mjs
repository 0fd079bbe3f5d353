// What check/judges/lighthouse asks, of Lighthouse in Chromium, as it looks at pages on a desk.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";

// The tools of judges are installed beside the built server.
const require = createRequire(`${process.env.NODE_PATH}/`);
const { chromium } = require("playwright-core");
const { default: lighthouse, desktopConfig, defaultConfig } = await import(require.resolve("lighthouse"));

const { PORTICO_BIN, PORTICO_CONSOLE_URL: consoleUrl } = process.env;
const PASSWORD = "correct horse battery staple 9";
const LEAST = 95;
/** The best of a few counts: whatever else the machine does only ever makes it worse. */
const TURNS = 3;
const PORT = 9333;
const CATEGORIES = ["performance", "accessibility", "best-practices"];
/** A desk is where a console is used, and where the scores must be reached; those of a telephone are told beside them. */
const VIEWS = [
  ["desktop", desktopConfig, true],
  ["mobile", defaultConfig, false],
];

execFileSync(PORTICO_BIN, ["admin", "person", "create", "--email", "ada@example.com", "--name", "Ada", "--password-stdin"], { input: `${PASSWORD}\n` });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", `--remote-debugging-port=${PORT}`],
});
let failed = false;
try {
  // Lighthouse works in the browser's own context, so that is the one that signs in.
  const { webSocketDebuggerUrl } = await (await fetch(`http://127.0.0.1:${PORT}/json/version`)).json();
  const remote = await chromium.connectOverCDP(webSocketDebuggerUrl);
  const page = await remote.contexts()[0].newPage();
  await page.goto(consoleUrl);
  await page.getByLabel("E-mail", { exact: true }).fill("ada@example.com");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.close();
  for (const [name, path] of [["overview", "/"], ["reference", "/reference"], ["operation", "/reference/webhooks.endpoints.create"]]) {
    for (const [view, config, counts] of VIEWS) {
      const best = {};
      let figures = "";
      for (let turn = 0; turn < TURNS; turn++) {
        const flags = { port: PORT, onlyCategories: CATEGORIES, disableStorageReset: true, logLevel: "error" };
        const { lhr } = await lighthouse(consoleUrl + path, flags, config);
        const score = (category) => Math.round(lhr.categories[category].score * 100);
        if (score("performance") >= (best.performance ?? 0)) {
          const value = (audit) => lhr.audits[audit].displayValue?.replaceAll("\u00a0", " ");
          figures = `first paint ${value("first-contentful-paint")}, largest ${value("largest-contentful-paint")}, blocked ${value("total-blocking-time")}, shift ${value("cumulative-layout-shift")}`;
        }
        for (const category of CATEGORIES) best[category] = Math.max(best[category] ?? 0, score(category));
        for (const category of CATEGORIES.slice(1)) {
          const missed = lhr.categories[category].auditRefs.filter(({ id, weight }) => weight > 0 && (lhr.audits[id].score ?? 1) < 1);
          if (turn === 0 && missed.length > 0) console.log(`  ${category}: ${missed.map(({ id }) => id).join(", ")}`);
        }
      }
      const good = CATEGORIES.every((category) => best[category] >= LEAST);
      failed ||= counts && !good;
      console.log(`${good || !counts ? "ok  " : "FAIL"} ${name}, ${view}: ${CATEGORIES.map((category) => `${category} ${best[category]}`).join(", ")}; ${figures}`);
    }
  }
  await remote.close();
} finally {
  await browser.close();
}
process.exitCode = failed ? 1 : 0;
