import type { Event } from "../../live/stream";
import { breakable, clock } from "../../ui/format";
import { type Column, Table, Time } from "../../ui/kit";

/** What the event is about, by the ids in it. */
function about(event: Event): string {
  const data = event.data as Record<string, unknown>;
  if (event.type === "audit.event") return `${data["action"] as string} by ${data["actor"] as string}`;
  return Object.entries(data)
    .filter(([name]) => name !== "actor")
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${String(value)}`)
    .join(", ");
}

const COLUMNS: Column<Event>[] = [
  { name: "Type", cell: ({ type }) => <code className="type">{breakable(type)}</code> },
  { name: "What", cell: (event) => <span className="clip">{about(event)}</span> },
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

export function EventList({
  events,
  onOpen,
  opened,
}: {
  events: readonly Event[];
  onOpen?: (event: Event) => void;
  opened?: string | undefined;
}) {
  return <Table label="Events" columns={COLUMNS} items={events} id={({ id }) => id} {...(onOpen && { onOpen, opened })} />;
}
