import { OPERATIONS, SCOPES } from "../../api/document.gen";
import { plural } from "../../ui/format";
import { Choice, Ticks } from "../../ui/kit";

const READS = SCOPES.map(({ name }) => name).filter((name) => name.endsWith(":read") || name === "account:audit");

/** Sets of scopes that most keys are one of. */
export const PRESETS = [
  ["read", "Read everything", READS],
  ["webhooks", "Webhooks", ["webhooks:read", "webhooks:write", "events:read"]],
  ["assistant", "Assistant", ["mcp:read", "mcp:write"]],
  ["own", "My own choice", []],
] as const;

export type Preset = (typeof PRESETS)[number][0];

export const presetScopes = (preset: Preset): readonly string[] => PRESETS.find(([name]) => name === preset)?.[2] ?? [];

const OPTIONS = SCOPES.map(({ name, description }) => {
  const operations = OPERATIONS.filter(({ scope }) => scope === name).length;
  return {
    value: name,
    title: description.replace(/\.$/, ""),
    about: (
      <>
        <code>{name}</code>
        {operations > 0 && `, ${plural(operations, "operation")}`}
      </>
    ),
  };
});

/** What a token may do, as words to tick. */
export function ScopePicker({
  value,
  onChange,
  preset,
  onPreset,
  error,
}: {
  value: readonly string[];
  onChange: (scopes: string[]) => void;
  preset: Preset;
  onPreset: (preset: Preset) => void;
  error: string | undefined;
}) {
  return (
    <Ticks
      legend="What it may do"
      options={OPTIONS}
      value={value}
      onChange={(scopes) => {
        onPreset("own");
        onChange(scopes);
      }}
      above={
        <Choice
          label="Presets"
          value={preset}
          options={PRESETS.map(([name, title]) => [name, title] as const)}
          onChange={(name) => {
            onPreset(name);
            if (name !== "own") onChange([...presetScopes(name)]);
          }}
        />
      }
      hint="This cannot be changed later. To change it, make another one and revoke this one."
      error={error}
    />
  );
}
