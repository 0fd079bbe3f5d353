-- Webhooks: endpoints, deliveries of events to them, and the test inbox.

-- What an endpoint missed is looked for by time.
create index events_by_time on events (account_id, occurred_at);

create table webhook_endpoints (
    id text primary key,
    account_id text not null,
    -- Three characters that no other endpoint of the account has; the last ones of the ids of its deliveries.
    tag text not null,
    url text not null,
    -- The account's own inbox, when the address is that inbox's.
    inbox_id text,
    description text not null,
    -- Sealed, both of them. The old one signs beside the new one until its time is up.
    secret bytea not null,
    old_secret bytea,
    old_secret_until bigint,
    secret_rotated_at bigint,
    enabled boolean not null,
    disabled_reason text not null,
    created_at bigint not null,
    last_delivery_at bigint,
    last_delivery_status text not null,
    -- The first failed attempt after the last success.
    failing_since bigint,
    -- Grows with every change that a sender must know of.
    version bigint not null,
    -- Deleted endpoints stay until their history is gone.
    deleted_at bigint
);
create unique index webhook_endpoints_by_account on webhook_endpoints (account_id, tag);
create index webhook_endpoints_by_inbox on webhook_endpoints (inbox_id) where inbox_id is not null;
create index webhook_endpoints_deleted on webhook_endpoints (deleted_at) where deleted_at is not null;

create table webhook_subscriptions (
    account_id text not null,
    event_type text not null,
    endpoint_id text not null,
    primary key (account_id, event_type, endpoint_id)
);
create index webhook_subscriptions_by_endpoint on webhook_subscriptions (endpoint_id);

-- One row is one event for one endpoint: the id is made of both, so that there is never a second.
create table webhook_deliveries (
    id text primary key,
    account_id text not null,
    endpoint_id text not null,
    sequence bigint not null,
    event_id text not null,
    event_type text not null,
    created_at bigint not null,
    status text not null,
    -- Attempts of the schedule that were made, and of those all that were made.
    attempts bigint not null,
    tries bigint not null,
    -- 0 for what was not tried yet, 1 for what is tried again, 2 for what keeps its order.
    lane bigint not null,
    -- When it is tried next; null when it is not.
    next_at bigint,
    -- Its place in the lane: by time, or by number where order is kept.
    place bigint generated always as (case when lane = 2 then sequence else next_at end) stored,
    last_at bigint
);
-- What is to be sent, and nothing else: however long the history, it stays small.
create index webhook_deliveries_due on webhook_deliveries (account_id, endpoint_id, lane, place)
    where next_at is not null;
create index webhook_deliveries_by_endpoint on webhook_deliveries (endpoint_id, created_at, id);

create table webhook_attempts (
    -- An attempt that is written while its delivery is removed goes with it.
    delivery_id text not null references webhook_deliveries (id) on delete cascade,
    number bigint not null,
    id text not null,
    at bigint not null,
    status_code bigint not null,
    duration_ms bigint not null,
    outcome text not null,
    next_retry_at bigint,
    primary key (delivery_id, number)
);

-- Who sends the deliveries of an account, and until when nobody else does.
create table webhook_queues (
    account_id text primary key,
    claim text not null,
    claimed_until bigint not null
);
create index webhook_queues_by_claim on webhook_queues (claim);

-- Attempts by the hour they ended in, their outcome, and how long the answer took, in steps of a fifth.
create table webhook_stats (
    account_id text not null,
    endpoint_id text not null,
    hour bigint not null,
    outcome text not null,
    step bigint not null,
    count bigint not null,
    primary key (account_id, endpoint_id, hour, outcome, step)
);
create index webhook_stats_by_hour on webhook_stats (hour);

create table webhook_inboxes (
    id text primary key,
    account_id text not null,
    created_at bigint not null,
    expires_at bigint not null,
    -- When the requests of the last minute came, in microseconds, with commas between.
    recent text not null
);
create unique index webhook_inboxes_by_account on webhook_inboxes (account_id);
create index webhook_inboxes_by_end on webhook_inboxes (expires_at);

create table webhook_requests (
    inbox_id text not null,
    id text not null,
    received_at bigint not null,
    method text not null,
    content_type text not null,
    headers text not null,
    body bytea not null,
    verdict text not null,
    primary key (inbox_id, id)
);
