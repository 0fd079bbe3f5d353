// @ts-check
// Invoices behind Portico:  node invoices.mjs
// It sees no token. Who calls stands in `portico-account`, and a request that is wrong was refused before it came here.
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

const { PORTICO_BASE_URL = "http://127.0.0.1:8080", PORTICO_AUTH_URL = "http://localhost:8081", PORT = "9000" } = process.env;
const basic = Buffer.from(`${process.env.PORTICO_CLIENT_ID}:${process.env.PORTICO_CLIENT_SECRET}`).toString("base64");
/** @typedef {{ text: string, quantity: number, cents: number }} Line */
/** @type {Map<string, Map<string, any>>} By account, then by id; a real one has a database. */
const invoices = new Map();
let token = { text: "", until: 0 };

/** @param {string} url @param {BodyInit} body @param {Record<string, string>} headers */
async function post(url, body, headers) {
  const answer = await fetch(url, { method: "POST", body, headers, signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** Tells the account's webhooks and streams. A repeat under the same id makes nothing. @param {object} event */
async function publish(event) {
  if (token.until < Date.now()) {
    const form = new URLSearchParams({ grant_type: "client_credentials", audience: "platform-api", scope: "service:events" });
    const made = await post(`${PORTICO_AUTH_URL}/oauth2/token`, form, { authorization: `Basic ${basic}` });
    token = { text: made.access_token, until: Date.now() + (made.expires_in - 60) * 1000 };
  }
  const headers = { authorization: `Bearer ${token.text}`, "content-type": "application/json" };
  const { refused } = await post(`${PORTICO_BASE_URL}/v1/services/events`, JSON.stringify({ events: [event] }), headers);
  if (refused.length) throw new Error(refused[0].problem.error);
}

/** @param {import("node:http").IncomingMessage} request @returns {Promise<[number, object]>} */
async function handle(request) {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://service");
  if (pathname === "/healthz") return [200, {}];
  const account = String(request.headers["portico-account"]);
  const own = invoices.get(account) ?? new Map();
  invoices.set(account, own);
  if (pathname === "/v1/invoices" && request.method === "GET") {
    const status = searchParams.get("status");
    return [200, { invoices: [...own.values()].reverse().filter((each) => !status || each.status === status) }];
  }
  if (pathname === "/v1/invoices") {
    const made = /** @type {{ customer: string, lines: Line[] }} */ (await json(request));
    const total_cents = made.lines.reduce((sum, line) => sum + line.quantity * line.cents, 0);
    const invoice = { id: `in_${randomBytes(8).toString("hex")}`, ...made, total_cents, status: "open" };
    own.set(invoice.id, invoice);
    return [201, invoice];
  }
  const invoice = own.get(pathname.split("/")[3]);
  if (!invoice) return [404, { message: "There is no such invoice." }];
  if (pathname.endsWith("/pay")) {
    invoice.status = "paid";
    const data = { invoice_id: invoice.id, total_cents: invoice.total_cents };
    await publish({ id: `${invoice.id}.paid`, account_id: account, type: "invoice.paid", data });
  }
  return [200, invoice];
}

createServer(async (request, response) => {
  const failed = (/** @type {unknown} */ error) => [503, { message: "Try again in a moment." }, console.error(error)];
  const [status, value] = await handle(request).catch(failed);
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}).listen(Number(PORT), "127.0.0.1");
