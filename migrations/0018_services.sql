-- What services have of their own: credentials, the ids of what they have told, and the order in which accounts change.

create table service_credentials (
    id text primary key,
    service text not null,
    secret_hash bytea not null,
    secret_hint text not null,
    created_at bigint not null,
    last_used_at bigint,
    revoked_at bigint
);
create index service_credentials_by_service on service_credentials (service, id);

-- The ids of what a service published or reported, each counted once while its row is there. `kind` is `event` or `usage`.
create table service_ids (
    service text not null,
    kind text not null,
    id text not null,
    account_id text not null,
    accepted_at bigint not null,
    primary key (service, kind, id)
);
create index service_ids_by_age on service_ids (accepted_at);
create index service_ids_by_account on service_ids (account_id);

-- Changes of accounts that have no number yet: a row comes with the commit of the change.
create table account_changes (
    id text primary key,
    account_id text not null
);
create index account_changes_by_account on account_changes (account_id);

-- The number of each account's last change. Numbers are given to changes that are committed, by one at a time, so they
-- become visible in their order.
create table account_order (
    account_id text primary key,
    number bigint not null
);
create unique index account_order_by_number on account_order (number);

create table account_order_last (
    id bigint primary key,
    number bigint not null
);

insert into account_order_last (id, number) values (1, 0);
insert into account_changes (id, account_id) select 'chg' || substr(id, 4), id from accounts;
