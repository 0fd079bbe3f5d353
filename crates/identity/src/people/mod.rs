//! People: who they are, and how they show that it is they.

pub(crate) mod attempts;
mod email;
pub(crate) mod ending;
pub(crate) mod known_browser;
pub(crate) mod links;
pub(crate) mod passkeys;
pub(crate) mod password;
mod password_memory;
mod password_queue;
mod person;
pub(crate) mod session;
pub(crate) mod totp;

pub(crate) use email::canonical;
pub(crate) use person::check_name;
pub use person::{CreatedPerson, NewPerson, People};
