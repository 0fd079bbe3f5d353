/** Trying an action, as the person who is here: without a grant, and with the real answer. */
import { useMutation } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, ask, type Schemas } from "../../../api/client";
import { asRefusal } from "../../../api/problem";
import { curl, TOKEN } from "../../../ui/curl";
import { indented } from "../../../ui/json-text";
import { Badge, Button, Code, Confirm, Field, Form, Id, Note, Section } from "../../../ui/kit";
import { useQueryParams, useSetParams } from "../../../ui/url";
import { Advice } from "../advice";
import { DefinedFields, defaults, parse, type Parsed, type Values } from "../fields";
import { refresh } from "../refresh";
import { type Action, CLASSES, type Connection, type Kind } from "../words";
import { About, Class } from "./labels";

type Params = Parsed["params"];

/** The answer as it came, since the provider's numbers may be larger than a browser can count. */
interface Answer {
  text: string;
  said: Schemas["ActionAnswer"];
}

function Answered({ of: { text, said }, onMore, busy }: { of: Answer; onMore: (cursor: string) => void; busy: boolean }) {
  // It may be long, and the form above is typed in.
  const lines = useMemo(() => indented(text), [text]);
  return (
    <div className="tried">
      <p>
        <Badge tone="good">{said.status_code}</Badge> <span className="quiet">The provider answered. In the history:</span> <Id id={said.use_id} />
      </p>
      <Code label="Answer" text={lines} />
      {said.next_cursor && (
        <Button small busy={busy} onClick={() => onMore(said.next_cursor)}>
          The next page
        </Button>
      )}
    </div>
  );
}

function TryAction({ of, action }: { of: Connection; action: Action }) {
  const [values, setValues] = useState<Values>(() => defaults(action.params));
  const [faults, setFaults] = useState<Parsed["faults"]>({});
  const [sure, setSure] = useState<{ params: Params; again: boolean } | null>(null);
  // The last answer stays while the next page of it is waited for.
  const [answer, setAnswer] = useState<Answer>();
  const call = useMutation({
    mutationFn: async (params: Params): Promise<Answer> => {
      const path = { org_id: of.account_id, connection_id: of.id, action: action.name };
      const text = await ask<string>(
        api.POST("/v1/accounts/orgs/{org_id}/connections/{connection_id}/actions/{action}", { params: { path }, body: { params }, parseAs: "text" }),
      );
      return { text, said: JSON.parse(text) as Answer["said"] };
    },
    onSettled: (answered) => {
      setAnswer(answered);
      setSure(null);
      refresh();
    },
  });
  const refusal = call.error ? asRefusal(call.error) : undefined;
  const { params } = parse(action.params, values);
  const isForGood = action.class === "write_irreversible";
  // The last call may have been done: nobody repeats it without having read so.
  const again = refusal?.reason === "OUTCOME_UNKNOWN";
  const submit = () => {
    const read = parse(action.params, values);
    setFaults(read.faults);
    if (Object.keys(read.faults).length > 0) return;
    if (isForGood || again) setSure({ params: read.params, again });
    else call.mutate(read.params);
  };
  return (
    <>
      <Form
        onSubmit={submit}
        error={call.error}
        advice={<Advice error={call.error} calling />}
        busy={call.isPending && !sure}
        submit={`Call ${action.name}`}
        danger={isForGood}
      >
        <p>
          <Class of={action} />{" "}
          <span className="quiet">
            <About of={action} />
          </span>
        </p>
        <div className="field-grid">
          <DefinedFields fields={action.params} values={values} onChange={setValues} fault={(name) => faults[name] ?? refusal?.field(`params.${name}`)} />
        </div>
      </Form>
      <div className="answered" aria-live="polite">
        {answer && <Answered of={answer} busy={call.isPending} onMore={(cursor) => call.mutate({ ...call.variables, cursor })} />}
      </div>
      <Code label="The same with curl" text={curl("POST", `/v1/accounts/orgs/${of.account_id}/connections/${of.id}/actions/${action.name}`, TOKEN, { params })} />
      <Confirm
        open={sure !== null}
        onClose={() => setSure(null)}
        title={sure?.again ? `Call ${action.name} again?` : `Call ${action.name}?`}
        submit="Call it"
        onSubmit={() => sure && call.mutate(sure.params)}
        busy={call.isPending}
        error={null}
      >
        {sure?.again && <p>The last call may have been done, and this one would then do it a second time. Look at the provider first.</p>}
        {isForGood && (
          <p>
            It is done at the provider, for <strong>{of.label || of.name}</strong>, and cannot be taken back.
          </p>
        )}
      </Confirm>
    </>
  );
}

export function Try({ of, kind }: { of: Connection; kind: Kind }) {
  const { try: chosen } = useQueryParams();
  const setParams = useSetParams();
  const action = kind.actions.find(({ name }) => name === chosen);
  return (
    <Section title="Try an action">
      {of.status === "active" ? (
        <>
          <Field label="Action" hint="It is really called, in your name; programs need a grant for it.">
            {(control) => (
              <select {...control} value={action?.name ?? ""} onChange={(event) => setParams({ try: event.target.value || undefined })}>
                <option value="">Choose one</option>
                {CLASSES.map(({ name: strict, title }) => {
                  const members = kind.actions.filter((each) => each.class === strict);
                  if (members.length === 0) return null;
                  return (
                    <optgroup key={strict} label={title}>
                      {members.map(({ name }) => (
                        <option key={name}>{name}</option>
                      ))}
                    </optgroup>
                  );
                })}
              </select>
            )}
          </Field>
          {action && <TryAction key={action.name} of={of} action={action} />}
        </>
      ) : (
        <Note>{of.status === "paused" ? "The connection is paused: resume it to try its actions." : "Reconnect it to try its actions."}</Note>
      )}
    </Section>
  );
}
