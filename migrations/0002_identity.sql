-- People, what signs tokens, and the keys and API tokens that were issued.

create table signing_keys (
    id text primary key,
    public_key bytea not null,
    sealed_private_key bytea not null,
    state text not null,
    created_at bigint not null
);

create table people (
    id text primary key,
    email text not null,
    name text not null,
    email_verified boolean not null,
    account_id text not null,
    created_at bigint not null
);
create unique index people_by_email on people (email);

create table credentials (
    id text primary key,
    account_id text not null,
    kind text not null,
    name text not null,
    scopes text not null,
    secret_hash bytea,
    secret_hint text not null,
    parent text,
    created_by text not null,
    created_at bigint not null,
    last_used_at bigint,
    expires_at bigint,
    revoked_at bigint
);
create index credentials_by_account on credentials (account_id, kind, id);
create index credentials_by_revocation on credentials (revoked_at) where revoked_at is not null;
create index credentials_by_parent on credentials (parent) where parent is not null;
