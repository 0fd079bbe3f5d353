//! `portico listen`: the account's events on this screen, and at a receiver on this machine.
//!
//! One event after the other is posted as a delivery would be, so that a receiver can be written without an address that
//! the server could reach. Nothing is tried again: whoever writes a receiver asks for the next event. After a cut the
//! stream goes on where it was, so that nothing is missed.

mod client;
mod forward;
mod sse;

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use clap::builder::{StringValueParser, TypedValueParser};
use portico_kernel::{Clock, Entropy, Secret};
use portico_webhooks::SigningKey;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};

use crate::api::{Api, ApiAccess, ApiError, Refusal, check, printable};
use crate::config::Config;

use client::EventStream;
use forward::{Forward, ForwardResult};
use sse::SseBlock;

/// How long to wait after a cut where the server has not said.
const RETRY: Duration = Duration::from_secs(2);
/// Nobody is called more often, whatever they say,
const RETRY_MIN: Duration = Duration::from_millis(10);
/// nor waited for longer.
const RETRY_MAX: Duration = Duration::from_mins(5);
/// What waiting grows to while nobody answers.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// As long as the longest type of event that there is, so that lines stand below each other.
const TYPE_WIDTH: usize = 22;

type Failure = Box<dyn Error + Send + Sync>;

/// Which events, and what becomes of them.
#[derive(Debug, Args)]
pub(crate) struct Listen {
    #[command(flatten)]
    access: ApiAccess,
    /// Where to post each event, such as `http://127.0.0.1:3000/hook` [default: nowhere]
    #[arg(long, value_name = "URL")]
    forward: Option<String>,
    /// The types of events, with commas between them [default: all]
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// What to sign with, `whsec_…` [default: a new one, which is shown]
    #[arg(long, value_name = "SECRET", requires = "forward",
        value_parser = StringValueParser::new().map(Secret::new))]
    secret: Option<Secret<String>>,
}

/// Listens until SIGTERM or SIGINT, or until the server refuses for good.
pub(crate) async fn run(
    config: &Config,
    listen: Listen,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let types = named_types(&listen.types)?;
    let api = Api::new(config, listen.access)?;
    say(&format!("Listening to the events of {}; Ctrl-C ends it.", api.url))?;
    let forward = match listen.forward {
        Some(url) => Some(forward_to(&api, url, listen.secret.as_ref(), entropy)?),
        None => None,
    };
    let mut listener = Listener {
        api,
        types,
        forward,
        clock,
        last_id: String::new(),
        retry: RETRY,
        tally: Tally::default(),
    };
    let ended = tokio::select! {
        ended = listener.follow() => Some(ended),
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    match ended {
        None => Ok(say(&listener.sum_up())?),
        Some(Ok(never)) => match never {},
        Some(Err(failure)) => {
            if listener.tally.events > 0 {
                say(&listener.sum_up())?;
            }
            Err(failure)
        }
    }
}

/// The types of `--types`. The server says which of them are none; without any name it would send all of them.
fn named_types(given: &[String]) -> Result<Vec<String>, Failure> {
    let types: Vec<_> = given.iter().map(|each| each.trim().to_owned()).collect();
    if types.iter().any(String::is_empty) {
        return Err("--types must be event types with commas between them, and one of these is empty".into());
    }
    Ok(types)
}

fn forward_to(
    api: &Api,
    url: String,
    secret: Option<&Secret<String>>,
    entropy: &dyn Entropy,
) -> Result<Forward, Failure> {
    check(&api.egress, "--forward", &url)?;
    let (key, shown) = if let Some(secret) = secret {
        let key = secret.expose().parse().map_err(|message| format!("--secret {message}"))?;
        (key, "the secret that you gave".to_owned())
    } else {
        let key = SigningKey::generate(entropy);
        let shown = key.text();
        (key, shown)
    };
    say(&format!("Forwarding to {}, signed with {shown}", printable(&url)))?;
    Ok(Forward { url, key })
}

/// One line on the standard output, at once.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// The fields of an event that are shown.
#[derive(Deserialize)]
struct EventHeader {
    id: String,
    r#type: String,
}

impl EventHeader {
    fn read(data: &[u8]) -> Option<Self> {
        let header: Self = serde_json::from_slice(data).ok()?;
        // It is sent as an HTTP header.
        let is_id = !header.id.is_empty() && header.id.bytes().all(|byte| byte.is_ascii_graphic());
        is_id.then_some(header)
    }
}

/// The events that came, and the results of forwarding them.
#[derive(Debug, Default)]
struct Tally {
    events: u64,
    accepted: u64,
    refused: u64,
    unanswered: u64,
}

impl Tally {
    fn count(&mut self, result: &ForwardResult) {
        match result.status {
            Ok(status) if status.is_success() => self.accepted += 1,
            Ok(_) => self.refused += 1,
            Err(_) => self.unanswered += 1,
        }
    }
}

struct Listener<'a> {
    api: Api,
    types: Vec<String>,
    forward: Option<Forward>,
    clock: &'a dyn Clock,
    /// The id of the last block; empty before the first.
    last_id: String,
    retry: Duration,
    tally: Tally,
}

