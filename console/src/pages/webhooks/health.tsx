import type { Schemas } from "../../api/client";
import { Badge } from "../../ui/kit";

/** How the endpoint fares, in a word. */
export function Health({ of }: { of: Schemas["Endpoint"] }) {
  if (!of.enabled) return <Badge tone="bad">disabled</Badge>;
  if (of.last_delivery_status === "") return <Badge>waiting for events</Badge>;
  if (of.last_delivery_status === "failed") return <Badge tone="warn">failing</Badge>;
  return <Badge tone="good">healthy</Badge>;
}
