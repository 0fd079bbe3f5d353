import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, type ReactNode } from "react";
import { api, ask } from "../../api/client";
import { useConnections, useEndpoints, useInbox, useKeys, useSeries, useUnits } from "../../api/queries";
import { useOrg, useWorkplace } from "../../app/account";
import { useStream } from "../../live/stream";
import { daysAgo, filled } from "../../ui/days";
import { ago, date, milliseconds, number, plural, share, short } from "../../ui/format";
import { Icon } from "../../ui/icons";
import { Badge, Empty, ErrorNote, PageHead, Section, Time, Waiting } from "../../ui/kit";
import { LazyChart } from "../../ui/lazy-chart";
import { EventList } from "../events/list";
import { FirstSteps } from "./first-steps";

/** A key that nobody used for so long may be one that nobody knows of any more. */
const UNUSED_DAYS = 90;
const DAYS = 30;
const SHOWN_MAX = 6;

function Figure({ name, value, note, meter }: { name: string; value: ReactNode; note: ReactNode; meter?: number }) {
  return (
    <div className="figure">
      <dt>{name}</dt>
      <dd>
        <span className="figure-value">{value}</span>
        {meter !== undefined && (
          <meter min={0} max={1} high={0.8} optimum={0} value={Math.min(Math.max(meter, 0), 1)} aria-label={`${name}: ${share(meter)}`} />
        )}
        <span className="quiet">{note}</span>
      </dd>
    </div>
  );
}

/** The calls of the days that the page shows. */
function useDays() {
  const [from, to] = [daysAgo(DAYS - 1), daysAgo(0)];
  return { from, to, series: useSeries("day", from, to) };
}

function Figures() {
  const units = useUnits();
  const { from, to, series } = useDays();
  const rows = useMemo(() => filled(series.data?.rows ?? [], from, to, "day"), [series.data, from, to]);
  const chart = useMemo(
    () => ({
      at: rows.map(({ at }) => at),
      series: [
        { label: "Calls", colour: "accent" as const, values: rows.map(({ calls }) => calls) },
        {
          label: "Errors",
          colour: "bad" as const,
          values: rows.map(({ client_errors, platform_errors }) => client_errors + platform_errors),
        },
      ],
    }),
    [rows],
  );
  if (units.error) return <ErrorNote error={units.error} retry={() => void units.refetch()} />;
  if (!units.data) return <Waiting rows={3} />;
  const { used, allowance, granted, resets_at, usage, plan } = units.data;
  const budget = Number(allowance) + Number(granted);
  const today = rows.at(-1);
  const yesterday = rows.at(-2);
  const calls = rows.reduce((sum, row) => sum + row.calls, 0);
  const errors = rows.reduce((sum, row) => sum + row.client_errors + row.platform_errors, 0);
  const slowest = usage.filter(({ calls: count }) => Number(count) > 0).sort((a, b) => b.p95_ms - a.p95_ms)[0];
  return (
    <>
      <dl className="figures">
        <Figure
          name="Units this month"
          value={short(used)}
          meter={Number(used) / budget}
          note={`of ${short(budget)} on the plan ${plan.name}, anew ${ago(resets_at)}`}
        />
        <Figure
          name="Calls today"
          value={number(today?.calls ?? 0)}
          note={`${number(yesterday?.calls ?? 0)} yesterday`}
        />
        <Figure
          name={`Errors in ${DAYS} days`}
          value={share(calls === 0 ? 0 : errors / calls)}
          note={`${number(errors)} of ${plural(calls, "call")}`}
        />
        <Figure
          name="Slowest 5 % take"
          value={slowest ? milliseconds(slowest.p95_ms) : "–"}
          note={slowest ? <>and more, of {slowest.rpc || "all the rest"}</> : "no calls this month"}
        />
      </dl>
      <Section title={`Calls by day, ${date(from)} to today`} action={<Link to="/usage">All usage</Link>}>
        {calls === 0 ? (
          <p className="quiet">No call was made in these {DAYS} days.</p>
        ) : (
          <LazyChart label="Calls and errors by day" unit="" at={chart.at} series={chart.series} />
        )}
      </Section>
    </>
  );
}

