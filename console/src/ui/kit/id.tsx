import { useEffect, useState } from "react";
import { shortId } from "../format";
import { copyText } from "./copy";

/** An id: monospaced, shortened in the middle, copied by a click. */
export function Id({ id, whole = false }: { id: string; whole?: boolean }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  if (id === "") return <span className="quiet">none</span>;
  return (
    <button
      type="button"
      className="id"
      title={`${id}: click to copy`}
      aria-label={`Copy ${id}`}
      onClick={(event) => {
        event.stopPropagation();
        void copyText(id).then(setCopied);
      }}
    >
      {copied ? "copied" : whole ? id : shortId(id)}
    </button>
  );
}
