-- The tables and indexes after all migrations, as SQLite has them. `make docs` writes this file, by way of
-- `portico schema`; it is not edited by hand.

create table account_changes (
    id text primary key,
    account_id text not null
);
create index account_changes_by_account on account_changes (account_id);

create table account_order (
    account_id text primary key,
    number bigint not null
);
create unique index account_order_by_number on account_order (number);

create table account_order_last (
    id bigint primary key,
    number bigint not null
);

create table account_sequences (
    account_id text primary key,
    last bigint not null
);

create table accounts (
    id text primary key,
    kind text not null,
    slug text not null,
    name text not null,
    plan text not null,
    status text not null,
    probe boolean not null,
    created_at bigint not null,
    erase_after bigint
);
create index accounts_by_erasure on accounts (erase_after) where erase_after is not null;
create unique index accounts_by_slug on accounts (slug);

create table attempts (
    bucket text primary key,
    times text not null,
    ends_at bigint not null
);
create index attempts_by_end on attempts (ends_at);

create table audit_entries (
    account_id text not null,
    sequence bigint not null,
    id text not null,
    at bigint not null,
    action text not null,
    actor text not null,
    actor_kind text not null,
    request_id text not null,
    target text not null,
    metadata text not null,
    primary key (account_id, sequence)
);
create unique index audit_entries_by_id on audit_entries (id);

create table authorizations (
    id text primary key,
    person_id text not null references people (id),
    client_id text not null,
    account_id text not null,
    session_id text,
    audience text not null,
    scopes text,
    role text,
    sealed_secret bytea not null,
    generation bigint not null,
    spent text not null,
    created_at bigint not null,
    expires_at bigint not null,
    revoked_at bigint
);
create index authorizations_by_account on authorizations (account_id);
create index authorizations_by_client on authorizations (client_id);
create index authorizations_by_end on authorizations (expires_at);
create index authorizations_by_person on authorizations (person_id, client_id);
create index authorizations_by_session on authorizations (session_id) where session_id is not null;

create table blobs (
    -- Also the key of the object in the blob store. It holds the time at which the upload began.
    id text primary key,
    account_id text not null,
    -- SHA-256 of the content, in hexadecimal.
    hash text not null,
    size bigint not null,
    media_type text not null,
    -- Is the object encrypted? Then `data_key` is the key of its chunks, sealed by the keyring.
    sealed boolean not null,
    data_key bytea,
    -- How many things of the account use it. The row is removed with the last of them, the object by the sweep.
    uses bigint not null,
    created_at bigint not null
);
create unique index blobs_by_content on blobs (account_id, hash, media_type, sealed);

create table clients (
    id text primary key,
    origin text not null,
    name text not null,
    secret_hash bytea,
    redirect_uris text not null,
    scopes text not null,
    created_at bigint not null,
    used_at bigint,
    expires_at bigint,
    revoked_at bigint
);
create index clients_by_age on clients (origin, created_at);

create table codes (
    hash bytea primary key,
    authorization_id text not null,
    redirect_uri text not null,
    challenge text not null,
    expires_at bigint not null,
    used_at bigint
);
create index codes_by_end on codes (expires_at);

create table connection_changes (
    account_id text primary key,
    number bigint not null,
    changed_at bigint not null
);
create index connection_changes_by_time on connection_changes (changed_at);

create table connection_clients (
    account_id text not null,
    connector text not null,
    client_id text not null,
    -- Sealed.
    secret bytea not null,
    set_at bigint not null,
    primary key (account_id, connector)
);

create table connection_consumers (
    connection_id text not null,
    consumer text not null,
    account_id text not null,
    last_used_at bigint not null,
    primary key (connection_id, consumer)
);
create index connection_consumers_by_account on connection_consumers (account_id);

create table connection_credentials (
    id text primary key,
    account_id text not null,
    connection_id text not null,
    -- What it is, and what it is sealed for.
    purpose text not null,
    sealed bytea not null,
    -- Grows when it is refreshed: what was read under an older one is not written back.
    version bigint not null,
    -- When the token in it was made and when it ends; null where that is not known.
    issued_at bigint,
    expires_at bigint,
    created_at bigint not null,
    -- Who refreshes it, and until when nobody else does.
    claim text,
    claimed_until bigint,
    -- Refreshes that failed in a row, and when the next may begin.
    failures bigint not null,
    retry_at bigint
);
create index connection_credentials_by_account on connection_credentials (account_id);
create index connection_credentials_by_connection on connection_credentials (connection_id, purpose);

