import { useSyncExternalStore } from "react";
import { config } from "../config";

/** Whether calls reach the server. Told by the calls themselves, because a browser only knows its own cable. */
let reachable = true;
const listeners = new Set<() => void>();

export function setReachable(now: boolean) {
  if (now === reachable) return;
  reachable = now;
  for (const listener of listeners) listener();
}

/** Asks whether anything answers at all. */
export async function probe(): Promise<void> {
  await fetch(`${config.baseUrl}/healthz`, { cache: "no-store" }).then(
    () => setReachable(true),
    () => setReachable(false),
  );
}

// The browser knows of its own cable; whether that is why nothing answers is asked.
window.addEventListener("offline", () => void probe());
window.addEventListener("online", () => void probe());

export function onReachable(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function isReachable(): boolean {
  return reachable;
}

export function useReachable(): boolean {
  return useSyncExternalStore(onReachable, isReachable);
}
