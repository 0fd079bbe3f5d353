import type { ReactNode } from "react";
import { Icon } from "../icons";
import type { Tone } from "./badge";

export function Note({ tone = "plain", children, action }: { tone?: Tone; children: ReactNode; action?: ReactNode }) {
  return (
    <div className={`note ${tone}`}>
      {(tone === "warn" || tone === "bad") && <Icon name="warn" />}
      <div>{children}</div>
      {action}
    </div>
  );
}
