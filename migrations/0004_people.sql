-- Sign-in, the apps that people let in, and what was revoked lately.

create table passwords (
    person_id text primary key references people (id),
    hash text not null,
    changed_at bigint not null
);

-- `last_step` is the time step of the last code that was taken: none is taken twice.
create table totp_secrets (
    person_id text primary key references people (id),
    sealed bytea not null,
    last_step bigint not null,
    created_at bigint not null
);

create table recovery_codes (
    person_id text not null references people (id),
    hash bytea not null,
    primary key (person_id, hash)
);

create table passkeys (
    id text primary key,
    person_id text not null references people (id),
    name text not null,
    passkey text not null,
    created_at bigint not null,
    last_used_at bigint
);
create index passkeys_by_person on passkeys (person_id, id);

create table sessions (
    id text primary key,
    person_id text not null references people (id),
    token_hash bytea not null,
    address text not null,
    user_agent text not null,
    created_at bigint not null,
    last_seen_at bigint not null,
    expires_at bigint not null
);
create unique index sessions_by_token on sessions (token_hash);
create index sessions_by_person on sessions (person_id, id);
create index sessions_by_end on sessions (expires_at);

-- Links that work once: to sign up first, to choose a password, to confirm an address. Also what was sealed and carried
-- by a browser and must not be used again: a consent, a passkey's sign-in.
create table links (
    hash bytea primary key,
    purpose text not null,
    person_id text not null,
    email text not null,
    expires_at bigint not null
);
create index links_by_person on links (person_id, purpose);

-- Tries that count against a limit: the times of the last ones, for each person, address or the like.
create table attempts (
    bucket text primary key,
    times text not null,
    ends_at bigint not null
);
create index attempts_by_end on attempts (ends_at);

-- Apps: registered by the operator, by themselves, or known by a document at their own address.
create table clients (
    id text primary key,
    origin text not null,
    name text not null,
    secret_hash bytea,
    redirect_uris text not null,
    scopes text not null,
    created_at bigint not null,
    used_at bigint,
    expires_at bigint,
    revoked_at bigint
);
create index clients_by_age on clients (origin, created_at);

create table codes (
    hash bytea primary key,
    authorization_id text not null,
    redirect_uri text not null,
    challenge text not null,
    expires_at bigint not null,
    used_at bigint
);
create index codes_by_end on codes (expires_at);

-- What a person let an app do. `generation` is the number of the refresh token that may be used next; all of them are
-- derived from the sealed secret. `spent` holds when the last ones before it were used.
create table authorizations (
    id text primary key,
    person_id text not null references people (id),
    client_id text not null,
    account_id text not null,
    session_id text,
    audience text not null,
    scopes text,
    role text,
    sealed_secret bytea not null,
    generation bigint not null,
    spent text not null,
    created_at bigint not null,
    expires_at bigint not null,
    revoked_at bigint
);
create index authorizations_by_person on authorizations (person_id, client_id);
create index authorizations_by_account on authorizations (account_id);
create index authorizations_by_client on authorizations (client_id);
create index authorizations_by_session on authorizations (session_id) where session_id is not null;
create index authorizations_by_end on authorizations (expires_at);

-- Whatever a token names and must no longer be admitted: a key, an API token, an authorization, one token, a person's
-- tokens until then, or an account. `lifted` ones are admitted again.
create table revocations (
    id text primary key,
    at bigint not null,
    lifted boolean not null
);
create index revocations_by_time on revocations (at);
insert into revocations (id, at, lifted) select id, revoked_at, false from credentials where revoked_at is not null;
drop index credentials_by_revocation;

-- A signing key signs from `activates_at` on, until a later one does.
alter table signing_keys add column activates_at bigint not null default 0;
alter table signing_keys drop column state;
-- The key that signed an API token; null for those that are older than this column.
alter table credentials add column signing_key text;

create table invitations (
    id text primary key,
    account_id text not null references accounts (id),
    email text not null,
    role text not null,
    token_hash bytea not null,
    mailed boolean not null,
    created_by text not null,
    created_at bigint not null,
    expires_at bigint not null
);
create unique index invitations_by_token on invitations (token_hash);
create unique index invitations_by_email on invitations (account_id, email);
create index accounts_by_erasure on accounts (erase_after) where erase_after is not null;
create index events_by_type on events (account_id, type, sequence);
create index invitations_by_end on invitations (expires_at);
create index invitations_by_address on invitations (email);
create index members_by_age on members (account_id, created_at, person_id);
create index invitations_by_maker on invitations (created_by);