create table connection_grants (
    id text primary key,
    account_id text not null,
    connection_id text not null,
    -- `kind:id`.
    consumer text not null,
    -- JSON: a list of strings; an empty one means all.
    actions text not null,
    max_class text not null,
    created_by text not null,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint,
    last_used_at bigint
);
create index connection_grants_by_connection on connection_grants (connection_id, id);
create index connection_grants_by_consumer on connection_grants (account_id, consumer) where revoked_at is null;
create index connection_grants_by_end on connection_grants (revoked_at) where revoked_at is not null;
create index connection_grants_by_expiry on connection_grants (expires_at) where expires_at is not null;
create index connection_grants_live on connection_grants (id) where revoked_at is null;

create table connection_handles (
    account_id text not null,
    handle text not null,
    connection_id text not null,
    primary key (account_id, handle)
);

create table connection_sign_ins (
    id text primary key,
    account_id text not null,
    person_id text not null,
    connector text not null,
    -- The SHA-256 of the state, which stands in the address alone.
    state_hash bytea not null,
    -- Sealed: the PKCE verifier.
    verifier bytea not null,
    -- What is made of it: the connection's name, description, config and scopes, as JSON, and the connection that it is for.
    request text not null,
    connection_id text not null,
    -- `pending`, `completed` or `failed`; one that is pending too long is expired.
    status text not null,
    reason text not null,
    created_at bigint not null,
    expires_at bigint not null,
    -- When the state was used.
    taken_at bigint
);
create index connection_sign_ins_by_account on connection_sign_ins (account_id, person_id);
create index connection_sign_ins_by_age on connection_sign_ins (created_at);
create index connection_sign_ins_by_person on connection_sign_ins (person_id);
create unique index connection_sign_ins_by_state on connection_sign_ins (state_hash);

create table connection_uses (
    id text primary key,
    account_id text not null,
    -- Empty for the test of a connection that was never made.
    connection_id text not null,
    action text not null,
    at bigint not null,
    caller_kind text not null,
    caller text not null,
    grant_id text not null,
    status text not null,
    error_class text not null,
    executor text not null,
    status_code bigint not null,
    latency_ms bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null
);
create index connection_uses_by_account on connection_uses (account_id, id);
create index connection_uses_by_connection on connection_uses (connection_id, id);

create table connections (
    id text primary key,
    account_id text not null,
    -- `endpoint`, or the connector's id.
    kind text not null,
    name text not null,
    description text not null,
    -- What the names of its tools begin with.
    handle text not null,
    auth_mode text not null,
    -- What the provider calls the account behind the credential, and its id there; the latter is empty where there is none.
    label text not null,
    external_id text not null,
    -- What the configuration says of the provider's host; empty where that is always the same.
    host text not null,
    -- `active` or `needs_reconnect`; `paused` stands beside it, because it goes back to what it was.
    status text not null,
    paused boolean not null,
    -- JSON: an object of strings, and a list of strings.
    config text not null,
    scopes text not null,
    executor text not null,
    agent_id text not null,
    -- Who made it.
    owner text not null,
    credential_id text not null,
    credential_kind text not null,
    credential_set_at bigint,
    last_test_at bigint,
    last_test_ok boolean not null,
    last_test_error text not null,
    created_at bigint not null,
    updated_at bigint not null,
    -- Grows with every change by a caller.
    version bigint not null
);
create index connections_by_account on connections (account_id, id);
create unique index connections_by_workspace on connections (account_id, kind, host, external_id) where external_id <> '';

create table credentials (
    id text primary key,
    account_id text not null,
    kind text not null,
    name text not null,
    scopes text not null,
    secret_hash bytea,
    secret_hint text not null,
    parent text,
    created_by text not null,
    created_at bigint not null,
    last_used_at bigint,
    expires_at bigint,
    revoked_at bigint,
    signing_key text
);
create index credentials_by_account on credentials (account_id, kind, id);
create index credentials_by_parent on credentials (parent) where parent is not null;

create table domain_checks (
    account_id text not null,
    name text not null,
    -- As in `domains`.
    checks text not null,
    -- When the last of them counts no more.
    expires_at bigint not null,
    primary key (account_id, name)
);
create index domain_checks_by_end on domain_checks (expires_at);

