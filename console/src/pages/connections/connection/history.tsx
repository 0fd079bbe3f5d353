/** What the connection was used for, newest first. */
import { type ReactNode, useState } from "react";
import { api, ask } from "../../../api/client";
import { useList } from "../../../api/queries";
import { clock, milliseconds } from "../../../ui/format";
import { Badge, Button, Choice, type Column, Empty, ErrorNote, Facts, Id, Json, More, Panel, Section, Table, Time, Waiting } from "../../../ui/kit";
import { useQueryParams, useSetParams } from "../../../ui/url";
import { useConsumers } from "../consumers";
import { type Connection, type Kind, titled, type Use, USE_STATUSES, whyNot } from "../words";

/** Calls are no events, so the page looks for them. */
const LOOK_MS = 5_000;

const OUTCOMES: [string, string][] = [["", "All"], ...Object.keys(USE_STATUSES).map((status): [string, string] => [status, titled(status)])];

function Outcome({ of }: { of: Use }) {
  const status = USE_STATUSES[of.status];
  return <Badge tone={status?.tone ?? "plain"}>{status?.words ?? of.status}</Badge>;
}

/** Why no grant was asked for. */
const WITHOUT_GRANT: Record<string, string> = { person: "none: a person tried it", product: "none: the platform did it" };

const callerOf = ({ caller_kind, caller }: Use) => `${caller_kind}:${caller}`;

function UsePanel({ of, onClose }: { of: Use; onClose: () => void }) {
  const consumer = useConsumers();
  return (
    <Panel open onClose={onClose} title={of.action}>
      <Facts
        items={[
          ["Outcome", <Outcome key="status" of={of} />],
          ...(of.error_class ? [["Why", whyNot(of.error_class)] as [string, ReactNode]] : []),
          ["Use", <Id key="id" id={of.id} whole />],
          ["When", <Time key="at" at={of.at} />],
          ["Took", milliseconds(of.latency_ms)],
          ["Answered with", of.status_code > 0 ? <code key="code">{of.status_code}</code> : "nothing"],
          ["Called by", <span key="caller">{consumer(callerOf(of))} <Id id={of.caller} /></span>],
          ["By the grant", of.grant_id ? <Id key="grant" id={of.grant_id} whole /> : WITHOUT_GRANT[of.caller_kind] ?? "none"],
          ["Sent by", of.executor === "cloud" ? "this server" : <Id key="executor" id={of.executor} />],
        ]}
      />
      <p className="quiet">{of.status === "refused" ? "Nothing was sent. " : ""}The history never holds what was sent or answered.</p>
      <h3>As the API has it</h3>
      <Json value={of} label="Record" />
    </Panel>
  );
}

export function History({ of, kind }: { of: Connection; kind: Kind }) {
  const { state = "", action, by, open } = useQueryParams();
  const [last, setLast] = useState<Use>();
  const setParams = useSetParams();
  const consumer = useConsumers();
  const status = Object.hasOwn(USE_STATUSES, state) ? (state as Use["status"]) : undefined;
  const filters = { connection_id: of.id, action, status, consumer: by };
  const list = useList(
    ["uses", of.account_id, filters],
    (page_token) => ask(api.GET("/v1/accounts/orgs/{org_id}/connections/history", { params: { path: { org_id: of.account_id }, query: { ...filters, page_token } } })),
    { refetchInterval: LOOK_MS },
  );
  const items = list.data?.pages.flatMap(({ uses }) => uses) ?? [];
  // One that is open stays so when newer ones push it off the list.
  const opened = [...items, ...(last ? [last] : [])].find(({ id }) => id === open);
  const isFiltered = Boolean(status || action || by);
  const callers = [...new Set([...of.used_by, ...items.map(callerOf), ...(by ? [by] : [])])];
  const show = (use: Use) => {
    setLast(use);
    setParams({ open: use.id }, true);
  };
  const columns: Column<Use>[] = [
    {
      name: "When",
      cell: ({ at }) => (
        <span className="when">
          <span className="quiet mono">{clock(at)}</span> <Time at={at} />
        </span>
      ),
    },
    { name: "Action", cell: ({ action: name }) => <code className="type">{name}</code> },
    { name: "Outcome", cell: (use) => <Outcome of={use} /> },
    { name: "Why", cell: ({ error_class }) => (error_class ? whyNot(error_class) : <span className="quiet">–</span>) },
    { name: "Called by", cell: (use) => consumer(callerOf(use)) },
    { name: "Took", align: "right", cell: ({ latency_ms }) => milliseconds(latency_ms) },
  ];
  return (
    <Section title="History" flush>
      <div className="bar">
        <Choice label="Outcome" value={status ?? ""} options={OUTCOMES} onChange={(value) => setParams({ state: value || undefined })} />
        <select aria-label="Action" value={action ?? ""} onChange={(event) => setParams({ action: event.target.value || undefined })}>
          <option value="">Every action</option>
          {[...kind.actions.map(({ name }) => name), kind.test_action].map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <select aria-label="Called by" value={by ?? ""} onChange={(event) => setParams({ by: event.target.value || undefined })}>
          <option value="">Everybody</option>
          {callers.map((each) => (
            <option key={each} value={each}>
              {consumer(each)}
            </option>
          ))}
        </select>
        {isFiltered && (
          <Button look="quiet" onClick={() => setParams({ state: undefined, action: undefined, by: undefined })}>
            Clear
          </Button>
        )}
      </div>
      <ErrorNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending ? (
        <Waiting />
      ) : items.length > 0 ? (
        <Table label="History" columns={columns} items={items} id={({ id }) => id} onOpen={show} opened={open} />
      ) : (
        list.data && (
          <Empty title={isFiltered ? "Nothing fits these filters" : "It was not used yet"}>
            <p>{isFiltered ? "Take one of them away." : "Every call stands here, the refused ones too, for 90 days."}</p>
          </Empty>
        )
      )}
      <More list={list} />
      {opened && <UsePanel of={opened} onClose={() => setParams({ open: undefined })} />}
    </Section>
  );
}
