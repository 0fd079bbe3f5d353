import { OPERATIONS, SCOPES } from "../../api/document.gen";
import { plural } from "../../ui/format";
import { Choice } from "../../ui/kit";

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
    <fieldset className="field">
      <legend>What it may do</legend>
      <Choice
        label="Presets"
        value={preset}
        options={PRESETS.map(([name, title]) => [name, title] as const)}
        onChange={(name) => {
          onPreset(name);
          if (name !== "own") onChange([...presetScopes(name)]);
        }}
      />
      <ul className="scopes">
        {SCOPES.map(({ name, description }) => {
          const operations = OPERATIONS.filter(({ scope }) => scope === name).length;
          return (
            <li key={name}>
              <label>
                <input
                  type="checkbox"
                  checked={value.includes(name)}
                  onChange={(event) => {
                    onPreset("own");
                    onChange(event.target.checked ? [...value, name] : value.filter((each) => each !== name));
                  }}
                />
                <span>
                  <strong>{description.replace(/\.$/, "")}</strong>
                  <span className="quiet">
                    <code>{name}</code>
                    {operations > 0 && `, ${plural(operations, "operation")}`}
                  </span>
                </span>
              </label>
            </li>
          );
        })}
      </ul>
      {error && (
        <p className="field-error" role="alert">
          {error}
        </p>
      )}
      <p className="hint">This cannot be changed later. To change it, make another one and revoke this one.</p>
    </fieldset>
  );
}
