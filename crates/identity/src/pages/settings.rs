//! Settings: name, address, password, codes, passkeys, sessions and apps.

use http::StatusCode;
use maud::html;
use portico_engine::Ctx;
use portico_engine::ports::MailMessage;
use portico_kernel::{Code, Problem};
use serde_json::json;

use super::frame::{self, Width};
use super::overview::{self, Overview};
use super::{TOO_MANY, Visit, secret};
use crate::http::Params;
use crate::http::reply::{self, Reply};
use crate::people::attempts::{self, Earlier, LETTERS, LETTERS_FROM, OF_ADDRESS, RECHECKS};
use crate::people::links::{self, Purpose};
use crate::people::session::{self, Session};
use crate::people::{canonical, check_name, passkeys};
use crate::sql;
use crate::sql::people::PersonRow;

/// Why a change was not made, for the person who asked for it.
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) words: String,
    wait: Option<std::time::Duration>,
}

impl Visit<'_> {
    /// Is it still they? Asked again before anything that could lock them out.
    pub(super) async fn recheck(&self, session: &Session, form: &Params) -> Result<Option<Refused>, Problem> {
        let address = self.asked.address_bucket();
        let person = session.person.id.to_string();
        let tries = [(RECHECKS, person.as_str()), (OF_ADDRESS, address.as_str())];
        if let Err(wait) = attempts::take(self.asked.engine, self.asked.now, &tries).await? {
            let words = TOO_MANY.to_owned();
            return Ok(Some(Refused { status: StatusCode::TOO_MANY_REQUESTS, words, wait: Some(wait) }));
        }
        let mut tx = self.asked.engine.db.read().await?;
        let kept = sql::people::password(&mut tx, session.person.id).await?;
        tx.rollback().await?;
        let kept = kept.map(|row| row.hash);
        if !self.identity.passwords.matches(&secret(form, "current_password"), kept).await? {
            let words = "Your password is wrong.".to_owned();
            return Ok(Some(Refused { status: StatusCode::UNAUTHORIZED, words, wait: None }));
        }
        attempts::forgive(self.asked.engine, self.asked.now, &tries, Earlier::Forgotten).await?;
        Ok(None)
    }

    pub(super) async fn show_settings(&self, refused: Option<Refused>) -> Result<Reply, Problem> {
        let Some(session) = &self.session else { return Ok(self.to_signin()) };
        let (overview, guard) = (Overview::read(self.asked, session).await?, self.guard());
        let body = html! {
            p { "Signed in as " strong { (session.person.email) } ". " a href="/signout" { "Sign out" } }
            (overview::profile(&guard, &session.person))
            (overview.sign_in(&guard, self.identity.webauthn.is_some()))
            (overview.sessions(&guard, session))
            (overview.apps(&guard))
        };
        let (status, words, wait) = refused.map_or((StatusCode::OK, None, None), |refused| {
            (refused.status, Some(refused.words), refused.wait)
        });
        let page = reply::page(status, frame::page("Settings", Width::Wide, words.as_deref(), &body), "");
        Ok(wait.map_or(page.clone(), |wait| reply::retry_after(page, wait)))
    }

    /// One of the forms on the page.
    pub(super) async fn change_settings(&self, path: &str) -> Result<Reply, Problem> {
        let Some(session) = &self.session else { return Ok(self.to_signin()) };
        let form = self.form()?;
        let checked =
            ["/settings/email", "/settings/password", "/settings/totp/remove", "/settings/passkeys/remove"];
        if checked.contains(&path)
            && let Some(refused) = self.recheck(session, &form).await?
        {
            return self.show_settings(Some(refused)).await;
        }
        let mut ctx = session.ctx(self.asked);
        let person = &session.person;
        let changed = match path {
            "/settings/name" => self.set_name(&mut ctx, person, &form).await?,
            "/settings/email" => self.set_email(&mut ctx, person, &form).await?,
            "/settings/password" => self.set_password(&mut ctx, session, &form).await?,
            "/settings/totp/remove" => {
                sql::people::delete_totp(ctx.tx().await?, person.id).await?;
                ctx.audit("person.totp_removed", &person.id).map(Ok)?
            }
            "/settings/passkeys/remove" => {
                if sql::people::delete_passkey(ctx.tx().await?, person.id, form.text("passkey")).await? {
                    ctx.audit("person.passkey_removed", &person.id)?;
                }
                Ok(())
            }
            "/settings/sessions/end" => match form.text("session").parse() {
                Ok(id) => self.identity.end_session(&mut ctx, person.id, id).await.map(Ok)?,
                Err(_) => Err("There is no such session.".to_owned()),
            },
            "/settings/sessions/end-others" => {
                self.identity.end_sessions(&mut ctx, person.id, Some(session.id)).await.map(Ok)?
            }
            _ => self.identity.end_app(&mut ctx, person.id, form.text("client")).await.map(Ok)?,
        };
        if let Err(words) = changed {
            let refused = Refused { status: StatusCode::BAD_REQUEST, words, wait: None };
            return self.show_settings(Some(refused)).await;
        }
        ctx.finish().await?;
        Ok(reply::see_other("/settings"))
    }

    async fn set_name(
        &self,
        ctx: &mut Ctx,
        person: &PersonRow,
        form: &Params,
    ) -> Result<Result<(), String>, Problem> {
        let name = form.text("name").trim();
        if let Err(words) = check_name(name) {
            return Ok(Err(words));
        }
        sql::people::set_name(ctx.tx().await?, person.id, name).await?;
        ctx.audit("person.name_changed", &person.id)?;
        Ok(Ok(()))
    }

    /// Where mail is sent, the address changes once a link that went to it was opened.
    async fn set_email(
        &self,
        ctx: &mut Ctx,
        person: &PersonRow,
        form: &Params,
    ) -> Result<Result<(), String>, Problem> {
        let Some(email) = canonical(form.text("email")) else {
            return Ok(Err("This is no e-mail address.".to_owned()));
        };
        if email == person.email {
            return Ok(Ok(()));
        }
        if !self.identity.mailer.is_configured() {
            let changed = self.identity.change_email(ctx, person, &email, false).await;
            return match changed {
                Err(problem) if problem.code() == Code::AlreadyExists => Ok(Err(problem.error().to_owned())),
                other => other.map(Ok),
            };
        }
        let own = person.id.to_string();
        let letters = [(LETTERS, email.as_str()), (LETTERS_FROM, own.as_str())];
        if attempts::take(self.asked.engine, self.asked.now, &letters).await?.is_err() {
            return Ok(Err("Too many letters were sent. Wait an hour, then try again.".to_owned()));
        }
        let token = links::create(ctx, Purpose::Email, &own, &email).await?;
        let letter = MailMessage {
            to: email,
            subject: "Confirm your address".to_owned(),
            text: format!(
                "Open this link within an hour to use this address from now on:\n\n{}/email?link={token}\n",
                self.identity.issuer
            ),
        };
        let engine = ctx.engine().clone();
        self.identity.mailer.post(&engine, ctx.tx().await?, &letter).await?;
        Ok(Ok(()))
    }

    async fn set_password(
        &self,
        ctx: &mut Ctx,
        session: &Session,
        form: &Params,
    ) -> Result<Result<(), String>, Problem> {
        let (person, chosen) = (&session.person, secret(form, "new_password"));
        let entropy = self.asked.engine.entropy.as_ref();
        let hash =
            match self.identity.passwords.choose(entropy, &chosen, &[&person.email, &person.name]).await? {
                Ok(hash) => hash,
                Err(words) => return Ok(Err(words)),
            };
        let now = ctx.now();
        sql::people::set_password(ctx.tx().await?, person.id, &hash, now).await?;
        links::forget(ctx.tx().await?, person.id).await?;
        self.identity.end_sessions(ctx, person.id, Some(session.id)).await?;
        ctx.audit("person.password_changed", &person.id)?;
        Ok(Ok(()))
    }

    pub(super) async fn begin_passkey(&self) -> Result<Reply, Problem> {
        let Some(session) = &self.session else { return Err(signed_out()) };
        let form = self.form()?;
        if let Some(refused) = self.recheck(session, &form).await? {
            return Ok(reply::no_store(reply::json(refused.status, &json!({ "error": refused.words }))));
        }
        let browser = session::browser(self.asked, Some(session)).unwrap_or_default();
        let begun = passkeys::begin_adding(self.asked, self.webauthn()?, &session.person, &browser).await?;
        Ok(reply::no_store(reply::json(StatusCode::OK, &begun)))
    }

    pub(super) async fn add_passkey(&self) -> Result<Reply, Problem> {
        let Some(session) = &self.session else { return Err(signed_out()) };
        let finished: passkeys::Finished<_> = self.json()?;
        self.check_guard(&finished.csrf)?;
        let refuse = |words: &str| {
            Ok(reply::no_store(reply::json(StatusCode::BAD_REQUEST, &json!({ "error": words }))))
        };
        if let Err(words) = check_name(&finished.name) {
            return refuse(&words);
        }
        let browser = session::browser(self.asked, Some(session)).unwrap_or_default();
        let mut ctx = session.ctx(self.asked);
        let added = passkeys::finish_adding(
            &mut ctx,
            self.asked,
            self.webauthn()?,
            &session.person,
            &browser,
            finished,
        )
        .await?;
        if added.is_none() {
            return refuse("This passkey could not be added.");
        }
        ctx.finish().await?;
        Ok(reply::no_store(reply::json(StatusCode::OK, &json!({ "added": true }))))
    }
}

fn signed_out() -> Problem {
    Problem::new(Code::Unauthenticated, "You are signed out. Load the page again.")
}
