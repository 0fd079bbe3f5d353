import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, ask } from "../../api/client";
import { useEventTypes, useList } from "../../api/queries";
import { useOrg } from "../../app/account";
import { type Event, useStream } from "../../live/stream";
import { curl, TOKEN } from "../../ui/curl";
import { plural } from "../../ui/format";
import { Button, Choice, Code, type Column, Empty, ErrorNote, Facts, Id, Json, More, PageHead, Panel, Section, Table, Time, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";
import { EventList } from "./list";

function EventPanel({ of, onClose }: { of: Event; onClose: () => void }) {
  const data = of.data as Record<string, unknown>;
  const org = useOrg();
  return (
    <Panel open onClose={onClose} title={of.type}>
      <Facts
        items={[
          ["Id", <Id key="id" id={of.id} whole />],
          ["Happened", <Time key="at" at={of.occurred_at} />],
          ...Object.entries(data).map(([name, value]): [string, React.ReactNode] => [
            name.replaceAll("_", " "),
            /^[a-z]{3,4}_/.test(String(value)) ? <Id key={name} id={String(value)} whole /> : String(value),
          ]),
        ]}
      />
      <div className="actions start">
        {typeof data["audit_event_id"] === "string" && (
          <Link to="/audit" search={{ open: data["audit_event_id"] } as never} className="button small">
            The audit entry
          </Link>
        )}
        {typeof data["endpoint_id"] === "string" && (
          <Link to="/webhooks/$endpoint" params={{ endpoint: data["endpoint_id"] } as never} className="button small">
            The endpoint
          </Link>
        )}
        <Link to="/reference/events/$type" params={{ type: of.type } as never} className="button small">
          What this type is
        </Link>
      </div>
      <h3>As it is sent</h3>
      <Json value={of} label="Event" />
      <Code label="List events with curl" text={curl("GET", `/v1/accounts/orgs/${org}/events?type=${of.type}`, TOKEN)} />
    </Panel>
  );
}

function Tail() {
  const org_id = useOrg();
  const { type, object = "", open } = useQueryParams();
  const setParams = useSetParams();
  const types = useEventTypes();
  const { events: live, state } = useStream();
  const [frozen, setFrozen] = useState<readonly Event[] | null>(null);
  const past = useList(["events", org_id, type], (page_token) =>
    ask(api.GET("/v1/accounts/orgs/{org_id}/events", { params: { path: { org_id }, query: { type, page_token } } })),
  );
  const fits = (event: Event) =>
    (!type || event.type === type) && (!object || JSON.stringify(event).toLowerCase().includes(object.toLowerCase()));
  const shown = frozen ?? live;
  const seen = new Set(shown.map(({ id }) => id));
  const items = [...shown, ...(past.data?.pages.flatMap(({ events }) => events) ?? []).filter(({ id }) => !seen.has(id))].filter(fits);
  // While it is paused, what came since is not shown, wherever it comes from.
  const until = frozen === null ? null : (frozen[0]?.occurred_at ?? "");
  const listed = until === null || until === "" ? items : items.filter(({ occurred_at }) => occurred_at <= until);
  const waiting = frozen === null ? 0 : live.filter((event) => fits(event) && !seen.has(event.id)).length;
  const named = useQuery({
    queryKey: ["event", org_id, open],
    enabled: open !== undefined && !listed.some(({ id }) => id === open),
    queryFn: async () => {
      // What comes right before the event of that id is not asked for, so one event is enough to look at.
      const page = await ask(api.GET("/v1/accounts/orgs/{org_id}/events", { params: { path: { org_id }, query: { page_size: 200 } } }));
      return page.events.find(({ id }) => id === open) ?? null;
    },
  });
  const opened = listed.find(({ id }) => id === open) ?? named.data ?? undefined;
  return (
    <>
      <div className="bar">
        <select aria-label="Event type" value={type ?? ""} onChange={(event) => setParams({ type: event.target.value || undefined })}>
          <option value="">Every type</option>
          {types.data?.map((each) => (
            <option key={each.type}>{each.type}</option>
          ))}
        </select>
        <input
          type="search"
          aria-label="Only events that name this id or word"
          placeholder="An id or a word in it"
          value={object}
          onChange={(event) => setParams({ object: event.target.value || undefined })}
        />
        <Button
          icon={frozen ? "play" : "pause"}
          aria-pressed={frozen !== null}
          onClick={() => setFrozen(frozen === null ? live : null)}
        >
          {frozen ? "Go on" : "Pause"}
        </Button>
        <span className="quiet" role="status">
          {frozen ? `Paused, ${plural(waiting, "new event")}` : state === "live" ? "New events appear on top" : ""}
        </span>
      </div>
      <ErrorNote error={past.error} retry={() => void past.refetch()} />
      {past.isPending ? (
        <Waiting />
      ) : listed.length === 0 ? (
        <Empty title={type || object ? "Nothing fits these filters" : "Nothing has happened yet"}>
          <p>Whatever happens in the account, a key that is made or a member who joins, is an event, and stays here for 30 days.</p>
          <Code label="Follow them with curl" text={curl("GET", "/v1/events/stream", TOKEN).replace("curl -s", "curl -sN")} />
        </Empty>
      ) : (
        <EventList events={listed} onOpen={({ id }) => setParams({ open: id }, true)} opened={open} />
      )}
      <More list={past} />
      {opened && <EventPanel of={opened} onClose={() => setParams({ open: undefined })} />}
    </>
  );
}

type EventType = NonNullable<ReturnType<typeof useEventTypes>["data"]>[number];

const COLUMNS: Column<EventType>[] = [
  { name: "Type", cell: ({ type }) => <code className="type">{type}</code> },
  { name: "When it is sent", cell: ({ description }) => description },
];

function Catalogue() {
  const types = useEventTypes();
  const { open } = useQueryParams();
  const setParams = useSetParams();
  const opened = types.data?.find(({ type }) => type === open);
  return (
    <>
      <ErrorNote error={types.error} />
      {types.data ? (
        <Table label="Event types" columns={COLUMNS} items={types.data} id={({ type }) => type} onOpen={({ type }) => setParams({ open: type }, true)} opened={open} />
      ) : (
        <Waiting />
      )}
      {opened && (
        <Panel open onClose={() => setParams({ open: undefined })} title={opened.type}>
          <p>{opened.description}</p>
          <Json value={opened.example} label="Example" />
          <Json value={opened.schema} label="Schema" />
        </Panel>
      )}
    </>
  );
}

export default function Events() {
  const { tab } = useQueryParams();
  const setParams = useSetParams();
  const shown = tab === "types" ? "types" : "tail";
  return (
    <>
      <PageHead title="Events" about="What happens in the account, as it happens. Webhooks and streams carry the same events." />
      <div className="bar">
        <Choice
          label="What to see"
          value={shown}
          options={[
            ["tail", "Live"],
            ["types", "Catalogue"],
          ]}
          onChange={(value) => setParams({ tab: value === "tail" ? undefined : value, open: undefined })}
        />
      </div>
      <Section title={shown === "tail" ? "Latest events" : "Event types"} flush>
        {shown === "tail" ? <Tail /> : <Catalogue />}
      </Section>
    </>
  );
}
