import type { ReactNode } from "react";

interface Option {
  value: string;
  title: ReactNode;
  about: ReactNode;
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
  return (
    <fieldset className="field">
      <legend>{legend}</legend>
      {above}
      <ul className="ticks">
        {options.map(({ value: option, title, about }) => (
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
      {error && (
        <p className="field-error" role="alert">
          {error}
        </p>
      )}
      {hint && <p className="hint">{hint}</p>}
    </fieldset>
  );
}
