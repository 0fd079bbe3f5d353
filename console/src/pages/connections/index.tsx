import { Link, useNavigate } from "@tanstack/react-router";
import { useConnections, useKinds } from "../../api/queries";
import { useOrg, useWorkplace } from "../../app/account";
import { curl, TOKEN } from "../../ui/curl";
import { number } from "../../ui/format";
import { Button, Code, type Column, Empty, ErrorNote, More, PageHead, Table, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";
import { useConsumers } from "./consumers";
import { ConnectDialog } from "./form";
import { LastTest, Status } from "./status";
import type { Connection } from "./words";

function useColumns(): Column<Connection>[] {
  const kinds = useKinds();
  const consumer = useConsumers();
  const titles = new Map((kinds.data ?? []).map(({ name, title }) => [name, title]));
  return [
    {
      name: "Connection",
      cell: ({ id, name, label }) => (
        <Link to="/connections/$connection" params={{ connection: id } as never} className="cell-link">
          <strong className="clip">{name}</strong>
          {label && label !== name && <span className="quiet clip">{label}</span>}
        </Link>
      ),
    },
    { name: "Provider", cell: ({ kind }) => titles.get(kind) ?? kind },
    { name: "State", cell: (connection) => <Status of={connection} /> },
    { name: "Last test", cell: (connection) => <LastTest of={connection} /> },
    { name: "Grants", align: "right", cell: ({ grants }) => number(grants) },
    {
      name: "Used by",
      cell: ({ used_by }) =>
        used_by.length === 0 ? (
          <span className="quiet">nobody</span>
        ) : (
          <span title={used_by.map(consumer).join("\n")}>
            {consumer(used_by[0] ?? "")}
            {used_by.length > 1 && <span className="quiet"> and {number(used_by.length - 1)} more</span>}
          </span>
        ),
    },
  ];
}

export default function Connections() {
  const { may } = useWorkplace();
  const org_id = useOrg();
  const navigate = useNavigate();
  const { new: making } = useQueryParams();
  const setParams = useSetParams();
  const columns = useColumns();
  const { list, connections } = useConnections();
  const connect = may("admin") && (
    <Button look="primary" icon="plus" onClick={() => setParams({ new: "connection" })}>
      Connect
    </Button>
  );
  return (
    <>
      <PageHead
        title="Connections"
        about="Links to other providers and to services of your own. Their credentials are sealed, and programs use them only as far as you grant it."
        action={
          <>
            <Link to="/reference/guides/$guide" params={{ guide: "connections" } as never} className="button">
              Guide
            </Link>
            {connect}
          </>
        }
      />
      <ErrorNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending ? (
        <Waiting />
      ) : !list.data ? null : connections.length === 0 ? (
        <Empty title="No connections" action={connect}>
          <p>Connect a provider once, with a key or by signing in. Then grant a program what it may do there; it never sees the credential.</p>
          <Code
            label="The same with curl"
            text={curl("POST", `/v1/accounts/orgs/${org_id}/connections`, TOKEN, { kind: "github", credentials: { api_key: "github_pat_…" } })}
          />
        </Empty>
      ) : (
        <Table
          label="Connections"
          columns={columns}
          items={connections}
          id={({ id }) => id}
          onOpen={({ id }) => void navigate({ to: "/connections/$connection", params: { connection: id } as never })}
        />
      )}
      <More list={list} />
      {making === "connection" && may("admin") && <ConnectDialog onClose={() => setParams({ new: undefined, kind: undefined })} />}
    </>
  );
}
