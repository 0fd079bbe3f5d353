/** A document of the API, as far as the console reads it. What a service wrote says less than what the platform writes. */
export interface Schema {
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  const?: unknown;
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
  $ref?: string;
  examples?: unknown[];
  default?: unknown;
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  additionalProperties?: boolean | Schema;
}

export interface Media {
  schema?: Schema;
  example?: unknown;
  examples?: Record<string, { value?: unknown }>;
}

export interface RawParameter {
  name: string;
  in: "path" | "query" | "header" | "cookie";
  required?: boolean;
  description?: string;
  schema?: Schema;
  content?: Record<string, Media>;
}

export interface RawOperation {
  operationId: string;
  summary: string;
  description?: string;
  tags?: string[];
  parameters?: RawParameter[];
  requestBody?: { required?: boolean; content: Record<string, Media> };
  responses: Record<string, { description?: string; content?: Record<string, Media> }>;
  /** The scopes of each are needed together; any of them is enough. */
  security: { bearer?: string[] }[];
  "x-platform-public": boolean;
  "x-platform-units"?: { category: string; units: string };
  "x-platform-tool"?: { name: string; scopes: string[] };
  "x-platform-list"?: unknown;
}

export interface ApiDocument {
  info: {
    version: string;
    /** What each scope lets a token do, the platform's own first. */
    "x-platform-scopes": { name: string; description: string }[];
    /** The services behind the server, by their names. */
    "x-platform-services"?: Record<string, { title?: string }>;
  };
  paths: Record<string, Record<string, RawOperation>>;
  components: { schemas: Record<string, Schema> };
}