/// The end of a stream.
struct Disconnect {
    reason: String,
    /// Had anything come before?
    received: bool,
}

impl Listener<'_> {
    /// Follows the stream through cuts, until the server refuses for good.
    async fn follow(&mut self) -> Result<Infallible, Failure> {
        let mut failures = 0;
        loop {
            let stream = client::open(&self.api, &self.types, &self.last_id).await;
            let (reason, retry_after) = match stream {
                Ok(stream) => {
                    self.note("connected")?;
                    let end = self.read(stream).await?;
                    failures = if end.received { 0 } else { failures + 1 };
                    (end.reason, None)
                }
                Err(error) if client::is_final(&error) => return Err(error.into()),
                Err(error) => {
                    failures += 1;
                    summary(&error)
                }
            };
            let wait = pause(self.retry, failures).max(retry_after.unwrap_or_default().min(RETRY_MAX));
            self.note(format_args!("{reason}; trying again in {} s", wait.as_millis().div_ceil(1000)))?;
            self.clock.sleep(wait).await;
        }
    }

    async fn read(&mut self, mut stream: EventStream) -> Result<Disconnect, Failure> {
        let mut received = false;
        loop {
            match stream.next().await {
                Ok(block) => self.take(block).await?,
                Err(reason) => return Ok(Disconnect { reason, received }),
            }
            received = true;
        }
    }

    async fn take(&mut self, block: SseBlock) -> Result<(), Failure> {
        let SseBlock { id, event, data, retry } = block;
        self.retry = retry.unwrap_or(self.retry);
        if let Some(data) = data {
            match event.as_str() {
                "resync" => {
                    self.note("resync: events since the last one are not kept any more, and are lost")?;
                }
                "error" => {
                    let refusal = Refusal::read(&data).unwrap_or_else(|| Refusal::saying("not said why"));
                    self.note(format_args!("error: {refusal}"))?;
                }
                _ => self.take_event(data).await?,
            }
        }
        if let Some(id) = id {
            self.last_id = id;
        }
        Ok(())
    }

    async fn take_event(&mut self, data: Vec<u8>) -> Result<(), Failure> {
        let Some(EventHeader { id, r#type }) = EventHeader::read(&data) else {
            return self.note("an event that cannot be read was passed over");
        };
        self.tally.events += 1;
        let came = format!("{:<TYPE_WIDTH$}  {id}", printable(&r#type));
        let Some(forward) = &self.forward else { return self.note(came) };
        let result = forward.send(&self.api.egress, &id, data.into(), self.clock.now()).await;
        self.tally.count(&result);
        self.note(format_args!("{came}  -> {result}"))
    }

    /// A line behind the time of day, in UTC.
    fn note(&self, what: impl fmt::Display) -> Result<(), Failure> {
        let now = self.clock.now().to_string();
        Ok(say(&format!("{}  {what}", now.get(11..19).unwrap_or_default()))?)
    }

    fn sum_up(&self) -> String {
        let Tally { events, accepted, refused, unanswered } = self.tally;
        let events = format!("{events} event{}", if events == 1 { "" } else { "s" });
        match self.forward {
            None => format!("Stopped after {events}."),
            Some(_) => {
                format!(
                    "Stopped after {events}: {accepted} taken, {refused} refused, {unanswered} unanswered."
                )
            }
        }
    }
}

/// A failure that may pass in one line, and its `Retry-After`.
fn summary(error: &ApiError) -> (String, Option<Duration>) {
    match error {
        ApiError::Unreachable { .. } => (error.to_string(), None),
        ApiError::Refused { status, refusal, wait } => (format!("{}: {refusal}", status.as_u16()), *wait),
    }
}

/// How long to wait after so many failures in a row: as long as the server says, doubled with each failure but the
/// first.
fn pause(retry: Duration, failures: u32) -> Duration {
    let retry = retry.clamp(RETRY_MIN, RETRY_MAX);
    let doubled = retry.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(BACK_OFF_MAX).max(retry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_grows_to_half_a_minute() {
        let seconds = |retry: u64| {
            let retry = Duration::from_secs(retry);
            [0, 1, 2, 3, 4, 5, 6, u32::MAX].map(|failures| pause(retry, failures).as_secs())
        };
        assert_eq!(seconds(2), [2, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(seconds(60), [60; 8], "the server knows better");
        assert_eq!(seconds(86_400), [300; 8]);
        assert_eq!(pause(Duration::ZERO, 0), RETRY_MIN);
        assert!(pause(Duration::ZERO, 20) > Duration::from_secs(20), "not even then forever at once");
    }

    #[test]
    fn an_event_has_an_id_that_an_http_header_can_hold() {
        for bad in ["", "{}", "[]", r#"{"id":"","type":"a"}"#, r#"{"id":"e\nx","type":"a"}"#, r#"{"id":"e"}"#]
        {
            assert!(EventHeader::read(bad.as_bytes()).is_none(), "{bad}");
        }
        assert_eq!(EventHeader::read(br#"{"id":"evt_1","type":"a","data":{}}"#).unwrap().id, "evt_1");
    }
}
