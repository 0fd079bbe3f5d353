import { queries } from "../../api/queries";

/** Whatever may have changed at connections is asked for again. */
export function refresh() {
  for (const kind of ["connections", "connection", "grants", "uses"]) void queries.invalidateQueries({ queryKey: [kind] });
}
