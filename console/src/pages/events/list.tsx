import { useEndpoints } from "../../api/queries";
import { useMakers } from "../../app/makers";
import type { Event } from "../../live/stream";
import { breakable, clock } from "../../ui/format";
import { type Column, Table, Time } from "../../ui/kit";

/** What the event is about: who and what is in it, by name where there is one. */
function about(event: Event, name: (id: string) => string): string {
  const data = event.data as Record<string, unknown>;
  const by = typeof data["actor"] === "string" ? ` by ${name(data["actor"])}` : "";
  if (typeof data["action"] === "string") return data["action"] + by;
  const things = Object.entries(data)
    .filter(([field]) => field !== "actor")
    .map(([field, value]) => {
      const [what, which] = [field.replace(/_id$/, "").replaceAll("_", " "), name(String(value))];
      return which.startsWith(`${what} `) ? which : `${what} ${which}`;
    });
  return things.join(", ") + by;
}

export function EventList({
  events,
  onOpen,
  opened,
}: {
  events: readonly Event[];
  onOpen?: (event: Event) => void;
  opened?: string | undefined;
}) {
  const maker = useMakers();
  const endpoints = useEndpoints();
  const name = (id: string) => {
    const endpoint = endpoints.data?.find((each) => each.id === id);
    return endpoint ? endpoint.description || endpoint.url : maker(id);
  };
  const columns: Column<Event>[] = [
    { name: "Type", cell: ({ type }) => <code className="type">{breakable(type)}</code> },
    { name: "What", cell: (event) => <span className="clip">{about(event, name)}</span> },
    {
      name: "When",
      align: "right",
      cell: ({ occurred_at }) => (
        <span className="when">
          <span className="quiet mono">{clock(occurred_at)}</span> <Time at={occurred_at} />
        </span>
      ),
    },
  ];
  return <Table label="Events" columns={columns} items={events} id={({ id }) => id} {...(onOpen && { onOpen, opened })} />;
}
