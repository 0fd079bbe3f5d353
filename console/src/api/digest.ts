/** What the console itself needs of a document of the API: operations and scopes in a few words, and whose they are. */
import type { ApiDocument, RawOperation } from "./openapi";

export interface Operation {
  rpc: string;
  method: string;
  path: string;
  summary: string;
  /** What a token must hold: all the scopes of one of these lists. */
  scopes: readonly (readonly string[])[];
  /** The service that answers it; empty for the platform itself. */
  service: string;
}

export interface Scope {
  name: string;
  description: string;
  /** How many operations ask for it. */
  operations: number;
  /** Does it let a token read, and nothing else, by its name or by what it opens? */
  isRead: boolean;
  /** The service that it belongs to; empty for the platform's own. */
  service: string;
}

export interface Digest {
  operations: readonly Operation[];
  /** Every scope, those too that open nothing yet. */
  scopes: readonly Scope[];
  /** What each service calls itself. */
  services: Readonly<Record<string, string>>;
}

/** A scope that opens nothing yet is not offered. Those of tools are asked for beside the API. */
export const isOffered = ({ name, operations }: Scope) => operations > 0 || name.startsWith("mcp:");

/** The operations of a document with their paths and methods. */
export function eachOperation<T>(document: ApiDocument, make: (raw: RawOperation, method: string, path: string) => T): T[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, raw]) => make(raw, method.toUpperCase(), path)),
  );
}

/** The service whose operation is called so: a name begins with its area or with its service. */
function serviceOf(rpc: string, areas: readonly string[]): string {
  const first = rpc.split(".")[0] ?? "";
  return areas.includes(first) ? "" : first;
}

function scopesOf(document: ApiDocument, operations: readonly Operation[]): Scope[] {
  return document.info["x-platform-scopes"].map(({ name, description }) => {
    const opened = operations.filter(({ scopes }) => scopes.some((list) => list.includes(name)));
    return {
      name,
      description,
      operations: opened.length,
      isRead: name.endsWith(":read") || (opened.length > 0 && opened.every(({ method }) => method === "GET")),
      service: opened.find(({ service }) => service !== "")?.service ?? "",
    };
  });
}

function servicesOf(document: ApiDocument, operations: readonly Operation[]): Record<string, string> {
  const named = new Set(operations.map(({ service }) => service).filter(Boolean));
  const plain = (name: string) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll("-", " ");
  return Object.fromEntries([...named].map((name) => [name, document.info["x-platform-services"]?.[name]?.title ?? plain(name)]));
}

export function digest(document: ApiDocument, areas: readonly string[]): Digest {
  const operations = eachOperation(document, (raw, method, path): Operation => ({
    rpc: raw.operationId,
    method,
    path,
    summary: raw.summary,
    scopes: raw.security.map(({ bearer = [] }) => bearer),
    service: serviceOf(raw.operationId, areas),
  }));
  return { operations, scopes: scopesOf(document, operations), services: servicesOf(document, operations) };
}

/** Where the reference tells of an operation. The names of services may hold a slash. */
export const operationPath = (rpc: string) => `/reference/${encodeURIComponent(rpc)}`;
