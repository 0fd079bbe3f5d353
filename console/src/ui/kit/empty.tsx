import type { ReactNode } from "react";

/** What a page is for, while there is nothing on it. */
export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
      {action && <div className="actions">{action}</div>}
    </div>
  );
}
