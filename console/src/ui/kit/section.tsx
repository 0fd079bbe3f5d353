import { type ReactNode, useId } from "react";

export function Section({
  title,
  action,
  children,
  flush = false,
}: {
  title: ReactNode;
  action?: ReactNode;
  children: ReactNode;
  flush?: boolean;
}) {
  const id = useId();
  return (
    <section className={`section${flush ? " flush" : ""}`} aria-labelledby={id}>
      <div className="section-head">
        <h2 id={id}>{title}</h2>
        {action && <div className="actions">{action}</div>}
      </div>
      {children}
    </section>
  );
}
