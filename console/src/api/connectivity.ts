import { useSyncExternalStore } from "react";

/** Whether calls reach the server. Told by the calls themselves, because a browser only knows its own cable. */
let reachable = true;
const listeners = new Set<() => void>();

export function setReachable(now: boolean) {
  if (now === reachable) return;
  reachable = now;
  for (const listener of listeners) listener();
}

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
