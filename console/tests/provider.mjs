// Two providers on loopback: a code host by key, and one that people sign in to.
import { createServer } from "node:http";

/** Larger than a browser can count. */
export const LARGE = "9007199254740993";
export const KEY = "ghp_correct_horse_battery";

/** Whose keys there are, as the code host has them. */
export const ACME = { login: "octo-acme", id: 42 };
export const LABS = { login: "octo-labs", id: 43 };
const GITLAB = { id: 7, username: "acme-gitlab" };

/** Starts them, and answers what `Server.start` must be given for them. */
export async function startProvider() {
  // Calls of the code host that are `broken` are answered as if it had failed.
  const provider = { calls: [], keys: new Map([[KEY, ACME]]), token: "glt-1", broken: new Set() };
  let codes = 0;

  const github = (path, method, bearer) => {
    if (!provider.keys.has(bearer)) return [401, { message: "Bad credentials" }];
    if (provider.broken.has(`${method} ${path}`)) return [502, {}];
    if (path === "/user") return [200, provider.keys.get(bearer)];
    if (path === "/repos/acme/app/issues/1") return [200, `{"number":1,"title":"First","id":${LARGE}}`];
    if (path === "/repos/acme/app/issues" && method === "POST") return [201, { number: 2 }];
    if (path === "/repos/acme/app/pulls/3/merge" && method === "PUT") return [200, { merged: true }];
    return [404, { message: "Not Found" }];
  };
  const gitlab = (path, bearer) => {
    if (path === "/oauth/token") return [200, { access_token: provider.token, refresh_token: "glr-1", expires_in: 7200, scope: "api" }];
    if (path === "/oauth/revoke") return [503, {}];
    if (bearer !== provider.token) return [401, { message: "401 Unauthorized" }];
    return path === "/api/v4/user" ? [200, GITLAB] : [404, { message: "404 Not found" }];
  };
  /** The page that asks whether to allow it. */
  const authorize = (query) => {
    const back = (name, value) => {
      const to = new URL(query.get("redirect_uri"));
      to.searchParams.set(name, value);
      to.searchParams.set("state", query.get("state"));
      return to.href.replaceAll("&", "&amp;");
    };
    const code = `code-${(codes += 1)}`;
    return `<!doctype html><title>GitLab</title><h1>Allow it?</h1><a href="${back("code", code)}">Allow</a> <a href="${back("error", "access_denied")}">Deny</a>`;
  };

  const listener = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://provider");
    const bearer = (request.headers.authorization ?? "").replace("Bearer ", "");
    let text = "";
    request.on("data", (chunk) => (text += chunk));
    request.on("end", () => {
      provider.calls.push({ call: `${request.method} ${pathname}`, body: text });
      if (pathname === "/favicon.ico") {
        response.writeHead(204).end();
      } else if (pathname === "/gl/oauth/authorize") {
        response.writeHead(200, { "content-type": "text/html" }).end(authorize(searchParams));
      } else {
        const path = pathname.slice(3);
        const [status, body] = pathname.startsWith("/gh/") ? github(path, request.method, bearer) : gitlab(path, bearer);
        response.writeHead(status, { "content-type": "application/json" });
        response.end(typeof body === "string" ? body : JSON.stringify(body));
      }
    });
  });
  await new Promise((listening) => listener.listen(0, "127.0.0.1", listening));
  const origin = `http://127.0.0.1:${listener.address().port}`;
  return Object.assign(provider, {
    env: {
      PORTICO_EGRESS_ALLOW: "127.0.0.1",
      PORTICO_CONNECTIONS_BASE_URLS: `github=${origin}/gh,gitlab=${origin}/gl`,
      PORTICO_CONNECTIONS_OAUTH_CLIENTS: "gitlab=console-test:client-secret",
    },
    end: () => {
      listener.closeAllConnections();
      return new Promise((ended) => listener.close(ended));
    },
  });
}
