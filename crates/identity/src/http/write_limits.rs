//! How often a minute someone may make the provider write. It is counted in memory: a refusal leaves nothing behind,
//! and each server counts for itself (docs/decisions/0031-limits-of-the-pages.md).

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portico_kernel::{AuthorizationId, Code, PersonId, Problem, Timestamp};

use super::RequestContext;
use super::response::whole_seconds;
use super::routes::Counts;
use crate::limits::{self, WRITES_WINDOW};
use crate::oauth::client::CONSOLE;
use crate::people::known_browser::KnownBrowser;

/// Whoever has a minute of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Writer {
    Person(PersonId),
    /// The person's browsers that open the console: it asks for a code whenever its page is loaded.
    Console(PersonId),
    /// The browsers that the person signed in with before, while nobody is signed in there.
    KnownBrowsers(PersonId),
    Address(String),
    Network(String),
    /// What a person let an app do: an app's server refreshes for all its people, from one address.
    Authorization(AuthorizationId),
}

impl Writer {
    const fn limit(&self) -> usize {
        match self {
            Self::Person(_) | Self::KnownBrowsers(_) => limits::WRITES_OF_PERSON,
            Self::Console(_) => limits::CONSOLE_LOADS,
            Self::Address(_) => limits::WRITES_FROM_ADDRESS,
            Self::Network(_) => limits::WRITES_FROM_NETWORK,
            Self::Authorization(_) => limits::WRITES_OF_AUTHORIZATION,
        }
    }

    /// Is it where requests come from, and not whom they are of? Strangers can have many of these.
    const fn is_a_place(&self) -> bool {
        matches!(self, Self::Address(_) | Self::Network(_))
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Person(_) | Self::Console(_) | Self::KnownBrowsers(_) => "person",
            Self::Address(_) => "address",
            Self::Network(_) => "network",
            Self::Authorization(_) => "authorization",
        }
    }
}

/// A minute is used up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyWrites {
    pub(crate) message: String,
    pub(crate) wait: Duration,
}

impl From<TooManyWrites> for Problem {
    fn from(refused: TooManyWrites) -> Self {
        Self::new(Code::RateLimited, refused.message).retry_after(refused.wait)
    }
}

/// The writes of the last minute.
#[derive(Default)]
pub(crate) struct WriteLimits(Mutex<HashMap<Writer, VecDeque<Timestamp>>>);

impl WriteLimits {
    /// Counts a request: of someone who is signed in for them alone, so that strangers at the same address refuse them
    /// nothing; of anybody else for where it comes from.
    pub(crate) fn count(
        &self,
        counts: Counts,
        context: &RequestContext<'_>,
        signed_in: Option<PersonId>,
    ) -> Result<(), TooManyWrites> {
        match (counts, signed_in) {
            (Counts::Nothing, _) | (Counts::OfSignedIn, None) => Ok(()),
            (Counts::OfSignedIn, Some(person)) if is_for_console(context) => {
                self.take(context.now, vec![Writer::Console(person)])
            }
            (Counts::OfSignedIn | Counts::Every, Some(person)) => {
                self.take(context.now, vec![Writer::Person(person)])
            }
            (Counts::Every, None) => {
                // Once the known browsers of a person have used up theirs, each is like any other.
                let known = KnownBrowser::last_person(context).map(Writer::KnownBrowsers);
                if known.is_some_and(|known| self.take(context.now, vec![known]).is_ok()) {
                    return Ok(());
                }
                self.take(context.now, from(context))
            }
        }
    }

    /// Counts the use of a genuine refresh token, for the authorization that it is of.
    pub(crate) fn count_refresh(
        &self,
        authorization: AuthorizationId,
        now: Timestamp,
    ) -> Result<(), TooManyWrites> {
        self.take(now, vec![Writer::Authorization(authorization)])
    }

