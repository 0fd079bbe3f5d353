-- Units, usage and the log of requests. Everything here is derived from the journals of the servers.

-- The journal of each server that lives, or died and was not taken over yet: how far it is counted. It moves in the
-- commit that counts, so that a call is counted once.
create table meter_journals (
    id text primary key,
    position bigint not null,
    seen_at bigint not null
);

-- A name of this database, so that a journal of another one is not taken for one of its own.
create table meter_database (
    id bigint primary key,
    name text not null
);

-- What an account used in a month and was granted beside its plan; `notified` is the last threshold that was told.
create table unit_months (
    account_id text not null,
    month text not null,
    used bigint not null,
    granted bigint not null,
    notified bigint not null,
    primary key (account_id, month)
);

-- What a server may spend without asking: units of an account's month, or calls of a key's minute. What is leased and
-- what is used never pass the limit together. A lease that is recalled is given back as far as it is not spent.
create table leases (
    account_id text not null,
    resource text not null,
    holder text not null,
    amount bigint not null,
    recalled boolean not null,
    renewed_at bigint not null,
    primary key (account_id, resource, holder)
);
create index leases_by_holder on leases (holder, recalled);

-- Held by whoever deals out a resource, until the commit.
create table lease_locks (
    account_id text not null,
    resource text not null,
    primary key (account_id, resource)
);

create table usage_hours (
    account_id text not null,
    hour bigint not null,
    calls bigint not null,
    units bigint not null,
    client_errors bigint not null,
    platform_errors bigint not null,
    primary key (account_id, hour)
);

create table usage_days (
    account_id text not null,
    day bigint not null,
    subject text not null,
    rpc text not null,
    calls bigint not null,
    units bigint not null,
    client_errors bigint not null,
    platform_errors bigint not null,
    primary key (account_id, day, subject, rpc)
);

-- `latency` is a histogram, which can be added to.
create table usage_months (
    account_id text not null,
    month text not null,
    subject text not null,
    rpc text not null,
    calls bigint not null,
    units bigint not null,
    tokens bigint not null,
    client_errors bigint not null,
    platform_errors bigint not null,
    latency bytea not null,
    primary key (account_id, month, subject, rpc)
);

-- The log of requests, many in one row: a row for each call would cost more than the call.
create table request_blocks (
    account_id text not null,
    last_at bigint not null,
    id text not null,
    first_at bigint not null,
    requests bigint not null,
    worst_status bigint not null,
    body bytea not null,
    primary key (account_id, last_at, id)
);
create index request_blocks_by_age on request_blocks (last_at);
