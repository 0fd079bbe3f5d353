import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { useKeys, useList } from "../../api/queries";
import { useOrg, useWorkplace } from "../../app/account";
import { useDigest } from "../../app/digest";
import { useMakers } from "../../app/makers";
import { curl, TOKEN } from "../../ui/curl";
import { clock, milliseconds, number, plural } from "../../ui/format";
import { Badge, Button, Code, Empty, ErrorNote, Facts, Id, Json, PageHead, Panel, Section, Time, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";

type Logged = Schemas["LoggedRequest"];

const ROW_PX = 37;
const NARROW_ROW_PX = 64;
const LOOK_MS = 3000;
const PAGE = 200;
/** How many rows before the end the next page is asked for. */
const AHEAD = 40;

const SPANS = [
  ["", "Any time"],
  ["15", "Last 15 minutes"],
  ["60", "Last hour"],
  ["1440", "Last day"],
  ["10080", "Last week"],
] as const;

const STATUSES = ["200", "400", "401", "403", "404", "409", "422", "429", "500", "503"];

export function StatusBadge({ status }: { status: number }) {
  return <Badge tone={status < 300 ? "good" : status < 500 ? "warn" : "bad"}>{status}</Badge>;
}

function RequestPanel({ of, onClose }: { of: Logged; onClose: () => void }) {
  const maker = useMakers();
  const { operations, services } = useDigest();
  const service = services[operations.find(({ rpc }) => rpc === of.rpc)?.service ?? ""];
  return (
    <Panel open onClose={onClose} title={of.rpc || of.path}>
      <Facts
        items={[
          ["Status", <span key="status"><StatusBadge status={of.status} /> {of.code}</span>],
          ["Request", <Id key="id" id={of.request_id} whole />],
          ["When", <Time key="at" at={of.at} />],
          ["Call", <code key="call">{of.method} {of.path}</code>],
          ...(service ? [["Service", service] as [string, React.ReactNode]] : []),
          ["Took", milliseconds(of.latency_ms)],
          ["Units", number(of.units)],
          ...(of.key_id ? [["Key or token", <Id key="key" id={of.key_id} whole />] as [string, React.ReactNode]] : []),
          ...(of.user_id ? [["Person", maker(of.user_id)] as [string, React.ReactNode]] : []),
        ]}
      />
      <p className="quiet">The log knows the pattern of the path. It never holds what was sent or answered.</p>
      <div className="actions start">
        {of.rpc && (
          <Link to="/reference/$operation" params={{ operation: of.rpc } as never} className="button small">
            This operation
          </Link>
        )}
        {of.key_id && (
          <Link to="/requests" search={{ key: of.key_id } as never} className="button small">
            All of this key
          </Link>
        )}
      </div>
      {of.method === "GET" && <Code label="As curl" text={curl(of.method, of.path, TOKEN)} />}
      <Json value={of} label="Record" />
    </Panel>
  );
}

function Rows({ items, opened, onOpen, onEnd }: { items: Logged[]; opened: string | undefined; onOpen: (of: Logged) => void; onEnd: () => void }) {
  const host = useRef<HTMLDivElement>(null);
  const [narrow, setNarrow] = useState(() => window.matchMedia("(max-width: 720px)").matches);
  useEffect(() => {
    const query = window.matchMedia("(max-width: 720px)");
    const changed = () => setNarrow(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  const size = narrow ? NARROW_ROW_PX : ROW_PX;
  const rows = useVirtualizer({ count: items.length, getScrollElement: () => host.current, estimateSize: () => size, overscan: 6, useFlushSync: false });
  useEffect(() => rows.measure(), [size, rows]);
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last > items.length - AHEAD) onEnd();
  }, [last, items.length, onEnd]);
  const go = (from: number, by: number) => {
    const to = Math.min(Math.max(from + by, 0), items.length - 1);
    rows.scrollToIndex(to);
    requestAnimationFrame(() => host.current?.querySelector<HTMLElement>(`[data-index="${to}"]`)?.focus());
  };
  return (
    <div className="log" ref={host} role="grid" aria-label="Requests" aria-rowcount={items.length} tabIndex={-1}>
      <div className="log-head" role="row">
        {["When", "Status", "Operation", "Took", "Units"].map((name) => (
          <span key={name} role="columnheader">
            {name}
          </span>
        ))}
      </div>
      <div role="rowgroup" className="log-body" style={{ height: rows.getTotalSize() }}>
        {shown.map(({ index, start, key }) => {
          const item = items[index]!;
          return (
            <div
              key={key}
              role="row"
              aria-rowindex={index + 1}
              data-index={index}
              tabIndex={0}
              className={`log-row${opened === item.request_id ? " opened" : ""}`}
              style={{ transform: `translateY(${start}px)`, height: size }}
              onClick={() => onOpen(item)}
              onKeyDown={(event) => {
                if (event.key === "Enter") onOpen(item);
                else if (event.key === "ArrowDown") go(index, 1);
                else if (event.key === "ArrowUp") go(index, -1);
                else return;
                event.preventDefault();
              }}
            >
              <span role="gridcell" className="mono quiet" title={item.at}>
                {clock(item.at)}
              </span>
              <span role="gridcell">
                <StatusBadge status={item.status} />
              </span>
              <span role="gridcell" className="clip">
                <code>{item.rpc || `${item.method} ${item.path}`}</code> {item.status >= 300 && <span className="quiet">{item.code}</span>}
              </span>
              <span role="gridcell" className="right">
                {milliseconds(item.latency_ms)}
              </span>
              <span role="gridcell" className="right">
                {number(item.units)}
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}

export default function Requests() {
  const org_id = useOrg();
  const { may } = useWorkplace();
  const { key, rpc, status, span = "", own, open } = useQueryParams();
  const setParams = useSetParams();
  const { operations, services } = useDigest();
  const [paused, setPaused] = useState(false);
  const keys = useKeys("keys", may("admin"));
  const tokens = useKeys("tokens", may("admin"));
  // Fixed when the filter is chosen, so that all pages of a list begin at the same moment.
  const [since, setSince] = useState<{ span: string; at: string | undefined }>({ span: "", at: undefined });
  if (since.span !== span) {
    setSince({ span, at: span ? new Date(Date.now() - Number(span) * 60_000).toISOString() : undefined });
  }
  const filters = { key_id: key, rpc, status: status ? Number(status) : undefined, since: since.at };
  const query = (page_token: string | undefined, page_size: number) =>
    ask(
      api.GET("/v1/accounts/orgs/{org_id}/requests", {
        params: { path: { org_id }, query: { ...filters, page_token, page_size } },
      }),
    );
  const list = useList(["requests", org_id, filters], (page_token) => query(page_token, PAGE));
  const all = list.data?.pages.flatMap(({ requests }) => requests) ?? [];
  const items = own === "shown" || key ? all : all.filter(({ key_id }) => key_id !== "");
  const newest = all[0]?.request_id;
  const fresh = useQuery({
    queryKey: ["requests-new", org_id, filters, newest, own],
    enabled: !list.isPending && !paused,
    refetchInterval: LOOK_MS,
    staleTime: 0,
    queryFn: async () => {
      const { requests } = await query(undefined, 50);
      const at = requests.findIndex(({ request_id }) => request_id === newest);
      // What this page itself asks for is in the log too, and would never let it rest.
      const since = at < 0 ? requests : requests.slice(0, at);
      return since.filter(({ key_id, rpc: name }) => key_id !== "" || (own === "shown" && name !== "metering.requests.list")).length;
    },
  });
  const opened = items.find(({ request_id }) => request_id === open);
  const filtered = Boolean(key || rpc || status || span);
  // What is hidden here must not end the list before its end.
  const isThin = items.length < AHEAD;
  useEffect(() => {
    if (isThin && list.hasNextPage && !list.isFetchingNextPage) void list.fetchNextPage();
  }, [isThin, list.hasNextPage, list.isFetchingNextPage, list.fetchNextPage]);
  const end = () => {
    if (list.hasNextPage && !list.isFetchingNextPage) void list.fetchNextPage();
  };
  return (
    <>
      <PageHead title="Requests" about="Every call of the account, as it was answered. Kept without what was sent." />
      <div className="bar">
        <select aria-label="Key or token" value={key ?? ""} onChange={(event) => setParams({ key: event.target.value || undefined })}>
          <option value="">Every key, token and person</option>
          {[...(keys.data ?? []), ...(tokens.data ?? [])].map(({ id, name }) => (
            <option key={id} value={id}>
              {name || id}
            </option>
          ))}
          {key && ![...(keys.data ?? []), ...(tokens.data ?? [])].some(({ id }) => id === key) && <option value={key}>{key}</option>}
        </select>
        <select aria-label="Operation" value={rpc ?? ""} onChange={(event) => setParams({ rpc: event.target.value || undefined })}>
          <option value="">Every operation</option>
          {operations
            .filter(({ service }) => service === "")
            .map(({ rpc: name }) => (
              <option key={name}>{name}</option>
            ))}
          {Object.entries(services).map(([service, title]) => (
            <optgroup key={service} label={title}>
              {operations
                .filter((each) => each.service === service)
                .map(({ rpc: name }) => (
                  <option key={name}>{name}</option>
                ))}
            </optgroup>
          ))}
        </select>
        <select aria-label="Status" value={status ?? ""} onChange={(event) => setParams({ status: event.target.value || undefined })}>
          <option value="">Every status</option>
          {STATUSES.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        <select aria-label="Time" value={span} onChange={(event) => setParams({ span: event.target.value || undefined })}>
          {SPANS.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        {!key && (
          <label className="check">
            <input type="checkbox" checked={own === "shown"} onChange={(event) => setParams({ own: event.target.checked ? "shown" : undefined })} />
            Also calls of this console
          </label>
        )}
        {filtered && (
          <Button look="quiet" onClick={() => setParams({ key: undefined, rpc: undefined, status: undefined, span: undefined })}>
            Clear
          </Button>
        )}
        <Button icon={paused ? "play" : "pause"} aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? "Go on" : "Pause"}
        </Button>
      </div>
      <ErrorNote error={list.error} retry={() => void list.refetch()} />
      <Section
        title="Log"
        flush
        action={
          (fresh.data ?? 0) > 0 && (
            <Button small look="primary" onClick={() => void list.refetch()}>
              {fresh.data === 50 ? "50 or more new" : plural(fresh.data ?? 0, "new one")}
            </Button>
          )
        }
      >
        {list.isPending ? (
          <Waiting rows={8} />
        ) : items.length === 0 ? (
          <Empty title={filtered ? "Nothing fits these filters" : "No calls yet"}>
            {!filtered && (
              <>
                <p>Every call that is made with a key, a token or here in the console appears in this log.</p>
                <Code label="Make one" text={curl("GET", "/v1/me", TOKEN)} />
              </>
            )}
          </Empty>
        ) : (
          <Rows items={items} opened={open} onOpen={({ request_id }) => setParams({ open: request_id }, true)} onEnd={end} />
        )}
      </Section>
      {opened && <RequestPanel of={opened} onClose={() => setParams({ open: undefined })} />}
    </>
  );
}
