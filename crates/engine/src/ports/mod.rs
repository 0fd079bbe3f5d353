//! What one area needs of another, as small traits that `portico` wires: a file for each area that gives it, but for
//! what several give (`resources.rs`). An area never names another.

mod accounts;
mod domains;
mod events;
mod gateway;
mod identity;
mod mail;
mod metering;
mod resources;
mod services;
mod webhooks;

pub use accounts::{Enrolment, Membership, Memberships, PendingInvitation, account_closed};
pub use domains::Domains;
pub use events::{NewEvent, Streams};
pub use gateway::{CallRate, Progress, TokenCheck, TokenVerdict, ValidToken, Verifier};
pub use identity::{Directory, Key, PersonRecord};
pub use mail::{MailMessage, Mailer};
pub use metering::{Charge, ReportedUsage, Units, UnitsLeft};
pub use resources::{CreatedCredentials, CreatedResource, CreatedResources, ResourceKind};
pub use services::ConfiguredServices;
pub use webhooks::{AfterCommit, Outbox};
