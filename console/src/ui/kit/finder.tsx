import { type RefObject, useEffect, useId, useRef, useState } from "react";

export interface Found {
  /** What tells it from all others. */
  id: string;
  title: string;
  kind: string;
  detail?: string;
}

/** A field, and below it what fits the words in it. The arrows go through the list while one types. */
export function Finder<F extends Found>({
  label,
  placeholder,
  find,
  onGo,
  input,
  autoFocus = false,
}: {
  label: string;
  placeholder: string;
  /** What fits, best first. */
  find: (words: readonly string[]) => readonly F[];
  onGo: (found: F) => void;
  input?: RefObject<HTMLInputElement | null>;
  autoFocus?: boolean;
}) {
  const id = useId();
  const list = useRef<HTMLUListElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = find(words);
  useEffect(() => {
    // In new browsers it answers a promise, which an effect must not.
    void list.current?.children[at]?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const go = (to: F | undefined) => {
    if (!to) return;
    setText("");
    setAt(0);
    onGo(to);
  };
  return (
    <div className="finder">
      <input
        ref={input}
        type="search"
        autoFocus={autoFocus}
        role="combobox"
        aria-expanded={found.length > 0}
        aria-controls={`${id}-list`}
        aria-activedescendant={found[at] ? `${id}-${at}` : undefined}
        aria-label={label}
        placeholder={placeholder}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
          else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
          else if (event.key === "Enter") go(found[at]);
          else if (event.key === "Escape" && text !== "") setText("");
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      {found.length > 0 && (
        <ul id={`${id}-list`} ref={list} role="listbox" aria-label="Found">
          {found.map((each, index) => (
            // The keyboard goes by way of the field above.
            <li
              key={each.id}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === at}
              onMouseMove={() => setAt(index)}
              onClick={() => go(each)}
            >
              <span className="finder-title">
                <strong>{each.title}</strong> <span className="quiet">{each.kind}</span>
              </span>
              {each.detail && <span className="quiet clip">{each.detail}</span>}
            </li>
          ))}
        </ul>
      )}
      {found.length === 0 && words.length > 0 && (
        <p className="finder-none" role="status">
          Nothing is called that.
        </p>
      )}
    </div>
  );
}

/** Does the text hold every word? */
export const holds = (text: string, words: readonly string[]) => {
  const lower = text.toLowerCase();
  return words.every((word) => lower.includes(word));
};
