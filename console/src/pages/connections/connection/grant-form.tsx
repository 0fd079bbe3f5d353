/** Granting: to whom, what, and for how long. */
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Schemas } from "../../../api/client";
import { asRefusal, type Refusal } from "../../../api/problem";
import { useKeys } from "../../../api/queries";
import { LIVES } from "../../../ui/lives";
import { Button, Choice, Dialog, ErrorNote, Field, Form, Note, Ticks } from "../../../ui/kit";
import { keyState } from "../../keys/state";
import { refresh } from "../refresh";
import { allowed, CLASSES, classOf, type Connection, isTrifecta, isWithin, type Kind, labelsOf, type MaxClass } from "../words";
import { About, listed } from "./labels";
import { useRevoke } from "./revoke";

const TO = [
  ["keys", "Key"],
  ["tokens", "Token"],
  ["app", "App"],
] as const;

type To = (typeof TO)[number][0];

/** Without it a key or token can call no action. */
const USE_SCOPE = "connections:use";
const DAY_MS = 86_400_000;

/** Whom the grant is for, as the API names them. */
function Consumer({ value, onChange, refusal }: { value: string; onChange: (consumer: string) => void; refusal: Refusal | undefined }) {
  const [to, setTo] = useState<To>("tokens");
  const keys = useKeys(to === "keys" ? "keys" : "tokens");
  const active = (keys.data ?? []).filter((key) => keyState(key) === "active");
  const id = value.slice(value.indexOf(":") + 1);
  const chosen = active.find((key) => key.id === id);
  const one = to === "keys" ? "key" : "token";
  const isNone = keys.data !== undefined && active.length === 0;
  return (
    <>
      <fieldset className="field">
        <legend>To</legend>
        <Choice
          label="To"
          value={to}
          options={TO}
          onChange={(next) => {
            setTo(next);
            onChange("");
          }}
        />
      </fieldset>
      {to === "app" ? (
        <Field label="Client id of the app" hint="An app or assistant that acts for people of this account. They have allowed it when they signed in to it." error={refusal?.field("consumer")}>
          {(control) => <input {...control} required value={id} autoComplete="off" spellCheck={false} onChange={(event) => onChange(event.target.value && `agent:${event.target.value}`)} />}
        </Field>
      ) : (
        <Field
          label={to === "keys" ? "Key" : "Token"}
          hint={isNone ? `There is no ${one} yet; make one on the page Keys and tokens.` : to === "keys" && "A key below another one does not share its grants."}
          error={refusal?.field("consumer")}
        >
          {(control) => (
            <select {...control} required value={chosen ? id : ""} onChange={(event) => onChange(event.target.value && `key:${event.target.value}`)}>
              <option value="">Choose one</option>
              {active.map((key: Schemas["Key"]) => (
                <option key={key.id} value={key.id}>
                  {key.name || key.id}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      {to !== "app" && <ErrorNote error={keys.error} retry={() => void keys.refetch()} />}
      {chosen && !chosen.scopes.includes(USE_SCOPE) && (
        <Note tone="warn">
          This {one} was made without the scope <code>{USE_SCOPE}</code>, so it can call no action, whatever is granted to it.
        </Note>
      )}
    </>
  );
}

/** What is granted. Without `some`, it is every action of these classes, and `actions` is empty. */
interface What {
  max_class: MaxClass;
  some: boolean;
  actions: string[];
}

function Actions({ of, value, onChange, refusal }: { of: Kind; value: What; onChange: (what: What) => void; refusal: Refusal | undefined }) {
  const { some } = value;
  const within = of.actions.filter((action) => isWithin(action.class, value.max_class));
  const change = (max_class: MaxClass) => {
    const still = of.actions.filter((action) => isWithin(action.class, max_class)).map(({ name }) => name);
    onChange({ max_class, some, actions: value.actions.filter((name) => still.includes(name)) });
  };
  return (
    <>
      <fieldset className="field">
        <legend>How far</legend>
        <Choice label="How far" value={value.max_class} options={CLASSES.map(({ name, upTo }) => [name, upTo] as const)} onChange={change} />
        <p className="hint">{classOf(value.max_class)?.about}</p>
      </fieldset>
      <Ticks
        legend="Actions"
        options={within.map((action) => ({ value: action.name, title: <code>{action.name}</code>, about: <About of={action} />, group: classOf(action.class)?.title }))}
        value={some ? value.actions : within.map(({ name }) => name)}
        onChange={(actions) => onChange({ ...value, some: true, actions })}
        above={
          <Choice
            label="Which actions"
            value={some ? "some" : "all"}
            options={[
              ["all", "All of these"],
              ["some", "Only some"],
            ]}
            onChange={(which) => onChange({ ...value, some: which === "some", actions: [] })}
          />
        }
        hint={some ? "Tick at least one." : "Actions that are added later are among them, as far as this allows."}
        error={refusal?.field("actions")}
      />
    </>
  );
}

export const TrifectaWords = ({ who }: { who: string }) => (
  <p>
    <strong>Together these are dangerous.</strong> {who} reads what is private, reads what strangers wrote, and sends something out. A text of a
    stranger can then talk it into sending out what is private. Leave out one of the three where you can.
  </p>
);

/** What was granted makes, with all that its consumer may do already, a dangerous whole. */
function Warned({ of, grant, onClose }: { of: Connection; grant: Schemas["Grant"]; onClose: () => void }) {
  const revoke = useRevoke(of, onClose);
  return (
    <Dialog open onClose={onClose} title="Granted, with a warning" keep>
      <Note tone="warn">
        <TrifectaWords who="With all its grants, over all connections, the caller" />
      </Note>
      <ErrorNote error={revoke.error} />
      <div className="form-actions">
        <Button look="danger" busy={revoke.isPending} onClick={() => revoke.mutate(grant.id)}>
          Revoke it again
        </Button>
        <Button look="primary" onClick={onClose}>
          Keep it
        </Button>
      </div>
    </Dialog>
  );
}

const isWarned = ({ warnings }: Schemas["CreatedGrant"]) => warnings.includes("trifecta");

export function GrantForm({ of, kind, onClose }: { of: Connection; kind: Kind; onClose: () => void }) {
  const [consumer, setConsumer] = useState("");
  const [what, setWhat] = useState<What>({ max_class: "read", some: false, actions: [] });
  const [days, setDays] = useState<"" | (typeof LIVES)[number][0]>("");
  const make = useMutation({
    mutationFn: () => {
      const params = { path: { org_id: of.account_id, connection_id: of.id } };
      const expires_at = days ? new Date(Date.now() + Number(days) * DAY_MS).toISOString() : undefined;
      return ask(
        api.POST("/v1/accounts/orgs/{org_id}/connections/{connection_id}/grants", {
          params,
          body: { consumer, max_class: what.max_class, actions: what.actions, ...(expires_at && { expires_at }) },
        }),
      );
    },
    onSuccess: (made) => {
      refresh();
      if (!isWarned(made)) onClose();
    },
  });
  if (make.data && isWarned(make.data)) return <Warned of={of} grant={make.data.grant} onClose={onClose} />;
  const refusal = make.error ? asRefusal(make.error) : undefined;
  // No action at all would mean every one to the server.
  const isNothing = what.some && what.actions.length === 0;
  const granted = isNothing ? [] : allowed(kind.actions, what);
  const labels = labelsOf(granted);
  return (
    <Dialog open onClose={onClose} title={`Grant the use of ${of.name}`} keep={consumer !== ""} wide>
      <Form onSubmit={() => make.mutate()} error={make.error} busy={make.isPending} submit="Grant" onCancel={onClose} disabled={consumer === "" || isNothing}>
        <Consumer value={consumer} onChange={setConsumer} refusal={refusal} />
        <Actions of={kind} value={what} onChange={setWhat} refusal={refusal} />
        <fieldset className="field">
          <legend>It ends after</legend>
          <Choice label="It ends after" value={days} options={[["", "No end"], ...LIVES] as const} onChange={setDays} />
        </fieldset>
        {isTrifecta(granted) ? (
          <Note tone="warn">
            <TrifectaWords who="Whoever has this grant" />
          </Note>
        ) : (
          labels.length > 0 && <Note>Whoever has this grant {listed(labels)}.</Note>
        )}
      </Form>
    </Dialog>
  );
}
