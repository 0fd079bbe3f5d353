/** The record to publish: three fields, as a panel asks for them. */
import type { ReactNode } from "react";
import { Copy, Note, Section } from "../../../ui/kit";
import { type Domain, inPanel, zoneOf } from "../words";

function Part({ name, value, children }: { name: string; value: string; children?: ReactNode }) {
  return (
    <div className="record-part">
      <dt>{name}</dt>
      <dd>
        <div>
          <code>{value}</code>
          {children && <p className="hint">{children}</p>}
        </div>
        <Copy text={value} label={`Copy the ${name.toLowerCase()}`} />
      </dd>
    </div>
  );
}

export function Record({ of }: { of: Domain }) {
  const zone = zoneOf(of);
  const host = inPanel(of, zone);
  return (
    <Section title={of.status === "verified" ? "Keep this record" : "Publish this record"}>
      {of.status === "verified" && (
        <Note>
          <p>It is looked for every day. Without it the domain is no longer verified.</p>
        </Note>
      )}
      <dl className="record">
        <Part name="Type" value="TXT" />
        <Part name="Name" value={host}>
          {of.dns_provider ? `The panel of ${of.dns_provider} adds` : "Most panels add"} <strong>{zone}</strong> behind it. In full it is{" "}
          <code>{of.record_name}</code>.
        </Part>
        <Part name="Value" value={of.record_value} />
      </dl>
    </Section>
  );
}
