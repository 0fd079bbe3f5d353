import { useMutation } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { NotFound } from "../app/fallbacks";
import { config, entitle } from "../config";
import { milliseconds } from "../ui/format";
import { Badge, Button, Choice, Code, ErrorNote, Facts, Field, Json, Waiting } from "../ui/kit";
import { hasFields, type Operation, type Reference } from "./document";
import { address, type Call, callOf, example, type Language, LANGUAGES, sample } from "./examples";
import { FieldRow, Fields, Words } from "./fields";
import { useReference } from "./live";
import { type TestToken, useTestToken } from "./test-token";

/** What the codes of refusals mean, as far as an operation's statuses tell them apart. */
const STATUSES: Record<string, string> = {
  "400": "A field is wrong; the details name it. Or something must be done first.",
  "401": "The token is missing, invalid, expired or revoked.",
  "403": "The token lacks the scope, or the account is another one.",
  "404": "There is no such thing in this account.",
  "409": "It exists already, or the same key is in use right now.",
  "413": "The body is too large.",
  "415": "The body is not JSON.",
  "422": "The Idempotency-Key was used with another body.",
  "429": "Too many calls in a minute, or the month's units are spent. Retry-After tells how long.",
  "500": "Our fault. The request id helps us to find it.",
  "503": "Not now. Retry-After tells when.",
  "504": "The service behind the gateway took too long.",
};

interface Tried {
  status: number;
  headers: [string, string][];
  body: unknown;
  took: number;
}

async function send(operation: Operation, call: Call, token: string): Promise<Tried> {
  const began = performance.now();
  const headers = [...call.headers, ...(token && operation.access !== "open" ? [["authorization", `Bearer ${token}`] as [string, string]] : [])];
  const response = await fetch(config.baseUrl + address(call), { method: operation.method, headers });
  const text = await response.text();
  let body: unknown = text;
  try {
    body = JSON.parse(text);
  } catch {
    // It is shown as it came.
  }
  return { status: response.status, headers: [...response.headers], body, took: performance.now() - began };
}

function Try({ operation, call, token, filled, onFill }: { operation: Operation; call: Call; token: TestToken | null; filled: Record<string, string>; onFill: (name: string, value: string) => void }) {
  const run = useMutation({ mutationFn: () => send(operation, call, token?.token ?? "") });
  const needsToken = operation.access !== "open" && token === null;
  const missing = call.path.includes("{");
  const fields = operation.parameters.filter(({ in: where, required }) => where !== "header" || required);
  return (
    <form
      className="try"
      onSubmit={(event) => {
        event.preventDefault();
        if (!needsToken && !missing) run.mutate();
      }}
    >
      <h2>Try it</h2>
      {fields.map(({ name, required, schema, description }) => (
        <Field key={name} label={name} hint={<Words text={description ?? schema.description ?? ""} />}>
          {(control) => (
            <input
              {...control}
              required={required && !(name === "org_id" && token?.org)}
              placeholder={name === "org_id" ? token?.org : ""}
              value={filled[name] ?? ""}
              onChange={(event) => onFill(name, event.target.value)}
              autoComplete="off"
            />
          )}
        </Field>
      ))}
      <Button type="submit" look="primary" busy={run.isPending} disabled={needsToken}>
        Send
      </Button>
      {needsToken && <p className="quiet">At the top of the page, make a test token or use one of yours.</p>}
      <ErrorNote error={run.error} />
      {run.data && (
        <div aria-live="polite" className="tried">
          <p>
            <Badge tone={run.data.status < 300 ? "good" : "bad"}>{run.data.status}</Badge>{" "}
            <span className="quiet">
              {milliseconds(Math.round(run.data.took))}
              {operation.units && run.data.status < 500 && `, ${operation.units.units} ${operation.units.units === "1" ? "unit" : "units"}`}
            </span>
          </p>
          <Code label="Headers" text={run.data.headers.map(([name, value]) => `${name}: ${value}`).join("\n")} wrap />
          <Json label="Answer" value={run.data.body} />
        </div>
      )}
    </form>
  );
}

/** Who may call it: every one of the scopes of one list is needed. */
function Who({ operation: { access, scopes: lists }, scopes }: { operation: Operation; scopes: Reference["scopes"] }) {
  if (access === "open") return "Everybody, without a token";
  if (access === "person") return "A person, signed in to the console";
  if (lists.every((list) => list.length === 0)) return "Any token";
  return lists.map((list, index) => (
    <span key={list.join(" ")}>
      {index > 0 && " or "}
      {list.map((name, place) => (
        <span key={name}>
          {place > 0 && " and "}
          <code>{name}</code> <span className="quiet">{scopes.find((scope) => scope.name === name)?.description}</span>
        </span>
      ))}
    </span>
  ));
}

