-- A company's own services: the documents that ran last, and the event types that there ever were.
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
