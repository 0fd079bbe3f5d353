-- What every area stands on: sealing, events, audit, idempotency. One text for SQLite and PostgreSQL.

create table keyring_canary (
    id bigint primary key,
    sealed bytea not null
);

-- The last number given out in each account. Its row is touched last in a transaction, so that numbers become
-- visible in their order and a reader that resumes after one never misses a late commit.
create table account_sequences (
    account_id text primary key,
    last bigint not null
);

create table events (
    account_id text not null,
    sequence bigint not null,
    id text not null,
    type text not null,
    occurred_at bigint not null,
    data text not null,
    primary key (account_id, sequence)
);
create unique index events_by_id on events (id);

create table audit_entries (
    account_id text not null,
    sequence bigint not null,
    id text not null,
    at bigint not null,
    action text not null,
    actor text not null,
    actor_kind text not null,
    request_id text not null,
    target text not null,
    metadata text not null,
    primary key (account_id, sequence)
);
create unique index audit_entries_by_id on audit_entries (id);

-- `running` until expires_at is the lease; `kept` until then is the answer of a day.
create table idempotency_records (
    account_id text not null,
    caller text not null,
    operation text not null,
    key text not null,
    fingerprint bytea not null,
    claim text not null,
    state text not null,
    expires_at bigint not null,
    answer bytea,
    primary key (account_id, caller, operation, key)
);
create index idempotency_records_by_end on idempotency_records (expires_at);
