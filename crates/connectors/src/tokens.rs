//! Tokens, as providers answer them.

use std::time::Duration;

use http::header::RETRY_AFTER;
use portico_kernel::{Secret, Timestamp};

use crate::answer::{Answer, Message};
use crate::auth::TokenPointers;
use crate::pointer::Pointers;
use crate::probe::split_scopes;
use crate::rules::{Condition, retry_after};
use crate::scrub::Scrubber;

/// The longest token.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// The longest life of a token that is believed: ten years.
const LIFE_MAX: f64 = 315_360_000.0;

/// Tokens, as a provider answered them.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// The access token.
    pub access_token: Secret<String>,
    /// The refresh token, where there is one; a refresh that answers none keeps the old one.
    pub refresh_token: Option<Secret<String>>,
    /// When the access token ends, where the provider says so.
    pub expires_at: Option<Timestamp>,
    /// The scopes granted, where the provider says which.
    pub scopes: Option<Vec<String>>,
}

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenFailure {
    /// The provider will not take this grant again: a person has to sign in.
    Dead {
        /// The provider's error, see [`provider_error`].
        error: String,
    },
    /// The provider refuses, or its answer holds no token.
    Refused {
        /// As above.
        error: String,
    },
    /// The provider failed, or wants fewer calls.
    Failed {
        /// The status.
        status_code: u16,
        /// For how many seconds to wait, where the provider says so.
        retry_after: Option<u32>,
    },
}

/// An error of a provider as far as it is passed on: at most 64 of `[a-z0-9_.-]`, else `provider_error`.
pub fn provider_error(text: &str) -> &str {
    let may_stand = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-');
    let fits = (1..=64).contains(&text.len()) && text.bytes().all(may_stand);
    if fits { text } else { "provider_error" }
}

/// Reads the answer to an exchange or a refresh.
pub(crate) fn read(
    answer: &Answer<'_>,
    pointers: &TokenPointers,
    dead: &[Condition],
    now: Timestamp,
) -> Result<Tokens, TokenFailure> {
    let scrubber = Scrubber::default();
    let message = Message::new(answer, &scrubber);
    let access_token = token(&pointers.access_token, &message);
    if let Some(access_token) = access_token.filter(|_| answer.is_success()) {
        let scopes = scopes(&pointers.scope, &message);
        return Ok(Tokens {
            access_token,
            refresh_token: token(&pointers.refresh_token, &message),
            expires_at: expires_at(pointers, &message, now),
            scopes,
        });
    }
    let error = Pointers::standard("/error").text(&message).unwrap_or_default();
    let error = provider_error(&error).to_owned();
    match answer.status {
        429 | 500.. | ..200 => Err(TokenFailure::Failed {
            status_code: answer.status,
            retry_after: retry_after(&message, &RETRY_AFTER),
        }),
        _ if dead.iter().any(|condition| condition.holds(&message)) => Err(TokenFailure::Dead { error }),
        _ => Err(TokenFailure::Refused { error }),
    }
}

/// A token that a header can carry.
fn token(at: &Pointers, message: &Message<'_>) -> Option<Secret<String>> {
    let text = at.text(message)?;
    let fits = text.len() <= TOKEN_BYTES_MAX && text.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    fits.then(|| Secret::new(text))
}

/// When the token ends: after a span, or at an instant, in seconds since 1970 or as RFC 3339 writes it.
fn expires_at(pointers: &TokenPointers, message: &Message<'_>, now: Timestamp) -> Option<Timestamp> {
    let number = |text: String| text.parse::<f64>().ok().filter(|number| *number > 0.0);
    if let Some(life) = pointers.expires_in.text(message).and_then(number) {
        return Some(now + Duration::from_secs_f64(life.min(LIFE_MAX)));
    }
    let text = pointers.expires_at.text(message)?;
    let instant =
        text.parse::<Timestamp>().ok().or_else(|| text.parse().ok().map(Timestamp::from_seconds))?;
    Some(instant.min(now + Duration::from_secs_f64(LIFE_MAX)))
}

/// The scopes granted, as text or as a list.
fn scopes(at: &Pointers, message: &Message<'_>) -> Option<Vec<String>> {
    if let Some(text) = at.text(message) {
        return Some(split_scopes(&text));
    }
    let list: Vec<String> = serde_json::from_str(&at.json(message)?).ok()?;
    Some(split_scopes(&list.join(" ")))
}
