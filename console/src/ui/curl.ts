import { config } from "../config";

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** A command that works when it is pasted; without a token for what everybody may call. */
export function curl(method: string, path: string, token: string | null, body?: unknown, headers: readonly [string, string][] = []): string {
  const lines = [`curl -s ${method === "GET" ? "" : `-X ${method} `}${quote(config.baseUrl + path)}`];
  if (token !== null) lines.push(`-H "Authorization: Bearer ${token}"`);
  lines.push(...headers.map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`));
  if (body !== undefined) {
    lines.push(`-H "Content-Type: application/json"`, `-d ${quote(JSON.stringify(body))}`);
  }
  return lines.join(" \\\n  ");
}

/** The exchange of a key for a token of 15 minutes. */
export function exchange(clientId: string, secret: string, scopes: readonly string[]): string {
  return [
    `curl -s ${quote(`${config.authUrl}/oauth2/token`)}`,
    `-u ${quote(`${clientId}:${secret}`)}`,
    `-d grant_type=client_credentials -d audience=platform-api`,
    `-d ${quote(`scope=${scopes.join(" ")}`)}`,
  ].join(" \\\n  ");
}

/** The variable that commands take a token from where none is at hand. */
export const TOKEN = "$PORTICO_TOKEN";
