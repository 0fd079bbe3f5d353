-- A call that commits more than once keeps the results of its steps with its Idempotency-Key, so that a repeat after a
-- crash goes on where it stopped. `claimed_until` is then the lease, and `expires_at` the end of the day.
alter table idempotency_records add column steps bytea;
alter table idempotency_records add column claimed_until bigint;

-- Work that is due: each item is claimed by one server at a time, which renews its claim while it works. Shared jobs are
-- items too, one for each job.
create table queue_items (
    id text primary key,
    queue text not null,
    -- Empty for the platform's own.
    account_id text not null,
    payload bytea not null,
    attempts bigint not null,
    due_at bigint not null,
    created_at bigint not null,
    -- Whoever works on it now, and until when nobody else does.
    claim text,
    claimed_until bigint,
    -- When it was given up; its payload is empty then.
    failed_at bigint
);
create index queue_items_by_due on queue_items (queue, due_at) where failed_at is null;
create index queue_items_by_account on queue_items (account_id);
create index queue_items_by_failed on queue_items (failed_at) where failed_at is not null;

-- Mail that waits moves into the queue; the columns mean the same.
insert into queue_items (id, queue, account_id, payload, attempts, due_at, created_at, claim, claimed_until, failed_at)
    select id, 'mail.send', '', sealed, attempts, next_at, created_at, claim, claimed_until, failed_at from mails;
drop table mails;
