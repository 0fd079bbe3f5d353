//! A password by a link: forgotten, or never chosen.

use std::sync::Arc;

use maud::html;
use portico_engine::ports::{MailMessage, Mailer};
use portico_engine::{Ctx, Engine, log_failure};
use portico_kernel::{Caller, Code, Problem};

use super::frame::{self, Field, Width};
use super::{PageRequest, expired_link, used_link};
use crate::http::response::{self, AuthResponse};
use crate::people::attempts::{self, MAIL_FROM, MAIL_TO};
use crate::people::links::{self, Purpose};
use crate::people::{canonical, ending, session};
use crate::sql::oauth::Ending;
use crate::sql::people::PersonRow;
use crate::{Identity, sql};

/// What a new password by a link does to apps: whoever needs one may have lost more than the password.
const DISCONNECTED: &str = "the apps that you let in are disconnected";

impl PageRequest<'_> {
    /// The person whom the link is for.
    async fn person_of_link(&self, token: &str) -> Result<PersonRow, Problem> {
        let mut tx = self.context.engine.db.read().await?;
        let link = links::find(&mut tx, Purpose::Password, token, self.context.now).await?;
        let link = link.ok_or_else(expired_link)?;
        let person = sql::people::person(&mut tx, &link.person_id).await?;
        tx.rollback();
        person.ok_or_else(expired_link)
    }

    pub(crate) async fn show_password(&self) -> Result<AuthResponse, Problem> {
        let query = self.query()?;
        let person = self.person_of_link(query.text("link")).await?;
        Ok(self.password_page(None, query.text("link"), &person))
    }

    fn password_page(&self, refusal: Option<&Problem>, link: &str, person: &PersonRow) -> AuthResponse {
        let guard = self.guard();
        let password = frame::new_password("New password").focused(true);
        let body = html! {
            p { "For " (frame::address(person)) ". You will be signed out everywhere, and " (DISCONNECTED) "." }
            form method="post" action="/password" {
                (frame::csrf(&guard)) (frame::hidden("link", link)) (password.show(""))
                button.primary type="submit" { "Save the password" }
            }
        };
        guard.apply(self.identity.page("Choose a password", Width::Narrow, refusal, "", &body))
    }

    pub(crate) async fn choose_password(&self) -> Result<AuthResponse, Problem> {
        let (link, chosen) = (self.form.text("link"), self.secret("password"));
        let person = self.person_of_link(link).await?;
        let hash = match self.identity.hash_password(self.context, &chosen, &person).await {
            Err(problem) if frame::field_message(&problem).is_some() => {
                return Ok(self.password_page(Some(&problem), link, &person));
            }
            result => result?,
        };
        let mut ctx = session::acting(self.context, &person);
        let now = ctx.now();
        links::take(ctx.tx().await?, Purpose::Password, link, now).await?.ok_or_else(used_link)?;
        self.identity.change_password(&mut ctx, person.id, &hash, None).await?;
        ending::end(&mut ctx, &Ending::OfPerson(person.id)).await?;
        ctx.finish().await?;
        Ok(session::forget(response::see_other("/signin")))
    }

    pub(crate) fn show_forgotten(&self) -> Result<AuthResponse, Problem> {
        if !self.identity.mailer.is_configured() {
            let message =
                "This platform sends no mail. Ask its operator for a link to choose a new password.";
            return Err(Problem::new(Code::NotFound, message));
        }
        let guard = self.guard();
        let email = Field::new("email", "E-mail").kind("email", "username").focused(true);
        let body = html! {
            p { "We send you a link to choose a new one." }
            form method="post" action="/password/forgotten" {
                (frame::csrf(&guard)) (email.show(""))
                button.primary type="submit" { "Send the link" }
            }
        };
        Ok(guard.apply(self.identity.page("Forgot the password?", Width::Narrow, None, "", &body)))
    }

    /// Mails a link; the response is the same whether or not anyone has the address.
    pub(crate) async fn forgotten(&self) -> Result<AuthResponse, Problem> {
        let email = canonical(self.form.text("email")).unwrap_or_default();
        let address = self.context.address_bucket();
        let limits = [(MAIL_TO, email.as_str()), (MAIL_FROM, address.as_str())];
        let wait = attempts::take(self.context.engine, self.context.now, &limits).await?;
        if wait.is_none() && self.identity.mailer.is_configured() {
            self.mail_link(email);
        }
        let body =
            html! { p { "If someone has an account with this address, a link is on its way to them." } };
        Ok(self.identity.page("Look into your mail", Width::Narrow, None, "", &body))
    }

    /// Mails the link in a task of its own, so that the response takes as long as for an unknown address.
    fn mail_link(&self, email: String) {
        let (engine, mailer) = (self.context.engine.clone(), self.identity.mailer.clone());
        let (issuer, request_id) = (self.identity.issuer.clone(), self.context.request_id.clone());
        tokio::spawn(async move {
            if let Err(problem) = post_link(&engine, mailer.as_ref(), &issuer, &email, &request_id).await {
                log_failure(&problem, "password link", &request_id);
            }
        });
    }
}

async fn post_link(
    engine: &Arc<Engine>,
    mailer: &dyn Mailer,
    issuer: &str,
    email: &str,
    request_id: &str,
) -> Result<(), Problem> {
    let mut tx = engine.db.read().await?;
    let person = sql::people::person_by_email(&mut tx, email).await?;
    tx.rollback();
    let Some(person) = person else { return Ok(()) };
    let mut ctx = Ctx::acting(engine, Caller::person(person.id, &person.name), request_id);
    let link = Identity::make_password_link(&mut ctx, issuer, &person).await?;
    let mail = MailMessage {
        to: person.email.clone(),
        subject: "Choose a new password".to_owned(),
        text: format!(
            "Someone, we hope you, asked for a new password.\n\nOpen this link within an hour:\n\n{}\n\nWith a new \
             password you are signed out everywhere, and {DISCONNECTED}.\n\nIf it was not you, you need not do \
             anything.\n",
            link.expose()
        ),
    };
    mailer.post(engine, ctx.tx().await?, &mail).await?;
    ctx.finish().await
}
