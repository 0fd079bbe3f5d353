//! A password by a link: forgotten, or never chosen.

use std::sync::Arc;

use http::StatusCode;
use maud::html;
use portico_engine::ports::{MailMessage, Mailer};
use portico_engine::{Ctx, Engine, log_failure};
use portico_kernel::{Caller, Code, Problem};

use super::frame::{self, Field, Width};
use super::{Visit, secret};
use crate::http::reply::{self, Reply};
use crate::people::attempts::{self, LETTERS, LETTERS_FROM};
use crate::people::links::{self, Purpose};
use crate::people::{canonical, session};
use crate::sql::people::PersonRow;
use crate::{Identity, sql};

impl Visit<'_> {
    /// Whose link it is.
    async fn of_link(&self, token: &str) -> Result<PersonRow, Problem> {
        let over = || Problem::new(Code::NotFound, "This link is over, was used already, or never was one.");
        let mut tx = self.asked.engine.db.read().await?;
        let link = links::find(&mut tx, Purpose::Password, token, self.asked.now).await?.ok_or_else(over)?;
        let person = sql::people::person(&mut tx, &link.person_id).await?;
        tx.rollback().await?;
        person.ok_or_else(over)
    }

    pub(super) async fn show_password(&self) -> Result<Reply, Problem> {
        let query = self.query()?;
        let person = self.of_link(query.text("link")).await?;
        Ok(self.password_page(StatusCode::OK, None, query.text("link"), &person))
    }

    fn password_page(
        &self,
        status: StatusCode,
        alert: Option<&str>,
        link: &str,
        person: &PersonRow,
    ) -> Reply {
        let guard = self.guard();
        let password = Field {
            name: "password",
            label: "New password",
            kind: "password",
            autocomplete: "new-password",
            hint: "A few words that do not belong together are easy to keep and hard to guess.",
            focus: true,
            ..Field::default()
        };
        let body = html! {
            p { "For " strong { (person.email) } ". You will be signed out everywhere else." }
            form method="post" action="/password" {
                (frame::csrf(&guard)) (frame::hidden("link", link)) (password.show(""))
                button.primary type="submit" { "Save the password" }
            }
        };
        guard.apply(reply::page(status, frame::page("Choose a password", Width::Narrow, alert, &body), ""))
    }

    pub(super) async fn choose_password(&self) -> Result<Reply, Problem> {
        let form = self.form()?;
        let (link, chosen) = (form.text("link"), secret(&form, "password"));
        let person = self.of_link(link).await?;
        let entropy = self.asked.engine.entropy.as_ref();
        let hash =
            match self.identity.passwords.choose(entropy, &chosen, &[&person.email, &person.name]).await? {
                Ok(hash) => hash,
                Err(words) => {
                    return Ok(self.password_page(StatusCode::BAD_REQUEST, Some(&words), link, &person));
                }
            };
        let mut ctx: Ctx = session::acting(self.asked, &person);
        let now = ctx.now();
        let taken = links::take(ctx.tx().await?, Purpose::Password, link, now).await?;
        taken.ok_or_else(|| Problem::new(Code::NotFound, "This link was used already."))?;
        sql::people::set_password(ctx.tx().await?, person.id, &hash, now).await?;
        links::forget(ctx.tx().await?, person.id).await?;
        self.identity.end_sessions(&mut ctx, person.id, None).await?;
        ctx.audit("person.password_changed", &person.id)?;
        ctx.finish().await?;
        Ok(session::forget(reply::see_other("/signin")))
    }

    pub(super) fn show_forgotten(&self) -> Result<Reply, Problem> {
        if !self.identity.mailer.is_configured() {
            let words = "This platform sends no mail. Ask its operator for a link to choose a new password.";
            return Err(Problem::new(Code::NotFound, words));
        }
        let guard = self.guard();
        let email = Field {
            name: "email",
            label: "E-mail",
            kind: "email",
            autocomplete: "username",
            focus: true,
            ..Field::default()
        };
        let body = html! {
            p { "We send you a link to choose a new one." }
            form method="post" action="/password/forgotten" {
                (frame::csrf(&guard)) (email.show(""))
                button.primary type="submit" { "Send the link" }
            }
        };
        Ok(guard.apply(reply::page(
            StatusCode::OK,
            frame::page("Forgot the password?", Width::Narrow, None, &body),
            "",
        )))
    }

    /// The same answer whether or not anyone has the address.
    pub(super) async fn forgotten(&self) -> Result<Reply, Problem> {
        let form = self.form()?;
        let email = canonical(form.text("email")).unwrap_or_default();
        let address = self.asked.address_bucket();
        let tries = [(LETTERS, email.as_str()), (LETTERS_FROM, address.as_str())];
        let within = attempts::take(self.asked.engine, self.asked.now, &tries).await?.is_ok();
        if within && self.identity.mailer.is_configured() {
            self.mail_link(email);
        }
        let body =
            html! { p { "If someone has an account with this address, a link is on its way to them." } };
        Ok(reply::page(StatusCode::OK, frame::page("Look into your mail", Width::Narrow, None, &body), ""))
    }

    /// Mails the link beside the answer, so that the answer takes no longer for a person than for nobody.
    fn mail_link(&self, email: String) {
        let (engine, mailer) = (self.asked.engine.clone(), self.identity.mailer.clone());
        let (issuer, request_id) = (self.identity.issuer.clone(), self.asked.request_id.clone());
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
    tx.rollback().await?;
    let Some(person) = person else { return Ok(()) };
    let mut ctx = Ctx::acting(engine, Caller::person(person.id, &person.name), request_id);
    let link = Identity::make_password_link(&mut ctx, issuer, &person).await?;
    let letter = MailMessage {
        to: person.email.clone(),
        subject: "Choose a new password".to_owned(),
        text: format!(
            "Someone, we hope you, asked for a new password.\n\nOpen this link within an hour:\n\n{}\n\nIf it was not \
             you, you need not do anything.\n",
            link.expose()
        ),
    };
    mailer.post(engine, ctx.tx().await?, &letter).await?;
    ctx.finish().await
}
