import { Copy } from "./copy";

/** A text to paste, such as a command. */
export function Code({ text, label, wrap = false }: { text: string; label: string; wrap?: boolean }) {
  return (
    <figure className="code">
      <figcaption>
        <span>{label}</span>
        <Copy text={text} />
      </figcaption>
      {/* It scrolls, so it must be reached without a mouse. */}
      <pre className={wrap ? "wrap" : undefined} tabIndex={0} aria-label={label}>
        {text}
      </pre>
    </figure>
  );
}
