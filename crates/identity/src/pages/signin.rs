//! Sign-in: a password and, where there is one, a code; or a passkey.

use http::StatusCode;
use maud::{Markup, html};
use portico_engine::Ctx;
use portico_kernel::{Code, PersonId, Problem, Timestamp};
use portico_webauthn::RelyingParty;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::frame::{self, Field, Width};
use super::{TOO_MANY, Visit, safe_return, secret};
use crate::http::Params;
use crate::http::carried::For;
use crate::http::reply::{self, Reply};
use crate::oauth::redirect;
use crate::people::attempts::{self, Earlier, OF_ADDRESS, OF_PERSON};
use crate::people::session::{self, STEP};
use crate::people::{canonical, passkeys, totp};
use crate::sql::people::PersonRow;
use crate::{limits, sql};

/// The same words for an unknown address and a wrong password.
const WRONG: &str = "The e-mail address or the password is wrong.";
const WRONG_CODE: &str = "The code is wrong or was used already.";

/// The first step of a sign-in, carried to the second.
#[derive(Serialize, Deserialize)]
struct Step {
    person: PersonId,
    /// When the password that was checked had been chosen, in microseconds.
    checked: Option<i64>,
    return_to: String,
}

const STEP_OF: For<'static> = For { whom: "", purpose: "sign-in step" };

/// To sign in, and then back.
pub(super) fn to_signin(back: &str) -> Reply {
    reply::see_other(&redirect::with_query("/signin", &[("return_to", safe_return(back))]))
}

