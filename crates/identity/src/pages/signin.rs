//! Sign-in: a password and, where there is one, a code; or a passkey.

use http::StatusCode;
use maud::html;
use portico_engine::Ctx;
use portico_kernel::{Code, PersonId, Problem, Timestamp};
use portico_webauthn::RelyingParty;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::frame::{self, Field, Width};
use super::{PageRequest, safe_return, too_many_attempts};
use crate::http::Params;
use crate::http::response::{self, AuthResponse};
use crate::http::sealed_state::StateSeal;
use crate::oauth::redirect;
use crate::people::attempts::{
    self, AttemptLimit, AttemptOutcome, CODES_OF_PERSON, EarlierAttempts, SIGN_INS_FROM_ADDRESS,
    SIGN_INS_FROM_NETWORK, SIGN_INS_OF_BROWSER, SIGN_INS_OF_KNOWN_BROWSERS, SIGN_INS_OF_PERSON,
    SIGN_INS_OF_PERSON_FROM_ADDRESS,
};
use crate::people::known_browser::KnownBrowser;
use crate::people::session::{self, PENDING_COOKIE};
use crate::people::{canonical, passkeys, totp};
use crate::sql::people::PersonRow;
use crate::{limits, sql};

/// The same message for an unknown address and a wrong password.
const WRONG: &str = "The e-mail address or the password is wrong.";
const WRONG_CODE: &str = "The code is wrong or was used already.";

/// A sign-in whose password was right and whose code is still missing.
#[derive(Serialize, Deserialize)]
struct PendingSignIn {
    person: PersonId,
    /// When the password that was checked had been chosen, in microseconds.
    checked: Option<i64>,
    return_to: String,
}

/// An attempt at a password or a code, what it counts against, and what became of it.
struct SignInAttempt {
    limits: Vec<(AttemptLimit, String)>,
    outcome: AttemptOutcome,
    /// Does it count for a browser that the person signed in with before?
    of_known_browser: bool,
}

const PENDING_SIGN_IN: StateSeal<'static> = StateSeal { bound_to: "", purpose: "sign-in step" };

/// Redirects to the sign-in, and from there to `back`.
pub(super) fn to_signin(back: &str) -> AuthResponse {
    response::see_other(&redirect::with_query("/signin", &[("return_to", safe_return(back))]))
}

