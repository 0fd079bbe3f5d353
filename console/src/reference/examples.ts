/** Programs that make a call, in four languages. They need nothing but what the language's people have at hand. */
import { config } from "../config";
import { curl, TOKEN } from "../ui/curl";
import type { Operation, Parameter } from "./document";
import { alternatives, isList, origin, resolve, type Schema, values } from "./schema";

const INDENT = 2;

const MOMENT = "2026-11-19T12:00:00.000Z";

/** Texts as they often are, by the names of their fields. */
const TEXTS: [RegExp, string][] = [
  [/_at$|^at$|^erase_after$/, MOMENT],
  [/^(cursor|after|oldest)$/, "9-3CWSHT9S"],
  [/^token$/, "eyJhbGciOiJFZERTQSIs…"],
  [/^id$/, "1"],
  [/^method$/, "identity.me.get"],
  [/^idempotency_key$/, "order-4711"],
  [/email/, "ada@example.com"],
  [/^url$/, "https://hooks.example.com/"],
  [/^(address|link)$/, "https://api.example.com/…"],
  [/^slug$/, "acme"],
  [/name$/, "Acme"],
  [/^plan$/, "free"],
  [/^day$/, "2026-11-19"],
  [/^month$/, "2026-11"],
  [/^(client_)?secret$/, "…"],
  [/^event_types?$|^types$/, "member.joined"],
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

/** A value that fits the schema, as it could be for a field of that name. A schema within itself has none. */
export function sample(given: Schema, name = "", around: readonly Schema[] = []): unknown {
  const self = origin(given);
  if (around.includes(self)) return undefined;
  const within = [...around, self];
  const schema = resolve(given);
  const only = alternatives(schema);
  if (only.length === 1 && only[0]!.properties) return sample(only[0]!, name, within);
  if (schema.examples?.length) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  const [first] = values(schema);
  if (first) return schema.enum ? schema.enum[0] : first.value;
  if (schema.properties) {
    return Object.fromEntries(Object.entries(schema.properties).map(([name, field]) => [name, sample(field, name, within)]));
  }
  const type = [schema.type ?? "string"].flat()[0];
  if (type === "array") return [schema.items && sample(schema.items, name, within)].filter((item) => item !== undefined);
  if (type === "boolean") return true;
  if (type === "integer" || type === "number") return schema.minimum ?? 0;
  if (type === "object") return {};
  return text(schema, name);
}

export interface Call {
  path: string;
  query: [string, string][];
  /** Beside the token and the type of the body. */
  headers: [string, string][];
  body: unknown;
}

/** The call with what the reader has filled in; what is missing of the path stays as it is named. */
export function callOf(operation: Operation, filled: Record<string, string>, org: string): Call {
  const path = operation.path.replace(/\{([^}]+)\}/g, (_, name: string) => {
    const value = filled[name] || (name === "org_id" && org);
    return value ? encodeURIComponent(value) : `{${name}}`;
  });
  const given = (place: Parameter["in"]) =>
    operation.parameters.flatMap(({ in: where, name, schema, required }): [string, string][] => {
      const value = filled[name] || (required ? String(sample(schema, name) ?? "") : "");
      if (where !== place || value === "") return [];
      return (where === "query" && isList(schema) ? value.split(",") : [value]).map((each) => [name, each.trim()]);
    });
  return { path, query: given("query"), headers: given("header"), body: operation.body && (operation.body.example ?? sample(operation.body.schema)) };
}

export const address = ({ path, query }: Call) => path + (query.length > 0 ? `?${new URLSearchParams(query)}` : "");

/** Is it events that are answered, for as long as somebody listens? */
const isStream = ({ contentType }: Operation) => contentType === "text/event-stream";

/** Is it a document that is answered? What is no stream either is some text, or nothing. */
const isJson = ({ contentType }: Operation) => contentType === "application/json";

