-- Who made an endpoint, and who last set its address: the id of a person, key or API token. Where the audit log says
-- nothing of its creation, both are empty.
alter table webhook_endpoints add column created_by text not null default '';
alter table webhook_endpoints add column url_set_by text not null default '';
update webhook_endpoints set created_by = coalesce((select max(a.actor) from audit_entries a
    where a.account_id = webhook_endpoints.account_id and a.action = 'endpoint.created'
    and a.target = webhook_endpoints.id), '');
update webhook_endpoints set url_set_by = created_by;