create table domain_locks (
    name text primary key
);

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
    -- When it ends if nobody sees the record before; what was last told.
    ends_at bigint,
    -- Since when no resolver answered: that time does not count against the domain.
    unreachable_since bigint,
    -- The last checks and confirmations, in microseconds with spaces between them.
    checks text not null,
    -- When it is due to be looked at; null for never. The item of the queue has the id of the row.
    next_look_at bigint
);
create unique index domains_by_account on domains (account_id, name);
create index domains_by_id on domains (account_id, id);
create index domains_by_look on domains (next_look_at) where next_look_at is not null;
create index domains_by_name on domains (name);
create unique index domains_verified on domains (name) where status = 'verified';

create table events (
    account_id text not null,
    sequence bigint not null,
    id text not null,
    type text not null,
    occurred_at bigint not null,
    data text not null,
    primary key (account_id, sequence)
);
create unique index events_by_id on events (id);
create index events_by_time on events (account_id, occurred_at);
create index events_by_type on events (account_id, type, sequence);

create table idempotency_records (
    account_id text not null,
    caller text not null,
    operation text not null,
    key text not null,
    fingerprint bytea not null,
    claim text not null,
    state text not null,
    expires_at bigint not null,
    answer bytea, steps bytea, claimed_until bigint,
    primary key (account_id, caller, operation, key)
);
create index idempotency_records_by_end on idempotency_records (expires_at);

create table invitations (
    id text primary key,
    account_id text not null references accounts (id),
    email text not null,
    role text not null,
    token_hash bytea not null,
    mailed boolean not null,
    created_by text not null,
    created_at bigint not null,
    expires_at bigint not null
);
create index invitations_by_address on invitations (email);
create unique index invitations_by_email on invitations (account_id, email);
create index invitations_by_end on invitations (expires_at);
create index invitations_by_maker on invitations (created_by);
create unique index invitations_by_token on invitations (token_hash);

create table keyring_canary (
    id bigint primary key,
    sealed bytea not null
);

create table lease_locks (
    account_id text not null,
    resource text not null,
    primary key (account_id, resource)
);

create table leases (
    account_id text not null,
    resource text not null,
    holder text not null,
    amount bigint not null,
    recalled boolean not null,
    renewed_at bigint not null, frees_at bigint,
    primary key (account_id, resource, holder)
);
create index leases_by_holder on leases (holder, recalled);

create table links (
    hash bytea primary key,
    purpose text not null,
    person_id text not null,
    email text not null,
    expires_at bigint not null
);
create index links_by_person on links (person_id, purpose);

create table members (
    account_id text not null references accounts (id),
    person_id text not null references people (id),
    role text not null,
    created_at bigint not null,
    primary key (account_id, person_id)
);
create index members_by_age on members (account_id, created_at, person_id);
create index members_by_person on members (person_id, account_id);

create table meter_database (
    id bigint primary key,
    name text not null
);

create table meter_journals (
    id text primary key,
    position bigint not null,
    seen_at bigint not null
);

create table mqtt_sessions (
    account_id text not null,
    credential text not null,
    client_id text not null,
    holder text not null,
    filters text not null,
    taken bigint not null,
    sent bigint not null,
    expires_at bigint not null,
    primary key (account_id, credential, client_id)
);
create index mqtt_sessions_by_end on mqtt_sessions (expires_at);

create table passkeys (
    id text primary key,
    person_id text not null references people (id),
    name text not null,
    passkey text not null,
    created_at bigint not null,
    last_used_at bigint
);
create index passkeys_by_person on passkeys (person_id, id);

create table passwords (
    person_id text primary key references people (id),
    hash text not null,
    changed_at bigint not null
);

create table people (
    id text primary key,
    email text not null,
    name text not null,
    email_verified boolean not null,
    account_id text not null,
    created_at bigint not null
);
create unique index people_by_email on people (email);

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
create index queue_items_by_account on queue_items (account_id);
create index queue_items_by_due on queue_items (queue, due_at) where failed_at is null;
create index queue_items_by_failed on queue_items (failed_at) where failed_at is not null;

create table recovery_codes (
    person_id text not null references people (id),
    hash bytea not null,
    primary key (person_id, hash)
);

create table request_blocks (
    account_id text not null,
    last_at bigint not null,
    id text not null,
    first_at bigint not null,
    requests bigint not null,
    worst_status bigint not null,
    body bytea not null,
    primary key (account_id, last_at, id)
);
create index request_blocks_by_age on request_blocks (last_at);

create table revocations (
    id text primary key,
    at bigint not null,
    lifted boolean not null
);
create index revocations_by_time on revocations (at);

create table schema_migrations (
    number bigint primary key,
    name text not null,
    checksum text not null,
    applied_at bigint not null
);

