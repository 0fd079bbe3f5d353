-- Streams: how many are open where, and what an MQTT client left when it went.

-- A server that has open streams. One that does not say so any more has none.
create table stream_nodes (
    node_id text primary key,
    expires_at bigint not null
);

-- Touched by whoever takes a place in the account, so that two never count at once.
create table stream_accounts (
    account_id text primary key,
    taken_at bigint not null
);

-- How many streams a credential of the account holds on a server.
create table stream_places (
    account_id text not null,
    credential text not null,
    node_id text not null,
    held bigint not null,
    primary key (account_id, credential, node_id)
);
create index stream_places_by_node on stream_places (node_id);

-- An MQTT session: what the client subscribed, up to where it has taken the account's events, and was sent them.
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
