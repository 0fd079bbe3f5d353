/** The API as the reference tells it: made of what was built in, and of what the running server says. */
import openapi from "../../../docs/api/openapi-persons.json";
import { AREAS } from "../api/areas.gen";
import { digest, type Digest, eachOperation, type Operation as Summary } from "../api/digest";
import type { ApiDocument, Media, RawOperation } from "../api/openapi";
import { fieldsOf, link, type Schema } from "./schema";

export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required: boolean;
  description?: string | undefined;
  schema: Schema;
}

export interface Operation extends Omit<Summary, "summary"> {
  /** The area of the platform, or the service's own word for what belongs together. */
  area: string;
  /** What it does, in a few words. */
  title: string;
  description: string;
  access: "open" | "token" | "person";
  units: { category: string; units: string } | undefined;
  tool: { name: string; scopes: string[] } | undefined;
  parameters: Parameter[];
  /** What is sent as JSON. */
  body: { schema: Schema; example: unknown } | undefined;
  answer: Schema | undefined;
  contentType: string;
  /** The statuses of refusals, with what is said of them here beside what they mean everywhere. */
  statuses: [string, string | undefined][];
  list: boolean;
}

export interface Reference extends Pick<Digest, "scopes" | "services"> {
  version: string;
  operations: readonly Operation[];
  /** The operations under the headings that they stand under. */
  groups: readonly { title: string; operations: readonly Operation[] }[];
}

const JSON_TYPE = /^application\/([\w.-]+\+)?json\b/;

/** What is sent or answered: as JSON, where there is a choice. */
const media = (content: Record<string, Media> = {}): [string, Media | undefined] => {
  const all = Object.entries(content);
  return all.find(([type]) => JSON_TYPE.test(type)) ?? all[0] ?? ["", undefined];
};

const firstExample = ({ example, examples = {} }: Media) => example ?? Object.values(examples)[0]?.value;

function bodyOf({ requestBody }: RawOperation): Operation["body"] {
  const [type, sent] = media(requestBody?.content);
  // Anything is taken there, an empty object too.
  if (type === "*/*") return { schema: {}, example: {} };
  return sent?.schema && JSON_TYPE.test(type) ? { schema: sent.schema, example: firstExample(sent) } : undefined;
}

function parametersOf({ parameters = [] }: RawOperation): Parameter[] {
  // The gateway forwards no cookies.
  const told = parameters.flatMap((each) => (each.in === "cookie" ? [] : [{ ...each, in: each.in }]));
  return told.map(({ name, in: where, required = false, description, schema, content }) => ({
    name,
    in: where,
    required,
    description,
    schema: schema ?? media(content)[1]?.schema ?? {},
  }));
}

function describe(summary: Summary, raw: RawOperation): Operation {
  const { summary: words, ...rest } = summary;
  const success = Object.keys(raw.responses).find((status) => status.startsWith("2"));
  const [contentType, answer] = media(raw.responses[success ?? ""]?.content);
  const area = raw.tags?.[0] ?? "";
  return {
    ...rest,
    // Where two services have the same word, the document tells them apart by their names.
    area: area.startsWith(`${rest.service}.`) ? area.slice(rest.service.length + 1) : area,
    // A summary may go on after its first clause, which is enough for a heading.
    title: words.split(/[,;:] /)[0] ?? words,
    description: raw.description ?? "",
    access: raw.security.length === 0 ? "open" : raw["x-platform-public"] ? "token" : "person",
    units: raw["x-platform-units"],
    tool: raw["x-platform-tool"],
    parameters: parametersOf(raw),
    body: bodyOf(raw),
    answer: answer?.schema,
    contentType: JSON_TYPE.test(contentType) ? "application/json" : contentType,
    statuses: Object.entries(raw.responses).flatMap(([status, { description }]) => (/^[45]/.test(status) ? [[status, description]] : [])),
    list: raw["x-platform-list"] !== undefined,
  };
}

const TITLES: Record<string, string> = {
  identity: "Identity and keys",
  accounts: "Accounts and teams",
  metering: "Units and usage",
  webhooks: "Webhooks",
  events: "Events",
  platform: "Platform",
};

/** The platform's operations by their areas, in the order in which they are best read, then each service's by its words. */
function groupsOf(operations: readonly Operation[], services: Digest["services"]): Reference["groups"] {
  const own = operations.filter(({ service }) => service === "");
  const areas = new Set([...Object.keys(TITLES), ...own.map(({ area }) => area)]);
  const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1);
  const ofService = ([service, title]: [string, string]) => {
    const all = operations.filter((each) => each.service === service);
    const words = [...new Set(all.map(({ area }) => area))];
    if (words.length === 1) return [{ title, operations: all }];
    return words.map((word) => ({ title: word === service ? title : `${title}: ${word}`, operations: all.filter(({ area }) => area === word) }));
  };
  const groups = [
    ...[...areas].map((name) => ({ title: TITLES[name] ?? capital(name), operations: own.filter(({ area }) => area === name) })),
    ...Object.entries(services).flatMap(ofService),
  ];
  return groups.filter(({ operations }) => operations.length > 0);
}

/** Tells of what `complete` makes of the operations that are found in the document. */
function referenceOf(document: ApiDocument, complete = (found: Operation[]): readonly Operation[] => found): Reference {
  link(document);
  const { operations: summaries, scopes, services } = digest(document, AREAS);
  const byRpc = new Map(summaries.map((summary) => [summary.rpc, summary]));
  const operations = complete(eachOperation(document, (raw) => describe(byRpc.get(raw.operationId)!, raw)));
  return { version: document.info.version, operations, groups: groupsOf(operations, services), scopes, services };
}

/** The platform alone, as it was when this console was built, which is when the server was. */
export const BUILT_IN = referenceOf(openapi as unknown as ApiDocument);

/**
 * The platform with the services behind the running server. Its open document leaves out what only people may call, which
 * stays as it was built in; and what only services may call is not for readers of the console.
 */
export const withServices = (open: ApiDocument) =>
  referenceOf(open, (found) => {
    const byRpc = new Map(found.map((each) => [each.rpc, each]));
    return [...BUILT_IN.operations.map((each) => byRpc.get(each.rpc) ?? each), ...found.filter(({ service }) => service !== "")];
  });

/** Has the body fields that are worth a list? */
export const hasFields = ({ body }: Operation) => body !== undefined && fieldsOf(body.schema).length > 0;
