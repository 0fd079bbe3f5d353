//! A message: sealed in the outbox, and as it is sent.

use std::borrow::Cow;
use std::time::SystemTime;

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, SinglePart};
use lettre::{Address, Message};
use portico_engine::Engine;
use portico_engine::ports::MailMessage;
use portico_kernel::{Brand, MailId, Problem, Timestamp};
use portico_store::{Context, SealedColumn, sealed_column};
use serde::{Deserialize, Serialize};

use crate::Sender;

/// The sealed form of a message. The field names must stay: messages outlive the version that wrote them.
#[derive(Serialize, Deserialize)]
struct SealedMessage<'a> {
    to: Cow<'a, str>,
    subject: Cow<'a, str>,
    text: Cow<'a, str>,
}

const PURPOSE: &str = "mail";

/// The messages that wait in the queue.
pub(crate) const SEALED: SealedColumn = sealed_column!(
    "queue_items",
    "payload",
    key "id",
    account "''",
    row "id",
    purpose PURPOSE,
    where "queue = 'mail.send' and failed_at is null"
);

fn context(row: &str) -> Context<'_> {
    Context { account: "", row, purpose: PURPOSE }
}

/// Seals the message for the row `id`.
pub(crate) fn seal(engine: &Engine, id: MailId, message: &MailMessage) -> Result<Vec<u8>, Problem> {
    let MailMessage { to, subject, text } = message;
    let sealed = SealedMessage { to: to.into(), subject: subject.into(), text: text.into() };
    let plain = serde_json::to_vec(&sealed).map_err(Problem::internal)?;
    Ok(engine.keyring.seal(engine.entropy.as_ref(), context(&id.to_string()), &plain))
}

/// Opens the message of the row `id`; `None` when it is damaged.
pub(crate) fn open(engine: &Engine, id: MailId, sealed: &[u8]) -> Option<MailMessage> {
    let plain = engine.keyring.open(context(&id.to_string()), sealed).ok()?;
    let SealedMessage { to, subject, text } = serde_json::from_slice(plain.expose()).ok()?;
    Some(MailMessage { to: to.into_owned(), subject: subject.into_owned(), text: text.into_owned() })
}

/// What stands below every text.
fn foot(brand: &Brand) -> String {
    let help =
        if brand.support_url.is_empty() { String::new() } else { format!("\nHelp: {}", brand.support_url) };
    // By this line programs that show mail tell a signature (RFC 3676, section 4.3).
    format!("\n-- \n{}{help}\n", brand.name)
}

/// The message in the form that is sent; `None` when its address is malformed. Its id and its date are those of the row,
/// so that a message that was sent twice is recognised as one.
pub(crate) fn to_mime(
    sender: &Sender,
    id: MailId,
    created_at: Timestamp,
    message: &MailMessage,
) -> Option<Message> {
    let to: Address = message.to.parse().ok()?;
    let date = SystemTime::UNIX_EPOCH + created_at.since(Timestamp::from_seconds(0));
    // Keeps automatic replies away (RFC 3834).
    let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
    Message::builder()
        .from(sender.from.clone())
        .to(Mailbox::new(None, to))
        .subject(format!("{}: {}", sender.brand.name, message.subject))
        .date(date)
        .message_id(Some(format!("<{id}@{}>", sender.from.email.domain())))
        .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
        .singlepart(SinglePart::plain(format!("{}\n{}", message.text.trim_end(), foot(&sender.brand))))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: Timestamp = Timestamp::from_seconds(1_769_850_000);

    fn sent(to: &str, subject: &str, text: &str) -> Option<(Vec<String>, String)> {
        let from = "Acme <no-reply@portico.example>".parse().unwrap();
        let brand = Brand {
            support_url: "https://acme.example/help".to_owned(),
            ..Brand::new("Acme".to_owned(), None, None)
        };
        let sender = Sender { from, brand };
        let message = MailMessage { to: to.to_owned(), subject: subject.to_owned(), text: text.to_owned() };
        let mime = to_mime(&sender, MailId::from_parts(CREATED, [0; 10]), CREATED, &message)?;
        let receivers = mime.envelope().to().iter().map(ToString::to_string).collect();
        Some((receivers, String::from_utf8(mime.formatted()).unwrap()))
    }

    #[test]
    fn a_message_says_who_and_when() {
        let (receivers, text) = sent("ada@example.com", "Sign in", "Open https://x.example/?a=b").unwrap();
        assert_eq!(receivers, ["ada@example.com"]);
        for line in [
            "From: Acme <no-reply@portico.example>\r\n",
            "To: ada@example.com\r\n",
            "Subject: Acme: Sign in\r\n",
            "Date: Sat, 31 Jan 2026 09:00:00 +0000\r\n",
            "Message-ID: <mail_01KG9MFMM00000000000000000@portico.example>\r\n",
            "Auto-Submitted: auto-generated\r\n",
            "MIME-Version: 1.0\r\n",
            "\r\n\r\nOpen https://x.example/?a=b\r\n\r\n-- \r\nAcme\r\nHelp: https://acme.example/help\r\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn nothing_in_a_message_adds_a_header_or_a_receiver() {
        let (receivers, text) =
            sent("ada@example.com", "Hello\r\nBcc: eve@example.com", "a\r\n.\r\nRCPT TO:<eve@example.com>")
                .unwrap();
        assert_eq!(receivers, ["ada@example.com"]);
        let head = text.split("\r\n\r\n").next().unwrap();
        assert!(!head.to_lowercase().contains("\nbcc"), "{head}");
        for bad in
            ["", "ada", "ada@", "ada@example.com\r\nBcc: eve@example.com", "ada@example.com, eve@example.com"]
        {
            assert!(sent(bad, "", "").is_none(), "{bad:?}");
        }
    }
}
