-- Domains that accounts prove to control, by one TXT record each.
create table domains (
    -- New with every new token: whoever looked for the record of an earlier one finds another id.
    id text primary key,
    account_id text not null,
    -- A-labels.
    name text not null,
    scope text not null,
    status text not null,
    -- What the record holds, after `portico-verification=`. No secret: it stands in public DNS.
    token text not null,
    -- Who serves the zone; empty where it was not found out.
    dns_provider text not null,
    created_at bigint not null,
    verified_at bigint,
    last_checked_at bigint,
    expires_at bigint not null,
    unverified_reason text not null,
    -- The name servers of the zone when the domain was verified, with spaces between them.
    verified_servers text not null,
    -- Of a verified domain: how many looks in a row missed the record, since when it has not been seen, and since when
    -- every look said that it is gone.
    misses bigint not null,
    missed_since bigint,
    gone_since bigint,
    -- Since when no resolver answered: that time does not count against the domain.
    unreachable_since bigint,
    -- The last checks and confirmations, in microseconds with spaces between them.
    checks text not null,
    -- When it is due to be looked at; null for never. The item of the queue has the id of the row.
    next_look_at bigint
);
create unique index domains_by_account on domains (account_id, name);
-- At most one account holds a name.
create unique index domains_verified on domains (name) where status = 'verified';
create index domains_by_name on domains (name);
create index domains_by_id on domains (account_id, id);
create index domains_by_look on domains (next_look_at) where next_look_at is not null;

-- Names that are being proven at this moment: of two transactions that insert one name the second waits for the first,
-- which takes its row away before it commits. So nobody ever sees a row.
create table domain_locks (
    name text primary key
);
