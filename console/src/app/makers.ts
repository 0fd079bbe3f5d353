import { useKeys, useMembers } from "../api/queries";
import { useWorkplace } from "./account";

/** What to call the person, key or token of that id. */
export function useMakers(): (id: string) => string {
  const { person, may } = useWorkplace();
  const members = useMembers();
  const keys = useKeys("keys", may("admin"));
  const tokens = useKeys("tokens", may("admin"));
  const names = new Map([
    ...(members.data ?? []).map(({ user_id, name, email }) => [user_id, name || email] as const),
    ...[...(keys.data ?? []), ...(tokens.data ?? [])].map(({ id, name, kind }) => [id, name ? `${kind} ${name}` : id] as const),
  ]);
  return (id) => (id === person.id ? "you" : (names.get(id) ?? id));
}
