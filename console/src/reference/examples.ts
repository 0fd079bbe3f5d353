/** Programs that make a call, in four languages. They need nothing but what the language's people have at hand. */
import { config } from "../config";
import { curl } from "../ui/curl";
import { alternatives, type Operation, resolve, type Schema, values } from "./document";

const INDENT = 2;

const MOMENT = "2026-11-19T12:00:00.000Z";

/** Texts as they often are, by the names of their fields. */
const TEXTS: [RegExp, string][] = [
  [/_at$|^at$|^erase_after$/, MOMENT],
  [/email/, "ada@example.com"],
  [/^url$/, "https://hooks.example.com/"],
  [/^(address|link)$/, "https://api.example.com/…"],
  [/^slug$/, "acme"],
  [/name$/, "Acme"],
  [/^plan$/, "free"],
  [/^day$/, "2026-11-19"],
  [/^month$/, "2026-11"],
  [/^(client_)?secret$/, "…"],
  [/^event_type|^event_types$/, "member.joined"],
  [/^scopes$/, "webhooks:read"],
  [/units|calls|errors|allowance|granted|used|remaining|accounts|tokens/, "100"],
];

/** A text that fits the schema, as it could be for a field of that name. */
function text(schema: Schema, name: string): string {
  const prefix = /^\^([a-z]{3,4}_)/.exec(schema.pattern ?? "")?.[1];
  if (prefix) return `${prefix}01M7N4P0QWV5AH6ZSWBHS94N5J`;
  if (schema.format === "date-time") return MOMENT;
  return TEXTS.find(([names]) => names.test(name))?.[1] ?? "";
}

/** A value that fits the schema, as it could be for a field of that name. */
export function sample(given: Schema, name = ""): unknown {
  const schema = resolve(given);
  const only = alternatives(schema);
  if (only.length === 1 && only[0]!.properties) return sample(only[0]!, name);
  if (schema.examples?.length) return schema.examples[0];
  const [first] = values(schema);
  if (first) return schema.enum ? schema.enum[0] : first.value;
  if (schema.properties) {
    return Object.fromEntries(Object.entries(schema.properties).map(([name, field]) => [name, sample(field, name)]));
  }
  const type = [schema.type ?? "string"].flat()[0];
  if (type === "array") return schema.items ? [sample(schema.items, name)] : [];
  if (type === "boolean") return true;
  if (type === "integer" || type === "number") return schema.minimum ?? 0;
  if (type === "object") return {};
  return text(schema, name);
}

export interface Call {
  path: string;
  query: [string, string][];
  body: unknown;
}

/** The call with what the reader has filled in; what is missing of the path stays as it is named. */
export function callOf(operation: Operation, filled: Record<string, string>, org: string): Call {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => filled[name] || (name === "org_id" && org) || `{${name}}`);
  const query = operation.parameters
    .filter(({ in: where, name }) => where === "query" && filled[name])
    .flatMap(({ name }) => filled[name]!.split(",").map((value): [string, string] => [name, value.trim()]));
  return { path, query, body: operation.body ? operation.body.example : operation.method === "POST" ? {} : undefined };
}

export const address = ({ path, query }: Call) => path + (query.length > 0 ? `?${new URLSearchParams(query)}` : "");

function python(operation: Operation, call: Call, token: string): string {
  const lines = ["import json, os, urllib.request", ""];
  const body = call.body === undefined ? "" : `\n    data=json.dumps(${pythonValue(call.body)}).encode(),`;
  const type = call.body === undefined ? "" : `, "Content-Type": "application/json"`;
  lines.push(
    "request = urllib.request.Request(",
    `    "${config.baseUrl}${address(call)}",`,
    `    method="${operation.method}",${body}`,
    `    headers={"Authorization": "Bearer " + ${token ? JSON.stringify(token) : 'os.environ["PORTICO_TOKEN"]'}${type}},`,
    ")",
    "with urllib.request.urlopen(request) as answer:",
    "    print(json.load(answer))",
  );
  return lines.join("\n");
}

function pythonValue(value: unknown): string {
  return JSON.stringify(value).replaceAll(/\btrue\b/g, "True").replaceAll(/\bfalse\b/g, "False").replaceAll(/\bnull\b/g, "None");
}

function typescript(operation: Operation, call: Call, token: string): string {
  const body = call.body === undefined ? "" : `\n  body: JSON.stringify(${JSON.stringify(call.body, null, INDENT).replaceAll("\n", "\n  ")}),`;
  const type = call.body === undefined ? "" : `, "Content-Type": "application/json"`;
  return `const answer = await fetch("${config.baseUrl}${address(call)}", {
  method: "${operation.method}",
  headers: { Authorization: \`Bearer ${token || "${process.env.PORTICO_TOKEN}"}\`${type} },${body}
});
if (!answer.ok) throw new Error((await answer.json()).error);
console.log(await answer.json());`;
}

function rust(operation: Operation, call: Call, token: string): string {
  const body = call.body === undefined ? "" : `\n        .json(&serde_json::json!(${JSON.stringify(call.body)}))`;
  return `// reqwest with the features "blocking" and "json", and serde_json
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let token = ${token ? `"${token}"` : 'std::env::var("PORTICO_TOKEN")?'};
    let answer: serde_json::Value = reqwest::blocking::Client::new()
        .request(reqwest::Method::${operation.method}, "${config.baseUrl}${address(call)}")
        .bearer_auth(token)${body}
        .send()?
        .error_for_status()?
        .json()?;
    println!("{answer:#}");
    Ok(())
}`;
}

export const LANGUAGES = [
  ["curl", "curl"],
  ["typescript", "TypeScript"],
  ["python", "Python"],
  ["rust", "Rust"],
] as const;

export type Language = (typeof LANGUAGES)[number][0];

export function example(language: Language, operation: Operation, call: Call, token: string): string {
  switch (language) {
    case "curl":
      return operation.access === "open" && operation.method === "GET"
        ? `curl -s '${config.baseUrl}${address(call)}'`
        : curl(operation.method, address(call), token || "$PORTICO_TOKEN", call.body);
    case "typescript":
      return typescript(operation, call, token);
    case "python":
      return python(operation, call, token);
    case "rust":
      return rust(operation, call, token);
  }
}