function Page({ operation, scopes, services }: { operation: Operation } & Pick<Reference, "scopes" | "services">) {
  const token = useTestToken();
  const [language, setLanguage] = useState<Language>("curl");
  const [filled, setFilled] = useState<Record<string, string>>({});
  const call = callOf(operation, filled, token?.org ?? "");
  const of = (where: string) => operation.parameters.filter((each) => each.in === where);
  const parts = [
    ["Path", of("path")],
    ["Query", of("query")],
    ["Headers", of("header")],
  ] as const;
  return (
    <div className="ref-page">
      <article className="prose">
        <h1 tabIndex={-1}>{operation.title}</h1>
        <p className="ref-path">
          <span className={`method ${operation.method.toLowerCase()}`}>{operation.method}</span> <code>{operation.path}</code>
        </p>
        {operation.description.split("\n\n").map((paragraph, index) => (
          <p key={index}>
            <Words text={paragraph} />
          </p>
        ))}
        <Facts
          items={[
            ...(operation.service ? [["Service", services[operation.service]] as [string, React.ReactNode]] : []),
            ["Who may", <Who key="who" operation={operation} scopes={scopes} />],
            ["Price", operation.units ? `${operation.units.units} ${operation.units.units === "1" ? "unit" : "units"} (${operation.units.category})` : "free"],
            ["Socket and MQTT", <code key="rpc">{operation.rpc}</code>],
            ...(operation.tool ? [["Tool", <code key="tool">{operation.tool.name}</code>] as [string, React.ReactNode]] : []),
          ]}
        />
        {parts.map(
          ([title, parameters]) =>
            parameters.length > 0 && (
              <section key={title}>
                <h2>{title}</h2>
                <ul className="ref-fields">
                  {parameters.map(({ name, schema, required, description }) => (
                    <FieldRow key={name} name={name} schema={schema} required={required} description={description} />
                  ))}
                </ul>
              </section>
            ),
        )}
        {operation.body && hasFields(operation) && (
          <section>
            <h2>Body</h2>
            <Fields schema={operation.body.schema} marksRequired />
          </section>
        )}
        {operation.answer && (
          <section>
            <h2>Answer</h2>
            {operation.contentType !== "application/json" && <p className="quiet">{operation.contentType}</p>}
            <Fields schema={operation.answer} />
          </section>
        )}
        <section>
          <h2>Refusals</h2>
          <ul className="ref-fields">
            {operation.statuses.map(([status, description = STATUSES[status]]) => (
              <li key={status} className="ref-field">
                <p>
                  <code className="ref-name">{status}</code> <span className="quiet">{description && <Words text={description} />}</span>
                </p>
              </li>
            ))}
          </ul>
          <p>
            <Link to="/reference/guides/$guide" params={{ guide: "errors-and-retries" } as never}>
              What to do about each of them
            </Link>
          </p>
        </section>
      </article>
      <aside className="ref-examples" aria-label="Examples">
        <Choice label="Language" value={language} options={LANGUAGES} onChange={setLanguage} />
        <Code label={LANGUAGES.find(([name]) => name === language)?.[1] ?? ""} text={example(language, operation, call, token?.token ?? "")} wrap={language === "curl"} />
        {operation.answer && operation.contentType === "application/json" && <Json label="An answer" value={sample(operation.answer)} />}
        {operation.method === "GET" && operation.access !== "person" && operation.contentType === "application/json" && (
          <Try operation={operation} call={call} token={token} filled={filled} onFill={(name, value) => setFilled({ ...filled, [name]: value })} />
        )}
      </aside>
    </div>
  );
}

export default function OperationPage() {
  const { operation: rpc = "" } = useParams({ strict: false }) as { operation?: string };
  const { operations, scopes, services, isPending } = useReference();
  const operation = operations.find((each) => each.rpc === rpc);
  useEffect(() => {
    if (operation) entitle(operation.title);
  }, [operation]);
  if (!operation) return isPending ? <Waiting rows={6} /> : <NotFound />;
  return <Page key={rpc} operation={operation} scopes={scopes} services={services} />;
}
