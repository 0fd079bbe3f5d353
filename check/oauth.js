// What check/judges/oauth-node asks: oauth4webapi and openid-client, which are used in production and check every
// answer by the letter, and jose for the signatures. The person in front of the pages is check/person.py.
const { execFileSync } = require("node:child_process");
const path = require("node:path");
const jose = require("jose");
const oauth = require("oauth4webapi");
const openid = require("openid-client");
const { proved, scenario } = require("./verdicts.js");

const { PORTICO_BIN, PORTICO_AUTH_URL: authUrl, PORTICO_BASE_URL: baseUrl } = process.env;
const CALLBACK = "http://127.0.0.1:9/callback"; // nobody listens there: the judge reads the address itself
const PASSWORD = "correct horse battery staple";
const EMAIL = "ada@example.com";
const SCOPES = "identity:read account:read";
const INSECURE = { [oauth.allowInsecureRequests]: true };
const mcp = `${baseUrl}/mcp`;

function admin(words, input) {
  const stdio = ["pipe", "pipe", "inherit"];
  return JSON.parse(execFileSync(PORTICO_BIN, ["admin", ...words, "--json"], { encoding: "utf8", input, stdio }));
}

function authorize(url) {
  const env = { ...process.env, PERSON_EMAIL: EMAIL, PERSON_PASSWORD: PASSWORD };
  const person = path.join(__dirname, "person.py");
  return new URL(execFileSync("python3", [person, url.href], { encoding: "utf8", env }).trim());
}

async function discover() {
  const issuer = new URL(authUrl);
  const answer = await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...INSECURE });
  const as = await oauth.processDiscoveryResponse(issuer, answer);
  proved("oauth4webapi: discovery (RFC 8414)", as.issuer === authUrl, as.issuer);
  const other = await oauth.discoveryRequest(issuer, { algorithm: "oidc", ...INSECURE });
  const same = await oauth.processDiscoveryResponse(issuer, other);
  proved("oauth4webapi: discovery where OpenID clients look", same.token_endpoint === as.token_endpoint);
  return as;
}

// How an assistant that was only told of /mcp finds its way here.
async function resourceMetadata() {
  const resource = new URL(mcp);
  const answer = await oauth.resourceDiscoveryRequest(resource, INSECURE);
  const metadata = await oauth.processResourceDiscoveryResponse(resource, answer);
  const servers = metadata.authorization_servers;
  proved("oauth4webapi: /mcp names its authorization server (RFC 9728)", servers?.includes(authUrl), servers);
}

async function register(as) {
  const wanted = {
    client_name: "An assistant",
    redirect_uris: [CALLBACK],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: "native",
    scope: "mcp:read",
    a_member_that_nobody_knows: true,
  };
  const answer = await oauth.dynamicClientRegistrationRequest(as, wanted, INSECURE);
  const client = await oauth.processDynamicClientRegistrationResponse(answer);
  proved("oauth4webapi: dynamic registration of a public client", client.token_endpoint_auth_method === "none", client);
  return client;
}

// An authorization request of oauth4webapi's, up to the token answer.
async function codeFlow(as, client, authentication, more, uri = CALLBACK) {
  const verifier = oauth.generateRandomCodeVerifier();
  const state = oauth.generateRandomState();
  const url = new URL(as.authorization_endpoint);
  url.search = new URLSearchParams({
    client_id: client.client_id,
    redirect_uri: uri,
    response_type: "code",
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    state,
    ...more,
  });
  const params = oauth.validateAuthResponse(as, client, authorize(url), state);
  const additionalParameters = more.resource ? { resource: more.resource } : {};
  const options = { additionalParameters, ...INSECURE };
  const answer = await oauth.authorizationCodeGrantRequest(as, client, authentication, params, uri, verifier, options);
  return oauth.processAuthorizationCodeResponse(as, client, answer);
}

async function refresh(as, client, authentication, token, more = {}) {
  const options = { additionalParameters: more, ...INSECURE };
  const answer = await oauth.refreshTokenGrantRequest(as, client, authentication, token.refresh_token, options);
  return oauth.processRefreshTokenResponse(as, client, answer);
}

async function introspect(as, key, token) {
  const client = { client_id: key.client_id };
  const answer = await oauth.introspectionRequest(
    as,
    client,
    oauth.ClientSecretBasic(key.client_secret),
    token,
    INSECURE,
  );
  return oauth.processIntrospectionResponse(as, client, answer);
}

