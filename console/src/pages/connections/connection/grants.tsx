/** Who may use the connection, and how far. */
import { useState } from "react";
import { api, ask } from "../../../api/client";
import { useList } from "../../../api/queries";
import { useWorkplace } from "../../../app/account";
import { useMakers } from "../../../app/makers";
import { plural } from "../../../ui/format";
import { Badge, Button, type Column, Confirm, Empty, ErrorNote, Id, More, Section, Table, Time, Waiting } from "../../../ui/kit";
import { useQueryParams, useSetParams } from "../../../ui/url";
import { useConsumers } from "../consumers";
import { type Action, allowed, classOf, type Connection, type Grant, isTrifecta, type Kind, labelsOf } from "../words";
import { GrantForm } from "./grant-form";
import { listed } from "./labels";
import { useRevoke } from "./revoke";

/** So many actions are named; of more, their number is told. */
const NAMED_MAX = 3;

function stateOf({ revoked_at, expires_at }: Grant): "live" | "revoked" | "expired" {
  if (revoked_at) return "revoked";
  return expires_at && Date.parse(expires_at) <= Date.now() ? "expired" : "live";
}

function HowFar({ grant: { actions, max_class } }: { grant: Grant }) {
  if (actions.length === 0) return classOf(max_class)?.upTo ?? max_class;
  if (actions.length > NAMED_MAX) return plural(actions.length, "action");
  return <code>{actions.join(", ")}</code>;
}

function May({ grant, actions }: { grant: Grant; actions: readonly Action[] }) {
  const all = allowed(actions, grant);
  const labels = labelsOf(all);
  return (
    <span title={all.map(({ name }) => name).join("\n")}>
      <HowFar grant={grant} />
      {labels.length > 0 && <span className={isTrifecta(all) ? "warn-text grant-labels" : "quiet grant-labels"}>{listed(labels)}</span>}
    </span>
  );
}

export function Grants({ of, kind }: { of: Connection; kind: Kind }) {
  const { may } = useWorkplace();
  const { ended, new: making } = useQueryParams();
  const setParams = useSetParams();
  const consumer = useConsumers();
  const maker = useMakers();
  const [asking, setAsking] = useState<Grant | null>(null);
  const revoke = useRevoke(of, () => setAsking(null));
  const list = useList(["grants", of.id], (page_token) =>
    ask(
      api.GET("/v1/accounts/orgs/{org_id}/connections/{connection_id}/grants", {
        params: { path: { org_id: of.account_id, connection_id: of.id }, query: { page_token, page_size: 200 } },
      }),
    ),
  );
  const all = list.data?.pages.flatMap(({ grants }) => grants) ?? [];
  const live = all.filter((grant) => stateOf(grant) === "live");
  const shown = ended === "shown" ? all : live;
  const start = () => setParams({ new: "grant" });
  const columns: Column<Grant>[] = [
    {
      name: "To",
      cell: (grant) => (
        <>
          <strong>{consumer(grant.consumer)}</strong> <Id id={grant.consumer.slice(grant.consumer.indexOf(":") + 1)} />
        </>
      ),
    },
    { name: "May", cell: (grant) => <May grant={grant} actions={kind.actions} /> },
    { name: "Made by", cell: ({ created_by }) => maker(created_by) },
    { name: "Last used", cell: ({ last_used_at }) => <Time at={last_used_at} /> },
    {
      name: "Ends",
      cell: (grant) => {
        const state = stateOf(grant);
        return state === "live" ? <Time at={grant.expires_at} /> : <Badge>{state}</Badge>;
      },
    },
    ...(may("admin")
      ? [
          {
            name: "Revoke",
            bare: true,
            align: "right" as const,
            cell: (grant: Grant) =>
              stateOf(grant) === "live" && (
                <Button small look="danger" aria-label={`Revoke the grant to ${consumer(grant.consumer)}`} onClick={() => setAsking(grant)}>
                  Revoke…
                </Button>
              ),
          },
        ]
      : []),
  ];
  return (
    <Section
      title="Grants"
      flush
      action={
        <>
          {all.length > live.length && (
            <label className="check">
              <input type="checkbox" checked={ended === "shown"} onChange={(event) => setParams({ ended: event.target.checked ? "shown" : undefined })} />
              Show ended ones too
            </label>
          )}
          {may("admin") && (
            <Button small look={shown.length === 0 ? "primary" : "plain"} icon="plus" onClick={start}>
              Grant
            </Button>
          )}
        </>
      }
    >
      <ErrorNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending ? (
        <Waiting rows={2} />
      ) : shown.length > 0 ? (
        <Table label="Grants" columns={columns} items={shown} id={({ id }) => id} />
      ) : (
        list.data &&
        !list.hasNextPage && (
          <Empty title="Nobody may use it">
            <p>A key, a token or an app calls its actions once you grant it. People try them out here without a grant.</p>
          </Empty>
        )
      )}
      <More list={list} />
      {making === "grant" && may("admin") && <GrantForm of={of} kind={kind} onClose={() => setParams({ new: undefined })} />}
      <Confirm
        open={asking !== null}
        onClose={() => setAsking(null)}
        title="Revoke the grant?"
        submit="Revoke the grant"
        onSubmit={() => asking && revoke.mutate(asking.id)}
        busy={revoke.isPending}
        error={revoke.error}
      >
        <p>
          The next call of <strong>{asking && consumer(asking.consumer)}</strong> to {of.name} is refused, and its tools are gone. Last used:{" "}
          <Time at={asking?.last_used_at} />.
        </p>
      </Confirm>
    </Section>
  );
}