create table service_credentials (
    id text primary key,
    service text not null,
    secret_hash bytea not null,
    secret_hint text not null,
    created_at bigint not null,
    last_used_at bigint,
    revoked_at bigint
);
create index service_credentials_by_service on service_credentials (service, id);

create table service_documents (
    service text primary key,
    -- As it stood in its file.
    document text not null,
    loaded_at bigint not null
);

create table service_event_types (
    event_type text primary key,
    service text not null,
    -- JSON Schema of `data`; it never changes.
    data_schema text not null
);

create table service_ids (
    service text not null,
    kind text not null,
    id text not null,
    account_id text not null,
    accepted_at bigint not null,
    primary key (service, kind, id)
);
create index service_ids_by_account on service_ids (account_id);
create index service_ids_by_age on service_ids (accepted_at);

create table sessions (
    id text primary key,
    person_id text not null references people (id),
    token_hash bytea not null,
    address text not null,
    user_agent text not null,
    created_at bigint not null,
    last_seen_at bigint not null,
    expires_at bigint not null
);
create index sessions_by_end on sessions (expires_at);
create index sessions_by_person on sessions (person_id, id);
create unique index sessions_by_token on sessions (token_hash);

create table signing_keys (
    id text primary key,
    public_key bytea not null,
    sealed_private_key bytea not null,
    created_at bigint not null,
    activates_at bigint not null default 0
);

create table stream_accounts (
    account_id text primary key,
    taken_at bigint not null
);

create table stream_nodes (
    node_id text primary key,
    expires_at bigint not null
);

create table stream_people (
    person_id text primary key,
    taken_at bigint not null
);

create table stream_places (
    account_id text not null,
    credential text not null,
    node_id text not null,
    held bigint not null, person_id text,
    primary key (account_id, credential, node_id)
);
create index stream_places_by_node on stream_places (node_id);
create index stream_places_by_person on stream_places (person_id);

create table totp_secrets (
    person_id text primary key references people (id),
    sealed bytea not null,
    last_step bigint not null,
    created_at bigint not null
);

create table unit_budgets (
    account_id text not null,
    month text not null,
    until bigint not null,
    budget bigint not null,
    used bigint not null,
    primary key (account_id, month, until)
);
create index unit_budgets_by_age on unit_budgets (until);

create table unit_months (
    account_id text not null,
    month text not null,
    used bigint not null,
    granted bigint not null,
    notified bigint not null, budget_changed_at bigint not null default 0,
    primary key (account_id, month)
);

create table usage_days (
    account_id text not null,
    day bigint not null,
    subject text not null,
    rpc text not null,
    calls bigint not null,
    units bigint not null,
    client_errors bigint not null,
    platform_errors bigint not null,
    primary key (account_id, day, subject, rpc)
);

create table usage_hours (
    account_id text not null,
    hour bigint not null,
    calls bigint not null,
    units bigint not null,
    client_errors bigint not null,
    platform_errors bigint not null,
    primary key (account_id, hour)
);

create table usage_months (
    account_id text not null,
    month text not null,
    subject text not null,
    rpc text not null,
    calls bigint not null,
    units bigint not null,
    tokens bigint not null,
    client_errors bigint not null,
    platform_errors bigint not null,
    latency bytea not null,
    primary key (account_id, month, subject, rpc)
);

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
    last_at bigint,
    by_hand boolean not null default false
);
create index webhook_deliveries_by_endpoint on webhook_deliveries (endpoint_id, created_at, id);
create index webhook_deliveries_due on webhook_deliveries (account_id, endpoint_id, lane, place)
    where next_at is not null;

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
    deleted_at bigint,
    created_by text not null default '', url_set_by text not null default '', proven_at bigint
);
create unique index webhook_endpoints_by_account on webhook_endpoints (account_id, tag);
create index webhook_endpoints_by_inbox on webhook_endpoints (inbox_id) where inbox_id is not null;
create index webhook_endpoints_deleted on webhook_endpoints (deleted_at) where deleted_at is not null;

create table webhook_holds (
    endpoint_id text primary key,
    account_id text not null,
    sequence bigint not null
);
create index webhook_holds_by_account on webhook_holds (account_id);

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

create table webhook_queues (
    account_id text primary key,
    claim text not null,
    claimed_until bigint not null
);
create index webhook_queues_by_claim on webhook_queues (claim);

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

create table webhook_subscriptions (
    account_id text not null,
    event_type text not null,
    endpoint_id text not null,
    primary key (account_id, event_type, endpoint_id)
);
create index webhook_subscriptions_by_endpoint on webhook_subscriptions (endpoint_id);
