import { type ReactNode, useEffect, useState } from "react";
import { Dialog } from "./dialog";
import { Field } from "./field";
import { Form } from "./form";

/** Asks before something is lost; for much, asks for its name too. */
export function Confirm({
  open,
  onClose,
  title,
  children,
  submit,
  onSubmit,
  busy,
  error,
  name,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  submit: string;
  onSubmit: () => void;
  busy: boolean;
  error: unknown;
  name?: string;
}) {
  const [typed, setTyped] = useState("");
  useEffect(() => {
    if (!open) setTyped("");
  }, [open]);
  return (
    <Dialog open={open} onClose={onClose} title={title}>
      <Form
        onSubmit={onSubmit}
        error={error}
        busy={busy}
        submit={submit}
        onCancel={onClose}
        danger
        disabled={name !== undefined && typed !== name}
      >
        {children}
        {name !== undefined && (
          <Field label={<>Type <strong>{name}</strong> to go on</>}>
            {(control) => (
              <input {...control} value={typed} onChange={(event) => setTyped(event.target.value)} autoComplete="off" />
            )}
          </Field>
        )}
      </Form>
    </Dialog>
  );
}
