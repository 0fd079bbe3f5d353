/** What was sent to the endpoint, newest first. */
import { useState } from "react";
import { api, ask, type Schemas } from "../../../api/client";
import { useList } from "../../../api/queries";
import { milliseconds, number } from "../../../ui/format";
import { Badge, Choice, type Column, Empty, ErrorNote, More, Section, Table, Time, Waiting } from "../../../ui/kit";
import { useQueryParams, useSetParams } from "../../../ui/url";
import { OUTCOMES } from "../words";
import { type Delivery, DeliveryPanel, type Status, TONES } from "./delivery";

/** While something is under way the list looks again so often; otherwise seldom. */
const SOON_MS = 1500;
const SELDOM_MS = 15_000;

const STATES: readonly (readonly ["" | Status, string])[] = [
  ["", "All"],
  ["pending", "Pending"],
  ["delivered", "Delivered"],
  ["failed", "Failed"],
  ["abandoned", "Abandoned"],
];

export function Deliveries({ of }: { of: Schemas["Endpoint"] }) {
  const { state = "", type, open } = useQueryParams();
  const setParams = useSetParams();
  const status = (state || undefined) as Status | undefined;
  const [isBusy, setBusy] = useState(false);
  const list = useList(
    ["deliveries", of.id, status, type],
    (page_token) =>
      ask(
        api.GET("/v1/webhooks/endpoints/{endpoint_id}/deliveries", {
          params: { path: { endpoint_id: of.id }, query: { status, event_type: type, page_token } },
        }),
      ).then((page) => {
        setBusy(page.deliveries.some(({ status: now, attempts }) => now === "pending" && attempts.length < 2));
        return page;
      }),
    { refetchInterval: isBusy ? SOON_MS : SELDOM_MS },
  );
  const items = list.data?.pages.flatMap(({ deliveries }) => deliveries) ?? [];
  const opened = items.find(({ id }) => id === open);
  const columns: Column<Delivery>[] = [
    { name: "Event", cell: ({ event_type }) => <code className="type">{event_type}</code> },
    { name: "State", cell: ({ status: now }) => <Badge tone={TONES[now]}>{now}</Badge> },
    {
      name: "Last attempt",
      cell: ({ attempts }) => {
        const last = attempts.at(-1);
        if (!last) return <span className="quiet">not tried yet</span>;
        return (
          <>
            {OUTCOMES[last.outcome] ?? last.outcome}
            {last.status_code > 0 && ` (${last.status_code})`}, {milliseconds(last.duration_ms)}
          </>
        );
      },
    },
    { name: "Attempts", align: "right", cell: ({ attempts }) => number(attempts.length) },
    { name: "Next", align: "right", cell: ({ next_attempt_at }) => <Time at={next_attempt_at} none="–" /> },
    { name: "Made", align: "right", cell: ({ created_at }) => <Time at={created_at} /> },
  ];
  return (
    <Section title="Deliveries" flush>
      <div className="bar">
        <Choice label="State" value={(status ?? "") as "" | Status} options={STATES} onChange={(value) => setParams({ state: value || undefined })} />
        <select aria-label="Event type" value={type ?? ""} onChange={(event) => setParams({ type: event.target.value || undefined })}>
          <option value="">Every event type</option>
          {[...of.event_types, "webhook.test"].map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </div>
      <ErrorNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending ? (
        <Waiting />
      ) : items.length === 0 ? (
        <Empty title={status || type ? "Nothing fits these filters" : "Nothing was sent yet"}>
          <p>{status || type ? "Take one of them away." : "Send a test event, or wait until one of its events happens."}</p>
        </Empty>
      ) : (
        <Table label="Deliveries" columns={columns} items={items} id={({ id }) => id} onOpen={({ id }) => setParams({ open: id }, true)} opened={open} />
      )}
      <More list={list} />
      {opened && <DeliveryPanel of={opened} onClose={() => setParams({ open: undefined })} />}
    </Section>
  );
}
