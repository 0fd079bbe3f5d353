import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, ask, idempotencyKey, type Schemas } from "../../api/client";
import { queries, useInbox, useList } from "../../api/queries";
import { useWorkplace } from "../../app/account";
import { curl, TOKEN } from "../../ui/curl";
import { everyDay } from "../../ui/days";
import { milliseconds, number, plural } from "../../ui/format";
import { Badge, Button, Choice, Code, type Column, Confirm, Dialog, Empty, ErrorNote, Facts, Form, Id, Json, Note, PageHead, Panel, SecretDialog, Section, Table, Time, Waiting } from "../../ui/kit";
import { LazyChart } from "../../ui/lazy-chart";
import { useQueryParams, useSetParams } from "../../ui/url";
import { EndpointForm } from "./form";
import { Health } from "./index";
import { OUTCOMES, outcomeHelp } from "./words";

type Endpoint = Schemas["Endpoint"];
type Delivery = Schemas["Delivery"];
type Status = Delivery["status"];

const DAY_MS = 86_400_000;
const STATISTICS_DAYS = 30;
const OVERLAP_MS = DAY_MS;
/** While something is under way the list looks again so often; otherwise seldom. */
const SOON_MS = 1500;
const SELDOM_MS = 15_000;

const TONES: Record<Status, "good" | "warn" | "bad" | "accent"> = {
  delivered: "good",
  pending: "accent",
  failed: "warn",
  abandoned: "bad",
};

const STATES: readonly (readonly ["" | Status, string])[] = [
  ["", "All"],
  ["pending", "Pending"],
  ["delivered", "Delivered"],
  ["failed", "Failed"],
  ["abandoned", "Abandoned"],
];

function refresh() {
  for (const kind of ["endpoints", "endpoint", "deliveries", "stats", "inbox", "inbox-requests"]) {
    void queries.invalidateQueries({ queryKey: [kind] });
  }
}

function DeliveryPanel({ of, onClose }: { of: Delivery; onClose: () => void }) {
  const { may } = useWorkplace();
  const [key] = useState(idempotencyKey);
  const retry = useMutation({
    mutationFn: () =>
      ask(
        api.POST("/v1/webhooks/deliveries/{delivery_id}/retry", {
          params: { path: { delivery_id: of.id }, header: { "Idempotency-Key": `${key}-${of.attempts.length}` } },
          body: {},
        }),
      ),
    onSuccess: refresh,
  });
  return (
    <Panel open onClose={onClose} title={of.event_type}>
      <Facts
        items={[
          ["State", <Badge key="state" tone={TONES[of.status]}>{of.status}</Badge>],
          ["Delivery", <Id key="id" id={of.id} whole />],
          ["Event", <Id key="event" id={of.event_id} whole />],
          ["Made", <Time key="made" at={of.created_at} />],
          ["Next attempt", <Time key="next" at={of.next_attempt_at} none="none" />],
        ]}
      />
      <h3>Attempts</h3>
      {of.attempts.length === 0 ? (
        <p className="quiet">None yet.</p>
      ) : (
        <ol className="timeline">
          {of.attempts.map((attempt) => (
            <li key={attempt.id} className={attempt.outcome === "delivered" ? "good" : "bad"}>
              <p>
                <strong>
                  {attempt.number}. {OUTCOMES[attempt.outcome] ?? attempt.outcome}
                  {attempt.status_code > 0 && ` (${attempt.status_code})`}
                </strong>{" "}
                <span className="quiet">
                  <Time at={attempt.at} />, {milliseconds(attempt.duration_ms)}
                </span>
              </p>
              <p className="quiet">{outcomeHelp(attempt.outcome, attempt.status_code)}</p>
              {attempt.next_retry_at && (
                <p className="quiet">
                  The next was planned for <Time at={attempt.next_retry_at} />.
                </p>
              )}
            </li>
          ))}
        </ol>
      )}
      <ErrorNote error={retry.error} />
      <div className="actions">
        {may("admin") && (
          <Button small look="primary" busy={retry.isPending} onClick={() => retry.mutate()}>
            {of.status === "pending" ? "Try now" : "Send again"}
          </Button>
        )}
        <Link to="/events" search={{ open: of.event_id } as never} className="button small">
          The event
        </Link>
      </div>
      <h3>As the API has it</h3>
      <Code label="Send again with curl" text={curl("POST", `/v1/webhooks/deliveries/${of.id}/retry`, TOKEN)} />
      <Json value={of} label="Record" />
    </Panel>
  );
}

function Deliveries({ of }: { of: Endpoint }) {
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
      {list.hasNextPage && (
        <div className="more">
          <Button busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            Older ones
          </Button>
        </div>
      )}
      {opened && <DeliveryPanel of={opened} onClose={() => setParams({ open: undefined })} />}
    </Section>
  );
}

