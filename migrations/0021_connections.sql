-- Connections: links of an account to providers, their sealed credentials, who may use them, and every use.

create table connections (
    id text primary key,
    account_id text not null,
    -- `endpoint`, or the connector's id.
    kind text not null,
    name text not null,
    description text not null,
    -- What the names of its tools begin with.
    handle text not null,
    auth_mode text not null,
    -- What the provider calls the account behind the credential, and its id there; the latter is empty where there is none.
    label text not null,
    external_id text not null,
    -- What the configuration says of the provider's host; empty where that is always the same.
    host text not null,
    -- `active` or `needs_reconnect`; `paused` stands beside it, because it goes back to what it was.
    status text not null,
    paused boolean not null,
    -- JSON: an object of strings, and a list of strings.
    config text not null,
    scopes text not null,
    executor text not null,
    agent_id text not null,
    -- Who made it.
    owner text not null,
    credential_id text not null,
    credential_kind text not null,
    credential_set_at bigint,
    last_test_at bigint,
    last_test_ok boolean not null,
    last_test_error text not null,
    created_at bigint not null,
    updated_at bigint not null,
    -- Grows with every change by a caller.
    version bigint not null
);
create index connections_by_account on connections (account_id, id);
-- A workspace is connected once.
create unique index connections_by_workspace on connections (account_id, kind, host, external_id) where external_id <> '';

-- Handles that were ever given out. None is given twice, since an assistant may remember the name of a tool.
create table connection_handles (
    account_id text not null,
    handle text not null,
    connection_id text not null,
    primary key (account_id, handle)
);

create table connection_credentials (
    id text primary key,
    account_id text not null,
    connection_id text not null,
    -- What it is, and what it is sealed for.
    purpose text not null,
    sealed bytea not null,
    -- Grows when it is refreshed: what was read under an older one is not written back.
    version bigint not null,
    -- When the token in it was made and when it ends; null where that is not known.
    issued_at bigint,
    expires_at bigint,
    created_at bigint not null,
    -- Who refreshes it, and until when nobody else does.
    claim text,
    claimed_until bigint,
    -- Refreshes that failed in a row, and when the next may begin.
    failures bigint not null,
    retry_at bigint
);
create index connection_credentials_by_connection on connection_credentials (connection_id, purpose);
create index connection_credentials_by_account on connection_credentials (account_id);

create table connection_grants (
    id text primary key,
    account_id text not null,
    connection_id text not null,
    -- `kind:id`.
    consumer text not null,
    -- JSON: a list of strings; an empty one means all.
    actions text not null,
    max_class text not null,
    created_by text not null,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint,
    last_used_at bigint
);
create index connection_grants_by_connection on connection_grants (connection_id, id);
create index connection_grants_by_consumer on connection_grants (account_id, consumer) where revoked_at is null;
create index connection_grants_by_end on connection_grants (revoked_at) where revoked_at is not null;
create index connection_grants_by_expiry on connection_grants (expires_at) where expires_at is not null;
create index connection_grants_live on connection_grants (id) where revoked_at is null;

-- One row for each call, made or refused. Never a parameter, an address or what the provider said.
create table connection_uses (
    id text primary key,
    account_id text not null,
    -- Empty for the test of a connection that was never made.
    connection_id text not null,
    action text not null,
    at bigint not null,
    caller_kind text not null,
    caller text not null,
    grant_id text not null,
    status text not null,
    error_class text not null,
    executor text not null,
    status_code bigint not null,
    latency_ms bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null
);
create index connection_uses_by_account on connection_uses (account_id, id);
create index connection_uses_by_connection on connection_uses (connection_id, id);

-- When a consumer last called an action of a connection.
create table connection_consumers (
    connection_id text not null,
    consumer text not null,
    account_id text not null,
    last_used_at bigint not null,
    primary key (connection_id, consumer)
);
create index connection_consumers_by_account on connection_consumers (account_id);

create table connection_sign_ins (
    id text primary key,
    account_id text not null,
    person_id text not null,
    connector text not null,
    -- The SHA-256 of the state, which stands in the address alone.
    state_hash bytea not null,
    -- Sealed: the PKCE verifier.
    verifier bytea not null,
    -- What is made of it: the connection's name, description, config and scopes, as JSON, and the connection that it is for.
    request text not null,
    connection_id text not null,
    -- `pending`, `completed` or `failed`; one that is pending too long is expired.
    status text not null,
    reason text not null,
    created_at bigint not null,
    expires_at bigint not null,
    -- When the state was used.
    taken_at bigint
);
create unique index connection_sign_ins_by_state on connection_sign_ins (state_hash);
create index connection_sign_ins_by_account on connection_sign_ins (account_id, person_id);
create index connection_sign_ins_by_person on connection_sign_ins (person_id);
create index connection_sign_ins_by_age on connection_sign_ins (created_at);

-- OAuth clients that accounts brought for a connector.
create table connection_clients (
    account_id text not null,
    connector text not null,
    client_id text not null,
    -- Sealed.
    secret bytea not null,
    set_at bigint not null,
    primary key (account_id, connector)
);

-- Counts the changes after which the tools of an account's callers may be others.
create table connection_changes (
    account_id text primary key,
    number bigint not null,
    changed_at bigint not null
);
create index connection_changes_by_time on connection_changes (changed_at);
