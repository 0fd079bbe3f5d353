//! Browsers that people signed in with before. A cookie proves it, sealed and for a year, so that strangers who guess at
//! somebody's password do not keep that person out of a browser of their own (docs/decisions/0031).

use portico_kernel::{PersonId, Problem};
use serde::{Deserialize, Serialize};

use crate::http::RequestContext;
use crate::http::response::{self, AuthResponse};
use crate::http::sealed_state::StateSeal;
use crate::{limits, secret};

const COOKIE: &str = "__Host-portico-known";
const SEAL: StateSeal<'static> = StateSeal { bound_to: "", purpose: "known browser" };

/// A browser, and who signed in with it, the last one first.
#[derive(Serialize, Deserialize)]
pub(crate) struct KnownBrowser {
    id: String,
    people: Vec<PersonId>,
}

impl KnownBrowser {
    fn read(context: &RequestContext<'_>) -> Option<Self> {
        SEAL.open(context, &context.cookie(COOKIE)?)
    }

    /// What the attempts of the person in this browser are counted by; `None` unless they signed in with it before.
    pub(crate) fn attempts_key(context: &RequestContext<'_>, person: PersonId) -> Option<String> {
        let browser = Self::read(context).filter(|browser| browser.people.contains(&person))?;
        Some(format!("{} {person}", browser.id))
    }

    /// Who signed in with this browser last.
    pub(crate) fn last_person(context: &RequestContext<'_>) -> Option<PersonId> {
        Self::read(context)?.people.first().copied()
    }

    /// The response of a sign-in, with a cookie that proves it later.
    pub(crate) fn remember(
        context: &RequestContext<'_>,
        person: PersonId,
    ) -> Result<impl FnOnce(AuthResponse) -> AuthResponse + use<>, Problem> {
        let before = Self::read(context);
        let (id, others) = match before {
            Some(browser) => (browser.id, browser.people),
            None => (secret::random(context.engine.entropy.as_ref()), Vec::new()),
        };
        let others = others.into_iter().filter(|other| *other != person);
        let people = [person].into_iter().chain(others).take(limits::KNOWN_BROWSER_PEOPLE_MAX).collect();
        let sealed = SEAL.seal(context, limits::KNOWN_BROWSER_LIFE, Self { id, people })?;
        Ok(move |response| response::set_cookie(response, COOKIE, &sealed, Some(limits::KNOWN_BROWSER_LIFE)))
    }
}