function useAttention(): { key: string; tone: "warn" | "bad"; text: ReactNode; to: string }[] {
  const { may } = useWorkplace();
  const endpoints = useEndpoints();
  const { connections } = useConnections();
  const keys = useKeys("keys", may("admin"));
  const tokens = useKeys("tokens", may("admin"));
  const units = useUnits();
  const old = Date.now() - UNUSED_DAYS * 86_400_000;
  const budget = Number(units.data?.allowance ?? 0) + Number(units.data?.granted ?? 0);
  const spent = budget === 0 ? 0 : Number(units.data?.used ?? 0) / budget;
  return [
    ...(spent >= 0.8
      ? [
          {
            key: "units",
            tone: spent >= 1 ? ("bad" as const) : ("warn" as const),
            text: (
              <>
                {share(spent)} of this month's units are used.{" "}
                {spent >= 1 && units.data?.plan.at_zero === "refuse" && "Keys and tokens are refused until the next month."}
              </>
            ),
            to: "/usage",
          },
        ]
      : []),
    ...connections
      .filter(({ status }) => status === "needs_reconnect")
      .map(({ id, name }) => ({
        key: id,
        tone: "bad" as const,
        text: (
          <>
            The connection <strong>{name}</strong> needs another credential. Until it has one, nothing is sent.
          </>
        ),
        to: `/connections/${id}`,
      })),
    ...(endpoints.data ?? [])
      .filter(({ enabled }) => !enabled)
      .map(({ id, url, description, disabled_reason }) => ({
        key: id,
        tone: "bad" as const,
        text: (
          <>
            The endpoint <strong>{description || url}</strong> is disabled. {disabled_reason}
          </>
        ),
        to: `/webhooks/${id}`,
      })),
    ...(endpoints.data ?? [])
      .filter(({ enabled, failed_24h }) => enabled && failed_24h > 0)
      .map(({ id, url, description, failed_24h, succeeded_24h }) => ({
        key: id,
        tone: "warn" as const,
        text: (
          <>
            {plural(failed_24h, "attempt")} of {number(failed_24h + succeeded_24h)} at{" "}
            <strong>{description || url}</strong> failed in the last 24 hours.
          </>
        ),
        to: `/webhooks/${id}`,
      })),
    ...[...(keys.data ?? []), ...(tokens.data ?? [])]
      .filter(({ revoked_at, expires_at }) => !revoked_at && (!expires_at || Date.parse(expires_at) > Date.now()))
      .filter(({ last_used_at, created_at }) => Date.parse(last_used_at || created_at) < old)
      .map(({ id, name, kind }) => ({
        key: id,
        tone: "warn" as const,
        text: (
          <>
            The {kind} <strong>{name || id}</strong> was not used for {UNUSED_DAYS} days. Revoke it if nobody needs it.
          </>
        ),
        to: kind === "token" ? "/keys?tab=tokens" : "/keys",
      })),
  ];
}

/** The events that were there when the page opened. */
function usePastEvents() {
  const org_id = useOrg();
  return useQuery({
    queryKey: ["latest-events", org_id],
    queryFn: async () => {
      const params = { path: { org_id }, query: { page_size: SHOWN_MAX } };
      return (await ask(api.GET("/v1/accounts/orgs/{org_id}/events", { params }))).events;
    },
  });
}

/** The newest events: those, and what came since. */
function useLatestEvents() {
  const { events } = useStream();
  const past = usePastEvents();
  const seen = new Set(events.map(({ id }) => id));
  return [...events, ...(past.data ?? []).filter(({ id }) => !seen.has(id))];
}

/** Is everything there that decides what stands on the page? Until then nothing is shown, since it would jump. */
function useReady(): boolean {
  const { may } = useWorkplace();
  const isAdmin = may("admin");
  const known = [useUnits(), useEndpoints(), useInbox(), useKeys("keys", isAdmin), useKeys("tokens", isAdmin)];
  const asked = [...known, useDays().series, usePastEvents()];
  return asked.every(({ isPending, isLoading }) => !isPending || !isLoading);
}

export default function Overview() {
  const { account } = useWorkplace();
  const ready = useReady();
  return (
    <>
      <PageHead title="Overview" about={`What happens in ${account.name}, and what needs you.`} />
      {ready ? <Parts /> : <Waiting rows={12} />}
    </>
  );
}

function Parts() {
  const { may } = useWorkplace();
  const attention = useAttention();
  const events = useLatestEvents();
  const inbox = useInbox();
  return (
    <>
      {may("admin") && <FirstSteps />}
      {attention.length > 0 && (
        <Section title={`Needs attention (${attention.length})`} flush>
          <ul className="attention">
            {attention.map(({ key, tone, text, to }) => (
              <li key={key}>
                <Badge tone={tone}>{tone === "bad" ? "Act now" : "Look"}</Badge>
                <span>{text}</span>
                <Link to={to.split("?")[0]!} search={(to.includes("?") ? { tab: "tokens" } : {}) as never} className="button small">
                  Open
                </Link>
              </li>
            ))}
          </ul>
        </Section>
      )}
      <Figures />
      <Section title="Latest events" action={<Link to="/events">All events</Link>} flush>
        {events.length === 0 ? (
          <Empty title="Nothing has happened yet">
            <p>Events appear here by themselves: a key is made, a member joins, a webhook is tested.</p>
          </Empty>
        ) : (
          <EventList events={events.slice(0, SHOWN_MAX)} />
        )}
      </Section>
      {inbox.data && (
        <p className="quiet">
          <Icon name="webhooks" /> The test inbox keeps what is posted to it until <Time at={inbox.data.expires_at} />.{" "}
          <Link to="/webhooks/inbox">Open it</Link>
        </p>
      )}
    </>
  );
}
