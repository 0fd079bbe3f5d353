/**
 * The person's session: tokens in memory, and nowhere else.
 *
 * The console is the public client `console` of our own identity provider: authorization code with PKCE. What must
 * outlive the redirect, the verifier and where to go on, waits in this tab's session storage; it opens nothing by
 * itself. Before a token ends it is exchanged for the next one, so nobody sees it happen. When that is refused the
 * person is told, and signs in in a window of its own, so that what was typed here stays.
 */
import { useSyncExternalStore } from "react";
import { setReachable } from "../api/connectivity";
import { Refusal } from "../api/problem";
import { config } from "../config";

export const CLIENT_ID = "console";
const PENDING = "portico.signin";
/** A token is exchanged this long before it ends. */
const EARLY_MS = 60_000;
/** `ended`: the identity provider refused to go on; `none`: nobody signed in in this tab yet. */
export type SessionState = "none" | "active" | "ended";

interface Tokens {
  access: string;
  refresh: string;
  endsAt: number;
}

interface Pending {
  state: string;
  verifier: string;
  returnTo: string;
}

type Message = { kind: "signed-out" } | { kind: "code"; state: string; query: string };

const redirectUri = `${config.consoleUrl}/callback`;

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function random(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

class Session {
  #tokens: Tokens | null = null;
  #state: SessionState = "none";
  #renewing: Promise<string> | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #inWindow: Pending | null = null;
  #waiting: ((token: string) => void)[] = [];
  readonly #listeners = new Set<() => void>();
  readonly #channel = new BroadcastChannel("portico.session");

  constructor() {
    this.#channel.onmessage = (event: MessageEvent<Message>) => this.#hear(event.data);
  }

  get state(): SessionState {
    return this.#state;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  #become(state: SessionState) {
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }

  #hear(message: Message) {
    if (message.kind === "signed-out" && this.#state === "active") {
      this.#forget();
    } else if (message.kind === "code" && this.#inWindow?.state === message.state) {
      const { verifier } = this.#inWindow;
      this.#inWindow = null;
      void this.#exchangeCode(new URLSearchParams(message.query), verifier).catch(() => this.#become("ended"));
    }
  }

  /** A token that is good for a while yet. Where the session has ended, it waits until the person is back. */
  async token(): Promise<string> {
    if (this.#tokens && this.#tokens.endsAt - EARLY_MS / 2 > Date.now()) return this.#tokens.access;
    return this.renew();
  }

  /** A new token, whatever became of the one before. */
  renew(): Promise<string> {
    if (!this.#tokens || this.#state === "ended") return this.#back();
    this.#renewing ??= this.#refresh(this.#tokens.refresh).finally(() => {
      this.#renewing = null;
    });
    return this.#renewing;
  }

  #back(): Promise<string> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  async #refresh(refresh: string): Promise<string> {
    const form = { grant_type: "refresh_token", refresh_token: refresh, client_id: CLIENT_ID };
    const tokens = await this.#ask(form);
    if (tokens === null) {
      this.#forget();
      return this.#back();
    }
    return this.#keep(tokens);
  }

  /** The tokens for this form; `null` where the identity provider refuses. */
  async #ask(form: Record<string, string>): Promise<Tokens | null> {
    let response: Response;
    try {
      response = await fetch(`${config.authUrl}/oauth2/token`, { method: "POST", body: new URLSearchParams(form) });
    } catch {
      setReachable(false);
      throw new Refusal(null, 0);
    }
    setReachable(true);
    if (response.status === 400 || response.status === 401) return null;
    if (!response.ok) throw new Refusal(null, response.status);
    const answer = (await response.json()) as { access_token: string; refresh_token: string; expires_in: number };
    return {
      access: answer.access_token,
      refresh: answer.refresh_token,
      endsAt: Date.now() + answer.expires_in * 1000,
    };
  }

  #keep(tokens: Tokens): string {
    this.#tokens = tokens;
    clearTimeout(this.#timer);
    const early = Math.max(tokens.endsAt - Date.now() - EARLY_MS, 1000);
    this.#timer = setTimeout(() => void this.renew().catch(() => undefined), early);
    this.#become("active");
    for (const resolve of this.#waiting.splice(0)) resolve(tokens.access);
    return tokens.access;
  }

  #forget() {
    this.#tokens = null;
    clearTimeout(this.#timer);
    this.#become("ended");
  }

  async #address(pending: Pending): Promise<string> {
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(pending.verifier));
    const query = new URLSearchParams({
      response_type: "code",
      client_id: CLIENT_ID,
      redirect_uri: redirectUri,
      audience: "platform-api",
      code_challenge: base64url(new Uint8Array(digest)),
      code_challenge_method: "S256",
      state: pending.state,
    });
    return `${config.authUrl}/oauth2/auth?${query}`;
  }

  /** Goes to the identity provider, and comes back to `returnTo`. Whoever is signed in there sees nothing of it. */
  async signIn(returnTo: string): Promise<void> {
    const pending: Pending = { state: random(), verifier: random(), returnTo };
    sessionStorage.setItem(PENDING, JSON.stringify(pending));
    window.location.replace(await this.#address(pending));
  }

  /** Signs in in a window of its own, while this page stays as it is. */
  async signInBeside(): Promise<void> {
    const pending: Pending = { state: `beside.${random()}`, verifier: random(), returnTo: "" };
    this.#inWindow = pending;
    const opened = window.open("about:blank", "_blank", "popup,width=520,height=680");
    const address = await this.#address(pending);
    if (opened) opened.location.href = address;
    else await this.signIn(window.location.pathname + window.location.search);
  }

  /** Where this tab was about to go when it went to sign in. */
  get returnTo(): string {
    const kept = sessionStorage.getItem(PENDING);
    return kept === null ? "/" : (JSON.parse(kept) as Pending).returnTo;
  }

  /** Takes the code that the identity provider sent; answers where to go on, or `null` for a window that may close. */
  async complete(query: string): Promise<string | null> {
    const params = new URLSearchParams(query);
    const state = params.get("state") ?? "";
    if (state.startsWith("beside.")) {
      this.#channel.postMessage({ kind: "code", state, query } satisfies Message);
      return null;
    }
    const kept = sessionStorage.getItem(PENDING);
    sessionStorage.removeItem(PENDING);
    const pending = kept === null ? null : (JSON.parse(kept) as Pending);
    // An answer to a question that this tab did not ask, such as a page of the history: ask anew.
    if (pending?.state !== state) {
      await this.signIn("/");
      return "/";
    }
    await this.#exchangeCode(params, pending.verifier);
    return pending.returnTo;
  }

  async #exchangeCode(params: URLSearchParams, verifier: string): Promise<void> {
    const code = params.get("code");
    if (code === null) throw new Error(params.get("error_description") ?? "The sign-in did not succeed.");
    if (params.get("iss") !== config.authUrl) throw new Error("Another identity provider answered.");
    const form = {
      grant_type: "authorization_code",
      code,
      code_verifier: verifier,
      redirect_uri: redirectUri,
      client_id: CLIENT_ID,
    };
    const tokens = await this.#ask(form);
    if (tokens === null) throw new Error("The sign-in took too long, or was used already.");
    this.#keep(tokens);
  }

  /** Signs out here, in every other tab and at the identity provider. */
  async signOut(): Promise<void> {
    const refresh = this.#tokens?.refresh;
    this.#channel.postMessage({ kind: "signed-out" } satisfies Message);
    if (refresh !== undefined) {
      const form = new URLSearchParams({ token: refresh, client_id: CLIENT_ID });
      await fetch(`${config.authUrl}/oauth2/revoke`, { method: "POST", body: form }).catch(() => undefined);
    }
    window.location.assign(`${config.authUrl}/signout`);
  }
}

export const session = new Session();

export function useSession(): SessionState {
  return useSyncExternalStore(session.subscribe, () => session.state);
}
