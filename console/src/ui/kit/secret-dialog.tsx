import type { ReactNode } from "react";
import { Button } from "./button";
import { Code } from "./code";
import { Dialog } from "./dialog";

/** A secret, shown once: it cannot be closed by accident, and is nowhere else. */
export function SecretDialog({
  open,
  onClose,
  title,
  secret,
  label,
  children,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  secret: string;
  label: string;
  children?: ReactNode;
}) {
  return (
    <Dialog open={open} onClose={onClose} title={title} keep wide>
      <p>This is shown once. Keep it where you keep passwords; it cannot be shown again.</p>
      <Code text={secret} label={label} wrap />
      {children}
      <div className="form-actions">
        <Button look="primary" onClick={onClose}>
          I have kept it
        </Button>
      </div>
    </Dialog>
  );
}