impl Visit<'_> {
    /// Where the forms of a sign-in may lead in the end: back to the app that asked for it.
    async fn onwards(&self, return_to: &str) -> String {
        let Some(query) = return_to.strip_prefix("/oauth2/auth?") else { return String::new() };
        let Ok(params) = Params::parse(query) else { return String::new() };
        let client =
            self.identity.known_client(self.asked.engine, params.text("client_id")).await.ok().flatten();
        let address = params.text("redirect_uri");
        let known = client.is_some_and(|client| client.allows_redirect(address));
        if known { redirect::form_action(address) } else { String::new() }
    }

    pub(super) async fn show_signin(&self) -> Result<Reply, Problem> {
        let query = self.query()?;
        let return_to = safe_return(query.text("return_to"));
        if self.session.is_some() && query.get("again").is_none() {
            return Ok(reply::see_other(return_to));
        }
        Ok(self.signin_page(StatusCode::OK, None, return_to, "").await)
    }

    async fn signin_page(
        &self,
        status: StatusCode,
        alert: Option<&str>,
        return_to: &str,
        email: &str,
    ) -> Reply {
        let guard = self.guard();
        let email = Field {
            name: "email",
            label: "E-mail",
            kind: "email",
            autocomplete: "username webauthn",
            value: email,
            focus: email.is_empty(),
            ..Field::default()
        };
        let password = Field {
            name: "password",
            label: "Password",
            kind: "password",
            autocomplete: "current-password",
            focus: !email.value.is_empty(),
            ..Field::default()
        };
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
        guard.apply(reply::page(status, frame::page("Sign in", Width::Narrow, alert, &body), &onwards))
    }

    pub(super) async fn signin(&self) -> Result<Reply, Problem> {
        let form = self.form()?;
        let return_to = safe_return(form.text("return_to"));
        let typed = form.text("email").trim();
        // What is no address counts as one that nobody has, so that it takes as long.
        let email = canonical(typed).unwrap_or_else(|| typed.to_owned());
        let address = self.asked.address_bucket();
        let tries = [(OF_PERSON, email.as_str()), (OF_ADDRESS, address.as_str())];
        if let Err(wait) = attempts::take(self.asked.engine, self.asked.now, &tries).await? {
            let page =
                self.signin_page(StatusCode::TOO_MANY_REQUESTS, Some(TOO_MANY), return_to, typed).await;
            return Ok(reply::retry_after(page, wait));
        }
        let mut tx = self.asked.engine.db.read().await?;
        let person = sql::people::person_by_email(&mut tx, &email).await?;
        let kept = match &person {
            Some(person) => sql::people::password(&mut tx, person.id).await?,
            None => None,
        };
        let second = match &person {
            Some(person) => sql::people::totp(&mut tx, person.id).await?.is_some(),
            None => false,
        };
        tx.rollback().await?;
        let checked = kept.as_ref().map(|row| row.changed_at);
        let kept = kept.map(|row| row.hash);
        let right = self.identity.passwords.matches(&secret(&form, "password"), kept).await?;
        let Some(person) = person.clone().filter(|_| right) else {
            if let Some(person) = person {
                self.note_failure(&person, "password");
            }
            return Ok(self.signin_page(StatusCode::UNAUTHORIZED, Some(WRONG), return_to, typed).await);
        };
        // The tries at a code are not over when the password was right.
        let earlier = if second { Earlier::Count } else { Earlier::Forgotten };
        attempts::forgive(self.asked.engine, self.asked.now, &tries, earlier).await?;
        if second {
            return self.to_second_step(&person, checked, return_to);
        }
        let mut ctx: Ctx = session::acting(self.asked, &person);
        self.check_unchanged(&mut ctx, &person, checked).await?;
        let with_session = self.identity.begin_session(&mut ctx, self.asked, person.id, "password").await?;
        ctx.finish().await?;
        Ok(with_session(reply::see_other(return_to)))
    }

    /// Writes a failed sign-in down beside the answer, so that the answer takes no longer for a person than for nobody.
    fn note_failure(&self, person: &PersonRow, with: &'static str) {
        tracing::info!(person = %person.id, with, "A sign-in failed");
        let (mut ctx, id) = (session::acting(self.asked, person), person.id);
        tokio::spawn(async move {
            let written = match ctx.audit_with("person.signin_failed", &id, json!({ "with": with })) {
                Ok(()) => ctx.finish().await,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = written {
                tracing::warn!(%problem, "A failed sign-in was not written to the audit log");
            }
        });
    }

    /// Is the password that was checked still the one? Whoever changes it ends the sessions of the old one, also those
    /// that are about to begin.
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

    fn to_second_step(
        &self,
        person: &PersonRow,
        checked: Option<Timestamp>,
        return_to: &str,
    ) -> Result<Reply, Problem> {
        let checked = checked.map(Timestamp::as_micros);
        let step = Step { person: person.id, checked, return_to: return_to.to_owned() };
        let sealed = STEP_OF.seal(self.asked, limits::STEP_LIFE, step)?;
        Ok(reply::set_cookie(reply::see_other("/signin/code"), STEP, &sealed))
    }

    fn step(&self) -> Option<Step> {
        STEP_OF.open(self.asked, &self.asked.cookie(STEP)?)
    }

    pub(super) async fn show_code(&self) -> Result<Reply, Problem> {
        match self.step() {
            Some(step) => Ok(self.code_page(StatusCode::OK, None, &step.return_to).await),
            None => Ok(to_signin("/settings")),
        }
    }

    async fn code_page(&self, status: StatusCode, alert: Option<&str>, return_to: &str) -> Reply {
        let guard = self.guard();
        let code = Field {
            name: "code",
            label: "Code",
            autocomplete: "one-time-code",
            focus: true,
            hint: "Six digits from your authenticator app, or a recovery code.",
            ..Field::default()
        };
        let body: Markup = html! {
            form method="post" action="/signin/code" {
                (frame::csrf(&guard)) (code.show(""))
                button.primary type="submit" { "Continue" }
            }
            p.quiet { a href="/signin" { "Start again" } }
        };
        let onwards = self.onwards(return_to).await;
        guard.apply(reply::page(status, frame::page("Enter the code", Width::Narrow, alert, &body), &onwards))
    }

    pub(super) async fn signin_code(&self) -> Result<Reply, Problem> {
        let form = self.form()?;
        let Some(step) = self.step() else { return Ok(to_signin("/settings")) };
        let mut tx = self.asked.engine.db.read().await?;
        let person = sql::people::person(&mut tx, &step.person.to_string()).await?;
        tx.rollback().await?;
        let Some(person) = person else { return Ok(to_signin("/settings")) };
        let address = self.asked.address_bucket();
        let tries = [(OF_PERSON, person.email.as_str()), (OF_ADDRESS, address.as_str())];
        if let Err(wait) = attempts::take(self.asked.engine, self.asked.now, &tries).await? {
            let page = self.code_page(StatusCode::TOO_MANY_REQUESTS, Some(TOO_MANY), &step.return_to).await;
            return Ok(reply::retry_after(page, wait));
        }
        let mut ctx = session::acting(self.asked, &person);
        self.check_unchanged(&mut ctx, &person, step.checked.map(Timestamp::from_micros)).await?;
        let taken = totp::take(&mut ctx, person.id, &person.email, form.text("code")).await?;
        let Some(how) = taken else {
            self.note_failure(&person, "code");
            return Ok(self.code_page(StatusCode::UNAUTHORIZED, Some(WRONG_CODE), &step.return_to).await);
        };
        let with_session = self.identity.begin_session(&mut ctx, self.asked, person.id, how).await?;
        ctx.finish().await?;
        attempts::forgive(self.asked.engine, self.asked.now, &tries, Earlier::Forgotten).await?;
        Ok(with_session(reply::see_other(safe_return(&step.return_to))))
    }

    pub(super) fn begin_passkey_signin(&self) -> Result<Reply, Problem> {
        #[derive(Deserialize)]
        struct Begin {
            csrf: String,
        }
        let asked: Begin = self.json()?;
        self.check_guard(&asked.csrf)?;
        let browser = session::browser(self.asked, None).unwrap_or_default();
        let begun = passkeys::begin_sign_in(self.asked, self.webauthn()?, &browser)?;
        Ok(reply::no_store(reply::json(StatusCode::OK, &begun)))
    }

    pub(super) async fn passkey_signin(&self) -> Result<Reply, Problem> {
        let finished: passkeys::Finished<_> = self.json()?;
        self.check_guard(&finished.csrf)?;
        let browser = session::browser(self.asked, None).unwrap_or_default();
        let found = passkeys::finish_sign_in(self.asked, self.webauthn()?, &browser, &finished).await?;
        let Some(person) = found else {
            let body = json!({ "error": "This passkey is not known here." });
            return Ok(reply::no_store(reply::json(StatusCode::UNAUTHORIZED, &body)));
        };
        let mut ctx = session::acting(self.asked, &person);
        let with_session = self.identity.begin_session(&mut ctx, self.asked, person.id, "passkey").await?;
        ctx.finish().await?;
        Ok(with_session(reply::no_store(reply::json(StatusCode::OK, &json!({ "signed_in": true })))))
    }

    pub(super) fn webauthn(&self) -> Result<&RelyingParty, Problem> {
        let none = || {
            Problem::new(Code::FailedPrecondition, "Passkeys need an address with a name, such as localhost.")
        };
        self.identity.webauthn.as_ref().ok_or_else(none)
    }

    /// What a script posted.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Problem> {
        let bad = |_| Problem::new(Code::BadRequest, "The request does not read.");
        serde_json::from_slice(self.asked.request.body()).map_err(bad)
    }
}
