import { ABOUT_CONNECTIONS, queries } from "../../api/queries";

/** Whatever may have changed at connections is asked for again. */
export function refresh() {
  for (const kind of ABOUT_CONNECTIONS) void queries.invalidateQueries({ queryKey: [kind] });
}
