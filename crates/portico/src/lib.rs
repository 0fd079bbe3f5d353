//! Portico: configuration, wiring, and the commands of the program.
//!
//! [`App`] is where the areas meet: it opens the database, makes the registry and hands each area what it needs of the
//! others. Nothing else in the workspace knows them all.

pub mod admin;
mod api;
mod app;
mod blob_settings;
mod brand_settings;
pub mod cli;
pub mod config;
mod dns_settings;
pub mod doctor;
mod egress_settings;
mod file_limit;
mod listen;
mod log;
mod open_error;
mod planned;
mod provider_settings;
mod serve;
mod server;
pub mod services;
pub mod settings;
mod tls_settings;
mod trigger;

pub(crate) use app::make_folder;
pub use app::{App, AppParts, Areas, Environment};
pub use blob_settings::BlobSettings;
pub use dns_settings::DnsSettings;
pub use open_error::OpenError;
pub use provider_settings::ProviderSettings;
pub use serve::serve;
pub use server::Server;
pub use tls_settings::{TlsFiles, TlsSettings};