    /// Counts a sign-in, which is the person's as soon as it succeeds.
    pub(crate) fn count_sign_in(&self, person: PersonId, now: Timestamp) -> Result<(), TooManyWrites> {
        self.take(now, vec![Writer::Person(person)])
    }

    /// Counts one write of each; when the minute of one is used up, none is counted.
    fn take(&self, now: Timestamp, writers: Vec<Writer>) -> Result<(), TooManyWrites> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |time: &Timestamp| now.since(*time) >= WRITES_WINDOW;
        for writer in &writers {
            let Some(times) = counted.get_mut(writer) else { continue };
            while times.front().is_some_and(is_over) {
                times.pop_front();
            }
            let limit = writer.limit();
            if let Some(oldest) = times.front().filter(|_| times.len() >= limit) {
                let wait = (*oldest + WRITES_WINDOW).since(now);
                let (whose, seconds) = (writer.name(), whole_seconds(wait));
                let message = format!(
                    "Too many changes in a minute: one {whose} may make {limit}. Try again in {seconds} seconds."
                );
                return Err(TooManyWrites { message, wait });
            }
        }
        if counted.len() >= limits::WRITERS_MAX {
            counted.retain(|_, times| !times.back().is_none_or(is_over));
            // So many at once are no one stranger. What is forgotten is a minute: of people only if they are so many.
            if counted.len() >= limits::WRITERS_MAX {
                counted.retain(|writer, _| !writer.is_a_place());
            }
            if counted.len() >= limits::WRITERS_MAX {
                counted.clear();
            }
        }
        for writer in writers {
            counted.entry(writer).or_default().push_back(now);
        }
        Ok(())
    }
}

/// Is it the console that asks to be let in?
fn is_for_console(context: &RequestContext<'_>) -> bool {
    context.query().is_ok_and(|query| query.text("client_id") == CONSOLE)
}

/// Where the request came from, near and far.
fn from(context: &RequestContext<'_>) -> Vec<Writer> {
    let network = context.network_bucket().map(Writer::Network);
    [Writer::Address(context.address_bucket())].into_iter().chain(network).collect()
}

#[cfg(test)]
mod tests {
    use portico_kernel::{Entropy, SystemEntropy};

    use super::*;

    fn address(number: usize) -> Vec<Writer> {
        vec![Writer::Address(number.to_string())]
    }

    #[test]
    fn the_minute_moves_on_and_a_refusal_uses_up_nothing() {
        let (limits, start) = (WriteLimits::default(), Timestamp::from_seconds(1_000));
        let second = |number: u64| start + Duration::from_secs(number);
        for number in 0..120 {
            limits.take(second(30 * (number / 60)), address(1)).unwrap();
        }
        for _ in 0..100 {
            let refused = limits.take(second(45), address(1)).unwrap_err();
            assert_eq!(refused.wait, Duration::from_secs(15));
        }
        for _ in 0..60 {
            limits.take(second(60), address(1)).unwrap();
        }
        assert_eq!(limits.take(second(60), address(1)).unwrap_err().wait, Duration::from_secs(30));
    }

    #[test]
    fn memory_is_bounded() {
        let (counted, now) = (WriteLimits::default(), Timestamp::from_seconds(1_000));
        for number in 0..3 * limits::WRITERS_MAX {
            counted.take(now, address(number)).unwrap();
            assert!(counted.0.lock().unwrap().len() <= limits::WRITERS_MAX);
        }
    }

    #[test]
    fn strangers_do_not_make_a_person_forgotten() {
        let (counted, now) = (WriteLimits::default(), Timestamp::from_seconds(1_000));
        let person = (&SystemEntropy as &dyn Entropy).id(now);
        for _ in 0..limits::WRITES_OF_PERSON {
            counted.count_sign_in(person, now).unwrap();
        }
        for number in 0..2 * limits::WRITERS_MAX {
            counted.take(now, address(number)).unwrap();
        }
        counted.count_sign_in(person, now).unwrap_err();
    }
}
