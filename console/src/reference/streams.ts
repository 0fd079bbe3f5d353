/** What stays open: the channels of the AsyncAPI document, and what goes over each. */
import asyncapi from "../api/streams.gen.json";
import { know, type Schema } from "./document";

interface RawMessage {
  name: string;
  summary?: string;
  payload?: Schema;
  examples?: { name?: string; payload: unknown }[];
}

interface Ref {
  $ref: string;
}

const document = asyncapi as unknown as {
  info: { description: string };
  servers: Record<string, { protocol: string; description: string }>;
  channels: Record<
    string,
    { address: string; description: string; servers: Ref[]; parameters?: Record<string, { description: string }>; messages: Record<string, Ref> }
  >;
  operations: Record<string, { action: "send" | "receive"; channel: Ref; messages: Ref[] }>;
  components: { schemas: Record<string, Schema>; messages: Record<string, RawMessage> };
};

know(document.components.schemas);

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

const definition = (message: RawMessage): Schema | undefined => {
  const name = message.payload?.$ref?.split("/").at(-1);
  return name === undefined ? message.payload : document.components.schemas[name];
};

/** Which of the channel's messages are sent by clients. */
function fromClients(channel: string): Set<string> {
  const taken = Object.values(document.operations).filter((each) => each.action === "receive" && last(each.channel) === channel);
  return new Set(taken.flatMap(({ messages }) => messages.map(last)));
}

export const ABOUT = document.info.description;

export const CHANNELS: readonly Channel[] = Object.entries(document.channels).map(([id, channel]) => {
  const transport = last(channel.servers[0] ?? { $ref: "" }) as Channel["transport"];
  const clients = fromClients(id);
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
      .map((name): Message => {
        const message = document.components.messages[name] ?? { name };
        const schema = definition(message);
        return {
          id: name,
          name: message.name,
          description: message.summary ?? schema?.description ?? "",
          from: clients.has(name) ? "client" : "server",
          isEvent: name.startsWith("event."),
          schema,
          example: message.examples?.[0]?.payload,
        };
      }),
  };
});
