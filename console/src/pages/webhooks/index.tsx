import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { useEndpoints } from "../../api/queries";
import { useOrg, useWorkplace } from "../../app/account";
import { curl, TOKEN } from "../../ui/curl";
import { number, plural } from "../../ui/format";
import { Button, Code, type Column, Empty, ErrorNote, PageHead, Table, Time, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";
import { EndpointForm } from "./form";
import { Health } from "./health";

type Endpoint = Schemas["Endpoint"];

const COLUMNS: Column<Endpoint>[] = [
  {
    name: "Endpoint",
    cell: ({ id, url, description }) => (
      <Link to="/webhooks/$endpoint" params={{ endpoint: id } as never} className="cell-link">
        <strong className="clip">{description || url}</strong>
        {description && <span className="quiet clip">{url}</span>}
      </Link>
    ),
  },
  { name: "State", cell: (endpoint) => <Health of={endpoint} /> },
  {
    name: "Events",
    cell: ({ event_types }) => <span title={event_types.join("\n")}>{plural(event_types.length, "type")}</span>,
  },
  {
    name: "Last 24 hours",
    align: "right",
    cell: ({ succeeded_24h, failed_24h }) => (
      <>
        {number(succeeded_24h)} delivered
        {failed_24h > 0 && <span className="bad-text">, {number(failed_24h)} failed</span>}
      </>
    ),
  },
  { name: "Last attempt", align: "right", cell: ({ last_delivery_at }) => <Time at={last_delivery_at} /> },
];

export default function Webhooks() {
  const { may } = useWorkplace();
  const account_id = useOrg();
  const endpoints = useEndpoints();
  const navigate = useNavigate();
  const { new: making } = useQueryParams();
  const setParams = useSetParams();
  const [shown] = useState(() => curl("POST", "/v1/webhooks/endpoints", TOKEN, {
    account_id,
    url: "https://example.com/hooks",
    event_types: ["member.joined"],
  }));
  const start = () => setParams({ new: "endpoint" });
  return (
    <>
      <PageHead
        title="Webhooks"
        about="Events of this account, posted to your own address, signed, and tried again for 28 hours."
        action={
          <>
            <Link to="/webhooks/inbox" className="button">
              Test inbox
            </Link>
            {may("admin") && (
              <Button look="primary" icon="plus" onClick={start}>
                Make an endpoint
              </Button>
            )}
          </>
        }
      />
      <ErrorNote error={endpoints.error} retry={() => void endpoints.refetch()} />
      {endpoints.isPending ? (
        <Waiting />
      ) : (endpoints.data ?? []).length === 0 ? (
        <Empty
          title="No endpoints"
          action={
            <>
              {may("admin") && (
                <Button look="primary" onClick={start}>
                  Make an endpoint
                </Button>
              )}
              <Link to="/webhooks/inbox" className="button">
                Try it with the test inbox
              </Link>
            </>
          }
        >
          <p>An endpoint is an address of yours that is told when something happens here. Without a server of your own, begin with the test inbox.</p>
          <Code label="The same with curl" text={shown} />
        </Empty>
      ) : (
        <Table
          label="Endpoints"
          columns={COLUMNS}
          items={endpoints.data ?? []}
          id={({ id }) => id}
          onOpen={({ id }) => void navigate({ to: "/webhooks/$endpoint", params: { endpoint: id } as never })}
        />
      )}
      {making === "endpoint" && <EndpointForm onClose={() => setParams({ new: undefined })} />}
    </>
  );
}
