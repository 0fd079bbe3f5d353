/** Connecting: first what, then how. */
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, ask, idempotencyKey } from "../../api/client";
import { asRefusal } from "../../api/problem";
import { useKinds } from "../../api/queries";
import { useOrg } from "../../app/account";
import { Button, Dialog, ErrorNote, Field, Form, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";
import { Advice } from "./advice";
import { useNeedsClient } from "./client";
import { modesOf, type Proof, proofBody, ProofFields } from "./credential";
import { defaults, given } from "./fields";
import { refresh } from "./refresh";
import { useSignIn } from "./sign-in";
import { type Kind, MODES, OWN_SERVICE, SIGN_IN } from "./words";

/** Providers first, by name, and then what is for services of one's own. */
const inOrder = (kinds: readonly Kind[]) => [...kinds].sort((one, other) => Number(one.name === OWN_SERVICE) - Number(other.name === OWN_SERVICE) || one.title.localeCompare(other.title));

function Kinds({ of, onChoose }: { of: readonly Kind[]; onChoose: (kind: Kind) => void }) {
  return (
    <ul className="kinds" aria-label="What can be connected">
      {inOrder(of).map((kind) => (
        <li key={kind.name}>
          <button type="button" onClick={() => onChoose(kind)}>
            <strong>{kind.title}</strong>
            <span className="quiet">{kind.description}</span>
            <span className="quiet kind-modes">{modesOf(kind).map((mode) => MODES[mode] ?? mode).join(" · ")}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

function KindForm({ kind, onBack, onClose, onType }: { kind: Kind; onBack: () => void; onClose: () => void; onType: () => void }) {
  const org_id = useOrg();
  const navigate = useNavigate();
  const signIn = useSignIn();
  const [name, setName] = useState("");
  const [proof, setProof] = useState<Proof>({ mode: modesOf(kind)[0] ?? "", config: defaults(kind.config), credential: {} });
  // The same until there is an answer, so that a lost one does not make a second connection; what was refused is sent as something new.
  const [key, setKey] = useState(idempotencyKey);
  const create = useMutation({
    mutationFn: async () => {
      const params = { path: { org_id }, header: { "Idempotency-Key": key } };
      const body = { kind: kind.name, ...(name && { name }), ...proofBody(kind, proof) };
      return (await ask(api.POST("/v1/accounts/orgs/{org_id}/connections", { params, body }))).connection;
    },
    onError: (error) => {
      if (!asRefusal(error).isOffline) setKey(idempotencyKey());
    },
    onSuccess: async ({ id }) => {
      refresh();
      onClose();
      await navigate({ to: "/connections/$connection", params: { connection: id } as never });
    },
  });
  // What was focused went with the list of kinds.
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => host.current?.querySelector<HTMLElement>("input, select, textarea")?.focus(), []);
  const isSignIn = proof.mode === SIGN_IN;
  const error = isSignIn ? signIn.error : create.error;
  const refusal = error ? asRefusal(error) : undefined;
  const needsClient = useNeedsClient(kind, proof.mode, refusal);
  const submit = () => (isSignIn ? signIn.mutate({ connector: kind.name, ...(name && { name }), config: given(proof.config) }) : create.mutate());
  return (
    <Form
      onSubmit={submit}
      error={error}
      advice={<Advice error={error} />}
      disabled={needsClient}
      busy={create.isPending || signIn.isPending}
      submit={isSignIn ? `Sign in to ${kind.title}` : "Connect"}
      onCancel={onClose}
    >
      <p className="quiet">
        {kind.description}{" "}
        <Button small look="quiet" onClick={onBack}>
          Connect something else
        </Button>
      </p>
      <div ref={host} onChange={onType}>
        <ProofFields kind={kind} value={proof} onChange={setProof} refusal={refusal} needsClient={needsClient} forget={signIn.reset} />
      </div>
      <Field
        label="Name"
        hint={`What to call it here. Left out, it is called after ${kind.name === OWN_SERVICE ? "its host" : "the account at the provider"}. Tools are named after it.`}
        error={refusal?.field("name")}
      >
        {(control) => <input {...control} value={name} maxLength={80} onChange={(event) => setName(event.target.value)} autoComplete="off" />}
      </Field>
    </Form>
  );
}

const titleOf = ({ name, title }: Kind) => (name === OWN_SERVICE ? "Connect a service of your own" : `Connect ${title}`);

export function ConnectDialog({ onClose }: { onClose: () => void }) {
  const { kind: chosen } = useQueryParams();
  const setParams = useSetParams();
  const kinds = useKinds();
  const kind = kinds.data?.find(({ name }) => name === chosen);
  const [isTyped, setTyped] = useState(false);
  const back = () => {
    setTyped(false);
    setParams({ kind: undefined });
  };
  return (
    <Dialog open onClose={onClose} title={kind ? titleOf(kind) : "What do you want to connect?"} keep={kind !== undefined && isTyped} wide>
      <ErrorNote error={kinds.error} retry={() => void kinds.refetch()} />
      {kinds.isPending ? (
        <Waiting />
      ) : kind ? (
        <KindForm key={kind.name} kind={kind} onBack={back} onClose={onClose} onType={() => setTyped(true)} />
      ) : (
        kinds.data && <Kinds of={kinds.data} onChoose={({ name }) => setParams({ kind: name })} />
      )}
    </Dialog>
  );
}
