import { curl, TOKEN } from "../curl";
import { Code } from "./code";
import { Json } from "./json";

/** At the foot of a page: what it shows, as the API has it, and how to read it there. */
export function Raw({ path, value }: { path: string; value: unknown }) {
  return (
    <details className="section raw">
      <summary>As the API has it</summary>
      <Code label="Read it with curl" text={curl("GET", path, TOKEN)} />
      <Json value={value} label="Record" />
    </details>
  );
}
