//! A letter: sealed while it waits, and as it goes out.

use std::borrow::Cow;
use std::time::SystemTime;

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, SinglePart};
use lettre::{Address, Message};
use portico_engine::Engine;
use portico_engine::ports::MailMessage;
use portico_kernel::{MailId, Problem, Timestamp};
use portico_store::Context;
use serde::{Deserialize, Serialize};

/// The letter as it is sealed. The names stay: letters outlive the program that wrote them.
#[derive(Serialize, Deserialize)]
struct Kept<'a> {
    to: Cow<'a, str>,
    subject: Cow<'a, str>,
    text: Cow<'a, str>,
}

fn context(row: &str) -> Context<'_> {
    Context { account: "", row, purpose: "mail" }
}

/// Seals the letter for the row `id`.
pub(crate) fn seal(engine: &Engine, id: MailId, letter: &MailMessage) -> Result<Vec<u8>, Problem> {
    let (to, subject, text) = (&letter.to, &letter.subject, &letter.text);
    let kept = Kept { to: to.into(), subject: subject.into(), text: text.into() };
    let plain = serde_json::to_vec(&kept).map_err(Problem::internal)?;
    Ok(engine.keyring.seal(engine.entropy.as_ref(), context(&id.to_string()), &plain))
}

/// Opens the letter of the row `id`; nothing when it is damaged.
pub(crate) fn open(engine: &Engine, id: MailId, sealed: &[u8]) -> Option<MailMessage> {
    let plain = engine.keyring.open(context(&id.to_string()), sealed).ok()?;
    let kept: Kept<'_> = serde_json::from_slice(plain.expose()).ok()?;
    let (to, subject, text) = (kept.to.into_owned(), kept.subject.into_owned(), kept.text.into_owned());
    Some(MailMessage { to, subject, text })
}

/// The letter as it goes out; nothing when its address is none. Its id and its date are those of the row, so that a
/// letter that went out twice is seen to be one.
pub(crate) fn message(
    from: &Mailbox,
    id: MailId,
    written: Timestamp,
    letter: &MailMessage,
) -> Option<Message> {
    let to: Address = letter.to.parse().ok()?;
    let date = SystemTime::UNIX_EPOCH + written.since(Timestamp::from_seconds(0));
    // Nobody's machine shall answer that they are on holiday.
    let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
    Message::builder()
        .from(from.clone())
        .to(Mailbox::new(None, to))
        .subject(letter.subject.as_str())
        .date(date)
        .message_id(Some(format!("<{id}@{}>", from.email.domain())))
        .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
        .singlepart(SinglePart::plain(letter.text.clone()))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: Timestamp = Timestamp::from_seconds(1_769_850_000);

    fn written(to: &str, subject: &str, text: &str) -> Option<(Vec<String>, String)> {
        let from = "Portico <no-reply@portico.example>".parse().unwrap();
        let letter = MailMessage { to: to.to_owned(), subject: subject.to_owned(), text: text.to_owned() };
        let message = message(&from, MailId::from_parts(WRITTEN, [0; 10]), WRITTEN, &letter)?;
        let receivers = message.envelope().to().iter().map(ToString::to_string).collect();
        Some((receivers, String::from_utf8(message.formatted()).unwrap()))
    }

    #[test]
    fn a_letter_says_who_and_when() {
        let (receivers, text) = written("ada@example.com", "Sign in", "Open https://x.example/?a=b").unwrap();
        assert_eq!(receivers, ["ada@example.com"]);
        for line in [
            "From: Portico <no-reply@portico.example>\r\n",
            "To: ada@example.com\r\n",
            "Subject: Sign in\r\n",
            "Date: Sat, 31 Jan 2026 09:00:00 +0000\r\n",
            "Message-ID: <mail_01KG9MFMM00000000000000000@portico.example>\r\n",
            "Auto-Submitted: auto-generated\r\n",
            "MIME-Version: 1.0\r\n",
            "\r\n\r\nOpen https://x.example/?a=b",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn nothing_in_a_letter_adds_a_header_or_a_receiver() {
        let (receivers, text) = written(
            "ada@example.com",
            "Hello\r\nBcc: eve@example.com",
            "a\r\n.\r\nRCPT TO:<eve@example.com>",
        )
        .unwrap();
        assert_eq!(receivers, ["ada@example.com"]);
        let head = text.split("\r\n\r\n").next().unwrap();
        assert!(!head.to_lowercase().contains("\nbcc"), "{head}");
        for bad in
            ["", "ada", "ada@", "ada@example.com\r\nBcc: eve@example.com", "ada@example.com, eve@example.com"]
        {
            assert!(written(bad, "", "").is_none(), "{bad:?}");
        }
    }
}
