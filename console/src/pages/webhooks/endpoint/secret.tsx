/** The endpoint's signing secret: how old it is, and a new one. */
import { useMutation } from "@tanstack/react-query";
import { api, ask, type Schemas } from "../../../api/client";
import { Confirm, SecretDialog, Time } from "../../../ui/kit";
import { refresh } from "../refresh";

type Endpoint = Schemas["Endpoint"];

const OVERLAP_MS = 86_400_000;

/** How long both secrets sign after a rotation. */
export function Rotation({ of }: { of: Endpoint }) {
  if (!of.secret_rotated_at) return <>The secret was never rotated.</>;
  const ends = new Date(Date.parse(of.secret_rotated_at) + OVERLAP_MS);
  if (ends.getTime() < Date.now()) {
    return (
      <>
        Rotated <Time at={of.secret_rotated_at} />.
      </>
    );
  }
  return (
    <>
      Rotated <Time at={of.secret_rotated_at} />. The old and the new secret both sign until <Time at={ends.toISOString()} />: change your
      receiver by then.
    </>
  );
}

/** Asks, rotates, and shows the new secret once. */
export function Rotate({ of, onClose }: { of: Endpoint; onClose: () => void }) {
  const rotate = useMutation({
    mutationFn: () =>
      ask(api.POST("/v1/webhooks/endpoints/{endpoint_id}/rotate", { params: { path: { endpoint_id: of.id } }, body: {} })),
    onSuccess: refresh,
  });
  if (rotate.data) {
    return (
      <SecretDialog open onClose={onClose} title="The new secret" secret={rotate.data.secret} label="Signing secret">
        <p>The old one also signs for 24 hours.</p>
      </SecretDialog>
    );
  }
  return (
    <Confirm
      open
      onClose={onClose}
      title="Rotate the secret?"
      submit="Rotate"
      onSubmit={() => rotate.mutate()}
      busy={rotate.isPending}
      error={rotate.error}
    >
      <p>
        A new secret is made and shown once. For 24 hours each delivery is signed with both, so you can change your receiver in that
        time without missing anything.
      </p>
    </Confirm>
  );
}
