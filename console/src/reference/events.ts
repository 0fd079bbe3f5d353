/** The event types: those that were built in, and those that the running server tells of its streams. */
import catalogue from "../../../docs/api/events.json";
import type { StreamsDocument } from "../api/asyncapi";
import { link, type Schema } from "./schema";

export interface EventType {
  type: string;
  description: string;
  /** The whole event, as it is sent. */
  schema: Schema;
  example: unknown;
}

link(catalogue);

export const BUILT_IN = catalogue as unknown as readonly EventType[];

export function eventsOf(document: StreamsDocument): readonly EventType[] {
  link(document);
  const events = Object.entries(document.components.messages).filter(([id]) => id.startsWith("event."));
  return events.map(([, { name, summary = "", payload = {}, examples }]) => ({
    type: name,
    description: summary,
    schema: payload,
    example: examples?.[0]?.payload,
  }));
}
