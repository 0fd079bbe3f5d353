//! What an operation is, and how one runs, whatever carried it here.
//!
//! An area lists its operations, events and jobs in an [`Area`]; the [`Registry`] holds them all; a transport admits a
//! call with [`Engine::admit`] and runs it with [`dispatch`]. `dispatch` owns the transaction: the change, its audit
//! entry, its events and the kept answer of an Idempotency-Key commit together or not at all.
//!
//! Start reading at [`Operation`], then [`dispatch`].
//!
//! Invariant: nothing here knows HTTP.

mod account_ref;
mod admission;
mod answer;
mod area;
mod blobs;
mod catalog;
pub mod clock;
mod ctx;
mod dispatch;
mod engine;
mod event;
mod example;
mod idempotency;
pub mod input;
mod jobs;
mod length_prefixed_hash;
mod metric;
mod offer;
mod operation;
mod page;
mod paging;
pub mod ports;
pub mod queue;
mod registry;
mod scope;
mod spec;
mod sql;
mod tool;
mod within;
mod wrap_anew;

pub use account_ref::AccountRef;
pub use admission::{Admission, EntryPoint, ROLE_REQUIRED};
pub use answer::{ANSWER_BYTES_MAX, Answer, AnswerKind, Body, ByteSource, BytesAnswer, Done, Output};
pub use area::{Area, AreaBuilder};
pub use blobs::blobs_area;
pub use catalog::{Catalog, CatalogPart, ServiceAudience};
pub use ctx::{Ctx, EVENT_BYTES_MAX, LockedAccount, Publication};
pub use dispatch::{
    Call, CallOptions, OPERATION_TIME_MAX, Reply, cancelled, dispatch, log_failure, timed_out,
};
pub use engine::Engine;
pub use event::{Envelope, Event, EventType, envelope_text, example_id};
pub use idempotency::{IdempotencyKey, release_stale_claims};
pub use jobs::{Job, JobOutcome, Service};
pub use length_prefixed_hash::LengthPrefixedHash;
pub use metric::{Buckets, Metric, MetricValue, Metrics};
pub use offer::{Assistant, Offer, OfferFault, OfferRequest, OfferedList, OperationTool, ToolOperation};
pub use operation::{DocumentedOperation, Entry, Operation, Ready};
pub use page::{CountedPage, Cursor, Page, PageRequest, PageSize};
pub use paging::{PAGE_FIELDS, next_query};
pub use registry::{Registry, RegistryError};
pub use scope::{Scope, Scopes};
pub use spec::{ACCOUNT_VARIABLE, Access, Method, Protocol, RequestBody, Spec};
pub use sql::{
    AuditRow, EventQuery, EventRow, audit_after, audit_sequence, event_sequence, events_after, events_before,
    lock_sequence,
};
pub use tool::Tool;
pub use within::within;
pub use wrap_anew::{KeyUse, key_uses};
