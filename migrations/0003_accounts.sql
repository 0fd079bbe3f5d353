-- Accounts and who belongs to them.

create table accounts (
    id text primary key,
    kind text not null,
    slug text not null,
    name text not null,
    plan text not null,
    status text not null,
    probe boolean not null,
    created_at bigint not null,
    erase_after bigint
);
create unique index accounts_by_slug on accounts (slug);

create table members (
    account_id text not null references accounts (id),
    person_id text not null references people (id),
    role text not null,
    created_at bigint not null,
    primary key (account_id, person_id)
);
create index members_by_person on members (person_id, account_id);
