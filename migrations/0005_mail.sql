-- Letters on their way out. A row is gone once its letter is sent.

create table mails (
    id text primary key,
    -- Address, subject and text, since letters hold one-time links; empty once given up.
    sealed bytea not null,
    attempts bigint not null,
    next_at bigint not null,
    -- Whoever sends it now, and until when nobody else does.
    claim text,
    claimed_until bigint,
    created_at bigint not null,
    failed_at bigint
);
-- Those given up stay, and must not stand in the way.
create index mails_by_next on mails (next_at) where failed_at is null;
