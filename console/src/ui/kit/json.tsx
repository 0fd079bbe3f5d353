import { Code } from "./code";

export function Json({ value, label = "JSON" }: { value: unknown; label?: string }) {
  return <Code text={JSON.stringify(value, null, 2)} label={label} />;
}