function Statistics({ of }: { of: Endpoint }) {
  const stats = useQuery({
    queryKey: ["stats", of.id],
    queryFn: () => ask(api.GET("/v1/webhooks/stats", { params: { query: { endpoint_id: of.id, by: "day" } } })),
    refetchInterval: 30_000,
  });
  const rows = stats.data?.rows ?? [];
  const chart = useMemo(() => {
    const days = everyDay(stats.data?.rows ?? [], STATISTICS_DAYS);
    return {
      at: days.map(({ at }) => at),
      series: [
        { label: "Delivered", colour: "good" as const, values: days.map(({ row }) => row?.delivered ?? 0) },
        { label: "Failed", colour: "bad" as const, values: days.map(({ row }) => row?.failed ?? 0) },
      ],
    };
  }, [stats.data]);
  if (rows.length === 0) return null;
  const slowest = Math.max(...rows.map(({ p95_ms }) => p95_ms));
  return (
    <Section title={`Attempts of the last ${STATISTICS_DAYS} days`}>
      <LazyChart label="Attempts by day" unit="" at={chart.at} series={chart.series} />
      <p className="quiet">
        {(stats.data?.outcomes ?? []).map(({ outcome, count }) => `${OUTCOMES[outcome] ?? outcome}: ${number(count)}`).join(". ")}. On the
        slowest day, 95 of 100 answers came within {milliseconds(slowest)}.
      </p>
    </Section>
  );
}

function Recover({ of, onClose }: { of: Endpoint; onClose: () => void }) {
  const [span, setSpan] = useState<"1" | "24" | "168" | "720">("24");
  const recover = useMutation({
    mutationFn: () =>
      ask(
        api.POST("/v1/webhooks/endpoints/{endpoint_id}/recover", {
          params: { path: { endpoint_id: of.id } },
          // A little less than the whole span, because the server counts its 30 days from when it hears of it.
          body: { since: new Date(Date.now() - Number(span) * 3_600_000 + 60_000).toISOString() },
        }),
      ),
    onSuccess: refresh,
  });
  return (
    <Dialog open onClose={onClose} title="Recover what was missed">
      {recover.data ? (
        <>
          <Note tone="good">{recover.data.recovered === 0 ? "Nothing was missed in that time." : `${plural(recover.data.recovered, "delivery", "deliveries")} will be sent.`}</Note>
          <div className="form-actions">
            <Button look="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </>
      ) : (
        <Form onSubmit={() => recover.mutate()} error={recover.error} busy={recover.isPending} submit="Recover" onCancel={onClose}>
          <p>
            Sends what failed, and what was never sent because the endpoint was disabled or did not subscribe yet. What was received
            is not sent again.
          </p>
          <fieldset className="field">
            <legend>Over the last</legend>
            <Choice
              label="Over the last"
              value={span}
              options={[
                ["1", "hour"],
                ["24", "day"],
                ["168", "week"],
                ["720", "30 days"],
              ]}
              onChange={setSpan}
            />
          </fieldset>
        </Form>
      )}
    </Dialog>
  );
}

/** How long both secrets sign after a rotation. */
function Rotation({ of }: { of: Endpoint }) {
  if (!of.secret_rotated_at) return <>The secret was never rotated.</>;
  const ends = new Date(Date.parse(of.secret_rotated_at) + OVERLAP_MS);
  if (ends.getTime() < Date.now()) {
    return (
      <>
        Rotated <Time at={of.secret_rotated_at} />.
      </>
    );
  }
  return (
    <>
      Rotated <Time at={of.secret_rotated_at} />. The old and the new secret both sign until <Time at={ends.toISOString()} />: change your
      receiver by then.
    </>
  );
}

type Asking = "rotate" | "delete" | "edit" | "recover" | null;

