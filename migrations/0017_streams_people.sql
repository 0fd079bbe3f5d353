-- Streams are counted by person too: those that somebody opens as themselves, and those of keys and API tokens that they
-- made.

alter table stream_places add column person_id text;
create index stream_places_by_person on stream_places (person_id);

-- Touched by whoever takes a place of the person, so that two never count at once; removed soon after.
create table stream_people (
    person_id text primary key,
    taken_at bigint not null
);
