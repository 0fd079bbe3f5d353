//! A company's own services behind the gateway.
//!
//! 1. `ServiceSettings` (`settings.rs`) is `[services.NAME]` of the file.
//! 2. [`load`] reads the documents, from files or over HTTP, and says everything that is wrong with them at once.
//! 3. [`RunningServices::new`] (`running.rs`) makes of each what the gateway forwards to, and what it brings to the catalog.
//! 4. [`App::set_services`](crate::App::set_services) puts them in place: at the start, and again whenever they are read
//!    anew (`reload.rs`), which changes nothing when anything is wrong.
//!
//! What runs is kept in the database (`sql.rs`), so that `portico services diff` can tell what a document would change.

mod check;
mod fetch;
mod load;
mod reload;
mod running;
mod settings;
mod sql;

pub use check::ServicesCommand;
pub(crate) use check::fits;
pub use load::{LoadedService, load};
pub use reload::{ReloadSocket, reload_by_socket};
pub use running::RunningServices;
pub(crate) use running::{ServiceParts, table};
pub use settings::{ServiceSettings, ServiceTable};
pub(crate) use sql::{changed_types, keep};

pub(crate) use settings::SERVICES_MAX;
