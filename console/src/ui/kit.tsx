/** The parts that pages are made of. */
import { Dialog as Base } from "@base-ui/react/dialog";
import { type ComponentProps, type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { asRefusal } from "../api/problem";
import { session, useSession } from "../auth/session";
import { ago, moment, shortId } from "./format";
import { Icon, type IconName } from "./icons";

type Tone = "plain" | "good" | "warn" | "bad" | "accent";

export function Button({
  look = "plain",
  icon,
  busy = false,
  small = false,
  children,
  ...rest
}: ComponentProps<"button"> & { look?: "plain" | "primary" | "danger" | "quiet"; icon?: IconName; busy?: boolean; small?: boolean }) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${look}${small ? " small" : ""}${rest.className ? ` ${rest.className}` : ""}`}
      aria-busy={busy || undefined}
      disabled={rest.disabled || busy}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** A status, by word and shape as well as colour. */
export function Badge({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`badge ${tone}`}>{children}</span>;
}

let clockNow = Date.now();
const ticking = new Set<() => void>();
setInterval(() => {
  clockNow = Date.now();
  for (const tick of ticking) tick();
}, 10_000);

/** A moment, relative, with the exact one on hover. */
export function Time({ at, none = "never" }: { at: string | undefined; none?: string }) {
  const [, setTick] = useState(0);
  useEffect(() => {
    const tick = () => setTick((count) => count + 1);
    ticking.add(tick);
    return () => {
      ticking.delete(tick);
    };
  }, []);
  if (!at) return <span className="quiet">{none}</span>;
  return (
    <time dateTime={at} title={moment(at)}>
      {ago(at, Math.max(clockNow, Date.now() - 10_000))}
    </time>
  );
}

async function copyText(text: string): Promise<boolean> {
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

export function Json({ value, label = "JSON" }: { value: unknown; label?: string }) {
  return <Code text={JSON.stringify(value, null, 2)} label={label} />;
}

/** What went wrong, in a sentence, with the request's id and what to do. It stays until it is mended. */
export function ErrorNote({ error, retry }: { error: unknown; retry?: () => void }) {
  if (!error) return null;
  const refusal = asRefusal(error);
  return (
    <div className="note bad" role="alert">
      <Icon name="warn" />
      <div>
        <p>{refusal.message}</p>
        {refusal.requestId && (
          <p className="quiet">
            Request <Id id={refusal.requestId} />
          </p>
        )}
      </div>
      {retry && (
        <Button small onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function Note({ tone = "plain", children, action }: { tone?: Tone; children: ReactNode; action?: ReactNode }) {
  return (
    <div className={`note ${tone}`}>
      {(tone === "warn" || tone === "bad") && <Icon name="warn" />}
      <div>{children}</div>
      {action}
    </div>
  );
}

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

/** Grey bars where a list is about to be. */
export function Waiting({ rows = 4 }: { rows?: number }) {
  return (
    <div className="waiting" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        <span key={row} />
      ))}
    </div>
  );
}

/** A field of a form: label, control, what it is for, and what is wrong with it. */
export function Field({
  label,
  hint,
  error,
  children,
}: {
  label: ReactNode;
  hint?: ReactNode;
  error?: string | undefined;
  children: (control: { id: string; "aria-describedby": string | undefined; "aria-invalid": true | undefined }) => ReactNode;
}) {
  const id = useId();
  const described = [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ");
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": described || undefined, "aria-invalid": error ? true : undefined })}
      {hint && (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error && (
        <p className="field-error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

/** A window over the page. `keep` is for what must not be lost by a stray click. */
export function Dialog({
  open,
  onClose,
  title,
  children,
  keep = false,
  wide = false,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  keep?: boolean;
  wide?: boolean;
}) {
  return (
    <Base.Root
      open={open}
      disablePointerDismissal={keep}
      onOpenChange={(next, details) => {
        if (next || (keep && details.reason === "escape-key")) return;
        onClose();
      }}
    >
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className={`dialog${wide ? " wide" : ""}`}>
          <div className="dialog-head">
            <Base.Title>{title}</Base.Title>
            {!keep && (
              <Base.Close className="button quiet small" aria-label="Close">
                <Icon name="close" />
              </Base.Close>
            )}
          </div>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

/** What one row is, at the side of the list, or from below where there is no side. */
export function Panel({
  open,
  onClose,
  title,
  children,
}: {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  children: ReactNode;
}) {
  return (
    <Base.Root open={open} modal={false} disablePointerDismissal onOpenChange={(next) => !next && onClose()}>
      <Base.Portal>
        <Base.Popup className="panel">
          <div className="dialog-head">
            <Base.Title>{title}</Base.Title>
            <Base.Close className="button quiet small" aria-label="Close">
              <Icon name="close" />
            </Base.Close>
          </div>
          <div className="panel-body">{children}</div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

/** The session has ended: how to go on without losing anything. */
export function SessionNote() {
  if (useSession() !== "ended") return null;
  return (
    <Note
      tone="warn"
      action={
        <Button small onClick={() => void session.signInBeside()}>
          Sign in again
        </Button>
      }
    >
      Your session has ended. Nothing that you typed is lost: sign in again, and go on here.
    </Note>
  );
}

/** A form that sends itself once, and shows what went wrong above its buttons. */
export function Form({
  onSubmit,
  error,
  busy,
  submit,
  onCancel,
  danger = false,
  disabled = false,
  children,
}: {
  onSubmit: () => void;
  error: unknown;
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

export interface Column<T> {
  name: string;
  cell: (item: T) => ReactNode;
  align?: "right";
  /** Hidden where the label says nothing that the cell does not. */
  bare?: boolean;
}

/** A table that becomes cards where it is narrow. Arrows go through rows that open. */
export function Table<T>({
  label,
  columns,
  items,
  id,
  onOpen,
  opened,
}: {
  label: string;
  columns: Column<T>[];
  items: readonly T[];
  id: (item: T) => string;
  onOpen?: (item: T) => void;
  opened?: string | undefined;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const move = (from: Element, by: 1 | -1) => {
    const rows = [...(body.current?.querySelectorAll<HTMLElement>("tr[tabindex]") ?? [])];
    rows[rows.indexOf(from as HTMLElement) + by]?.focus();
  };
  return (
    <table className="table" aria-label={label}>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.name} scope="col" className={column.align}>
              {column.bare ? <span className="sr">{column.name}</span> : column.name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body}>
        {items.map((item) => (
          <tr
            key={id(item)}
            className={opened === id(item) ? "opened" : undefined}
            {...(onOpen && {
              tabIndex: 0,
              onClick: (event) => {
                if (!(event.target as Element).closest("a, button, input, select")) onOpen(item);
              },
              onKeyDown: (event) => {
                if (event.target !== event.currentTarget) return;
                if (event.key === "Enter") onOpen(item);
                else if (event.key === "ArrowDown") move(event.currentTarget, 1);
                else if (event.key === "ArrowUp") move(event.currentTarget, -1);
                else return;
                event.preventDefault();
              },
            })}
          >
            {columns.map((column) => (
              <td key={column.name} data-label={column.bare ? undefined : column.name} className={column.align}>
                {column.cell(item)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Pairs of a name and what it is. */
export function Facts({ items }: { items: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {items.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** One of a few, as tabs without panels of their own. */
export function Choice<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}) {
  return (
    <div className="choice" role="group" aria-label={label}>
      {options.map(([option, name]) => (
        <button key={option} type="button" aria-pressed={option === value} onClick={() => onChange(option)}>
          {name}
        </button>
      ))}
    </div>
  );
}
