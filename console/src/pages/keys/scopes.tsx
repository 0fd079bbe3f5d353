import { isOffered } from "../../api/digest";
import { useDigest } from "../../app/digest";
import { plural } from "../../ui/format";
import { Choice, Ticks } from "../../ui/kit";
import { type Chosen, chosenScopes, PRESETS } from "./presets";

/** What a token may do, as words to tick. */
export function ScopePicker({ value, onChange, error }: { value: Chosen; onChange: (chosen: Chosen) => void; error: string | undefined }) {
  const digest = useDigest();
  const scopes = chosenScopes(value, digest);
  const options = digest.scopes.filter(isOffered).map(({ name, description, operations, service }) => ({
    value: name,
    title: description.replace(/\.$/, "") || name,
    about: (
      <>
        <code>{name}</code>
        {operations > 0 && `, ${plural(operations, "operation")}`}
      </>
    ),
    group: digest.services[service],
  }));
  return (
    <Ticks
      legend="What it may do"
      options={options}
      value={scopes}
      onChange={onChange}
      above={
        <Choice
          label="Presets"
          value={typeof value === "string" ? value : "own"}
          options={[...PRESETS, ["own", "My own choice"]]}
          onChange={(name) => onChange(name === "own" ? scopes : name)}
        />
      }
      hint="This cannot be changed later. To change it, make another one and revoke this one."
      error={error}
    />
  );
}
