// The provider of check/judges/connections: node-oidc-provider at GitLab's paths, with a little of GitLab's API behind its
// tokens. Its refresh tokens work once, and one that comes twice ends the whole grant. The address comes on standard output.
//
// The judge steers it below /judge: how long access tokens live, which end early, and what there was.
import { createServer } from "node:http";
import { createRequire } from "node:module";

// The tools of judges are installed beside the built server.
const require = createRequire(`${process.env.NODE_PATH}/`);
const { default: Provider } = await import(require.resolve("oidc-provider"));

const { CLIENTS, REDIRECT_URI } = process.env;
// Who signs in, by the name that they sign in with.
const WORKSPACES = { acme: 77, other: 78 };
const API = "/api/v4/";

let life = 3600;
let log = []; // what the provider says that it did
const issued = { AccessToken: [], RefreshToken: [] };

const server = createServer();
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const origin = `http://127.0.0.1:${server.address().port}`;

const clients = CLIENTS.split(",").map((pair) => {
  const [client_id, client_secret] = pair.split(":");
  return {
    client_id,
    client_secret,
    redirect_uris: [REDIRECT_URI],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "client_secret_post",
  };
});
const provider = new Provider(origin, {
  clients,
  scopes: ["api", "read_api"],
  routes: { authorization: "/oauth/authorize", token: "/oauth/token", revocation: "/oauth/revoke" },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
  expiresWithSession: () => false,
  ttl: { AccessToken: () => life, RefreshToken: 86400, Grant: 86400, Session: 86400, Interaction: 600 },
  features: { devInteractions: { enabled: true }, revocation: { enabled: true }, userinfo: { enabled: false } },
  findAccount: (_, accountId) => WORKSPACES[accountId] && { accountId, claims: () => ({ sub: accountId }) },
  cookies: { keys: ["not a secret"] },
});

provider.on("grant.success", (ctx) => log.push({ what: ctx.oidc.params.grant_type, client: ctx.oidc.client.clientId }));
provider.on("grant.error", (ctx, error) =>
  log.push({ what: error.error, of: ctx.oidc.params?.grant_type, why: error.error_detail ?? error.error_description }),
);
provider.on("grant.revoked", () => log.push({ what: "revoked" }));
provider.on("server_error", (_, error) => log.push({ what: "server_error", why: String(error) }));
for (const [kind, event] of [
  ["AccessToken", "access_token"],
  ["RefreshToken", "refresh_token"],
])
  provider.on(`${event}.saved`, (token) => issued[kind].push(token.jti));

const live = async (kind) => {
  const found = await Promise.all(issued[kind].map((value) => provider[kind].find(value)));
  return found.filter((token) => token?.isValid);
};

// What the judge may ask for.
const steering = {
  life: (query) => void (life = Number(query.seconds)),
  forget: () => void (log = []),
  log: () => log,
  // How many of them still open anything.
  live: async () => ({ access: (await live("AccessToken")).length, refresh: (await live("RefreshToken")).length }),
  // Access tokens end before their time, as when somebody cleans up.
  end: async () => Promise.all((await live("AccessToken")).map((token) => token.destroy())).then(() => null),
  // The person takes back what they allowed.
  disconnect: async () => {
    const tokens = [...(await live("AccessToken")), ...(await live("RefreshToken"))];
    for (const token of tokens) {
      await (await provider.Grant.find(token.grantId))?.destroy();
      await token.destroy();
    }
  },
};

const api = {
  user: (account) => ({ username: `${account}-gl`, id: WORKSPACES[account] }),
  "projects/7/issues": () => [{ iid: 1, title: "One" }],
};

provider.use(async (ctx, next) => {
  if (ctx.path.startsWith("/judge/")) {
    ctx.body = JSON.stringify((await steering[ctx.path.slice(7)](ctx.query)) ?? null);
    ctx.type = "json";
    return;
  }
  if (!ctx.path.startsWith(API)) return next();
  const [, value] = /^Bearer (.+)$/.exec(ctx.get("authorization")) ?? [];
  const token = value && (await provider.AccessToken.find(value));
  const answer = api[ctx.path.slice(API.length)];
  log.push({ what: "call", path: ctx.path, status: token?.isValid ? 200 : 401 });
  if (!token?.isValid) {
    ctx.status = 401;
    ctx.body = { message: "401 Unauthorized" };
  } else if (answer) ctx.body = answer(token.accountId);
});

server.on("request", provider.callback());
console.log(origin);
