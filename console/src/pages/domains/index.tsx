import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { api, ask } from "../../api/client";
import { useOrg, useWorkplace } from "../../app/account";
import { curl, TOKEN } from "../../ui/curl";
import { Button, Code, type Column, Empty, ErrorNote, PageHead, Table, Time, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";
import { DomainForm } from "./form";
import { Status, wrong } from "./status";
import type { Domain } from "./words";

const COLUMNS: Column<Domain>[] = [
  {
    name: "Domain",
    cell: ({ domain, scope }) => (
      <Link to="/domains/$domain" params={{ domain } as never} className="cell-link">
        <strong className="clip">{domain}</strong>
        {scope === "subdomain" && <span className="quiet">and what is under it</span>}
      </Link>
    ),
  },
  { name: "State", cell: (domain) => <Status of={domain} /> },
  { name: "DNS at", cell: ({ dns_provider }) => dns_provider || <span className="quiet">not known</span> },
  { name: "Last look", cell: ({ last_checked_at }) => <Time at={last_checked_at} none="not yet" /> },
  { name: "What is wrong", cell: (domain) => wrong(domain) || <span className="quiet">nothing</span> },
];

export default function Domains() {
  const { may } = useWorkplace();
  const org_id = useOrg();
  const navigate = useNavigate();
  const { new: adding } = useQueryParams();
  const setParams = useSetParams();
  const domains = useQuery({
    queryKey: ["domains", org_id],
    queryFn: async () => {
      // An account has at most a hundred, so one page holds them all.
      const params = { path: { org_id }, query: { page_size: 200 } };
      return (await ask(api.GET("/v1/accounts/orgs/{org_id}/domains", { params }))).domains;
    },
    refetchInterval: 15_000,
  });
  const start = () => setParams({ new: "domain" });
  const add = may("admin") && (
    <Button look="primary" icon="plus" onClick={start}>
      Add a domain
    </Button>
  );
  return (
    <>
      <PageHead
        title="Domains"
        about="Names that this account has proven to control, by a record in their DNS. Whoever proves a name last holds it."
        action={
          <>
            <Link to="/reference/guides/$guide" params={{ guide: "domains" } as never} className="button">
              Guide
            </Link>
            {add}
          </>
        }
      />
      <ErrorNote error={domains.error} retry={() => void domains.refetch()} />
      {domains.isPending ? (
        <Waiting />
      ) : (domains.data ?? []).length === 0 ? (
        <Empty title="No domains" action={add}>
          <p>Add a domain, publish one TXT record, and confirm it. From then on the account may call hosts under it.</p>
          <Code
            label="The same with curl"
            text={curl("POST", `/v1/accounts/orgs/${org_id}/domains`, TOKEN, { domain: "example.com" })}
          />
        </Empty>
      ) : (
        <Table
          label="Domains"
          columns={COLUMNS}
          items={domains.data ?? []}
          id={({ domain }) => domain}
          onOpen={({ domain }) => void navigate({ to: "/domains/$domain", params: { domain } as never })}
        />
      )}
      {adding === "domain" && may("admin") && <DomainForm onClose={() => setParams({ new: undefined })} />}
    </>
  );
}
