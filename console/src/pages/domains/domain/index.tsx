import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { api, ask } from "../../../api/client";
import { queries } from "../../../api/queries";
import { useOrg, useWorkplace } from "../../../app/account";
import { moment } from "../../../ui/format";
import { Button, Confirm, ErrorNote, Facts, Note, PageHead, Raw, Section, Time, Waiting } from "../../../ui/kit";
import { Status } from "../status";
import { type Domain, isProvable, REASONS } from "../words";
import { useGraceEnd } from "./grace";
import { Record } from "./record";
import { Views } from "./views";

/** How often the page looks how the domain stands, while something is awaited and afterwards; events tell of the rest. */
const AWAITED_MS = 5_000;
const SETTLED_MS = 30_000;

type Asking = "confirm" | "remove" | null;

/** Asks for the domain again, here and in the list. */
function refresh() {
  for (const kind of ["domains", "domain"]) void queries.invalidateQueries({ queryKey: [kind] });
}

/** What there is to know or to do about how the domain stands. */
function Standing({ of, again, busy }: { of: Domain; again: () => void; busy: boolean }) {
  const { may } = useWorkplace();
  const end = useGraceEnd(of);
  const reason = REASONS[of.unverified_reason] ?? "";
  if (of.status === "unverified") {
    return (
      <Note
        tone="bad"
        action={
          may("admin") && (
            <Button look={isProvable(of) ? "plain" : "primary"} busy={busy} onClick={again}>
              Add it again
            </Button>
          )
        }
      >
        <p>
          <strong>This domain is not verified.</strong> {reason}{" "}
          {isProvable(of) ? (
            <>
              Until <time dateTime={of.expires_at}>{moment(of.expires_at)}</time> the same record proves it: publish it, check it, and confirm
              the domain. Adding it again gives another record.
            </>
          ) : (
            "Adding it again gives another record to publish."
          )}
        </p>
      </Note>
    );
  }
  if (of.status === "verified" && reason !== "") {
    return (
      <Note tone="warn">
        <p>
          <strong>{reason}</strong>{" "}
          {end ? (
            <>
              Put it back before <time dateTime={end}>{moment(end)}</time>, when the domain stops being verified.
            </>
          ) : (
            "Put it back within 72 hours of the first look that missed it, and nothing ends; within 24 hours where the name servers are others now, and within seven days where nobody could tell."
          )}
        </p>
      </Note>
    );
  }
  if (of.status === "seen") {
    return (
      <Note tone="accent">
        <p>
          <strong>The record is there.</strong> Confirm the domain, and it is yours.
        </p>
      </Note>
    );
  }
  return null;
}

