-- When the first of the calls that a server admitted leaves the minute; null for units, and where there is none. The other
-- servers tell their callers.
alter table leases add column frees_at bigint;
