/** Another name, or another description. */
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask } from "../../../api/client";
import { asRefusal } from "../../../api/problem";
import { Dialog, Field, Form } from "../../../ui/kit";
import { refresh } from "../refresh";
import type { Connection } from "../words";

export function Edit({ of, onClose }: { of: Connection; onClose: () => void }) {
  const [name, setName] = useState(of.name);
  const [description, setDescription] = useState(of.description);
  const save = useMutation({
    mutationFn: () => {
      const params = { path: { org_id: of.account_id, connection_id: of.id } };
      return ask(api.PATCH("/v1/accounts/orgs/{org_id}/connections/{connection_id}", { params, body: { name, description } }));
    },
    onSuccess: () => {
      refresh();
      onClose();
    },
  });
  const refusal = save.error ? asRefusal(save.error) : undefined;
  return (
    <Dialog open onClose={onClose} title="Change the connection" keep={name !== of.name || description !== of.description}>
      <Form onSubmit={() => save.mutate()} error={save.error} busy={save.isPending} submit="Save" onCancel={onClose}>
        <Field label="Name" hint="Its tools keep the names that they have." error={refusal?.field("name")}>
          {(control) => <input {...control} required maxLength={80} value={name} onChange={(event) => setName(event.target.value)} autoFocus />}
        </Field>
        <Field label="Description" hint="What it is for, in your own words." error={refusal?.field("description")}>
          {(control) => <textarea {...control} rows={2} maxLength={500} value={description} onChange={(event) => setDescription(event.target.value)} />}
        </Field>
      </Form>
    </Dialog>
  );
}
