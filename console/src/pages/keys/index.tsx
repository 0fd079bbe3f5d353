import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { queries, useKeys } from "../../api/queries";
import { useOrg } from "../../app/account";
import { useMakers } from "../../app/makers";
import { curl, TOKEN } from "../../ui/curl";
import { plural } from "../../ui/format";
import { Badge, Button, Choice, Code, type Column, Confirm, Empty, ErrorNote, Facts, Id, Json, Note, PageHead, Panel, Table, Time, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";
import { CreateDialog } from "./create";
import { keyState } from "./state";

type Key = Schemas["Key"];

function State({ of }: { of: Key }) {
  const state = keyState(of);
  return <Badge tone={state === "active" ? "good" : "plain"}>{state}</Badge>;
}

/** Each key after the one that it is below. */
function inFamilies(keys: readonly Key[]): { key: Key; depth: number }[] {
  const ids = new Set(keys.map(({ id }) => id));
  const below = (above: string, depth: number): { key: Key; depth: number }[] =>
    keys.filter(({ parent }) => parent === above).flatMap((key) => [{ key, depth }, ...below(key.id, depth + 1)]);
  return keys.filter(({ parent }) => !ids.has(parent)).flatMap((key) => [{ key, depth: 0 }, ...below(key.id, 1)]);
}

function KeyPanel({ of, kind, onClose }: { of: Key; kind: "keys" | "tokens"; onClose: () => void }) {
  const org_id = useOrg();
  const maker = useMakers();
  const [asking, setAsking] = useState(false);
  const revoke = useMutation({
    mutationFn: () => {
      const params = { path: { org_id, key_id: of.id } };
      return kind === "keys"
        ? ask(api.DELETE("/v1/accounts/orgs/{org_id}/keys/{key_id}", { params }))
        : ask(api.DELETE("/v1/accounts/orgs/{org_id}/tokens/{key_id}", { params }));
    },
    onSuccess: () => {
      setAsking(false);
      void queries.invalidateQueries({ queryKey: [kind] });
    },
  });
  const one = kind === "keys" ? "key" : "token";
  return (
    <Panel open onClose={onClose} title={of.name || "Unnamed"}>
      <Facts
        items={[
          ["State", <State key="state" of={of} />],
          [kind === "keys" ? "Client id" : "Id", <Id key="id" id={of.id} whole />],
          ["Ends with", of.secret_hint ? <code key="hint">…{of.secret_hint}</code> : "not known"],
          ["Made", <span key="made"><Time at={of.created_at} /> by {maker(of.created_by)}</span>],
          ...(of.parent ? [["Below", maker(of.parent)] as [string, React.ReactNode]] : []),
          ["Last used", <Time key="used" at={of.last_used_at} />],
          ...(kind === "tokens" ? [["Ends", <Time key="ends" at={of.expires_at} />] as [string, React.ReactNode]] : []),
          ...(of.revoked_at ? [["Revoked", <Time key="revoked" at={of.revoked_at} />] as [string, React.ReactNode]] : []),
        ]}
      />
      <h3>What it may do</h3>
      <ul className="chips">
        {of.scopes.map((scope) => (
          <li key={scope}>
            <code>{scope}</code>
          </li>
        ))}
      </ul>
      <div className="actions">
        <Link to="/requests" search={{ key: of.id } as never} className="button small">
          Its requests
        </Link>
        {keyState(of) === "active" && (
          <Button small look="danger" onClick={() => setAsking(true)}>
            Revoke
          </Button>
        )}
      </div>
      <h3>As the API has it</h3>
      <Code label="List them with curl" text={curl("GET", `/v1/accounts/orgs/${org_id}/${kind}`, TOKEN)} />
      <Json value={of} label="Record" />
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`Revoke ${of.name || "this " + one}?`}
        submit={`Revoke the ${one}`}
        onSubmit={() => revoke.mutate()}
        busy={revoke.isPending}
        error={revoke.error}
      >
        <p>
          Programs that use it are refused within seconds{kind === "keys" ? ", and so are the keys below it" : ""}. This cannot be
          taken back.
        </p>
        <p>
          It was last used <Time at={of.last_used_at} />.
        </p>
      </Confirm>
    </Panel>
  );
}

