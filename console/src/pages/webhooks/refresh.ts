import { queries } from "../../api/queries";

/** Whatever may have changed at endpoints is asked for again. */
export function refresh() {
  for (const kind of ["endpoints", "endpoint", "deliveries", "stats", "inbox", "inbox-requests"]) {
    void queries.invalidateQueries({ queryKey: [kind] });
  }
}
