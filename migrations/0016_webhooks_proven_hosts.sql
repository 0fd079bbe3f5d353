-- When a receiver first took a delivery at the host of the endpoint's address; null when none ever did.
alter table webhook_endpoints add column proven_at bigint;
update webhook_endpoints set proven_at = created_at where last_delivery_status = 'delivered'
    or exists (select 1 from webhook_stats s where s.account_id = webhook_endpoints.account_id
    and s.endpoint_id = webhook_endpoints.id and s.outcome = 'delivered');
