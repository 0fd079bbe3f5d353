import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask } from "../../api/client";
import { asRefusal } from "../../api/problem";
import { queries } from "../../api/queries";
import { useOrg, useWorkplace } from "../../app/account";
import { config } from "../../config";
import { date } from "../../ui/format";
import { Badge, Button, Confirm, ErrorNote, Facts, Field, Form, Id, Note, PageHead, Section, Time } from "../../ui/kit";

const refresh = () => queries.invalidateQueries({ queryKey: ["me"] });

function Names() {
  const org_id = useOrg();
  const { account } = useWorkplace();
  const [name, setName] = useState(account.name);
  const [slug, setSlug] = useState(account.slug);
  const save = useMutation({
    mutationFn: () => ask(api.PATCH("/v1/accounts/orgs/{org_id}", { params: { path: { org_id } }, body: { name, slug } })),
    onSuccess: () => void refresh(),
  });
  const refusal = save.error ? asRefusal(save.error) : undefined;
  return (
    <Section title="Name">
      <Form onSubmit={() => save.mutate()} error={save.error} busy={save.isPending} submit="Save" disabled={name === account.name && slug === account.slug}>
        <Field label="Name" error={refusal?.field("name")}>
          {(control) => <input {...control} required maxLength={100} value={name} onChange={(event) => setName(event.target.value)} />}
        </Field>
        <Field label="Short name" hint="For addresses: small letters, digits and hyphens." error={refusal?.field("slug")}>
          {(control) => <input {...control} required value={slug} onChange={(event) => setSlug(event.target.value)} />}
        </Field>
      </Form>
      {save.isSuccess && <Note tone="good">Saved.</Note>}
    </Section>
  );
}

function Erasure() {
  const org_id = useOrg();
  const { account } = useWorkplace();
  const [asking, setAsking] = useState(false);
  const params = { path: { org_id } };
  const erase = useMutation({
    mutationFn: () => ask(api.DELETE("/v1/accounts/orgs/{org_id}", { params })),
    onSuccess: () => {
      setAsking(false);
      void refresh();
    },
  });
  const keep = useMutation({
    mutationFn: () => ask(api.PATCH("/v1/accounts/orgs/{org_id}", { params, body: { status: "active" } })),
    onSuccess: () => void refresh(),
  });
  const what = account.kind === "personal" ? "your account" : "this team";
  return (
    <Section title={account.kind === "personal" ? "Erase your account" : "Erase the team"}>
      {account.status === "erasing" ? (
        <>
          <Note
            tone="warn"
            action={
              <Button look="primary" busy={keep.isPending} onClick={() => keep.mutate()}>
                Keep it
              </Button>
            }
          >
            Everything in {what} will be erased for good <Time at={account.erase_after} />, on {date(account.erase_after)}. Until then its
            keys and tokens are refused.
          </Note>
          <ErrorNote error={keep.error} />
        </>
      ) : (
        <>
          <p className="quiet">
            Its keys and tokens are refused at once. In 30 days everything that belongs to it is erased for good; until then it can be taken
            back here.
          </p>
          <Button look="danger" onClick={() => setAsking(true)}>
            Erase {what}…
          </Button>
        </>
      )}
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`Erase ${account.name}?`}
        submit="Erase"
        onSubmit={() => erase.mutate()}
        busy={erase.isPending}
        error={erase.error}
        name={account.name}
      >
        <p>
          Keys, tokens, webhook endpoints with their history, events, the audit log
          {account.kind === "personal" ? ", and with them you as a person" : " and the membership of everybody"}: all of it goes in 30 days.
        </p>
      </Confirm>
    </Section>
  );
}

export default function Settings() {
  const { account, person, may } = useWorkplace();
  return (
    <>
      <PageHead title="Settings" about={account.kind === "personal" ? "Your own account." : `The team ${account.name}.`} />
      <Section title="Account">
        <Facts
          items={[
            ["Id", <Id key="id" id={account.id} whole />],
            ["Plan", <Badge key="plan">{account.plan}</Badge>],
            ["Your role", account.role],
            ["Made", <Time key="made" at={account.created_at} />],
          ]}
        />
      </Section>
      {may("owner") && <Names key={account.name + account.slug} />}
      <Section title="You">
        <Facts
          items={[
            ["Name", person.name || "not given"],
            ["E-mail", <span key="mail">{person.email} {!person.emailVerified && <Badge tone="warn">not confirmed</Badge>}</span>],
          ]}
        />
        <p>
          Your password, codes, passkeys, the browsers that are signed in and the apps that you let in are with the identity provider.
        </p>
        <a className="button" href={`${config.authUrl}/settings`}>
          Open your sign-in settings
        </a>
      </Section>
      {may("owner") && <Erasure />}
    </>
  );
}
