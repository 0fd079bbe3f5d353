import { lazy, Suspense, type ComponentProps } from "react";
import type Chart from "./chart";
import { Waiting } from "./kit";

export const loadChart = () => import("./chart");
const Lazy = lazy(loadChart);

/** A chart whose library is loaded when the first one is shown. */
export function LazyChart(props: ComponentProps<typeof Chart>) {
  return (
    <Suspense fallback={<Waiting rows={3} />}>
      <Lazy {...props} />
    </Suspense>
  );
}
