import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, ask, type Schemas } from "../../../api/client";
import { useInbox } from "../../../api/queries";
import { useWorkplace } from "../../../app/account";
import { number, plural } from "../../../ui/format";
import { Button, Confirm, ErrorNote, Facts, Id, Note, PageHead, Raw, Section, Time, Waiting } from "../../../ui/kit";
import { EndpointForm } from "../form";
import { Health } from "../health";
import { refresh } from "../refresh";
import { Deliveries } from "./deliveries";
import { Recover } from "./recover";
import { Rotate, Rotation } from "./secret";
import { Statistics } from "./statistics";

type Endpoint = Schemas["Endpoint"];

/** How often the page looks whether the endpoint changed. */
const LOOK_MS = 15_000;

type Asking = "rotate" | "delete" | "edit" | "recover" | null;

function EndpointPage({ of }: { of: Endpoint }) {
  const { may } = useWorkplace();
  const navigate = useNavigate();
  const inbox = useInbox();
  const [asking, setAsking] = useState<Asking>(null);
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
      <Raw path={`/v1/webhooks/endpoints/${of.id}`} value={of} />
      {asking === "edit" && <EndpointForm of={of} onClose={() => setAsking(null)} />}
      {asking === "recover" && <Recover of={of} onClose={() => setAsking(null)} />}
      {asking === "rotate" && <Rotate of={of} onClose={() => setAsking(null)} />}
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
    </>
  );
}

export default function EndpointRoute() {
  const { endpoint = "" } = useParams({ strict: false }) as { endpoint?: string };
  const found = useQuery({
    queryKey: ["endpoint", endpoint],
    queryFn: () => ask(api.GET("/v1/webhooks/endpoints/{endpoint_id}", { params: { path: { endpoint_id: endpoint } } })),
    refetchInterval: LOOK_MS,
  });
  if (found.data) return <EndpointPage of={found.data} />;
  if (found.error) return <ErrorNote error={found.error} retry={() => void found.refetch()} />;
  return <Waiting rows={6} />;
}
