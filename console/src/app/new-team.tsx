import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask } from "../api/client";
import { asRefusal } from "../api/problem";
import { queries } from "../api/queries";
import { Dialog, Field, Form } from "../ui/kit";

export default function NewTeam({ onClose, onMade }: { onClose: () => void; onMade: (id: string) => void }) {
  const [name, setName] = useState("");
  const make = useMutation({
    mutationFn: () => ask(api.POST("/v1/accounts/orgs", { body: { name } })),
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ["me"] });
      onClose();
      onMade(id);
    },
  });
  return (
    <Dialog open onClose={onClose} title="Make a team">
      <Form onSubmit={() => make.mutate()} error={make.error} busy={make.isPending} submit="Make the team" onCancel={onClose}>
        <p>A team has keys, webhooks, units and a log of its own, and more than one person.</p>
        <Field label="Name" error={make.error ? asRefusal(make.error).field("name") : undefined}>
          {(control) => (
            <input {...control} required maxLength={100} value={name} onChange={(event) => setName(event.target.value)} autoFocus />
          )}
        </Field>
      </Form>
    </Dialog>
  );
}
