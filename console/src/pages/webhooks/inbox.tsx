/** The account's test inbox: it keeps what is posted to it, and says whether it was signed as it should be. */
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { queries, useEndpoints, useInbox, useList } from "../../api/queries";
import { useOrg, useWorkplace } from "../../app/account";
import { clock } from "../../ui/format";
import { Badge, Button, Code, type Column, Confirm, Empty, ErrorNote, Facts, Id, Note, PageHead, Panel, Section, Table, Time, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";
import { EndpointForm } from "./form";
import { VERDICTS } from "./words";

type Received = Schemas["InboxRequest"];

/** How often the inbox is looked into while its page is seen. */
const LOOK_MS = 2000;

function verdictBadge(verdict: string) {
  return <Badge tone={VERDICTS[verdict]?.tone ?? "plain"}>{verdict.replace("_", " ")}</Badge>;
}

function pretty(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}

function ReceivedPanel({ of, onClose }: { of: Received; onClose: () => void }) {
  const headers = of.headers as Record<string, string>;
  const body = of.body || of.body_base64 || "";
  const signed = `${headers["webhook-id"] ?? ""}.${headers["webhook-timestamp"] ?? ""}.`;
  return (
    <Panel open onClose={onClose} title="Received">
      <Facts
        items={[
          ["Verdict", verdictBadge(of.verdict)],
          ["Received", <Time key="at" at={of.received_at} />],
          ["Method", of.method],
          ["Type", of.content_type || "none"],
        ]}
      />
      <p className="quiet">{VERDICTS[of.verdict]?.help}</p>
      <h3>Headers</h3>
      <Code label="Headers" text={Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join("\n")} wrap />
      <h3>Body</h3>
      <Code label={of.body ? "Body" : "Body, in base64"} text={of.body ? pretty(of.body) : body} />
      {headers["webhook-id"] && (
        <>
          <h3>What is signed</h3>
          <p className="quiet">Id, time and the body exactly as it came, with dots between them.</p>
          <Code label="Signed text" text={signed + body} wrap />
        </>
      )}
    </Panel>
  );
}

function Requests({ inbox }: { inbox: Schemas["Inbox"] }) {
  const { open } = useQueryParams();
  const setParams = useSetParams();
  const list = useList(
    ["inbox-requests", inbox.id],
    (page_token) =>
      ask(api.GET("/v1/webhooks/inboxes/{inbox_id}/requests", { params: { path: { inbox_id: inbox.id }, query: { page_token } } })),
    { refetchInterval: LOOK_MS },
  );
  const items = list.data?.pages.flatMap(({ requests }) => requests) ?? [];
  const opened = items.find(({ id }) => id === open);
  const columns: Column<Received>[] = [
    { name: "Verdict", cell: ({ verdict }) => verdictBadge(verdict) },
    { name: "Event", cell: ({ headers }) => <Id id={(headers as Record<string, string>)["webhook-id"] ?? ""} /> },
    { name: "Body", cell: ({ body }) => <span className="clip mono">{body.slice(0, 120)}</span> },
    {
      name: "Received",
      align: "right",
      cell: ({ received_at }) => (
        <span className="when">
          <span className="quiet mono">{clock(received_at)}</span> <Time at={received_at} />
        </span>
      ),
    },
  ];
  return (
    <Section title="What it received" flush action={<span className="live live-here">Live</span>}>
      <ErrorNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending ? (
        <Waiting />
      ) : items.length === 0 ? (
        <Empty title="Nothing yet">
          <p>What is posted to the address above appears here within two seconds.</p>
        </Empty>
      ) : (
        <div aria-live="polite">
          <Table label="Received requests" columns={columns} items={items} id={({ id }) => id} onOpen={({ id }) => setParams({ open: id }, true)} opened={open} />
        </div>
      )}
      {opened && <ReceivedPanel of={opened} onClose={() => setParams({ open: undefined })} />}
    </Section>
  );
}

function Inbox({ of }: { of: Schemas["Inbox"] }) {
  const { may } = useWorkplace();
  const endpoints = useEndpoints();
  const { new: making } = useQueryParams();
  const setParams = useSetParams();
  const [deleting, setDeleting] = useState(false);
  const here = (endpoints.data ?? []).find(({ url, enabled }) => url === of.address && enabled);
  const test = useMutation({
    mutationFn: (endpoint_id: string) =>
      ask(api.POST("/v1/webhooks/endpoints/{endpoint_id}/test", { params: { path: { endpoint_id } }, body: {} })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["inbox-requests"] }),
  });
  const remove = useMutation({
    mutationFn: () => ask(api.DELETE("/v1/webhooks/inboxes/{inbox_id}", { params: { path: { inbox_id: of.id } } })),
    onSuccess: () => {
      setDeleting(false);
      void queries.invalidateQueries({ queryKey: ["inbox"] });
    },
  });
  return (
    <>
      <Section
        title="Address"
        action={
          may("admin") && (
            <Button small look="danger" onClick={() => setDeleting(true)}>
              Delete…
            </Button>
          )
        }
      >
        <Code label="Post to" text={of.address} wrap />
        <p className="quiet">
          It lives until <Time at={of.expires_at} />, and keeps the last 50 requests. Everybody in the account can read them.
        </p>
        {may("admin") &&
          (here ? (
            <div className="actions start">
              <Button look="primary" busy={test.isPending} onClick={() => test.mutate(here.id)}>
                Send a test event
              </Button>
              <Link to="/webhooks/$endpoint" params={{ endpoint: here.id } as never} className="button">
                Its endpoint
              </Link>
            </div>
          ) : (
            <Note
              action={
                <Button look="primary" onClick={() => setParams({ new: "endpoint" })}>
                  Make an endpoint for it
                </Button>
              }
            >
              No endpoint sends here yet.
            </Note>
          ))}
        <ErrorNote error={test.error} />
      </Section>
      <Requests inbox={of} />
      {making === "endpoint" && <EndpointForm url={of.address} onClose={() => setParams({ new: undefined })} />}
      <Confirm
        open={deleting}
        onClose={() => setDeleting(false)}
        title="Delete the test inbox?"
        submit="Delete the inbox"
        onSubmit={() => remove.mutate()}
        busy={remove.isPending}
        error={remove.error}
      >
        <p>What it received is deleted with it, and its address answers no more. Endpoints that point at it will fail.</p>
      </Confirm>
    </>
  );
}

export default function InboxRoute() {
  const account_id = useOrg();
  const { may } = useWorkplace();
  const inbox = useInbox({ refetchInterval: 30_000 });
  const make = useMutation({
    mutationFn: () => ask(api.POST("/v1/webhooks/inboxes", { body: { account_id } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["inbox"] }),
  });
  return (
    <>
      <PageHead
        title="Test inbox"
        about={
          <>
            <Link to="/webhooks">Webhooks</Link> / An address that keeps what is posted to it and checks the signature.
          </>
        }
      />
      <ErrorNote error={inbox.error ?? make.error} retry={() => void inbox.refetch()} />
      {inbox.isPending ? (
        <Waiting />
      ) : inbox.data ? (
        <Inbox of={inbox.data} />
      ) : (
        <Empty
          title="No test inbox"
          action={
            may("admin") && (
              <Button look="primary" busy={make.isPending} onClick={() => make.mutate()}>
                Make the test inbox
              </Button>
            )
          }
        >
          <p>It lives for 24 hours. Point an endpoint at it, send a test, and see what a receiver gets and whether it is valid.</p>
        </Empty>
      )}
    </>
  );
}
