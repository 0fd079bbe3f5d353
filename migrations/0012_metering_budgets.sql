-- The last time that the account's budget of the month changed; 0 when it never did.
alter table unit_months add column budget_changed_at bigint not null default 0;

-- A budget that was in force until then, and what was used while it was: a call that is counted after the change is still
-- judged by the budget of its own moment.
create table unit_budgets (
    account_id text not null,
    month text not null,
    until bigint not null,
    budget bigint not null,
    used bigint not null,
    primary key (account_id, month, until)
);
create index unit_budgets_by_age on unit_budgets (until);
