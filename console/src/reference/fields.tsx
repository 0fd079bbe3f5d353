import { type ReactNode } from "react";
import { fieldsOf, recordOf, resolve, type Schema, typeWords, values } from "./schema";

const DEPTH_MAX = 6;

/** Texts of the documents mark code with backticks. */
export function Words({ text }: { text: string }): ReactNode {
  return text.split(/(`[^`]+`)/).map((part, index) => (part.startsWith("`") ? <code key={index}>{part.slice(1, -1)}</code> : part));
}

function limits(schema: Schema): string {
  const parts = [
    schema.maxLength !== undefined && schema.minLength !== undefined && `${schema.minLength} to ${schema.maxLength} characters`,
    schema.maxLength !== undefined && schema.minLength === undefined && `at most ${schema.maxLength} characters`,
    schema.minItems !== undefined && `at least ${schema.minItems}`,
    schema.maxItems !== undefined && `at most ${schema.maxItems} of them`,
    schema.default !== undefined && schema.default !== null && schema.default !== "" && `left out: ${String(schema.default)}`,
  ];
  return parts.filter(Boolean).join(", ");
}

export function FieldRow({
  name,
  schema,
  required,
  description,
  around = [],
}: {
  name: string;
  schema: Schema;
  required?: boolean;
  description?: string | undefined;
  /** The records that it is a field of. */
  around?: readonly Schema[];
}) {
  const resolved = resolve(schema);
  const given = values(schema);
  const record = recordOf(schema);
  const inner = around.length < DEPTH_MAX && !around.includes(record) ? fieldsOf(schema) : [];
  const more = limits(resolved);
  return (
    <li className="ref-field">
      <p>
        <code className="ref-name">{name}</code> <span className="quiet">{typeWords(schema)}</span>
        {required && <span className="ref-required">required</span>}
      </p>
      <p className="ref-about">
        <Words text={description ?? resolved.description ?? ""} />
        {more && <span className="quiet"> ({more})</span>}
      </p>
      {given.length > 0 && (
        <ul className="ref-values">
          {given.map(({ value, description: about }) => (
            <li key={value}>
              <code>{value}</code> {about && <span className="quiet">{about}</span>}
            </li>
          ))}
        </ul>
      )}
      {inner.length > 0 && given.length === 0 && (
        <details>
          <summary>
            {inner.length} fields<span className="sr"> of {name}</span>
          </summary>
          <ul className="ref-fields">
            {inner.map(([field, of, needed]) => (
              <FieldRow key={field} name={field} schema={of} required={needed} around={[...around, record]} />
            ))}
          </ul>
        </details>
      )}
    </li>
  );
}

export function Fields({ schema, marksRequired = false }: { schema: Schema; marksRequired?: boolean }) {
  const around = [recordOf(schema)];
  return (
    <ul className="ref-fields">
      {fieldsOf(schema).map(([name, field, required]) => (
        <FieldRow key={name} name={name} schema={field} required={marksRequired && required} around={around} />
      ))}
    </ul>
  );
}