function EndpointPage({ of }: { of: Endpoint }) {
  const { may } = useWorkplace();
  const navigate = useNavigate();
  const inbox = useInbox();
  const [asking, setAsking] = useState<Asking>(null);
  const [secret, setSecret] = useState("");
  const path = { endpoint_id: of.id };
  const params = { path };
  const test = useMutation({
    mutationFn: () => ask(api.POST("/v1/webhooks/endpoints/{endpoint_id}/test", { params, body: {} })),
    onSuccess: refresh,
  });
  const enable = useMutation({
    mutationFn: (enabled: boolean) =>
      ask(api.PATCH("/v1/webhooks/endpoints/{endpoint_id}", { params, body: { enabled } })),
    onSuccess: refresh,
  });
  const rotate = useMutation({
    mutationFn: () => ask(api.POST("/v1/webhooks/endpoints/{endpoint_id}/rotate", { params, body: {} })),
    onSuccess: (answer) => {
      setAsking(null);
      setSecret(answer.secret);
      refresh();
    },
  });
  const remove = useMutation({
    mutationFn: () => ask(api.DELETE("/v1/webhooks/endpoints/{endpoint_id}", { params })),
    onSuccess: async () => {
      await navigate({ to: "/webhooks" });
      refresh();
    },
  });
  const toInbox = inbox.data?.address === of.url;
  return (
    <>
      <PageHead
        title={of.description || new URL(of.url).host}
        about={
          <>
            <Link to="/webhooks">Webhooks</Link> / <code className="clip">{of.url}</code>
          </>
        }
        action={
          may("admin") && (
            <>
              {toInbox && (
                <Link to="/webhooks/inbox" className="button">
                  Test inbox
                </Link>
              )}
              <Button onClick={() => setAsking("edit")}>Change</Button>
              <Button look="primary" busy={test.isPending} disabled={!of.enabled} onClick={() => test.mutate()}>
                Send a test
              </Button>
            </>
          )
        }
      />
      {!of.enabled && (
        <Note
          tone="bad"
          action={
            may("admin") && (
              <Button look="primary" busy={enable.isPending} onClick={() => enable.mutate(true)}>
                Enable it
              </Button>
            )
          }
        >
          <p>
            <strong>Nothing is sent here.</strong> {of.disabled_reason}
          </p>
          <p>Once the receiver answers again, enable it, and recover what was missed.</p>
        </Note>
      )}
      <ErrorNote error={test.error ?? enable.error} />
      {test.data && !test.error && (
        <Note tone="good">
          A test event was sent: <Id id={test.data.event_id} />. It stands first in the list below{toInbox ? ", and in the test inbox" : ""}.
        </Note>
      )}
      <Section
        title="Endpoint"
        action={
          may("admin") && (
            <>
              <Button small onClick={() => setAsking("recover")} disabled={!of.enabled}>
                Recover…
              </Button>
              <Button small onClick={() => setAsking("rotate")}>
                Rotate the secret…
              </Button>
              {of.enabled && (
                <Button small busy={enable.isPending} onClick={() => enable.mutate(false)}>
                  Disable
                </Button>
              )}
              <Button small look="danger" onClick={() => setAsking("delete")}>
                Delete…
              </Button>
            </>
          )
        }
      >
        <Facts
          items={[
            ["State", <Health key="state" of={of} />],
            ["Id", <Id key="id" id={of.id} whole />],
            ["Last 24 hours", `${number(of.succeeded_24h)} delivered, ${number(of.failed_24h)} failed`],
            ["Last attempt", <Time key="last" at={of.last_delivery_at} />],
            ["Secret", <Rotation key="secret" of={of} />],
            ["Made", <Time key="made" at={of.created_at} />],
          ]}
        />
        <ul className="chips" aria-label="Events">
          {of.event_types.map((type) => (
            <li key={type}>
              <Link to="/reference/events/$type" params={{ type } as never}>
                <code>{type}</code>
              </Link>
            </li>
          ))}
        </ul>
      </Section>
      <Deliveries of={of} />
      <Statistics of={of} />
      <details className="section raw">
        <summary>As the API has it</summary>
        <Code label="Read it with curl" text={curl("GET", `/v1/webhooks/endpoints/${of.id}`, TOKEN)} />
        <Json value={of} label="Record" />
      </details>
      {asking === "edit" && <EndpointForm of={of} onClose={() => setAsking(null)} />}
      {asking === "recover" && <Recover of={of} onClose={() => setAsking(null)} />}
      <Confirm
        open={asking === "rotate"}
        onClose={() => setAsking(null)}
        title="Rotate the secret?"
        submit="Rotate"
        onSubmit={() => rotate.mutate()}
        busy={rotate.isPending}
        error={rotate.error}
      >
        <p>
          A new secret is made and shown once. For 24 hours each delivery is signed with both, so you can change your receiver in that
          time without missing anything.
        </p>
      </Confirm>
      <Confirm
        open={asking === "delete"}
        onClose={() => setAsking(null)}
        title="Delete the endpoint?"
        submit="Delete the endpoint"
        onSubmit={() => remove.mutate()}
        busy={remove.isPending}
        error={remove.error}
        name={new URL(of.url).host}
      >
        <p>
          Nothing more is sent to it, and the history of its deliveries is deleted with it. In the last 24 hours it took{" "}
          {plural(of.succeeded_24h, "delivery", "deliveries")}.
        </p>
      </Confirm>
      {secret && (
        <SecretDialog open onClose={() => setSecret("")} title="The new secret" secret={secret} label="Signing secret">
          <p>The old one also signs for 24 hours.</p>
        </SecretDialog>
      )}
    </>
  );
}

export default function EndpointRoute() {
  const { endpoint = "" } = useParams({ strict: false }) as { endpoint?: string };
  const found = useQuery({
    queryKey: ["endpoint", endpoint],
    queryFn: () => ask(api.GET("/v1/webhooks/endpoints/{endpoint_id}", { params: { path: { endpoint_id: endpoint } } })),
    refetchInterval: SELDOM_MS,
  });
  if (found.data) return <EndpointPage of={found.data} />;
  if (found.error) return <ErrorNote error={found.error} retry={() => void found.refetch()} />;
  return <Waiting rows={6} />;
}
