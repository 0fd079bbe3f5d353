/** What stays open: the channels of the AsyncAPI document, and what goes over each. */
import asyncapi from "../api/streams.gen.json";
import type { RawMessage, Ref, StreamsDocument } from "../api/asyncapi";
import { link, origin, type Schema } from "./schema";

export interface Message {
  id: string;
  name: string;
  description: string;
  /** Who sends it. The document is written from where the server stands. */
  from: "client" | "server";
  /** Is it an event, which has a page of its own? */
  isEvent: boolean;
  schema: Schema | undefined;
  example: unknown;
}

export interface Channel {
  id: string;
  title: string;
  transport: "sse" | "socket" | "mqtt";
  address: string;
  description: string;
  server: string;
  parameters: [string, string][];
  messages: Message[];
}

const TITLES: Record<string, string> = {
  stream: "Server-sent events",
  socket: "The socket",
  mqttEvents: "Events over MQTT",
  mqttCalls: "Calls over MQTT",
  mqttReplies: "Answers over MQTT",
};

const last = ({ $ref }: Ref) => $ref.split("/").at(-1) ?? "";

/** Which of the channel's messages are sent by clients. */
function fromClients({ operations }: StreamsDocument, channel: string): Set<string> {
  const taken = Object.values(operations).filter((each) => each.action === "receive" && last(each.channel) === channel);
  return new Set(taken.flatMap(({ messages }) => messages.map(last)));
}

function messageOf(id: string, { name, summary, payload, examples }: RawMessage, clients: ReadonlySet<string>): Message {
  const schema = payload && origin(payload);
  return {
    id,
    name,
    description: summary ?? schema?.description ?? "",
    from: clients.has(id) ? "client" : "server",
    isEvent: id.startsWith("event."),
    schema,
    example: examples?.[0]?.payload,
  };
}

export interface Streams {
  about: string;
  channels: readonly Channel[];
}

export function streamsOf(document: StreamsDocument): Streams {
  link(document);
  const channels = Object.entries(document.channels).map(([id, channel]): Channel => {
    const transport = last(channel.servers[0] ?? { $ref: "" }) as Channel["transport"];
    const clients = fromClients(document, id);
    return {
      id,
      title: TITLES[id] ?? channel.address,
      transport,
      address: channel.address,
      description: channel.description,
      server: document.servers[transport]?.description ?? "",
      parameters: Object.entries(channel.parameters ?? {}).map(([name, { description }]) => [name, description]),
      messages: Object.values(channel.messages)
        .map(last)
        .map((name) => messageOf(name, document.components.messages[name] ?? { name }, clients)),
    };
  });
  return { about: document.info.description, channels };
}

/** The platform's, as they were when this console was built. */
export const BUILT_IN = streamsOf(asyncapi as unknown as StreamsDocument);
