/** Programs that make a call, in four languages. They need nothing but what the language's people have at hand. */
import { config } from "../config";
import { curl } from "../ui/curl";
import { type Operation, resolve, type Schema, values } from "./document";

const INDENT = 2;

/** A value that fits the schema. */
export function sample(given: Schema): unknown {
  const schema = resolve(given);
  if (schema.examples?.length) return schema.examples[0];
  const [first] = values(schema);
  if (first) return schema.enum ? schema.enum[0] : first.value;
  if (schema.properties) {
    return Object.fromEntries(Object.entries(schema.properties).map(([name, field]) => [name, sample(field)]));
  }
  const type = [schema.type ?? "string"].flat()[0];
  if (type === "array") return schema.items ? [sample(schema.items)] : [];
  if (type === "boolean") return true;
  if (type === "integer" || type === "number") return schema.minimum ?? 0;
  if (type === "object") return {};
  return schema.format === "date-time" ? "2026-11-19T12:00:00.000Z" : "";
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
