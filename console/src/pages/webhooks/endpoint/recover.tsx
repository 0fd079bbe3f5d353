/** Sending again what did not arrive. */
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Schemas } from "../../../api/client";
import { plural } from "../../../ui/format";
import { Button, Choice, Dialog, Form, Note } from "../../../ui/kit";
import { refresh } from "../refresh";

export function Recover({ of, onClose }: { of: Schemas["Endpoint"]; onClose: () => void }) {
  const [span, setSpan] = useState<"1" | "24" | "168" | "720">("24");
  const recover = useMutation({
    mutationFn: () =>
      ask(
        api.POST("/v1/webhooks/endpoints/{endpoint_id}/recover", {
          params: { path: { endpoint_id: of.id } },
          // A little less than the whole span, because the server counts its 30 days from when it hears of it.
          body: { since: new Date(Date.now() - Number(span) * 3_600_000 + 60_000).toISOString() },
        }),
      ),
    onSuccess: refresh,
  });
  return (
    <Dialog open onClose={onClose} title="Recover what was missed">
      {recover.data ? (
        <>
          <Note tone="good">{recover.data.recovered === 0 ? "Nothing was missed in that time." : `${plural(recover.data.recovered, "delivery", "deliveries")} will be sent.`}</Note>
          <div className="form-actions">
            <Button look="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </>
      ) : (
        <Form onSubmit={() => recover.mutate()} error={recover.error} busy={recover.isPending} submit="Recover" onCancel={onClose}>
          <p>
            Sends what failed, and what was never sent because the endpoint was disabled or did not subscribe yet. What was received
            is not sent again.
          </p>
          <fieldset className="field">
            <legend>Over the last</legend>
            <Choice
              label="Over the last"
              value={span}
              options={[
                ["1", "hour"],
                ["24", "day"],
                ["168", "week"],
                ["720", "30 days"],
              ]}
              onChange={setSpan}
            />
          </fieldset>
        </Form>
      )}
    </Dialog>
  );
}
