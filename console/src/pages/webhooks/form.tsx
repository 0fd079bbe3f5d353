/** Making and changing an endpoint. */
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, ask, idempotencyKey, type Schemas } from "../../api/client";
import { asRefusal } from "../../api/problem";
import { queries, useEventTypes, useInbox } from "../../api/queries";
import { useOrg } from "../../app/account";
import { Button, Dialog, Field, Form, SecretDialog, Ticks, Waiting } from "../../ui/kit";

type Endpoint = Schemas["Endpoint"];

function TypePicker({ value, onChange, error }: { value: string[]; onChange: (types: string[]) => void; error: string | undefined }) {
  const types = useEventTypes();
  if (!types.data) return <Waiting rows={2} />;
  // A test is sent to whoever asks for one; nobody subscribes it.
  const offered = types.data.filter(({ type }) => type !== "webhook.test");
  const all = value.length === offered.length;
  return (
    <Ticks
      legend="Events"
      options={offered.map(({ type, description }) => ({ value: type, title: <code>{type}</code>, about: description }))}
      value={value}
      onChange={onChange}
      above={
        <Button small look="quiet" onClick={() => onChange(all ? [] : offered.map(({ type }) => type))}>
          {all ? "None of them" : "All of them"}
        </Button>
      }
      error={error}
    />
  );
}

export function EndpointForm({ of, url: given = "", onClose }: { of?: Endpoint; url?: string; onClose: () => void }) {
  const account_id = useOrg();
  const navigate = useNavigate();
  const inbox = useInbox();
  const [url, setUrl] = useState(of?.url ?? given);
  const [description, setDescription] = useState(of?.description ?? "");
  const [types, setTypes] = useState<string[]>(of?.event_types ?? ["token.created", "token.revoked", "member.joined"]);
  const [made, setMade] = useState<Schemas["WithSecret"] | null>(null);
  // The same for every try of this form, so that a lost answer does not make a second endpoint.
  const [key] = useState(idempotencyKey);
  const save = useMutation({
    mutationFn: async () => {
      const body = { url, description, event_types: types };
      if (of) {
        await ask(api.PATCH("/v1/webhooks/endpoints/{endpoint_id}", { params: { path: { endpoint_id: of.id } }, body }));
        return null;
      }
      const params = { header: { "Idempotency-Key": key } };
      return ask(api.POST("/v1/webhooks/endpoints", { params, body: { ...body, account_id } }));
    },
    onSuccess: (answer) => {
      for (const kind of ["endpoints", "endpoint"]) void queries.invalidateQueries({ queryKey: [kind] });
      if (answer) setMade(answer);
      else onClose();
    },
  });
  if (made) {
    const leave = () => {
      onClose();
      void navigate({ to: "/webhooks/$endpoint", params: { endpoint: made.id } as never });
    };
    return (
      <SecretDialog open onClose={leave} title="The endpoint is made" secret={made.secret} label="Signing secret">
        <p>Your receiver checks each delivery with it. The guide on verifying webhooks has the code for five languages.</p>
      </SecretDialog>
    );
  }
  const refusal = save.error ? asRefusal(save.error) : undefined;
  return (
    <Dialog open onClose={onClose} title={of ? "Change the endpoint" : "Make an endpoint"} keep={url !== (of?.url ?? given)} wide>
      <Form
        onSubmit={() => save.mutate()}
        error={save.error}
        busy={save.isPending}
        submit={of ? "Save" : "Make the endpoint"}
        onCancel={onClose}
        disabled={types.length === 0}
      >
        <Field label="Address" hint="A public https:// address that takes a POST." error={refusal?.field("url")}>
          {(control) => (
            <input
              {...control}
              type="url"
              required
              placeholder="https://example.com/hooks"
              value={url}
              onChange={(event) => setUrl(event.target.value)}
              autoFocus
            />
          )}
        </Field>
        {inbox.data && url !== inbox.data.address && (
          <Button small onClick={() => setUrl(inbox.data?.address ?? "")}>
            Use the test inbox
          </Button>
        )}
        <Field label="Description" hint="What it is for, in your own words." error={refusal?.field("description")}>
          {(control) => <input {...control} value={description} onChange={(event) => setDescription(event.target.value)} />}
        </Field>
        <TypePicker value={types} onChange={setTypes} error={refusal?.field("event_types")} />
      </Form>
    </Dialog>
  );
}
