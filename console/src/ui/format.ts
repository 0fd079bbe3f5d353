const grouped = new Intl.NumberFormat("en-GB");
const compact = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });
const percent = new Intl.NumberFormat("en-GB", { style: "percent", maximumFractionDigits: 1 });
const relative = new Intl.RelativeTimeFormat("en-GB", { numeric: "auto" });
const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });

export const number = (value: number | string) => grouped.format(Number(value));
export const short = (value: number | string) => compact.format(Number(value));
export const share = (value: number) => percent.format(Number.isFinite(value) ? value : 0);

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/** "3 hours ago", "in 2 days". */
export function ago(at: string, now = Date.now()): string {
  const seconds = (Date.parse(at) - now) / 1000;
  for (const [unit, length] of STEPS) {
    if (Math.abs(seconds) >= length) return relative.format(Math.trunc(seconds / length), unit);
  }
  return Math.abs(seconds) < 5 ? "just now" : relative.format(Math.trunc(seconds), "second");
}

/** In the reader's zone, and in UTC. */
export function moment(at: string): string {
  return `${exact.format(new Date(at))} (${at.slice(0, 19).replace("T", " ")} UTC)`;
}

export const date = (at: string) => day.format(new Date(at));

/** The time of day to the millisecond, for lists of what happens quickly. */
export function clock(at: string): string {
  const d = new Date(at);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}

export const milliseconds = (value: number) =>
  value >= 10_000 ? `${(value / 1000).toFixed(1)} s` : `${number(value)} ms`;

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** `whe_01M7P4…W4QD`: enough to tell one from another. */
export function shortId(id: string): string {
  return id.length > 18 ? `${id.slice(0, 8)}…${id.slice(-6)}` : id;
}

/** `webhooks.endpoints.create` reads well enough; `member.invited` too. They only need a place to break. */
export const breakable = (name: string) => name.replaceAll(".", ".\u200b");