function python(operation: Operation, call: Call, token: string | null): string {
  const bearer = token ? JSON.stringify(`Bearer ${token}`) : '"Bearer " + os.environ["PORTICO_TOKEN"]';
  const headers = [
    ...(token === null ? [] : [`"Authorization": ${bearer}`]),
    ...call.headers.map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`),
    ...(call.body === undefined ? [] : [`"Content-Type": "application/json"`]),
  ];
  const imports = [...(isJson(operation) || call.body !== undefined ? ["json"] : []), ...(token === "" ? ["os"] : []), "urllib.request"];
  return [
    `import ${imports.join(", ")}`,
    "",
    "request = urllib.request.Request(",
    `    ${JSON.stringify(config.baseUrl + address(call))},`,
    `    method="${operation.method}",`,
    ...(call.body === undefined ? [] : [`    data=json.dumps(${pythonValue(call.body)}).encode(),`]),
    ...(headers.length === 0 ? [] : [`    headers={${headers.join(", ")}},`]),
    ")",
    "with urllib.request.urlopen(request) as answer:",
    ...(isStream(operation)
      ? ["    for line in answer:", '        print(line.decode(), end="")']
      : [`    print(${isJson(operation) ? "json.load(answer)" : "answer.read().decode()"})`]),
  ].join("\n");
}

/** A value of JSON as Python writes it. */
function pythonValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${pythonValue(each)}`).join(", ")}}`;
}

function typescript(operation: Operation, call: Call, token: string | null): string {
  const headers = [
    ...(token === null ? [] : [`Authorization: \`Bearer ${token || "${process.env.PORTICO_TOKEN}"}\``]),
    ...call.headers.map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`),
    ...(call.body === undefined ? [] : [`"Content-Type": "application/json"`]),
  ];
  const options = [
    `  method: "${operation.method}",`,
    ...(headers.length === 0 ? [] : [`  headers: { ${headers.join(", ")} },`]),
    ...(call.body === undefined ? [] : [`  body: JSON.stringify(${JSON.stringify(call.body, null, INDENT).replaceAll("\n", "\n  ")}),`]),
  ];
  const use = isStream(operation)
    ? "for await (const text of answer.body!.pipeThrough(new TextDecoderStream())) process.stdout.write(text);"
    : `console.log(await answer.${isJson(operation) ? "json" : "text"}());`;
  return `const answer = await fetch(${JSON.stringify(config.baseUrl + address(call))}, {
${options.join("\n")}
});
if (!answer.ok) throw new Error((await answer.json()).error);
${use}`;
}

function rust(operation: Operation, call: Call, token: string | null): string {
  const body = call.body === undefined ? "" : `\n        .json(&serde_json::json!(${JSON.stringify(call.body)}))`;
  const bearer = token === null ? "" : `\n        .bearer_auth(${token ? `"${token}"` : 'std::env::var("PORTICO_TOKEN")?'})`;
  const headers = call.headers.map(([name, value]) => `\n        .header(${JSON.stringify(name)}, ${JSON.stringify(value)})`).join("");
  const [binding, last, use] = isStream(operation)
    ? ["let mut answer", "", "std::io::copy(&mut answer, &mut std::io::stdout())?;"]
    : isJson(operation)
      ? ["let answer: serde_json::Value", "\n        .json()?", 'println!("{answer:#}");']
      : ["let answer", "\n        .text()?", 'println!("{answer}");'];
  const timeout = isStream(operation) ? "builder().timeout(None).build()?" : "new()";
  return `// reqwest with the features "blocking" and "json", and serde_json
fn main() -> Result<(), Box<dyn std::error::Error>> {
    ${binding} = reqwest::blocking::Client::${timeout}
        .request(reqwest::Method::${operation.method}, ${JSON.stringify(config.baseUrl + address(call))})${bearer}${headers}${body}
        .send()?
        .error_for_status()?${last};
    ${use}
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

/** The program for that call. Without a token of the reader's, it takes one from the environment. */
export function example(language: Language, operation: Operation, call: Call, token: string): string {
  const needed = operation.access === "open" ? null : token;
  switch (language) {
    case "curl": {
      const command = curl(operation.method, address(call), needed === "" ? TOKEN : needed, call.body, call.headers);
      return isStream(operation) ? command.replace("curl -s", "curl -sN") : command;
    }
    case "typescript":
      return typescript(operation, call, needed);
    case "python":
      return python(operation, call, needed);
    case "rust":
      return rust(operation, call, needed);
  }
}
