import { useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { NotFound } from "../app/fallbacks";
import { entitle } from "../config";
import { Code, Json, Waiting } from "../ui/kit";
import { curl, TOKEN } from "../ui/curl";
import { Fields } from "./fields";
import { useEvents } from "./live";

export default function EventPage() {
  const { type = "" } = useParams({ strict: false }) as { type?: string };
  const { events, isPending } = useEvents();
  const event = events.find((each) => each.type === type);
  useEffect(() => {
    entitle(type);
  }, [type]);
  if (!event) return isPending ? <Waiting rows={6} /> : <NotFound />;
  return (
    <div className="ref-page">
      <article className="prose">
        <h1 tabIndex={-1}>{event.type}</h1>
        <p>{event.description}</p>
        <p className="quiet">
          It comes over webhooks, server-sent events, the socket and MQTT. Deliveries may come twice and in another order; the id stays the
          same, and <code>occurred_at</code> tells the time.
        </p>
        <h2>Fields</h2>
        <Fields schema={event.schema} />
      </article>
      <aside className="ref-examples" aria-label="Example">
        <Json label="Example" value={event.example} />
        <Code
          label="Follow it with curl"
          text={curl("GET", `/v1/events/stream?types=${event.type}`, TOKEN).replace("curl -s", "curl -sN")}
        />
        <Json label="JSON Schema" value={event.schema} />
      </aside>
    </div>
  );
}