export default function Keys() {
  const { tab, open, new: making, show } = useQueryParams();
  const setParams = useSetParams();
  const kind = tab === "tokens" ? "tokens" : "keys";
  const list = useKeys(kind);
  const maker = useMakers();
  const all = list.data ?? [];
  const active = all.filter((key) => keyState(key) === "active");
  const shown = inFamilies(show === "all" ? all : active);
  const opened = all.find(({ id }) => id === open);
  const one = kind === "keys" ? "key" : "token";
  const start = () => setParams({ new: one, tab: kind });
  const columns: Column<{ key: Key; depth: number }>[] = [
    {
      name: "Name",
      cell: ({ key, depth }) => (
        <span className={depth > 0 ? "below" : undefined}>
          <strong>{key.name || "Unnamed"}</strong>
          {key.parent && depth === 0 && <span className="quiet"> below {maker(key.parent)}</span>}
        </span>
      ),
    },
    { name: "Id", cell: ({ key }) => <Id id={key.id} /> },
    { name: "May do", cell: ({ key }) => <span title={key.scopes.join(" ")}>{plural(key.scopes.length, "scope")}</span> },
    { name: "Made by", cell: ({ key }) => maker(key.created_by) },
    { name: "Last used", cell: ({ key }) => <Time at={key.last_used_at} /> },
    ...(kind === "tokens" ? [{ name: "Ends", cell: ({ key }: { key: Key }) => <Time at={key.expires_at} /> }] : []),
    { name: "State", cell: ({ key }) => <State of={key} /> },
  ];
  return (
    <>
      <PageHead
        title="Keys and tokens"
        about="What programs show to be let in. Each may do what you chose when it was made, and nothing else."
        action={
          <Button look="primary" icon="plus" onClick={start}>
            Make a {one}
          </Button>
        }
      />
      <div className="bar">
        <Choice
          label="Kind"
          value={kind}
          options={[
            ["keys", "Keys"],
            ["tokens", "Tokens"],
          ]}
          onChange={(value) => setParams({ tab: value, open: undefined })}
        />
        {all.length > active.length && (
          <label className="check">
            <input
              type="checkbox"
              checked={show === "all"}
              onChange={(event) => setParams({ show: event.target.checked ? "all" : undefined })}
            />
            Show {plural(all.length - active.length, "revoked or expired one")}
          </label>
        )}
      </div>
      <ErrorNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending ? (
        <Waiting />
      ) : shown.length === 0 ? (
        <Empty
          title={kind === "keys" ? "No keys" : "No tokens"}
          action={
            <Button look="primary" onClick={start}>
              Make a {one}
            </Button>
          }
        >
          <p>
            {kind === "keys"
              ? "A key is for a server: it exchanges a client id and a secret for tokens of 15 minutes."
              : "A token is the shortest way to a first call: one text, sent with each request, which ends by itself."}
          </p>
        </Empty>
      ) : (
        <Table
          label={kind === "keys" ? "Keys" : "Tokens"}
          columns={columns}
          items={shown}
          id={({ key }) => key.id}
          onOpen={({ key }) => setParams({ open: key.id }, true)}
          opened={open}
        />
      )}
      {kind === "keys" && all.length > 0 && (
        <Note>To rotate a key, make a second one, move your servers to it, and revoke the first. Its last use tells when nobody is left.</Note>
      )}
      {opened && <KeyPanel of={opened} kind={kind} onClose={() => setParams({ open: undefined })} />}
      {(making === "key" || making === "token") && <CreateDialog kind={making} onClose={() => setParams({ new: undefined })} />}
    </>
  );
}
