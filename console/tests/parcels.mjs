// A company's own service: a small document, and a target that answers by it and remembers what it was told.
import { createServer } from "node:http";

const parcel = { $ref: "#/components/schemas/Parcel" };
const answer = (schema) => ({ description: "It is there.", content: { "application/json": { schema } } });

/** What is written here like HTML is a text. */
export const MARKUP = "<img src=x onerror=alert(1)>";

const DOCUMENT = {
  openapi: "3.1.0",
  info: { title: "Parcels", version: "1" },
  security: [{ portico: ["parcels:read"] }],
  paths: {
    "/v1/parcels": {
      get: {
        operationId: "listParcels",
        summary: "List parcels",
        parameters: [{ name: "state", in: "query", description: "Those in this state alone.", schema: { $ref: "#/components/schemas/State" } }],
        responses: { 200: answer({ type: "object", properties: { parcels: { type: "array", items: parcel } } }) },
      },
      post: {
        operationId: "sendParcel",
        summary: "Send a parcel",
        security: [{ portico: ["parcels:send"] }],
        requestBody: { required: true, content: { "application/json": { schema: parcel } } },
        responses: { 201: answer(parcel) },
      },
    },
    "/v1/parcels/{parcel-id}": {
      get: {
        operationId: "getParcel",
        summary: "Look at a parcel",
        description: `Its weight is in \`grams\`. ${MARKUP}`,
        parameters: [{ name: "parcel-id", in: "path", required: true, description: "The parcel.", schema: { type: "string" } }],
        responses: { 200: answer(parcel), 404: { description: "There is none." } },
      },
      delete: {
        operationId: "dropParcel",
        summary: "Drop a parcel",
        security: [{ portico: ["parcels:send"] }],
        parameters: [
          { name: "parcel-id", in: "path", required: true, schema: { type: "string" } },
          { name: "parcel-state", in: "header", required: true, schema: { $ref: "#/components/schemas/State" } },
          { name: "reason", in: "query", required: true, schema: { type: "string", examples: ["wet, and \"torn\""] } },
        ],
        responses: { 204: { description: "It is gone." } },
      },
    },
  },
  webhooks: {
    "parcel.delivered": {
      post: {
        description: "A parcel was handed over.",
        requestBody: { content: { "application/json": { schema: { type: "object", properties: { parcel } } } } },
        responses: { 200: { description: "It was received." } },
      },
    },
  },
  components: {
    schemas: {
      State: { type: "string", enum: ["packed", "delivered"] },
      Parcel: {
        type: "object",
        properties: {
          grams: { type: "integer", description: "What it weighs." },
          state: { $ref: "#/components/schemas/State" },
          inner: { type: "array", description: "Parcels within it.", items: parcel },
        },
      },
    },
    securitySchemes: {
      portico: {
        type: "oauth2",
        flows: {
          clientCredentials: {
            tokenUrl: "/oauth2/token",
            scopes: { "parcels:read": "Look at parcels.", "parcels:send": "Send parcels on their way." },
          },
        },
      },
    },
  },
};

/** Starts the target, and answers what `Server.start` must be given for it. */
export async function startParcels() {
  const calls = [];
  const target = createServer((request, response) => {
    calls.push({ call: `${request.method} ${request.url}`, headers: request.headers });
    if (request.method === "DELETE") {
      response.writeHead(204).end();
      return;
    }
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ grams: 250, state: "packed", inner: [] }));
  });
  await new Promise((listening) => target.listen(0, "127.0.0.1", listening));
  const more = `[services.parcels]\nopenapi = "parcels.json"\ntargets = ["http://127.0.0.1:${target.address().port}"]\n`;
  return {
    calls,
    settings: { more, files: { "parcels.json": JSON.stringify(DOCUMENT) } },
    end: () => {
      target.closeAllConnections();
      return new Promise((ended) => target.close(ended));
    },
  };
}
