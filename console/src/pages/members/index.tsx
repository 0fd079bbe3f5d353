import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import { asRefusal } from "../../api/problem";
import { queries, useMembers } from "../../api/queries";
import { type Role, useOrg, useWorkplace } from "../../app/account";
import { plural } from "../../ui/format";
import { Badge, Button, Choice, Code, type Column, Confirm, Dialog, ErrorNote, Field, Form, Note, PageHead, Section, Table, Time, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";

type Member = Schemas["Member"];
type Invitation = Schemas["Invitation"];

const ROLES = [
  ["member", "Member", "Sees everything."],
  ["admin", "Admin", "Also makes keys, tokens and webhooks, and invites."],
  ["owner", "Owner", "Also changes roles, and may erase the team."],
] as const;

const NAMES = ROLES.map(([role, name]) => [role, name] as const);

function refresh() {
  for (const kind of ["members", "invitations", "me"]) void queries.invalidateQueries({ queryKey: [kind] });
}

function Invite({ onClose }: { onClose: () => void }) {
  const org_id = useOrg();
  const { account } = useWorkplace();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("member");
  const invite = useMutation({
    mutationFn: () =>
      ask(api.POST("/v1/accounts/orgs/{org_id}/invitations", { params: { path: { org_id } }, body: { email, role } })),
    onSuccess: refresh,
  });
  if (invite.data) {
    const { link } = invite.data;
    return (
      <Dialog open onClose={onClose} title={`${email} is invited`} keep={link !== ""}>
        {link ? (
          <>
            <p>This server sends no mail. Hand this link on yourself: it works once, for this address, within seven days.</p>
            <Code label="Invitation" text={link} wrap />
          </>
        ) : (
          <p>The link is on its way by mail. It works once, for this address, within seven days.</p>
        )}
        <div className="form-actions">
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        </div>
      </Dialog>
    );
  }
  const rank = ROLES.findIndex(([each]) => each === account.role);
  return (
    <Dialog open onClose={onClose} title="Invite somebody" keep={email !== ""}>
      <Form onSubmit={() => invite.mutate()} error={invite.error} busy={invite.isPending} submit="Invite" onCancel={onClose}>
        <Field label="E-mail" error={invite.error ? asRefusal(invite.error).field("email") : undefined}>
          {(control) => <input {...control} type="email" required value={email} onChange={(event) => setEmail(event.target.value)} autoFocus />}
        </Field>
        <fieldset className="field">
          <legend>Role</legend>
          <Choice label="Role" value={role} options={NAMES.filter((_, index) => index <= rank)} onChange={setRole} />
          <p className="hint">{ROLES.find(([each]) => each === role)?.[2]}</p>
        </fieldset>
      </Form>
    </Dialog>
  );
}

/** Before somebody is removed: what they made, and what is to become of it. */
function Remove({ of, onClose }: { of: Member; onClose: () => void }) {
  const org_id = useOrg();
  const { person } = useWorkplace();
  const leaving = of.user_id === person.id;
  const path = { org_id, user_id: of.user_id };
  const [keys, setKeys] = useState<"keep" | "revoke">("keep");
  const resources = useQuery({
    queryKey: ["member-resources", org_id, of.user_id],
    queryFn: async () =>
      (await ask(api.GET("/v1/accounts/orgs/{org_id}/members/{user_id}/resources", { params: { path, query: { page_size: 200 } } }))).resources,
  });
  const remove = useMutation({
    mutationFn: () => ask(api.DELETE("/v1/accounts/orgs/{org_id}/members/{user_id}", { params: { path, query: { keys } } })),
    onSuccess: () => {
      onClose();
      refresh();
    },
  });
  const made = resources.data ?? [];
  const endpoints = made.filter(({ id }) => id.startsWith("whe_"));
  const credentials = made.filter(({ id }) => !id.startsWith("whe_"));
  return (
    <Confirm
      open
      onClose={onClose}
      title={leaving ? "Leave the team?" : `Remove ${of.name || of.email}?`}
      submit={leaving ? "Leave" : "Remove"}
      onSubmit={() => remove.mutate()}
      busy={remove.isPending}
      error={remove.error}
    >
      <p>{leaving ? "You" : "They"} lose access at once.</p>
      {credentials.length > 0 && (
        <fieldset className="field">
          <legend>{plural(credentials.length, "key or token", "keys and tokens")} that they made</legend>
          <Choice
            label="Keys and tokens"
            value={keys}
            options={[
              ["keep", "Keep them"],
              ["revoke", "Revoke them"],
            ]}
            onChange={setKeys}
          />
          <p className="hint">{credentials.map(({ name, id }) => name || id).join(", ")}</p>
        </fieldset>
      )}
      {endpoints.length > 0 && (
        <Note tone="warn">
          {plural(endpoints.length, "webhook endpoint")} that they made will be disabled, until somebody else enables{" "}
          {endpoints.length === 1 ? "it" : "them"}: {endpoints.map(({ name }) => name).join(", ")}
        </Note>
      )}
    </Confirm>
  );
}

export default function Members() {
  const org_id = useOrg();
  const { may, person } = useWorkplace();
  const members = useMembers();
  const { new: making } = useQueryParams();
  const setParams = useSetParams();
  const [removing, setRemoving] = useState<Member | null>(null);
  const invitations = useQuery({
    queryKey: ["invitations", org_id],
    enabled: may("admin"),
    queryFn: async () =>
      (await ask(api.GET("/v1/accounts/orgs/{org_id}/invitations", { params: { path: { org_id }, query: { page_size: 200 } } }))).invitations,
  });
  const change = useMutation({
    mutationFn: ({ user_id, role }: { user_id: string; role: Role }) =>
      ask(api.PATCH("/v1/accounts/orgs/{org_id}/members/{user_id}", { params: { path: { org_id, user_id } }, body: { role } })),
    onSettled: refresh,
  });
  const takeBack = useMutation({
    mutationFn: (invitation_id: string) =>
      ask(api.DELETE("/v1/accounts/orgs/{org_id}/invitations/{invitation_id}", { params: { path: { org_id, invitation_id } } })),
    onSettled: refresh,
  });
  // A change is shown at once; when it is refused, what the server has comes back.
  const changed = change.isPending ? change.variables : undefined;
  const columns: Column<Member>[] = [
    {
      name: "Person",
      cell: ({ name, email, user_id }) => (
        <span className="two">
          <strong>
            {name || email} {user_id === person.id && <span className="quiet">(you)</span>}
          </strong>
          {name && <span className="quiet">{email}</span>}
        </span>
      ),
    },
    {
      name: "Role",
      cell: ({ user_id, role, email }) =>
        may("owner") ? (
          <select
            aria-label={`Role of ${email}`}
            value={changed?.user_id === user_id ? changed.role : String(role)}
            onChange={(event) => change.mutate({ user_id, role: event.target.value as Role })}
          >
            {NAMES.map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        ) : (
          <Badge>{String(role)}</Badge>
        ),
    },
    { name: "Joined", align: "right", cell: ({ joined_at }) => <Time at={joined_at} /> },
    {
      name: "Actions",
      bare: true,
      align: "right",
      cell: (member) =>
        (may("admin") || member.user_id === person.id) && (
          <Button small onClick={() => setRemoving(member)}>
            {member.user_id === person.id ? "Leave" : "Remove"}
          </Button>
        ),
    },
  ];
  const invited: Column<Invitation>[] = [
    { name: "E-mail", cell: ({ email }) => email },
    { name: "Role", cell: ({ role }) => <Badge>{role}</Badge> },
    { name: "Invited", align: "right", cell: ({ created_at }) => <Time at={created_at} /> },
    { name: "Ends", align: "right", cell: ({ expires_at }) => <Time at={expires_at} /> },
    {
      name: "Actions",
      bare: true,
      align: "right",
      cell: ({ id }) => (
        <Button small busy={takeBack.isPending && takeBack.variables === id} onClick={() => takeBack.mutate(id)}>
          Take back
        </Button>
      ),
    },
  ];
  return (
    <>
      <PageHead
        title="Members"
        about="Who belongs to the team, and what each may do."
        action={
          may("admin") && (
            <Button look="primary" icon="plus" onClick={() => setParams({ new: "invitation" })}>
              Invite somebody
            </Button>
          )
        }
      />
      <ErrorNote error={members.error ?? change.error ?? takeBack.error} />
      <Section title={members.data ? plural(members.data.length, "member") : "Members"} flush>
        {members.data ? <Table label="Members" columns={columns} items={members.data} id={({ user_id }) => user_id} /> : <Waiting />}
      </Section>
      {(invitations.data?.length ?? 0) > 0 && (
        <Section title="Invited, and not here yet" flush>
          <Table label="Invitations" columns={invited} items={invitations.data ?? []} id={({ id }) => id} />
        </Section>
      )}
      {making === "invitation" && <Invite onClose={() => setParams({ new: undefined })} />}
      {removing && <Remove of={removing} onClose={() => setRemoving(null)} />}
    </>
  );
}
