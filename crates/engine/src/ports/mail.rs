//! What mail gives to the others: messages that must arrive.

use futures_util::future::BoxFuture;
use portico_kernel::Problem;
use portico_store::Tx;

use crate::Engine;

/// Mail to one person. It may hold a one-time link, so it has no `Debug`.
#[derive(Clone)]
pub struct MailMessage {
    /// The e-mail address.
    pub to: String,
    /// The subject.
    pub subject: String,
    /// The text, plain.
    pub text: String,
}

/// Mail that must arrive. Kept by mail.
pub trait Mailer: Send + Sync {
    /// Can mail be sent at all? Whoever would send some asks first.
    fn is_configured(&self) -> bool;

    /// Adds the message to the queue of mail. It goes out after the commit of `tx`, and not without it; should a server
    /// fail in the moment of sending, it goes out twice.
    fn post<'a>(
        &'a self,
        engine: &'a Engine,
        tx: &'a mut Tx,
        letter: &'a MailMessage,
    ) -> BoxFuture<'a, Result<(), Problem>>;
}
