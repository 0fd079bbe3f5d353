//! Settings: name, address, password, codes, passkeys, sessions and apps.

use http::StatusCode;
use maud::html;
use portico_engine::Ctx;
use portico_engine::ports::MailMessage;
use portico_kernel::{Code, Problem};
use serde_json::json;

use super::frame::{self, Width};
use super::overview::{self, Overview};
use super::{PageRequest, signed_out, too_many_attempts};
use crate::http::response::{self, AuthResponse};
use crate::people::attempts::{self, EarlierAttempts, MAIL_FROM, MAIL_TO, PASSWORD_CHECKS};
use crate::people::links::{self, Purpose};
use crate::people::session::{self, Session};
use crate::people::{canonical, check_name, passkeys};
use crate::sql;

fn refused(message: impl Into<String>) -> Problem {
    Problem::new(Code::BadRequest, message.into())
}

impl PageRequest<'_> {
    /// Checks the person's password again, before anything that could lock them out.
    pub(super) async fn check_password(&self) -> Result<(), Problem> {
        let person = self.session.as_ref().ok_or_else(signed_out)?.person.id;
        let limits = [(PASSWORD_CHECKS, person.to_string())];
        if let Some(wait) = attempts::take(self.context.engine, self.context.now, &limits).await? {
            return Err(too_many_attempts(wait));
        }
        let mut tx = self.context.engine.db.read().await?;
        let row = sql::people::password(&mut tx, person).await?;
        tx.rollback();
        let hash = row.map(|row| row.hash);
        if !self.check_against("current_password", hash, &limits).await? {
            return Err(Problem::new(Code::Unauthenticated, "Your password is wrong."));
        }
        attempts::give_back(self.context.engine, self.context.now, &limits, EarlierAttempts::Clear).await
    }

    pub(crate) async fn show_settings(
        &self,
        session: &Session,
        refusal: Option<&Problem>,
    ) -> Result<AuthResponse, Problem> {
        let (overview, guard) = (Overview::read(self.context, session).await?, self.guard());
        let body = html! {
            p { "Signed in as " (frame::address(&session.person)) ". " a href="/signout" { "Sign out" } }
            (overview::profile(&guard, &session.person))
            (overview.sign_in(&guard, self.identity.webauthn.is_some()))
            (overview.sessions(&guard, session))
            (overview.apps(&guard))
        };
        Ok(self.identity.page("Settings", Width::Wide, refusal, "", &body))
    }

    pub(crate) async fn set_name(&self, ctx: &mut Ctx, session: &Session) -> Result<(), Problem> {
        let (person, name) = (session.person.id, self.form.text("name").trim());
        check_name(name)?;
        sql::people::set_name(ctx.tx().await?, person, name).await?;
        ctx.audit("person.name_changed", &person)
    }

    /// Where mail is sent, the address changes once a link that went to it was opened.
    pub(crate) async fn set_email(&self, ctx: &mut Ctx, session: &Session) -> Result<(), Problem> {
        let person = &session.person;
        let email = canonical(self.form.text("email"));
        let email = email.ok_or_else(|| refused("This is no e-mail address."))?;
        // An address that is theirs already is sent a link to confirm it.
        if email == person.email && (person.email_verified || !self.identity.mailer.is_configured()) {
            return Ok(());
        }
        if !self.identity.mailer.is_configured() {
            let changed = self.identity.change_email(ctx, person, &email, false).await;
            return changed.map_err(|problem| match problem.code() {
                Code::AlreadyExists => refused(problem.error()),
                _ => problem,
            });
        }
        let own = person.id.to_string();
        let limits = [(MAIL_TO, email.as_str()), (MAIL_FROM, own.as_str())];
        if attempts::take(self.context.engine, self.context.now, &limits).await?.is_some() {
            return Err(refused("Too many messages were sent. Wait an hour, then try again."));
        }
        let token = links::create(ctx, Purpose::Email, &own, &email).await?;
        let mail = MailMessage {
            to: email,
            subject: "Confirm your address".to_owned(),
            text: format!(
                "Open this link within an hour to use this address from now on:\n\n{}/email?link={token}\n",
                self.identity.issuer
            ),
        };
        let engine = ctx.engine().clone();
        self.identity.mailer.post(&engine, ctx.tx().await?, &mail).await
    }

    pub(crate) async fn set_password(&self, ctx: &mut Ctx, session: &Session) -> Result<(), Problem> {
        let (person, chosen) = (&session.person, self.secret("new_password"));
        let hash = self.identity.hash_password(self.context, &chosen, person).await?;
        self.identity.change_password(ctx, person.id, &hash, Some(session.id)).await
    }

    pub(crate) async fn remove_totp(&self, ctx: &mut Ctx, session: &Session) -> Result<(), Problem> {
        sql::people::delete_totp(ctx.tx().await?, session.person.id).await?;
        ctx.audit("person.totp_removed", &session.person.id)
    }

    pub(crate) async fn remove_passkey(&self, ctx: &mut Ctx, session: &Session) -> Result<(), Problem> {
        let person = session.person.id;
        if sql::people::delete_passkey(ctx.tx().await?, person, self.form.text("passkey")).await? {
            ctx.audit("person.passkey_removed", &person)?;
        }
        Ok(())
    }

    pub(crate) async fn end_session(&self, ctx: &mut Ctx, session: &Session) -> Result<(), Problem> {
        let ended = self.form.text("session").parse().map_err(|_| refused("There is no such session."))?;
        self.identity.end_session(ctx, session.person.id, ended).await
    }

    pub(crate) async fn end_other_sessions(&self, ctx: &mut Ctx, session: &Session) -> Result<(), Problem> {
        self.identity.end_sessions(ctx, session.person.id, Some(session.id)).await
    }

    pub(crate) async fn end_app(&self, ctx: &mut Ctx, session: &Session) -> Result<(), Problem> {
        self.identity.end_app(ctx, session.person.id, self.form.text("client")).await
    }

    pub(crate) async fn begin_passkey(&self, session: &Session) -> Result<AuthResponse, Problem> {
        let browser = session::browser(self.context, Some(session)).unwrap_or_default();
        let begun = passkeys::begin_adding(self.context, self.webauthn()?, &session.person, &browser).await?;
        Ok(response::private_json(StatusCode::OK, &begun))
    }

    pub(crate) async fn add_passkey(&self, session: &Session) -> Result<AuthResponse, Problem> {
        let finished: passkeys::PasskeyResponse<_> = self.json()?;
        check_name(&finished.name)?;
        let browser = session::browser(self.context, Some(session)).unwrap_or_default();
        let mut ctx = session.ctx(self.context);
        let added = passkeys::finish_adding(
            &mut ctx,
            self.context,
            self.webauthn()?,
            &session.person,
            &browser,
            finished,
        )
        .await?;
        added.ok_or_else(|| refused("This passkey could not be added."))?;
        ctx.finish().await?;
        Ok(response::private_json(StatusCode::OK, &json!({ "added": true })))
    }
}
