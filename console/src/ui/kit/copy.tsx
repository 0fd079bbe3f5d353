import { useEffect, useState } from "react";
import { Button } from "./button";

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Copies, and says so for a moment. */
export function Copy({ text, label = "Copy", small = true }: { text: string; label?: string; small?: boolean }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (said === "") return;
    const timer = setTimeout(() => setSaid(""), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <Button
      small={small}
      icon={said === "Copied" ? "check" : "copy"}
      onClick={() => void copyText(text).then((ok) => setSaid(ok ? "Copied" : "Select the text to copy it"))}
    >
      <span aria-live="polite">{said || label}</span>
    </Button>
  );
}
