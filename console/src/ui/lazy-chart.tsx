import { lazy, Suspense, type ComponentProps } from "react";
import type Chart from "./chart";

export const loadChart = () => import("./chart");
const Lazy = lazy(loadChart);

/** A chart whose library is loaded when the first one is shown. */
export function LazyChart(props: ComponentProps<typeof Chart>) {
  return (
    // It has its height before it is there, so that nothing below it moves.
    <div className="chart-room">
      <Suspense>
        <Lazy {...props} />
      </Suspense>
    </div>
  );
}
