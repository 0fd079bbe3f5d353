/** What each resolver sees of the record. */
import type { Schemas } from "../../../api/client";
import { Badge, type Column, Note, Section, Table } from "../../../ui/kit";
import { milliseconds, plural } from "../../../ui/format";
import { type Domain, OUTCOMES, type View, wrongName } from "../words";

const COLUMNS: Column<View>[] = [
  {
    name: "Server",
    cell: ({ resolver, kind }) => (
      <>
        <code className="clip">{resolver}</code>
        {kind === "authoritative" && <span className="quiet"> of the zone itself</span>}
      </>
    ),
  },
  {
    name: "Outcome",
    cell: ({ outcome, message }) => (
      <span title={message}>
        <Badge tone={OUTCOMES[outcome]?.tone ?? "plain"}>{OUTCOMES[outcome]?.words ?? outcome}</Badge>
      </span>
    ),
  },
  {
    name: "Values",
    cell: ({ values }) =>
      values.length === 0 ? (
        <span className="quiet">none</span>
      ) : (
        <ul className="plain-list">
          {values.map((value, at) => (
            <li key={`${at} ${value}`}>
              <code className="clip">{value}</code>
            </li>
          ))}
        </ul>
      ),
  },
  { name: "Kept for", align: "right", cell: ({ ttl }) => (ttl > 0 ? plural(ttl, "second") : "") },
  { name: "Took", align: "right", cell: ({ latency_ms }) => (latency_ms > 0 ? milliseconds(latency_ms) : "") },
];

/** The mistake that explains what was not found, with the wrong and the right name side by side. */
function Hint({ of, checked }: { of: Domain; checked: Schemas["CheckedDomain"] }) {
  const view = checked.resolvers.find(({ hint }) => hint !== "");
  if (!view) return null;
  const name = wrongName(view.hint, view.message);
  return (
    <Note tone={view.hint === "not_propagated" ? "accent" : "warn"}>
      <p>{view.message}</p>
      {name && (
        <dl className="names">
          <div>
            <dt>It is at</dt>
            <dd>
              <del>
                <code>{name}</code>
              </del>
            </dd>
          </div>
          <div>
            <dt>It belongs at</dt>
            <dd>
              <code>{of.record_name}</code>
            </dd>
          </div>
        </dl>
      )}
    </Note>
  );
}

export function Views({ of, checked }: { of: Domain; checked: Schemas["CheckedDomain"] }) {
  const found = checked.resolvers.filter(({ kind, outcome }) => kind === "public" && outcome === "found").length;
  const asked = checked.resolvers.filter(({ kind, outcome }) => kind === "public" && outcome !== "not_asked").length;
  return (
    <Section title="What the world sees">
      <p aria-live="polite">
        {asked === 0
          ? "The zone's own servers do not have the record, so no resolver was asked."
          : `${found} of ${plural(asked, "resolver")} found the record.`}
      </p>
      <Hint of={of} checked={checked} />
      <Table label="Resolvers" columns={COLUMNS} items={checked.resolvers} id={({ resolver, kind }) => `${kind} ${resolver}`} />
    </Section>
  );
}
