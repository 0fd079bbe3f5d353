import { Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { config, entitle } from "../config";
import { Code, Facts } from "../ui/kit";
import { GUIDES } from "./guides";
import { useEvents, useReference } from "./live";

export default function Home() {
  const { operations, version } = useReference();
  const { events } = useEvents();
  useEffect(() => {
    entitle("Reference");
  }, []);
  return (
    <article className="prose">
      <h1 tabIndex={-1}>Reference and guides</h1>
      <p>
        {operations.length} operations and {events.length} event types. Every operation can be called over HTTP, over a WebSocket and over
        MQTT; many are tools for assistants, too. Names, fields and errors are the same everywhere.
      </p>
      <Facts
        items={[
          ["API", <code key="api">{config.baseUrl}</code>],
          ["Tokens", <code key="auth">{config.authUrl}/oauth2/token</code>],
          ["Version", version],
          [
            "Documents",
            <span key="documents">
              <a href={`${config.baseUrl}/openapi.json`}>OpenAPI</a>, <a href={`${config.baseUrl}/asyncapi.json`}>AsyncAPI</a>,{" "}
              <a href={`${config.baseUrl}/frames.json`}>frames of the socket</a>
            </span>,
          ],
        ]}
      />
      <Code label="A first call" text={`curl -s '${config.baseUrl}/v1/me' \\\n  -H "Authorization: Bearer $PORTICO_TOKEN"`} />
      <h2>Guides</h2>
      <ul className="ref-cards">
        {GUIDES.map(({ slug, title }) => (
          <li key={slug}>
            <Link to="/reference/guides/$guide" params={{ guide: slug } as never}>
              {title}
            </Link>
          </li>
        ))}
      </ul>
      <h2>How calls are alike</h2>
      <ul>
        <li>Send <code>Authorization: Bearer</code> with a token. It may call what its scopes name, in its own account.</li>
        <li>Bodies are JSON. A name that is not known is refused, so that a slip of the pen is not lost.</li>
        <li>Lists answer <code>next_page_token</code>; send it as <code>page_token</code> until it is empty.</li>
        <li>A write that lists <code>Idempotency-Key</code> may be repeated with the same key, and happens once.</li>
        <li>Every refusal has a <code>code</code>, a sentence, and the <code>request_id</code> to ask us about it.</li>
        <li>A whole number of 64 bits is a text, such as <code>"100000"</code>. Times are RFC 3339 in UTC.</li>
      </ul>
    </article>
  );
}
