import type { FormEvent, ReactNode } from "react";
import { Button } from "./button";
import { ErrorNote } from "./error-note";
import { SessionNote } from "./session-note";

/** A form that sends itself once, and shows what went wrong above its buttons. */
export function Form({
  onSubmit,
  error,
  advice,
  busy,
  submit,
  onCancel,
  danger = false,
  disabled = false,
  children,
}: {
  onSubmit: () => void;
  error: unknown;
  /** What there is to do about the error. */
  advice?: ReactNode;
  busy: boolean;
  submit: string;
  onCancel?: () => void;
  danger?: boolean;
  disabled?: boolean;
  children: ReactNode;
}) {
  return (
    <form
      onSubmit={(event: FormEvent) => {
        event.preventDefault();
        if (!busy && !disabled) onSubmit();
      }}
    >
      {children}
      <ErrorNote error={error} />
      {advice}
      <SessionNote />
      <div className="form-actions">
        {onCancel && <Button onClick={onCancel}>Cancel</Button>}
        <Button type="submit" look={danger ? "danger" : "primary"} busy={busy} disabled={disabled}>
          {submit}
        </Button>
      </div>
    </form>
  );
}
