/** The document of what stays open, as far as the console reads it. */
import type { Schema } from "./openapi";

export interface RawMessage {
  name: string;
  summary?: string;
  payload?: Schema;
  examples?: { name?: string; payload: unknown }[];
}

export interface Ref {
  $ref: string;
}

export interface StreamsDocument {
  info: { description: string };
  servers: Record<string, { protocol: string; description: string }>;
  channels: Record<
    string,
    { address: string; description: string; servers: Ref[]; parameters?: Record<string, { description: string }>; messages: Record<string, Ref> }
  >;
  operations: Record<string, { action: "send" | "receive"; channel: Ref; messages: Ref[] }>;
  components: { schemas: Record<string, Schema>; messages: Record<string, RawMessage> };
}
