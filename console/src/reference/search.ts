/** What the search of the reference finds. */
import type { Found } from "../ui/kit";
import { operationPath } from "../api/digest";
import type { Operation, Reference } from "./document";
import type { EventType } from "./events";
import { fieldsOf, type Schema } from "./schema";
import type { Streams } from "./streams";

export interface Entry extends Found {
  kind: "Operation" | "Field" | "Event" | "Guide" | "Stream" | "Frame";
  detail: string;
  to: string;
}

/** The fields of an answer, and those of the records in it. */
function answerFields(answer: Schema | undefined) {
  const fields = answer ? fieldsOf(answer) : [];
  return fields.flatMap((field) => [field, ...fieldsOf(field[1])]);
}

function fieldEntries(operations: readonly Operation[]): Entry[] {
  const seen = new Set<string>();
  return operations.flatMap((operation) => {
    const named = [
      ...operation.parameters.map(({ name, description, schema }) => [name, description ?? schema.description ?? ""] as const),
      ...(operation.body ? fieldsOf(operation.body.schema) : []).map(([name, { description }]) => [name, description ?? ""] as const),
      ...answerFields(operation.answer).map(([name, { description }]) => [name, description ?? ""] as const),
    ];
    return named.flatMap(([name, description]) => {
      const id = `${name} ${operation.rpc}`;
      if (seen.has(id)) return [];
      seen.add(id);
      return [{ id, title: name, kind: "Field" as const, detail: `${operation.title}. ${description}`, to: operationPath(operation.rpc) }];
    });
  });
}

export interface Searched {
  guides: readonly { slug: string; title: string }[];
  reference: Pick<Reference, "operations" | "services">;
  events: readonly EventType[];
  streams: Streams;
}

export function entries({ guides, reference: { operations, services }, events, streams }: Searched): Entry[] {
  return [
    ...guides.map(({ slug, title }) => ({ id: `guide ${slug}`, title, kind: "Guide" as const, detail: "", to: `/reference/guides/${slug}` })),
    ...operations.map(({ title, description, rpc, method, path, service }) => ({
      id: rpc,
      title,
      kind: "Operation" as const,
      detail: `${method} ${path} ${rpc}. ${service ? `${services[service]}. ` : ""}${description}`,
      to: operationPath(rpc),
    })),
    ...events.map(({ type, description }) => ({
      id: `event ${type}`,
      title: type,
      kind: "Event" as const,
      detail: description,
      to: `/reference/events/${type}`,
    })),
    ...streams.channels.flatMap(({ id, title, address, description, messages }) => [
      { id: `stream ${id}`, title, kind: "Stream" as const, detail: `${address}. ${description}`, to: `/reference/streams/${id}` },
      ...messages
        .filter(({ isEvent }) => !isEvent)
        .map((message) => ({
          id: `${id} ${message.id}`,
          title: message.name,
          kind: "Frame" as const,
          detail: `${title}. ${message.description}`,
          to: `/reference/streams/${id}`,
        })),
    ]),
    ...fieldEntries(operations),
  ];
}
