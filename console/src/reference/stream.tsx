/** One channel of the AsyncAPI document: where it is, what goes over it, and programs that use it. */
import { Link, useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { NotFound } from "../app/fallbacks";
import { config, entitle } from "../config";
import { Badge, Code, Facts, Json } from "../ui/kit";
import { Fields, Words } from "./fields";
import { sample } from "./examples";
import { streamExamples } from "./stream-examples";
import { useStreams } from "./live";
import type { Channel, Message } from "./streams";

const SCOPE = (
  <>
    <code>events:read</code> <span className="quiet">to be sent events; a call needs its operation's own</span>
  </>
);

const SIDES = [
  ["client", "What a client sends"],
  ["server", "What the server sends"],
] as const;

function MessageEntry({ of }: { of: Message }) {
  const example = of.example ?? (of.schema?.properties ? sample(of.schema) : undefined);
  return (
    <section className="ref-message">
      <h3>
        <code>{of.name}</code>
      </h3>
      {of.description && (
        <p>
          <Words text={of.description} />
        </p>
      )}
      {of.schema && <Fields schema={of.schema} marksRequired />}
      {example !== undefined && <Json label={`Example of ${of.name}`} value={example} />}
    </section>
  );
}

function Events({ messages }: { messages: readonly Message[] }) {
  if (messages.length === 0) return null;
  return (
    <>
      <h3>Events</h3>
      <p className="quiet">Each as its envelope, the same over every transport.</p>
      <ul className="ref-events">
        {messages.map(({ name, description }) => (
          <li key={name}>
            <Link to="/reference/events/$type" params={{ type: name } as never}>
              <code>{name}</code>
            </Link>{" "}
            <span className="quiet">{description}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Page({ channel, about }: { channel: Channel; about: string }) {
  const isTopic = channel.transport === "mqtt";
  return (
    <div className="ref-page">
      <article className="prose">
        <h1 tabIndex={-1}>{channel.title}</h1>
        <p>
          <Words text={channel.description} />
        </p>
        <Facts
          items={[
            [isTopic ? "Topic" : "Address", <code key="address">{isTopic ? channel.address : config.baseUrl + channel.address}</code>],
            ["Server", channel.server],
            ["Scope", channel.id === "mqttCalls" || channel.id === "mqttReplies" ? "That of the operation" : SCOPE],
            ...channel.parameters.map(([name, description]): [string, string] => [`{${name}}`, description]),
          ]}
        />
        <p className="quiet">{about}</p>
        {SIDES.map(([side, title]) => {
          const messages = channel.messages.filter(({ from }) => from === side);
          return (
            messages.length > 0 && (
              <section key={side}>
                <h2>
                  {title} <Badge>{messages.length}</Badge>
                </h2>
                {messages
                  .filter(({ isEvent }) => !isEvent)
                  .map((message) => (
                    <MessageEntry key={message.id} of={message} />
                  ))}
                <Events messages={messages.filter(({ isEvent }) => isEvent)} />
              </section>
            )
          );
        })}
        <p>
          <Link to="/reference/guides/$guide" params={{ guide: "resuming-streams" } as never}>
            How to go on where a stream was cut off
          </Link>
        </p>
      </article>
      <aside className="ref-examples" aria-label="Examples">
        {streamExamples(channel).map(([label, text]) => (
          <Code key={label} label={label} text={text} />
        ))}
      </aside>
    </div>
  );
}

export default function StreamPage() {
  const { channel: id = "" } = useParams({ strict: false }) as { channel?: string };
  const { about, channels } = useStreams();
  const channel = channels.find((each) => each.id === id);
  useEffect(() => {
    if (channel) entitle(channel.title);
  }, [channel]);
  return channel ? <Page key={id} channel={channel} about={about} /> : <NotFound />;
}
