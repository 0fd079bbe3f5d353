import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { api, ask } from "../../../api/client";
import { asRefusal } from "../../../api/problem";
import { useKinds } from "../../../api/queries";
import { useOrg, useWorkplace } from "../../../app/account";
import { useMakers } from "../../../app/makers";
import { Button, ErrorNote, Facts, Id, Note, PageHead, Raw, Section, Time, Waiting } from "../../../ui/kit";
import { useConsumers } from "../consumers";
import { refresh } from "../refresh";
import { LastTest, Status } from "../status";
import { type Connection, type Kind, MODES, OWN_SERVICE, titled, whyNot } from "../words";
import { Delete } from "./delete";
import { Edit } from "./edit";
import { Grants } from "./grants";
import { History } from "./history";
import { Reconnect, ReconnectNote } from "./reconnect";
import { Try } from "./try";

/** How often the page looks whether the connection changed. */
const LOOK_MS = 15_000;

type Asking = "edit" | "reconnect" | null;

function CredentialWords({ of: { kind, set_at } }: { of: Connection["credential"] }) {
  if (kind === "none") return "none";
  return (
    <span>
      {MODES[kind] ?? kind}, set <Time at={set_at} />
    </span>
  );
}

/** What is known of the connection. */
function useFacts(of: Connection): [string, ReactNode][] {
  const maker = useMakers();
  const consumer = useConsumers();
  const config = Object.entries(of.config);
  return [
    ["State", <Status key="state" of={of} />],
    ["Id", <Id key="id" id={of.id} whole />],
    [of.kind === OWN_SERVICE ? "Host" : "Account there", of.label || "not known"],
    ["Last test", <LastTest key="test" of={of} why />],
    ["Credential", <CredentialWords key="credential" of={of.credential} />],
    ...(of.token_expires_at ? [["Access token ends", <Time key="token" at={of.token_expires_at} />] as [string, ReactNode]] : []),
    ...config.map(([name, value]) => [titled(name), <span key={name} className="mono">{value}</span>] as [string, ReactNode]),
    ...(of.scopes.length > 0 ? [["Scopes there", <span key="scopes" className="mono">{of.scopes.join(" ")}</span>] as [string, ReactNode]] : []),
    ["Used by", of.used_by.length > 0 ? of.used_by.map(consumer).join(", ") : "nobody in the last 30 days"],
    ["Made", <span key="made"><Time at={of.created_at} /> by {maker(of.owner)}</span>],
  ];
}

function ConnectionPage({ of, kind, onDelete }: { of: Connection; kind: Kind; onDelete: () => void }) {
  const { may } = useWorkplace();
  const [asking, setAsking] = useState<Asking>(null);
  const facts = useFacts(of);
  const params = { path: { org_id: of.account_id, connection_id: of.id } };
  const test = useMutation({
    mutationFn: () => ask(api.POST("/v1/accounts/orgs/{org_id}/connections/{connection_id}/test", { params, body: {} })),
    onSettled: refresh,
  });
  const pause = useMutation({
    mutationFn: (paused: boolean) => ask(api.PATCH("/v1/accounts/orgs/{org_id}/connections/{connection_id}", { params, body: { paused } })),
    onSuccess: () => {
      test.reset();
      refresh();
    },
  });
  // Another test, or another credential, makes an old result one of the past.
  const tested = test.data?.connection.last_test_at === of.last_test_at ? test.data.connection : undefined;
  return (
    <>
      <PageHead
        title={of.name}
        about={
          <>
            <Link to="/connections">Connections</Link> / {kind.title}
            {of.label && of.label !== of.name && `, ${of.label}`}
          </>
        }
        action={
          may("admin") && (
            <>
              <Button onClick={() => setAsking("edit")}>Change</Button>
              <Button look="primary" busy={test.isPending} onClick={() => test.mutate()}>
                Test
              </Button>
            </>
          )
        }
      />
      {of.status === "needs_reconnect" && <ReconnectNote onReconnect={may("admin") ? () => setAsking("reconnect") : undefined} />}
      {of.status === "paused" && (
        <Note
          tone="warn"
          action={
            may("admin") && (
              <Button look="primary" busy={pause.isPending} onClick={() => pause.mutate(false)}>
                Resume
              </Button>
            )
          }
        >
          <strong>This connection is paused.</strong> Its actions are refused, and nothing is sent.
        </Note>
      )}
      <ErrorNote error={test.error ?? pause.error} />
      <div className="result" role="status">
        {tested &&
          (tested.last_test_ok ? (
            <Note tone="good">
              The test passed.{of.kind !== OWN_SERVICE && tested.label && ` The account there is ${tested.label}.`}
            </Note>
          ) : (
            <Note tone="bad">The test failed. {whyNot(tested.last_test_error)}</Note>
          ))}
      </div>
      <Section
        title="Connection"
        action={
          may("admin") && (
            <>
              {of.status !== "paused" && (
                <Button small busy={pause.isPending} onClick={() => pause.mutate(true)}>
                  Pause
                </Button>
              )}
              <Button small onClick={() => setAsking("reconnect")}>
                Reconnect…
              </Button>
              <Button small look="danger" onClick={onDelete}>
                Delete…
              </Button>
            </>
          )
        }
      >
        {of.description && <p>{of.description}</p>}
        <Facts items={facts} />
      </Section>
      <Grants of={of} kind={kind} />
      {may("admin") && <Try of={of} kind={kind} />}
      <History of={of} kind={kind} />
      <Raw path={`/v1/accounts/orgs/${of.account_id}/connections/${of.id}`} value={of} />
      {asking === "edit" && <Edit of={of} onClose={() => setAsking(null)} />}
      {asking === "reconnect" && <Reconnect of={of} kind={kind} onClose={() => setAsking(null)} />}
    </>
  );
}

/** One connection. Nothing is asked of it any more once its deletion has begun. */
function OneConnection({ id: connection }: { id: string }) {
  const [deleting, setDeleting] = useState<"asked" | "begun" | null>(null);
  const org_id = useOrg();
  const kinds = useKinds();
  const found = useQuery({
    queryKey: ["connection", org_id, connection],
    queryFn: async () => {
      const params = { path: { org_id, connection_id: connection } };
      return (await ask(api.GET("/v1/accounts/orgs/{org_id}/connections/{connection_id}", { params }))).connection;
    },
    enabled: deleting !== "begun",
    refetchInterval: LOOK_MS,
  });
  const error = found.error ?? kinds.error;
  const isGone = deleting !== "begun" && found.error !== null && asRefusal(found.error).status === 404;
  const kind = kinds.data?.find(({ name }) => name === found.data?.kind);
  if (found.data && kind && !isGone) {
    return (
      <>
        {deleting === "begun" ? <Waiting rows={6} /> : <ConnectionPage of={found.data} kind={kind} onDelete={() => setDeleting("asked")} />}
        {deleting && (
          <Delete of={found.data} onBegin={() => setDeleting("begun")} onFail={() => setDeleting("asked")} onClose={() => setDeleting(null)} />
        )}
      </>
    );
  }
  if (found.data && kinds.data && !kind) {
    return (
      <Note tone="warn" action={<Button onClick={() => void kinds.refetch()}>Load it again</Button>}>
        The catalogue that was loaded does not know what this connection leads to.
      </Note>
    );
  }
  if (error) return <ErrorNote error={error} retry={() => void Promise.all([found.refetch(), kinds.refetch()])} />;
  return <Waiting rows={6} />;
}

export default function ConnectionRoute() {
  const { connection = "" } = useParams({ strict: false }) as { connection?: string };
  return <OneConnection key={connection} id={connection} />;
}