async function exchange(as, key) {
  const client = { client_id: key.client_id };
  const parameters = new URLSearchParams({ audience: "platform-api", scope: SCOPES });
  const authentication = oauth.ClientSecretBasic(key.client_secret);
  const answer = await oauth.clientCredentialsGrantRequest(as, client, authentication, parameters, INSECURE);
  return oauth.processClientCredentialsResponse(as, client, answer);
}

async function check(as, accessToken, audience) {
  const request = new Request(`${baseUrl}/v1/me`, { headers: { authorization: `Bearer ${accessToken}` } });
  return oauth.validateJwtAccessToken(as, request, audience, INSECURE);
}

async function me(accessToken) {
  const answer = await oauth.protectedResourceRequest(
    accessToken,
    "GET",
    new URL(`${baseUrl}/v1/me`),
    null,
    null,
    INSECURE,
  );
  return { status: answer.status, body: await answer.json() };
}

const sameScopes = (one, other) => one.split(" ").sort().join() === other.split(" ").sort().join();

async function refusalOf(ask) {
  try {
    await ask();
    return "not refused";
  } catch (problem) {
    return problem.error ?? `${problem.code}: ${problem.message}`;
  }
}

// The calls below are known to every server within this time after an administrator's word.
async function within(seconds, holds) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end;) {
    if (await holds()) return true;
    await new Promise((go) => setTimeout(go, 100));
  }
  return false;
}

async function assistant(as, key, userId) {
  const client = await register(as);
  const first = await codeFlow(as, client, oauth.None(), { resource: mcp, scope: "mcp:read" });
  proved("oauth4webapi: authorization code, PKCE, state, iss and resource, for an assistant", first.access_token);
  const claims = await check(as, first.access_token, mcp);
  proved(
    "oauth4webapi: an assistant's token is a JWT access token (RFC 9068) for /mcp alone",
    claims.aud === mcp,
    claims,
  );
  proved(
    "oauth4webapi: its subject is the person, its client the assistant, its scope what was allowed",
    claims.sub === userId && claims.client_id === client.client_id && claims.scope === "mcp:read",
    claims,
  );
  const refused = await refusalOf(() => me(first.access_token));
  proved(
    "oauth4webapi: that token does not open /v1/me",
    refused.includes("OAUTH_WWW_AUTHENTICATE_CHALLENGE"),
    refused,
  );

  const second = await refresh(as, client, oauth.None(), first, { resource: mcp });
  proved(
    "oauth4webapi: refresh, and the refresh token rotates",
    second.refresh_token && second.refresh_token !== first.refresh_token,
    Object.keys(second),
  );
  proved("oauth4webapi: the refreshed token is for /mcp too", (await check(as, second.access_token, mcp)).aud === mcp);

  const alive = await introspect(as, key, second.access_token);
  proved("oauth4webapi: a key does not see by introspection what a person let an assistant hold", !alive.active, alive);
  const answer = await oauth.revocationRequest(as, client, oauth.None(), second.refresh_token, INSECURE);
  await oauth.processRevocationResponse(answer);
  const error = await refusalOf(() => refresh(as, client, oauth.None(), second));
  proved("oauth4webapi: revocation (RFC 7009) ends the refresh token", error === "invalid_grant", error);

  const any = await refusalOf(() =>
    codeFlow(as, client, oauth.None(), { resource: "https://elsewhere.example/mcp", scope: "mcp:read" }),
  );
  proved("oauth4webapi: a foreign resource is invalid_target", any === "invalid_target", any);
}

async function keys(as, key) {
  const token = await exchange(as, key);
  proved(
    "oauth4webapi: client credentials by Basic",
    token.token_type === "bearer" && sameScopes(token.scope, SCOPES),
    token.scope,
  );
  const claims = await check(as, token.access_token, "platform-api");
  proved(
    "oauth4webapi: a key's token is a JWT access token (RFC 9068) for platform-api",
    claims.sub === key.key_id,
    claims,
  );
  const state = await introspect(as, key, token.access_token);
  proved("oauth4webapi: introspection (RFC 7662) by the key", state.active && state.client_id === key.client_id, state);
  const nothing = await introspect(as, key, "not-a-token");
  proved(
    "oauth4webapi: introspection of nonsense is inactive and says no more",
    JSON.stringify(nothing) === '{"active":false}',
    nothing,
  );
}

