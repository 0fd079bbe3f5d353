import type { ReactNode } from "react";

export function PageHead({ title, about, action }: { title: ReactNode; about: ReactNode; action?: ReactNode }) {
  return (
    <header className="page-head">
      <div>
        <h1 tabIndex={-1}>{title}</h1>
        <p>{about}</p>
      </div>
      {action && <div className="actions">{action}</div>}
    </header>
  );
}
