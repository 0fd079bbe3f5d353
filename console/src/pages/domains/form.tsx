/** Adding a domain. */
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, ask, idempotencyKey } from "../../api/client";
import { asRefusal } from "../../api/problem";
import { queries } from "../../api/queries";
import { useOrg } from "../../app/account";
import { Button, Dialog, Field, Form, Note } from "../../ui/kit";
import { fault, isWhole } from "./words";

/** The name that the form is about, and the registrable domain above it. */
interface Deeper {
  name: string;
  registrable: string;
}

export function DomainForm({ onClose }: { onClose: () => void }) {
  const org_id = useOrg();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [deeper, setDeeper] = useState<Deeper | null>(null);
  // One for each name, so that a lost answer does not matter, and another name is another request.
  const [key] = useState(idempotencyKey);
  const add = useMutation({
    mutationFn: async ({ domain, scope }: { domain: string; scope?: "domain" | "subdomain" }) => {
      const params = { path: { org_id }, header: { "Idempotency-Key": `${key}.${encodeURIComponent(domain)}.${scope ?? ""}`.slice(0, 255) } };
      return (await ask(api.POST("/v1/accounts/orgs/{org_id}/domains", { params, body: { domain, scope } }))).domain;
    },
    onSuccess: async ({ domain }) => {
      void queries.invalidateQueries({ queryKey: ["domains"] });
      onClose();
      await navigate({ to: "/domains/$domain", params: { domain } as never });
    },
    onError: (error, { domain }) => {
      // The server knows which part of a name can be registered, and tells it to whoever takes the whole for one.
      const registrable = /registrable domain of \S+ is (\S+?)\.?$/.exec(asRefusal(error).field("scope") ?? "")?.[1];
      if (registrable) setDeeper({ name: domain, registrable });
    },
  });
  const refusal = add.error ? asRefusal(add.error) : undefined;
  const wrong = fault(name) ?? refusal?.field("domain");
  if (deeper) {
    return (
      <Dialog open onClose={onClose} title={`Which domain?`}>
        <Note tone="accent">
          <p>
            <strong>{deeper.name}</strong> is a name below <strong>{deeper.registrable}</strong>. Who proves {deeper.registrable} has proven
            every name under it.
          </p>
        </Note>
        <div className="stack">
          <Button look="primary" busy={add.isPending} onClick={() => add.mutate({ domain: deeper.registrable })}>
            Prove {deeper.registrable}
          </Button>
          <Button busy={add.isPending} onClick={() => add.mutate({ domain: deeper.name, scope: "subdomain" })}>
            Only {deeper.name}
          </Button>
          <Button look="quiet" onClick={() => setDeeper(null)}>
            Another name
          </Button>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog open onClose={onClose} title="Add a domain" keep={name !== ""}>
      <Form
        onSubmit={() => add.mutate({ domain: name.trim(), scope: "domain" })}
        error={refusal?.field("domain") ? null : add.error}
        busy={add.isPending}
        submit="Add the domain"
        onCancel={onClose}
        disabled={!isWhole(name)}
      >
        <Field label="Domain" hint="Such as example.com. You prove it with one TXT record in its DNS." error={wrong}>
          {(control) => (
            <input
              {...control}
              required
              placeholder="example.com"
              autoCapitalize="none"
              autoComplete="off"
              spellCheck={false}
              value={name}
              onChange={(event) => {
                setName(event.target.value);
                add.reset();
              }}
              autoFocus
            />
          )}
        </Field>
      </Form>
    </Dialog>
  );
}