async function app(as, userId) {
  const words = [
    "app",
    "create",
    "--name",
    "An app",
    "--redirect-uri",
    "http://127.0.0.1/callback",
    "--scopes",
    SCOPES,
  ];
  const made = admin([...words, "--confidential"]);
  const client = { client_id: made.client_id };
  const authentication = oauth.ClientSecretBasic(made.client_secret);
  // A loopback address is registered without a port, and used with any (RFC 8252, 7.3).
  const token = await codeFlow(
    as,
    client,
    authentication,
    { audience: "platform-api", scope: SCOPES },
    "http://127.0.0.1:54321/callback",
  );
  const claims = await check(as, token.access_token, "platform-api");
  proved(
    "oauth4webapi: authorization code for an app of the operator's, on any port of loopback",
    claims.sub === userId,
    claims,
  );
  const caller = await me(token.access_token);
  proved("oauth4webapi: its token opens /v1/me for the person", caller.body.kind === "person", caller);
  const second = await refresh(as, client, authentication, token);
  proved("oauth4webapi: refresh as a confidential client", second.access_token !== token.access_token);
}

async function withOpenidClient(userId) {
  const words = [
    "app",
    "create",
    "--name",
    "openid-client",
    "--redirect-uri",
    CALLBACK,
    "--scopes",
    SCOPES,
    "--confidential",
  ];
  const made = admin(words);
  const options = { algorithm: "oauth2", execute: [openid.allowInsecureRequests] };
  const authentication = openid.ClientSecretBasic(made.client_secret);
  const config = await openid.discovery(new URL(authUrl), made.client_id, undefined, authentication, options);
  const pkceCodeVerifier = openid.randomPKCECodeVerifier();
  const expectedState = openid.randomState();
  const url = openid.buildAuthorizationUrl(config, {
    redirect_uri: CALLBACK,
    scope: SCOPES,
    audience: "platform-api",
    code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: "S256",
    state: expectedState,
  });
  const token = await openid.authorizationCodeGrant(config, authorize(url), { pkceCodeVerifier, expectedState });
  proved("openid-client: authorization code with PKCE", token.access_token);
  const answer = await openid.fetchProtectedResource(config, token.access_token, new URL(`${baseUrl}/v1/me`), "GET");
  const caller = await answer.json();
  proved("openid-client: GET /v1/me knows the person", caller.subject === userId, caller);
  const second = await openid.refreshTokenGrant(config, token.refresh_token);
  proved("openid-client: refresh", second.access_token !== token.access_token);
  await openid.tokenRevocation(config, second.refresh_token);
  const error = await refusalOf(() => openid.refreshTokenGrant(config, second.refresh_token));
  proved("openid-client: revocation ends the refresh token", error === "invalid_grant", error);
}

async function rotation(as, key) {
  // Its own pause between two looks at the keys would be 30 s.
  const keys = jose.createRemoteJWKSet(new URL(as.jwks_uri), { cooldownDuration: 0 });
  const rules = {
    issuer: authUrl,
    audience: "platform-api",
    typ: "at+jwt",
    requiredClaims: ["sub", "jti", "exp", "client_id"],
  };
  const old = (await exchange(as, key)).access_token;
  const before = await jose.jwtVerify(old, keys, rules);
  proved("jose: the signature of a token, by the published keys", before.protectedHeader.kid, before.protectedHeader);

  // Even now is a little later: every server has to know the new key before one of them signs with it.
  admin(["signing-key", "rotate", "--now"]);
  const verified = async () => jose.jwtVerify((await exchange(as, key)).access_token, keys, rules);
  let now = before;
  const changed = await within(
    30,
    async () => (now = await verified()).protectedHeader.kid !== before.protectedHeader.kid,
  );
  proved(
    "jose: after `signing-key rotate --now` tokens have a new key, which is published",
    changed,
    now.protectedHeader,
  );
  await jose.jwtVerify(old, keys, rules);
  await jose.jwtVerify(old, jose.createRemoteJWKSet(new URL(as.jwks_uri)), rules);
  proved("jose: the old token can still be verified", true);
  proved("oauth4webapi: the old token still opens /v1/me", (await me(old)).status === 200);
  proved("oauth4webapi: and so does a new one", (await me((await exchange(as, key)).access_token)).status === 200);
}

async function main() {
  const as = await scenario("discovery", discover);
  if (!as) return;
  const words = ["person", "create", "--email", EMAIL, "--name", "Ada", "--password-stdin"];
  const { user_id: userId, account_id: account } = admin(words, PASSWORD);
  const key = admin(["key", "create", "--account", account, "--scopes", SCOPES]);
  await scenario("keys", () => keys(as, key));
  await scenario("an app", () => app(as, userId));
  await scenario("an assistant", () => assistant(as, key, userId));
  await scenario("openid-client", () => withOpenidClient(userId));
  await scenario("rotation of signing keys", () => rotation(as, key));
  await scenario("protected resource metadata", resourceMetadata);
}

main();
