import type { components } from "./schema.gen";

export type Problem = components["schemas"]["Problem"];

/** A call that did not succeed: refused by the server, or never answered. */
export class Refusal extends Error {
  readonly problem: Problem | null;
  readonly status: number;

  constructor(problem: Problem | null, status: number) {
    super(problem?.error ?? "The server could not be reached.");
    this.problem = problem;
    this.status = status;
  }

  /** Did nothing answer? */
  get isOffline(): boolean {
    return this.status === 0;
  }

  get code(): string {
    return this.problem?.code ?? "offline";
  }

  get requestId(): string {
    return this.problem?.request_id ?? "";
  }

  /** Why, in a word for programs; empty where none is given. */
  get reason(): string {
    return this.#info?.reason ?? "";
  }

  /** A value that goes with the reason; empty where there is none. */
  fact(name: string): string {
    return this.#info?.metadata[name] ?? "";
  }

  get #info() {
    return (this.problem?.details ?? []).find((detail) => detail.type === "info");
  }

  /** What is wrong with that field, if the refusal names it. */
  field(name: string): string | undefined {
    for (const detail of this.problem?.details ?? []) {
      if (detail.type === "field" && (detail.field === name || detail.field.startsWith(`${name}.`) || detail.field.startsWith(`${name}[`))) {
        return sentence(detail.description);
      }
    }
    return undefined;
  }
}

/** Descriptions of fields begin in the middle of a sentence: "must be …". */
function sentence(text: string): string {
  const upper = text.charAt(0).toUpperCase() + text.slice(1);
  return upper.endsWith(".") ? upper : `${upper}.`;
}

export function asRefusal(error: unknown): Refusal {
  return error instanceof Refusal ? error : new Refusal(null, 0);
}
