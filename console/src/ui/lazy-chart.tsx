import { lazy, Suspense, type ComponentProps } from "react";
import type Chart from "./chart";
import { Waiting } from "./kit";

const Lazy = lazy(() => import("./chart"));

/** A chart whose library is loaded when the first one is shown. */
export function LazyChart(props: ComponentProps<typeof Chart>) {
  return (
    <Suspense fallback={<Waiting rows={3} />}>
      <Lazy {...props} />
    </Suspense>
  );
}
