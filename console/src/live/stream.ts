/**
 * The account's events as they happen, over the platform's socket.
 *
 * One socket for each tab. It remembers the cursor of the last event, so that after a break nothing is missed. Pages read
 * from a list that is kept here; a page that is paused reads on later.
 */
import { useSyncExternalStore } from "react";
import { onReachable, probe, setReachable } from "../api/connectivity";
import type { Schemas } from "../api/client";
import { session } from "../auth/session";
import { config } from "../config";

export type Event = Schemas["Envelope"];
export type LiveState = "connecting" | "live" | "reconnecting" | "refused";

interface Snapshot {
  state: LiveState;
  /** Newest first. */
  events: readonly Event[];
}

type Frame =
  | { type: "ready"; account_id: string }
  | { type: "answer"; id: string; result: { cursor?: string } }
  | { type: "event"; cursor: string; event: Event }
  | { type: "error"; id: string; problem: { code: string } }
  | { type: "resync" }
  | { type: "closing"; retry: boolean };

const KEPT_MAX = 500;
const REFUSALS_MAX = 3;
const PAUSE_MS_MAX = 10_000;
/** The range of close codes after which coming back is of no use. */
const NEVER = { from: 4000, to: 4099 };

class Stream {
  #account = "";
  #socket: WebSocket | null = null;
  #cursor: string | undefined;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #snapshot: Snapshot = { state: "connecting", events: [] };
  readonly #listeners = new Set<() => void>();
  readonly #observers = new Set<(event: Event) => void>();

  constructor() {
    // The server is there again: do not wait for the end of the pause.
    onReachable(() => this.#hurry());
    window.addEventListener("online", () => this.#hurry());
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  snapshot = (): Snapshot => this.#snapshot;

  /** Calls `observer` with each event as it comes. */
  observe(observer: (event: Event) => void): () => void {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  /** Follows that account from now on, and no other. */
  follow(account: string) {
    if (account === this.#account) return;
    this.#account = account;
    this.#cursor = undefined;
    this.#failures = 0;
    this.#set({ state: "connecting", events: [] });
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
    else socket?.close();
    if (account !== "") void this.#open();
  }

  #set(snapshot: Partial<Snapshot>) {
    this.#snapshot = { ...this.#snapshot, ...snapshot };
    for (const listener of this.#listeners) listener();
  }

  #hurry() {
    if (this.#socket === null && this.#account !== "" && this.#snapshot.state === "reconnecting") {
      clearTimeout(this.#timer);
      void this.#open();
    }
  }

  async #open() {
    const account = this.#account;
    let token: string;
    try {
      token = await session.token();
    } catch {
      this.#again();
      return;
    }
    if (account !== this.#account || this.#socket !== null) return;
    const socket = new WebSocket(`${config.baseUrl.replace(/^http/, "ws")}/v1/socket`, ["platform.v1"]);
    this.#socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      setReachable(true);
      socket.send(JSON.stringify({ type: "auth", token, account_id: account }));
    };
    socket.onmessage = (message: MessageEvent<string>) => {
      if (this.#socket === socket) this.#hear(socket, JSON.parse(message.data) as Frame);
    };
    socket.onclose = (close) => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      // A socket that never opened may be one that something on the way does not let through.
      if (!opened) void probe();
      const isRefused = close.code >= NEVER.from && close.code <= NEVER.to;
      // The token may have ended, and the session with it: the next one tells.
      if (isRefused) void session.renew().catch(() => undefined);
      if (isRefused && this.#failures > REFUSALS_MAX) this.#set({ state: "refused" });
      else this.#again();
    };
  }

  #again() {
    this.#set({ state: "reconnecting" });
    clearTimeout(this.#timer);
    const pause = Math.min(250 * 2 ** this.#failures, PAUSE_MS_MAX);
    this.#failures += 1;
    this.#timer = setTimeout(() => void this.#open(), pause * (0.75 + Math.random() / 2));
  }

  #hear(socket: WebSocket, frame: Frame) {
    switch (frame.type) {
      case "ready":
        socket.send(JSON.stringify({ type: "subscribe", id: "events", after: this.#cursor }));
        break;
      case "answer":
        this.#cursor ??= frame.result.cursor;
        this.#failures = 0;
        this.#set({ state: "live" });
        break;
      case "event": {
        this.#cursor = frame.cursor;
        const known = this.#snapshot.events.some((event) => event.id === frame.event.id);
        if (!known) this.#set({ events: [frame.event, ...this.#snapshot.events].slice(0, KEPT_MAX) });
        for (const observer of this.#observers) observer(frame.event);
        break;
      }
      case "resync":
        this.#cursor = undefined;
        break;
      case "error":
      case "closing":
        break;
    }
  }
}

export const stream = new Stream();

export function useStream(): Snapshot {
  return useSyncExternalStore(stream.subscribe, stream.snapshot);
}
