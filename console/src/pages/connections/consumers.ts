import { useMakers } from "../../app/makers";

/** What to call a consumer, `kind:id`. */
export function useConsumers(): (consumer: string) => string {
  const maker = useMakers();
  return (consumer) => {
    const at = consumer.indexOf(":");
    const [kind, id] = [consumer.slice(0, at), consumer.slice(at + 1)];
    if (kind === "agent") return `app ${id}`;
    if (kind === "product") return "the platform itself";
    return maker(id);
  };
}
