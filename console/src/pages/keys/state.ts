import type { Schemas } from "../../api/client";

/** Does it still open anything? */
export function keyState(key: Schemas["Key"]): "active" | "revoked" | "expired" {
  if (key.revoked_at) return "revoked";
  return key.expires_at && Date.parse(key.expires_at) < Date.now() ? "expired" : "active";
}
