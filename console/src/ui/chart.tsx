/** Series over time. uPlot draws them on a canvas; the table behind it is for whoever cannot see one. */
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { number } from "./format";

export interface ChartSeries {
  label: string;
  values: number[];
  /** One of the colours of the tokens. */
  colour: "accent" | "bad" | "good" | "quiet";
}

const HEIGHT = 180;

/** A tick of the time axis: a day, or an hour. */
function tickWords(tick: number, step: number): string {
  const at = new Date(tick * 1000);
  if (step >= 86_400) return at.getUTCHours() === 0 ? `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}` : "";
  return `${String(at.getHours()).padStart(2, "0")}:${String(at.getMinutes()).padStart(2, "0")}`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** `at` are the beginnings of the spans, as the API writes them. */
export default function Chart({ label, at, series, unit }: { label: string; at: string[]; series: ChartSeries[]; unit: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (!element || at.length === 0) return;
    let plot: uPlot | null = null;
    const draw = () => {
      plot?.destroy();
      // A bar stands in its span, so the last span needs its room.
      const step = at.length > 1 ? (Date.parse(at[1]!) - Date.parse(at[0]!)) / 1000 : 86_400;
      const axis: uPlot.Axis = {
        stroke: colour("quiet"),
        grid: { stroke: colour("line"), width: 1 },
        ticks: { show: false },
        font: "12px system-ui",
      };
      const bars = uPlot.paths.bars!({ size: [0.6, 28], align: 1 });
      plot = new uPlot(
        {
          width: element.clientWidth,
          height: HEIGHT,
          cursor: { y: false, points: { show: false } },
          legend: { show: true, live: true },
          scales: { x: { range: (_, min, max) => [min, max + step] }, y: { range: (_, __, max) => [0, Math.max(max * 1.1, 4)] } },
          axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => tickWords(tick, step)) }, { ...axis, size: 52, values: (_, ticks) => ticks.map((tick) => (tick % 1 === 0 ? number(tick) : "")) }],
          series: [
            { label: "", value: (_, value) => (value === null ? "" : tickWords(value, step)) },
            ...series.map(({ label: name, colour: of }) => ({
              label: name,
              stroke: colour(of),
              fill: colour(of),
              width: 0,
              paths: bars,
              points: { show: false },
              value: (_: uPlot, value: number | null) => (value === null ? "" : `${number(value)} ${unit}`),
            })),
          ],
        },
        [at.map((each) => Date.parse(each) / 1000), ...series.map(({ values }) => values)],
        element,
      );
    };
    draw();
    const resized = new ResizeObserver(() => {
      if (element.clientWidth > 0) plot?.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    resized.observe(element);
    const scheme = window.matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    return () => {
      resized.disconnect();
      scheme.removeEventListener("change", draw);
      plot?.destroy();
    };
  }, [at, series, unit]);
  return (
    <div className="chart">
      <div ref={host} aria-hidden="true" />
      <div className="sr">
      <table>
        <caption>{label}</caption>
        <thead>
          <tr>
            <th scope="col">When</th>
            {series.map(({ label: name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {at.map((when, index) => (
            <tr key={when}>
              <th scope="row">{when.slice(0, 16).replace("T", " ")}</th>
              {series.map(({ label: name, values }) => (
                <td key={name}>{number(values[index] ?? 0)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      </div>
    </div>
  );
}