function DomainPage({ of, setLeaving }: { of: Domain; setLeaving: (leaving: boolean) => void }) {
  const { may } = useWorkplace();
  const org_id = useOrg();
  const navigate = useNavigate();
  const [asking, setAsking] = useState<Asking>(null);
  const params = { path: { org_id, domain: of.domain } };
  const check = useMutation({
    mutationFn: () => ask(api.POST("/v1/accounts/orgs/{org_id}/domains/{domain}/check", { params, body: {} })),
    onSuccess: refresh,
  });
  const confirm = useMutation({
    mutationFn: () => ask(api.POST("/v1/accounts/orgs/{org_id}/domains/{domain}/confirm", { params, body: {} })),
    onSuccess: () => {
      setAsking(null);
      refresh();
    },
  });
  const again = useMutation({
    mutationFn: () => ask(api.POST("/v1/accounts/orgs/{org_id}/domains", { params: { path: { org_id } }, body: { domain: of.domain } })),
    onSuccess: () => {
      check.reset();
      refresh();
    },
  });
  const remove = useMutation({
    mutationFn: () => ask(api.DELETE("/v1/accounts/orgs/{org_id}/domains/{domain}", { params })),
    // Its event may come before the answer.
    onMutate: () => setLeaving(true),
    onError: () => setLeaving(false),
    onSuccess: async () => {
      await navigate({ to: "/domains" });
      refresh();
    },
  });
  const unproven = of.status === "pending" || of.status === "seen";
  const accepted = unproven || (of.status === "unverified" && isProvable(of));
  return (
    <>
      <PageHead
        title={of.domain}
        about={
          <>
            <Link to="/domains">Domains</Link> / <Status of={of} />
          </>
        }
        action={
          may("admin") && (
            <>
              <Button look={of.status === "seen" ? "plain" : "primary"} busy={check.isPending} onClick={() => check.mutate()}>
                Check now
              </Button>
              {of.status === "seen" && (
                <Button look="primary" onClick={() => setAsking("confirm")}>
                  Confirm…
                </Button>
              )}
            </>
          )
        }
      />
      <Standing of={of} again={() => again.mutate()} busy={again.isPending} />
      <ErrorNote error={check.error ?? again.error} />
      {(of.status !== "unverified" || isProvable(of)) && <Record of={of} />}
      {check.data && !check.error && <Views of={of} checked={check.data} />}
      <Section
        title="Domain"
        action={
          may("admin") && (
            <Button small look="danger" onClick={() => setAsking("remove")}>
              Remove…
            </Button>
          )
        }
      >
        <Facts
          items={[
            ["Covers", `${of.domain} and every name under it`],
            ["DNS at", of.dns_provider || "not known"],
            ...(accepted ? [["Record accepted until", <Time key="until" at={of.expires_at} />] as [string, ReactNode]] : []),
            ["Last look", <Time key="look" at={of.last_checked_at} none="not yet" />],
            ["Verified", <Time key="verified" at={of.verified_at} />],
            ["Added", <Time key="added" at={of.created_at} />],
          ]}
        />
        {unproven && <p className="quiet">We look for the record by ourselves too, and this page shows when it is seen.</p>}
      </Section>
      <Raw path={`/v1/accounts/orgs/${org_id}/domains/${of.domain}`} value={of} />
      <Confirm
        open={asking === "confirm"}
        onClose={() => setAsking(null)}
        title={`Confirm ${of.domain}?`}
        submit="Confirm the domain"
        onSubmit={() => confirm.mutate()}
        busy={confirm.isPending}
        error={confirm.error}
      >
        <p>The record is looked for once more. If another account holds {of.domain}, it loses it now, and what it calls there is refused.</p>
      </Confirm>
      <Confirm
        open={asking === "remove"}
        onClose={() => setAsking(null)}
        title="Remove the domain?"
        submit="Remove the domain"
        onSubmit={() => remove.mutate()}
        busy={remove.isPending}
        error={remove.error}
        {...(of.status === "verified" && { name: of.domain })}
      >
        <p>
          {of.status === "verified"
            ? `Whatever relies on it is refused at once: calls to ${of.domain} and to every name under it.`
            : "Its record proves nothing any more; adding the domain again gives another one."}
        </p>
      </Confirm>
    </>
  );
}

export default function DomainRoute() {
  const { domain = "" } = useParams({ strict: false }) as { domain?: string };
  const org_id = useOrg();
  // A domain that is being removed is not asked for again.
  const [leaving, setLeaving] = useState(false);
  const found = useQuery({
    queryKey: ["domain", org_id, domain],
    enabled: !leaving,
    queryFn: async () => {
      const params = { path: { org_id, domain } };
      return (await ask(api.GET("/v1/accounts/orgs/{org_id}/domains/{domain}", { params }))).domain;
    },
    refetchInterval: ({ state }) => (["pending", "seen"].includes(state.data?.status ?? "") ? AWAITED_MS : SETTLED_MS),
  });
  if (found.data) return <DomainPage key={found.data.record_value} of={found.data} setLeaving={setLeaving} />;
  if (found.error) return <ErrorNote error={found.error} retry={() => void found.refetch()} />;
  return <Waiting rows={6} />;
}
