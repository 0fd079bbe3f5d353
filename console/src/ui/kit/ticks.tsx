import { type ReactNode, useId } from "react";

interface Option {
  value: string;
  title: ReactNode;
  about: ReactNode;
  /** What it belongs to, where that is to be told. */
  group?: string | undefined;
}

/** The options by their groups: first those of none, then each group where its first option stands. */
function grouped(options: readonly Option[]): [string, Option[]][] {
  const groups = new Map<string, Option[]>([["", []]]);
  for (const option of options) {
    const name = option.group ?? "";
    groups.set(name, [...(groups.get(name) ?? []), option]);
  }
  return [...groups].filter(([, members]) => members.length > 0);
}

/** Some of a list, each with what it is, as words to tick. */
export function Ticks({
  legend,
  options,
  value,
  onChange,
  above,
  hint,
  error,
}: {
  legend: string;
  options: readonly Option[];
  value: readonly string[];
  onChange: (chosen: string[]) => void;
  /** Ways to choose several at once. */
  above: ReactNode;
  hint?: ReactNode;
  error: string | undefined;
}) {
  const id = useId();
  return (
    <fieldset className="field">
      <legend>{legend}</legend>
      {above}
      <div className="ticks">
        {grouped(options).map(([group, members], index) => (
          <section key={group}>
            {group && <h3 id={`${id}-${index}`}>{group}</h3>}
            <ul aria-labelledby={group ? `${id}-${index}` : undefined}>
              {members.map(({ value: option, title, about }) => (
                <li key={option}>
                  <label>
                    <input
                      type="checkbox"
                      checked={value.includes(option)}
                      onChange={(event) => onChange(event.target.checked ? [...value, option] : value.filter((each) => each !== option))}
                    />
                    <span>
                      <strong>{title}</strong>
                      <span className="quiet">{about}</span>
                    </span>
                  </label>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
      {error && (
        <p className="field-error" role="alert">
          {error}
        </p>
      )}
      {hint && <p className="hint">{hint}</p>}
    </fieldset>
  );
}
