/**
 * The audit log, newest first. The API lists it oldest first, from an entry on; where a page begins is known from the
 * events that each entry brings, which are listed newest first.
 */
import { api, ask, type Schemas } from "../../api/client";
import { useList } from "../../api/queries";
import { useOrg, useWorkplace } from "../../app/account";
import { useMakers } from "../../app/makers";
import { curl, TOKEN } from "../../ui/curl";
import { type Column, Code, Empty, ErrorNote, Facts, Id, Json, More, PageHead, Panel, Section, Table, Time, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";

type Entry = Schemas["AuditEntry"];

const PAGE = 100;
/** How long the events stay by which pages are found. */
const EVENT_DAYS = 30;

/** The entry that an event of the log is about. */
const entryOf = (event: { data?: unknown } | undefined) => (event?.data as { audit_event_id?: string } | undefined)?.audit_event_id;

function useAudit() {
  const { account } = useWorkplace();
  const path = { org_id: account.id };
  return useList(["audit", account.id], async (page) => {
    // The last event of a page only tells where the page begins; its own entry is the first of the next page.
    const [page_token, carried] = page?.split(" ") ?? [];
    const events = await ask(
      api.GET("/v1/accounts/orgs/{org_id}/events", {
        params: { path, query: { type: "audit.event", page_size: PAGE, page_token: page_token || undefined } },
      }),
    );
    const named = events.events.map(entryOf);
    // Events are kept for 30 days, entries for longer: only in a younger account does the first event have the first entry.
    const isYoung = Date.parse(account.created_at) > Date.now() - EVENT_DAYS * 86_400_000;
    const isLast = events.next_page_token === "";
    const after = isLast && isYoung ? undefined : named.pop();
    const wanted = new Set([carried, ...named]);
    const answer = await ask(
      api.GET("/v1/accounts/orgs/{org_id}/audit", { params: { path, query: { after, page_size: PAGE + 1 } } }),
    );
    const entries = answer.entries.filter(({ id }) => wanted.has(id)).reverse();
    return { entries, next_page_token: isLast ? "" : `${events.next_page_token} ${after ?? ""}` };
  });
}

function EntryPanel({ of, onClose }: { of: Entry; onClose: () => void }) {
  const maker = useMakers();
  const org = useOrg();
  return (
    <Panel open onClose={onClose} title={of.action}>
      <Facts
        items={[
          ["Id", <Id key="id" id={of.id} whole />],
          ["When", <Time key="at" at={of.at} />],
          ["Who", `${maker(of.actor)} (${of.actor_kind})`],
          ["What", <Id key="target" id={of.target} whole />],
          ["Request", <Id key="request" id={of.request_id} whole />],
        ]}
      />
      <Json value={of} label="Record" />
      <Code label="List them with curl" text={curl("GET", `/v1/accounts/orgs/${org}/audit`, TOKEN)} />
    </Panel>
  );
}

export default function Audit() {
  const { action = "", actor = "", open } = useQueryParams();
  const setParams = useSetParams();
  const list = useAudit();
  const maker = useMakers();
  const entries = list.data?.pages.flatMap(({ entries: page }) => page) ?? [];
  const actions = [...new Set(entries.map((entry) => entry.action))].sort();
  const actors = [...new Set(entries.map((entry) => entry.actor))].sort();
  const items = entries.filter((entry) => (!action || entry.action === action) && (!actor || entry.actor === actor));
  const opened = entries.find(({ id }) => id === open);
  const columns: Column<Entry>[] = [
    { name: "When", cell: ({ at }) => <Time at={at} /> },
    { name: "Who", cell: (entry) => <span className="clip">{maker(entry.actor)}</span> },
    { name: "What was done", cell: (entry) => <code className="type">{entry.action}</code> },
    { name: "To what", cell: ({ target }) => <Id id={target} /> },
    { name: "Request", cell: ({ request_id }) => <Id id={request_id} /> },
  ];
  return (
    <>
      <PageHead title="Audit log" about="Who did what, and when. It cannot be changed." />
      <div className="bar">
        <select aria-label="What was done" value={action} onChange={(event) => setParams({ action: event.target.value || undefined })}>
          <option value="">Every action</option>
          {actions.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        <select aria-label="Who" value={actor} onChange={(event) => setParams({ actor: event.target.value || undefined })}>
          <option value="">Everybody</option>
          {actors.map((each) => (
            <option key={each} value={each}>
              {maker(each)}
            </option>
          ))}
        </select>
      </div>
      <ErrorNote error={list.error} retry={() => void list.refetch()} />
      <Section title="Entries" flush>
        {list.isPending ? (
          <Waiting rows={8} />
        ) : items.length === 0 ? (
          <Empty title={action || actor ? "Nothing among what is shown fits these filters" : "Nothing was changed yet"} />
        ) : (
          <Table label="Audit log" columns={columns} items={items} id={({ id }) => id} onOpen={({ id }) => setParams({ open: id }, true)} opened={open} />
        )}
        <More list={list} />
      </Section>
      {opened && <EntryPanel of={opened} onClose={() => setParams({ open: undefined })} />}
    </>
  );
}
