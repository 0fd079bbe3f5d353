/** Another credential: typed, or by signing in again. */
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask } from "../../../api/client";
import { asRefusal } from "../../../api/problem";
import { Button, Dialog, Form, Note } from "../../../ui/kit";
import { Advice } from "../advice";
import { useNeedsClient } from "../client";
import { type Proof, proofBody, ProofFields } from "../credential";
import { defaults, given } from "../fields";
import { refresh } from "../refresh";
import { useSignIn } from "../sign-in";
import { type Connection, type Kind, OWN_SERVICE, SIGN_IN } from "../words";

/** Says that nothing is sent until the connection has another credential. */
export function ReconnectNote({ onReconnect }: { onReconnect: (() => void) | undefined }) {
  return (
    <Note
      tone="bad"
      action={
        onReconnect && (
          <Button look="primary" onClick={onReconnect}>
            Reconnect…
          </Button>
        )
      }
    >
      <p>
        <strong>This connection needs another credential.</strong> The provider does not take the one that it has any more, so every call is
        refused, and nothing is sent. Its grants stay, and hold again once it is reconnected.
      </p>
    </Note>
  );
}

export function Reconnect({ of, kind, onClose }: { of: Connection; kind: Kind; onClose: () => void }) {
  const [proof, setProof] = useState<Proof>({ mode: of.auth_mode, config: { ...defaults(kind.config), ...of.config }, credential: {} });
  const signIn = useSignIn();
  const save = useMutation({
    mutationFn: () => {
      const params = { path: { org_id: of.account_id, connection_id: of.id } };
      return ask(api.PATCH("/v1/accounts/orgs/{org_id}/connections/{connection_id}", { params, body: proofBody(kind, proof) }));
    },
    onSuccess: () => {
      refresh();
      onClose();
    },
  });
  const isSignIn = proof.mode === SIGN_IN;
  const error = isSignIn ? signIn.error : save.error;
  const refusal = error ? asRefusal(error) : undefined;
  const needsClient = useNeedsClient(kind, proof.mode, refusal);
  const again = { connector: kind.name, connection_id: of.id, config: given(proof.config) };
  return (
    <Dialog open onClose={onClose} title={`Reconnect ${of.name}`} keep={Object.keys(given(proof.credential)).length > 0} wide>
      <Form
        onSubmit={() => (isSignIn ? signIn.mutate(again) : save.mutate())}
        error={error}
        advice={<Advice error={error} />}
        disabled={needsClient}
        busy={save.isPending || signIn.isPending}
        submit={isSignIn ? `Sign in to ${kind.title}` : "Reconnect"}
        onCancel={onClose}
      >
        <p className="quiet">
          {kind.name === OWN_SERVICE ? (
            "The secret takes the place of the one that is sealed here. Test the connection afterwards."
          ) : (
            <>
              The credential must be for <strong>{of.label || of.name}</strong> as before. It is tested first: if it passes, it takes the place of
              the one that is sealed here, and otherwise nothing changes.
            </>
          )}
        </p>
        <ProofFields kind={kind} value={proof} onChange={setProof} refusal={refusal} needsClient={needsClient} forget={signIn.reset} />
      </Form>
    </Dialog>
  );
}