impl PageRequest<'_> {
    /// Where the forms of a sign-in may lead in the end: back to the app that started it.
    async fn onwards(&self, return_to: &str) -> String {
        let Some(query) = return_to.strip_prefix("/oauth2/auth?") else { return String::new() };
        let Ok(params) = Params::parse(query) else { return String::new() };
        let client =
            self.identity.known_client(self.context.engine, params.text("client_id")).await.ok().flatten();
        let address = params.text("redirect_uri");
        let known = client.is_some_and(|client| client.allows_redirect(address));
        if known { redirect::form_action(address) } else { String::new() }
    }

    pub(crate) async fn show_signin(&self) -> Result<AuthResponse, Problem> {
        let query = self.query()?;
        let return_to = safe_return(query.text("return_to"));
        if self.session.is_some() && query.get("again").is_none() {
            return Ok(response::see_other(return_to));
        }
        Ok(self.signin_page(None, return_to, "").await)
    }

    async fn signin_page(&self, refusal: Option<&Problem>, return_to: &str, email: &str) -> AuthResponse {
        let guard = self.guard();
        let password = Field::new("password", "Password")
            .kind("password", "current-password")
            .focused(!email.is_empty());
        let email = Field::new("email", "E-mail")
            .kind("email", "username webauthn")
            .value(email)
            .focused(email.is_empty());
        let body = html! {
            form method="post" action="/signin" {
                (frame::csrf(&guard)) (frame::hidden("return_to", return_to))
                (email.show("")) (password.show(""))
                button.primary type="submit" { "Sign in" }
            }
            @if self.identity.webauthn.is_some() {
                div.or hidden data-passkey="signin" data-csrf=(guard.csrf) data-return-to=(return_to) {
                    button type="button" { "Sign in with a passkey" }
                    p.alert role="alert" hidden {}
                }
            }
            @if self.identity.mailer.is_configured() {
                p.quiet { a href="/password/forgotten" { "Forgot the password?" } }
            }
        };
        let onwards = self.onwards(return_to).await;
        guard.apply(self.identity.page("Sign in", Width::Narrow, refusal, &onwards, &body))
    }

    pub(crate) async fn signin(&self) -> Result<AuthResponse, Problem> {
        let return_to = safe_return(self.form.text("return_to"));
        let typed = self.form.text("email").trim();
        // What is no address counts as one that nobody has, so that it takes as long.
        let email = canonical(typed).unwrap_or_else(|| typed.to_owned());
        let mut tx = self.context.engine.db.read().await?;
        let person = sql::people::person_by_email(&mut tx, &email).await?;
        let (kept, has_totp) = match &person {
            Some(person) => (
                sql::people::password(&mut tx, person.id).await?,
                sql::people::totp(&mut tx, person.id).await?.is_some(),
            ),
            None => (None, false),
        };
        tx.rollback();
        let elsewhere = self.password_limits(&email);
        let SignInAttempt { limits, outcome, .. } = self.take_attempt(person.as_ref(), elsewhere).await?;
        if let Some(wait) = outcome.wait() {
            return Ok(self.signin_page(Some(&too_many_attempts(wait)), return_to, typed).await);
        }
        let checked = kept.as_ref().map(|row| row.changed_at);
        let kept = kept.map(|row| row.hash);
        let right = self.check_against("password", kept, &limits).await?;
        let Some(person) = person.clone().filter(|_| right) else {
            // What many addresses try at once is not written one by one: strangers would fill the person's log.
            if let Some(person) = person.filter(|_| outcome != AttemptOutcome::CountedSlowed) {
                self.note_failure(&person, "password");
            }
            let wrong = Problem::new(Code::Unauthenticated, WRONG);
            return Ok(self.signin_page(Some(&wrong), return_to, typed).await);
        };
        // The attempts at a code are not over when the password was right.
        let earlier = if has_totp { EarlierAttempts::Keep } else { EarlierAttempts::Clear };
        attempts::give_back(self.context.engine, self.context.now, &limits, earlier).await?;
        if has_totp {
            return self.to_code_page(&person, checked, return_to);
        }
        let mut ctx: Ctx = session::acting(self.context, &person);
        self.check_unchanged(&mut ctx, &person, checked).await?;
        let with_session = self.identity.begin_session(&mut ctx, self.context, person.id, "password").await?;
        ctx.finish().await?;
        Ok(with_session(response::see_other(return_to)))
    }

    /// Is what was typed in that field the password? Nobody has tried one that could not be checked.
    pub(super) async fn check_against(
        &self,
        field: &str,
        kept: Option<String>,
        limits: &[(AttemptLimit, String)],
    ) -> Result<bool, Problem> {
        let (network, given) = (self.context.network(), self.secret(field));
        let checked = self.identity.passwords.matches(&network, &given, kept).await;
        if checked.is_err() {
            attempts::give_back(self.context.engine, self.context.now, limits, EarlierAttempts::Keep).await?;
        }
        checked
    }

    /// Takes an attempt. A browser that the person signed in with before counts for itself, and what strangers do
    /// elsewhere does not concern it. In any other, and once such browsers have used up what they have together, the
    /// attempt counts against `elsewhere`.
    async fn take_attempt(
        &self,
        person: Option<&PersonRow>,
        elsewhere: Vec<(AttemptLimit, String)>,
    ) -> Result<SignInAttempt, Problem> {
        let (engine, now) = (self.context.engine, self.context.now);
        if let Some(limits) = person.and_then(|person| self.browser_limits(person)) {
            let outcome = attempts::try_take(engine, now, &limits).await?;
            if !matches!(outcome, AttemptOutcome::GaveWay(_)) {
                return Ok(SignInAttempt { limits, outcome, of_known_browser: true });
            }
        }
        let outcome = attempts::try_take(engine, now, &elsewhere).await?;
        Ok(SignInAttempt { limits: elsewhere, outcome, of_known_browser: false })
    }

    /// What a wrong password counts against in a browser that is not known.
    fn password_limits(&self, email: &str) -> Vec<(AttemptLimit, String)> {
        let address = self.context.address_bucket();
        let of_person = [
            (SIGN_INS_OF_PERSON_FROM_ADDRESS, format!("{email} {address}")),
            (SIGN_INS_OF_PERSON, email.to_owned()),
        ];
        of_person.into_iter().chain(self.address_limits()).collect()
    }

    /// What a wrong code counts against in a browser that is not known.
    fn code_limits(&self, person: &PersonRow) -> Vec<(AttemptLimit, String)> {
        [(CODES_OF_PERSON, person.id.to_string())].into_iter().chain(self.address_limits()).collect()
    }

    /// What counts in a browser that the person signed in with before; `None` in any other.
    fn browser_limits(&self, person: &PersonRow) -> Option<Vec<(AttemptLimit, String)>> {
        let browser = KnownBrowser::attempts_key(self.context, person.id)?;
        Some(vec![(SIGN_INS_OF_BROWSER, browser), (SIGN_INS_OF_KNOWN_BROWSERS, person.id.to_string())])
    }

    fn address_limits(&self) -> impl Iterator<Item = (AttemptLimit, String)> {
        let network = self.context.network_bucket().map(|network| (SIGN_INS_FROM_NETWORK, network));
        [(SIGN_INS_FROM_ADDRESS, self.context.address_bucket())].into_iter().chain(network)
    }

    /// Audits a failed sign-in in a task of its own, so that the response takes as long as for an unknown address.
    fn note_failure(&self, person: &PersonRow, with: &'static str) {
        tracing::info!(person = %person.id, with, "Sign-in failed");
        let (mut ctx, id) = (session::acting(self.context, person), person.id);
        tokio::spawn(async move {
            let written = match ctx.audit_with("person.signin_failed", &id, json!({ "with": with })) {
                Ok(()) => ctx.finish().await,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = written {
                tracing::warn!(%problem, "Failed to write a failed sign-in to the audit log");
            }
        });
    }

    /// Refuses when the password was changed after it was checked: a change ends the sessions of the old password, also
    /// those that are about to begin.
    async fn check_unchanged(
        &self,
        ctx: &mut Ctx,
        person: &PersonRow,
        checked: Option<Timestamp>,
    ) -> Result<(), Problem> {
        if sql::people::lock_password(ctx.tx().await?, person.id).await? == checked {
            return Ok(());
        }
        Err(Problem::new(Code::Unauthenticated, "Your password was changed meanwhile. Sign in again."))
    }

    fn to_code_page(
        &self,
        person: &PersonRow,
        checked: Option<Timestamp>,
        return_to: &str,
    ) -> Result<AuthResponse, Problem> {
        let checked = checked.map(Timestamp::as_micros);
        let pending = PendingSignIn { person: person.id, checked, return_to: return_to.to_owned() };
        let sealed = PENDING_SIGN_IN.seal(self.context, limits::STEP_LIFE, pending)?;
        Ok(response::set_cookie(response::see_other("/signin/code"), PENDING_COOKIE, &sealed, None))
    }

    fn pending_sign_in(&self) -> Option<PendingSignIn> {
        PENDING_SIGN_IN.open(self.context, &self.context.cookie(PENDING_COOKIE)?)
    }

    pub(crate) async fn show_code(&self) -> Result<AuthResponse, Problem> {
        match self.pending_sign_in() {
            Some(pending) => Ok(self.code_page(None, &pending.return_to).await),
            None => Ok(to_signin("/settings")),
        }
    }

    async fn code_page(&self, refusal: Option<&Problem>, return_to: &str) -> AuthResponse {
        let guard = self.guard();
        let code = Field::new("code", "Code")
            .kind("text", "one-time-code")
            .focused(true)
            .hint("Six digits from your authenticator app, or a recovery code.");
        let body = html! {
            form method="post" action="/signin/code" {
                (frame::csrf(&guard)) (code.show(""))
                button.primary type="submit" { "Continue" }
            }
            p.quiet { a href="/signin" { "Start again" } }
        };
        let onwards = self.onwards(return_to).await;
        guard.apply(self.identity.page("Enter the code", Width::Narrow, refusal, &onwards, &body))
    }

    pub(crate) async fn signin_code(&self) -> Result<AuthResponse, Problem> {
        let Some(pending) = self.pending_sign_in() else { return Ok(to_signin("/settings")) };
        let mut tx = self.context.engine.db.read().await?;
        let person = sql::people::person(&mut tx, &pending.person.to_string()).await?;
        tx.rollback();
        let Some(person) = person else { return Ok(to_signin("/settings")) };
        let attempt = self.take_attempt(Some(&person), self.code_limits(&person)).await?;
        if let Some(wait) = attempt.outcome.wait() {
            return Ok(self.code_page(Some(&too_many_attempts(wait)), &pending.return_to).await);
        }
        let mut ctx = session::acting(self.context, &person);
        self.check_unchanged(&mut ctx, &person, pending.checked.map(Timestamp::from_micros)).await?;
        let taken = totp::take(&mut ctx, person.id, &person.email, self.form.text("code")).await?;
        let Some(how) = taken else {
            self.note_failure(&person, "code");
            let wrong = Problem::new(Code::Unauthenticated, WRONG_CODE);
            return Ok(self.code_page(Some(&wrong), &pending.return_to).await);
        };
        let with_session = self.identity.begin_session(&mut ctx, self.context, person.id, how).await?;
        ctx.finish().await?;
        let mut limits = attempt.limits;
        if !attempt.of_known_browser {
            limits.extend(self.password_limits(&person.email));
        }
        attempts::give_back(self.context.engine, self.context.now, &limits, EarlierAttempts::Clear).await?;
        Ok(with_session(response::see_other(safe_return(&pending.return_to))))
    }

    pub(crate) fn begin_passkey_signin(&self) -> Result<AuthResponse, Problem> {
        let browser = self.browser()?;
        let begun = passkeys::begin_sign_in(self.context, self.webauthn()?, &browser)?;
        Ok(response::private_json(StatusCode::OK, &begun))
    }

    pub(crate) async fn passkey_signin(&self) -> Result<AuthResponse, Problem> {
        let finished: passkeys::PasskeyResponse<_> = self.json()?;
        let browser = self.browser()?;
        let found = passkeys::finish_sign_in(self.context, self.webauthn()?, &browser, &finished).await?;
        let unknown = || Problem::new(Code::Unauthenticated, "This passkey is not known here.");
        let person = found.ok_or_else(unknown)?;
        let mut ctx = session::acting(self.context, &person);
        let with_session = self.identity.begin_session(&mut ctx, self.context, person.id, "passkey").await?;
        ctx.finish().await?;
        Ok(with_session(response::private_json(StatusCode::OK, &json!({ "signed_in": true }))))
    }

    /// The browser that a sealed state is for: by its session, or by its form cookie while nobody is signed in.
    fn browser(&self) -> Result<String, Problem> {
        let none = || Problem::new(Code::Forbidden, "The form is out of date. Load the page again.");
        session::browser(self.context, self.session.as_ref()).ok_or_else(none)
    }

    pub(super) fn webauthn(&self) -> Result<&RelyingParty, Problem> {
        let none = || {
            Problem::new(Code::FailedPrecondition, "Passkeys need an address with a name, such as localhost.")
        };
        self.identity.webauthn.as_ref().ok_or_else(none)
    }

    /// The JSON that a script posted.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Problem> {
        let bad = |_| Problem::new(Code::BadRequest, "The request does not read.");
        serde_json::from_slice(self.context.http.body()).map_err(bad)
    }
}
