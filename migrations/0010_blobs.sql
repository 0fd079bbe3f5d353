-- Blobs: bytes that are too large for a row. A row is written once its object is stored, so there is no state between.

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
-- Equal content of an account is stored once.
create unique index blobs_by_content on blobs (account_id, hash, media_type, sealed);
