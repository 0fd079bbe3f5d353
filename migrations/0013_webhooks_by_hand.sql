-- Was the next attempt asked for by hand? It is beside the attempts of the schedule.
alter table webhook_deliveries add column by_hand boolean not null default false;
