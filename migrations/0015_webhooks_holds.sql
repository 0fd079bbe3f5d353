-- Endpoints with too many pending deliveries: those of events after this number are made when there is room. A table of
-- its own, written under the lock of the account's sequence, so that events neither wait for changes of endpoints nor the
-- other way round.
create table webhook_holds (
    endpoint_id text primary key,
    account_id text not null,
    sequence bigint not null
);
create index webhook_holds_by_account on webhook_holds (account_id);
