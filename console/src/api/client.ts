import createClient from "openapi-fetch";
import { session } from "../auth/session";
import { config } from "../config";
import { setReachable } from "./connectivity";
import { type Problem, Refusal } from "./problem";
import type { components, paths } from "./schema.gen";

export type Schemas = components["schemas"];

async function send(request: Request): Promise<Response> {
  try {
    const response = await fetch(request);
    setReachable(true);
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    setReachable(false);
    throw new Refusal(null, 0);
  }
}

/** Sends the request with the person's token. One that was refused only now is exchanged for a new one, once. */
export async function authorized(request: Request): Promise<Response> {
  const again = request.clone();
  request.headers.set("authorization", `Bearer ${await session.token()}`);
  const response = await send(request);
  if (response.status !== 401) return response;
  again.headers.set("authorization", `Bearer ${await session.renew()}`);
  return send(again);
}

/** The API, typed by its own document. */
export const api = createClient<paths>({ baseUrl: config.baseUrl, fetch: authorized });

/** What the call answers; throws a `Refusal` otherwise. */
export async function ask<T>(
  call: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<NonNullable<T>> {
  const { data, error, response } = await call;
  if (data === undefined || data === null || error !== undefined) {
    const problem = isProblem(error) ? error : null;
    throw new Refusal(problem, response.status);
  }
  return data;
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "code" in value && "error" in value;
}

/** Makes a write safe to send twice. */
export function idempotencyKey(): string {
  return crypto.randomUUID();
}
