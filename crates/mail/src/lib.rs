//! Mail that must arrive: a queue that is filled in the commit of what the mail is about, and a worker that sends what is
//! in it by SMTP.
//!
//! A message that cannot be sent is tried again for some hours, and then given up. It is sent at least once: when a server
//! fails between sending a message and recording so, the message is sent again, with the same `Message-ID`.
//!
//! Absent on purpose: what was sent. The row of a message is deleted when it is sent, and emptied when it is given up, and
//! no log line holds an address, a subject or a text: messages hold one-time links.
//!
//! Start reading at `send.rs`.
//!
//! Invariant: a message is in the database sealed, or not at all.

pub mod limits;
mod message;
mod model;
mod send;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use lettre::message::Mailbox;
use lettre::{AsyncSmtpTransport, Tokio1Executor};
use portico_engine::ports::{MailMessage, Mailer};
use portico_engine::queue::{NewItem, PROBE, enqueue};
use portico_engine::{Area, Engine};
use portico_kernel::{Brand, MailId, Problem};
use portico_store::Tx;

/// The mail server, and the sender's address.
#[derive(Clone)]
pub struct Smtp {
    /// The server, with user and password: `smtps://user:password@mail.example.com`, or `smtp://…?tls=required` for
    /// STARTTLS. `?tls=opportunistic` takes what it gets, and `smtp://` alone never encrypts: for a server on this
    /// machine. A path is the name by which we say hello.
    pub url: String,
    /// The sender, such as `no-reply@example.com`. Without a name of its own, as in `Acme <no-reply@example.com>`, it has the
    /// brand's.
    pub from: String,
}

impl fmt::Debug for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address holds a password.
        f.debug_struct("Smtp").field("url", &"***").field("from", &self.from).finish()
    }
}

/// Why mail cannot be sent with these settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailError {
    /// The server's URL is malformed.
    Url,
    /// The sender's address is malformed.
    From,
}

impl fmt::Display for MailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url => {
                "the mail server must be smtps://…, smtp://…?tls=required, smtp://…?tls=opportunistic or smtp://…"
            }
            Self::From => "the sender of mail must be an address such as `Portico <no-reply@example.com>`",
        })
    }
}

impl std::error::Error for MailError {}

/// The area's state: the client of the mail server, when one is configured.
pub struct Mail(Option<SmtpClient>);

/// The client of the mail server.
pub(crate) struct SmtpClient {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    sender: Sender,
}

/// Whom mail is from.
pub(crate) struct Sender {
    /// The address, with a name.
    pub(crate) from: Mailbox,
    pub(crate) brand: Brand,
}

impl Mail {
    /// The area's state; without settings no message can be posted, and those in the outbox wait. What is sent is from
    /// `brand`.
    pub fn new(settings: Option<Smtp>, brand: Brand) -> Result<Arc<Self>, MailError> {
        let client = settings.map(|settings| SmtpClient::new(&settings, brand)).transpose()?;
        Ok(Arc::new(Self(client)))
    }
}

impl SmtpClient {
    fn new(settings: &Smtp, brand: Brand) -> Result<Self, MailError> {
        // What the library says about a bad address may repeat the password in it.
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(&settings.url);
        let transport = transport.map_err(|_| MailError::Url)?.timeout(Some(limits::SEND_TIME_MAX)).build();
        let mut from: Mailbox = settings.from.parse().map_err(|_| MailError::From)?;
        from.name.get_or_insert_with(|| brand.name.clone());
        Ok(Self { transport, sender: Sender { from, brand } })
    }
}

/// The area's queue.
pub fn area(mail: &Arc<Mail>) -> Area {
    Area::builder("mail", mail.clone())
        .worker(Arc::new(send::SendMail(mail.clone())))
        .probe(PROBE)
        .seals(&[message::SEALED])
        .build()
}

impl Mailer for Mail {
    fn is_configured(&self) -> bool {
        self.0.is_some()
    }

    fn post<'a>(
        &'a self,
        engine: &'a Engine,
        tx: &'a mut Tx,
        message: &'a MailMessage,
    ) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            if !self.is_configured() {
                return Err(Problem::internal("mail was posted, and no mail server is configured"));
            }
            let now = engine.clock.now();
            let id: MailId = engine.entropy.id(now);
            let payload = message::seal(engine, id, message)?;
            let item = NewItem { id: id.to_string(), account: None, payload: &payload, due_at: now };
            Ok(enqueue::<send::SendMail>(tx, item, now).await?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(url: &str, from: &str) -> Result<bool, MailError> {
        let settings = Smtp { url: url.to_owned(), from: from.to_owned() };
        assert!(!format!("{settings:?}").contains("word"), "the password stays out of the log");
        Mail::new(Some(settings), Brand::default()).map(|mail| mail.is_configured())
    }

    #[test]
    fn settings_are_checked_at_the_start() {
        for url in [
            "smtps://user:word@mail.example.com",
            "smtp://user:word@mail.example.com:2525?tls=required",
            "smtp://mail.example.com/our.name?tls=opportunistic",
            "smtp://127.0.0.1:25",
        ] {
            assert_eq!(made(url, "no-reply@example.com"), Ok(true), "{url}");
        }
        for url in ["", "mail.example.com", "http://mail.example.com", "smtp://h?tls=never", "smtp://:word@"]
        {
            assert_eq!(made(url, "no-reply@example.com"), Err(MailError::Url), "{url}");
        }
        for from in ["", "Portico", "no-reply@", "Portico <no-reply>"] {
            assert_eq!(made("smtp://127.0.0.1", from), Err(MailError::From), "{from}");
        }
        assert_eq!(Mail::new(None, Brand::default()).map(|mail| mail.is_configured()), Ok(false));
    }

    #[test]
    fn a_sender_without_a_name_has_the_brands() {
        let sender = |from: &str| {
            let settings = Smtp { url: "smtp://127.0.0.1:25".to_owned(), from: from.to_owned() };
            let client = SmtpClient::new(&settings, Brand::new("Acme".to_owned(), None, None)).unwrap();
            client.sender.from.to_string()
        };
        assert_eq!(sender("no-reply@example.com"), "Acme <no-reply@example.com>");
        assert_eq!(sender("Ada <ada@example.com>"), "Ada <ada@example.com>");
    }
}
