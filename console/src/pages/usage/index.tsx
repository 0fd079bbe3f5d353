import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { useKeys, useSeries, useUnits } from "../../api/queries";
import { useWorkplace } from "../../app/account";
import { useMakers } from "../../app/makers";
import { daysAgo, filled } from "../../ui/days";
import { date, milliseconds, number, plural, share } from "../../ui/format";
import { Badge, Choice, type Column, Empty, ErrorNote, PageHead, Section, Table, Waiting } from "../../ui/kit";
import { LazyChart } from "../../ui/lazy-chart";
import { useQueryParams, useSetParams } from "../../ui/url";

type Group = Schemas["SeriesGroup"];

const SPANS = [
  ["1", "Today"],
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
] as const;

const GROUPS = [
  ["rpc", "Operation"],
  ["category", "Category"],
  ["key", "Key"],
] as const;

function Allowance() {
  const units = useUnits();
  if (units.error) return <ErrorNote error={units.error} retry={() => void units.refetch()} />;
  if (!units.data) return <Waiting rows={2} />;
  const { used, allowance, granted, remaining, resets_at, plan } = units.data;
  const budget = Number(allowance) + Number(granted);
  return (
    <Section title="This month">
      <div className="allowance">
        <p>
          <strong>{number(used)}</strong> of {number(budget)} units are used, {share(Number(used) / budget)}.{" "}
          <span className="quiet">
            {number(remaining)} are left until {date(resets_at)}. Plan {plan.name}
            {Number(granted) !== 0 && `, with ${number(granted)} granted beside it`}.{" "}
            {plan.at_zero === "refuse" ? "When none are left, keys and tokens are refused until then." : "When none are left, calls go on."}
          </span>
        </p>
        <meter min={0} max={budget} high={budget * 0.8} optimum={0} value={Number(used)} aria-label="Units used this month" />
      </div>
    </Section>
  );
}

/** What a group is called: the ids of keys have names. */
function useGroupNames(): (by: string, group: string) => string {
  const { may } = useWorkplace();
  const keys = useKeys("keys", may("admin"));
  const tokens = useKeys("tokens", may("admin"));
  const maker = useMakers();
  return (by, group) => {
    if (by !== "key") return group || "the rest";
    const known = [...(keys.data ?? []), ...(tokens.data ?? [])].find(({ id }) => id === group);
    return known?.name || maker(group) || "nobody";
  };
}

function Groups({ by, from, to }: { by: "rpc" | "category" | "key"; from: string; to: string }) {
  const series = useSeries(by, from, to);
  const units = useUnits();
  const name = useGroupNames();
  const groups = series.data?.groups ?? [];
  const total = groups.reduce((sum, { units: spent }) => sum + Number(spent), 0);
  const slow = new Map((units.data?.usage ?? []).map(({ rpc, p50_ms, p95_ms }) => [rpc, { p50_ms, p95_ms }]));
  const columns: Column<Group>[] = [
    {
      name: GROUPS.find(([value]) => value === by)?.[1] ?? "",
      cell: ({ group }) =>
        by === "rpc" && group ? (
          <Link to="/requests" search={{ rpc: group } as never}>
            <code>{group}</code>
          </Link>
        ) : by === "key" && group ? (
          <Link to="/requests" search={{ key: group } as never}>
            {name(by, group)}
          </Link>
        ) : (
          name(by, group)
        ),
    },
    { name: "Calls", align: "right", cell: ({ calls }) => number(calls) },
    { name: "Units", align: "right", cell: ({ units: spent }) => number(spent) },
    { name: "Share", align: "right", cell: ({ units: spent }) => share(total === 0 ? 0 : Number(spent) / total) },
    ...(by === "rpc"
      ? [
          {
            name: "Half within",
            align: "right" as const,
            cell: ({ group }: Group) => (slow.has(group) ? milliseconds(slow.get(group)!.p50_ms) : "–"),
          },
          {
            name: "95 % within",
            align: "right" as const,
            cell: ({ group }: Group) => (slow.has(group) ? milliseconds(slow.get(group)!.p95_ms) : "–"),
          },
        ]
      : []),
  ];
  if (series.error) return <ErrorNote error={series.error} retry={() => void series.refetch()} />;
  if (!series.data) return <Waiting />;
  if (groups.length === 0) return <Empty title="No calls in this time" />;
  return <Table label="What used the units" columns={columns} items={groups} id={({ group }) => group} />;
}

function Prices() {
  const prices = useQuery({
    queryKey: ["prices"],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async () => (await ask(api.GET("/v1/accounts/units/categories", { params: { query: { page_size: 200 } } }))).categories,
  });
  const columns: Column<Schemas["UnitCategory"]>[] = [
    { name: "Category", cell: ({ category }) => <Badge>{String(category)}</Badge> },
    { name: "Units for a call", align: "right", cell: ({ units }) => number(units) },
    { name: "What it is", cell: ({ description }) => description },
    { name: "Operations", align: "right", cell: ({ operations }) => <span title={operations.join("\n")}>{plural(operations.length, "operation")}</span> },
  ];
  if (prices.error) return <ErrorNote error={prices.error} />;
  if (!prices.data) return <Waiting />;
  return <Table label="Prices" columns={columns} items={prices.data} id={({ category }) => String(category)} />;
}

export default function Usage() {
  const { span = "30", by = "rpc" } = useQueryParams();
  const setParams = useSetParams();
  const days = Number(SPANS.some(([value]) => value === span) ? span : "30");
  const [from, to] = [daysAgo(days - 1), daysAgo(0)];
  const step = days === 1 ? "hour" : "day";
  const series = useSeries(step, from, to);
  const chart = useMemo(() => {
    const rows = filled(series.data?.rows ?? [], from, to, step);
    return {
      at: rows.map(({ at }) => at),
      units: [{ label: "Units", colour: "accent" as const, values: rows.map(({ units }) => units) }],
      total: rows.reduce((sum, row) => sum + row.units, 0),
      calls: rows.reduce((sum, row) => sum + row.calls, 0),
    };
  }, [series.data, from, to, step]);
  const group = (GROUPS.find(([value]) => value === by)?.[0] ?? "rpc") as (typeof GROUPS)[number][0];
  return (
    <>
      <PageHead title="Usage" about="What was called, what it cost in units, and what did it." />
      <Allowance />
      <div className="bar">
        <Choice label="Time" value={span as (typeof SPANS)[number][0]} options={SPANS} onChange={(value) => setParams({ span: value })} />
      </div>
      <ErrorNote error={series.error} retry={() => void series.refetch()} />
      <Section title={`${plural(chart.total, "unit")} for ${plural(chart.calls, "call")}`}>
        <LazyChart label={`Units by ${step}`} unit="" at={chart.at} series={chart.units} />
      </Section>
      <Section
        title="What used them"
        flush
        action={<Choice label="Group by" value={group} options={GROUPS} onChange={(value) => setParams({ by: value })} />}
      >
        <Groups by={group} from={from} to={to} />
      </Section>
      <Section title="Price list" flush>
        <Prices />
      </Section>
    </>
  );
}
