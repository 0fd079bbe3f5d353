/** How the endpoint's attempts went, day by day. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, ask, type Schemas } from "../../../api/client";
import { everyDay } from "../../../ui/days";
import { milliseconds, number } from "../../../ui/format";
import { Section } from "../../../ui/kit";
import { LazyChart } from "../../../ui/lazy-chart";
import { OUTCOMES } from "../words";

const STATISTICS_DAYS = 30;

export function Statistics({ of }: { of: Schemas["Endpoint"] }) {
  const stats = useQuery({
    queryKey: ["stats", of.id],
    queryFn: () => ask(api.GET("/v1/webhooks/stats", { params: { query: { endpoint_id: of.id, by: "day" } } })),
    refetchInterval: 30_000,
  });
  const rows = stats.data?.rows ?? [];
  const chart = useMemo(() => {
    const days = everyDay(stats.data?.rows ?? [], STATISTICS_DAYS);
    return {
      at: days.map(({ at }) => at),
      series: [
        { label: "Delivered", colour: "good" as const, values: days.map(({ row }) => row?.delivered ?? 0) },
        { label: "Failed", colour: "bad" as const, values: days.map(({ row }) => row?.failed ?? 0) },
      ],
    };
  }, [stats.data]);
  if (rows.length === 0) return null;
  const slowest = Math.max(...rows.map(({ p95_ms }) => p95_ms));
  return (
    <Section title={`Attempts of the last ${STATISTICS_DAYS} days`}>
      <LazyChart label="Attempts by day" unit="" at={chart.at} series={chart.series} />
      <p className="quiet">
        {(stats.data?.outcomes ?? []).map(({ outcome, count }) => `${OUTCOMES[outcome] ?? outcome}: ${number(count)}`).join(". ")}. On the
        slowest day, 95 of 100 answers came within {milliseconds(slowest)}.
      </p>
    </Section>
  );
}
