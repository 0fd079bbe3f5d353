import type { Schemas } from "../api/client";

const DAY_MS = 86_400_000;

export const isoDay = (at: number) => new Date(at).toISOString().slice(0, 10);

/** The day so many days before today, in UTC, as units are counted. */
export const daysAgo = (days: number) => isoDay(Date.now() - days * DAY_MS);

/** Every day of the last so many, with what there is for it. */
export function everyDay<T extends { at: string }>(rows: readonly T[], days: number): { at: string; row: T | undefined }[] {
  const byDay = new Map(rows.map((row) => [row.at.slice(0, 10), row]));
  return Array.from({ length: days }, (_, index) => {
    const day = daysAgo(days - 1 - index);
    return { at: `${day}T00:00:00.000Z`, row: byDay.get(day) };
  });
}

type Row = Schemas["SeriesRow"];

const EMPTY = { units: 0, calls: 0, client_errors: 0, platform_errors: 0 };

/** The rows of a series as one for each span, the empty ones too. */
export function filled(rows: readonly Row[], from: string, to: string, by: "day" | "hour") {
  const step = by === "day" ? DAY_MS : DAY_MS / 24;
  const end = Math.min(Date.parse(`${to}T00:00:00Z`) + DAY_MS, by === "hour" ? Date.now() : Number.POSITIVE_INFINITY);
  const spans = new Map<number, typeof EMPTY>();
  for (let at = Date.parse(`${from}T00:00:00Z`); at < end; at += step) spans.set(at, { ...EMPTY });
  for (const row of rows) {
    const at = Math.floor(Date.parse(row.at) / step) * step;
    const span = spans.get(at);
    if (!span) continue;
    span.units += Number(row.units);
    span.calls += Number(row.calls);
    span.client_errors += Number(row.client_errors);
    span.platform_errors += Number(row.platform_errors);
  }
  return [...spans].map(([at, sums]) => ({ at: new Date(at).toISOString(), ...sums }));
}
