//! A password by a link: forgotten, or never chosen.

use http::StatusCode;
use maud::html;
use portico_engine::Ctx;
use portico_engine::ports::Letter;
use portico_kernel::{Code, Problem};

use super::frame::{self, Field, Width};
use super::{Visit, secret};
use crate::http::reply::{self, Reply};
use crate::people::attempts::{self, LETTERS, OF_ADDRESS};
use crate::people::links::{self, Purpose};
use crate::people::{canonical, password, session};
use crate::sql;
use crate::sql::people::PersonRow;

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
        if let Err(words) = password::check_strength(&chosen, &[&person.email, &person.name]) {
            return Ok(self.password_page(StatusCode::BAD_REQUEST, Some(&words), link, &person));
        }
        let hash = self.identity.passwords.hash(self.asked.engine.entropy.as_ref(), &chosen).await?;
        let mut ctx: Ctx = session::acting(self.asked, &person);
        let now = ctx.now();
        let taken = links::take(ctx.tx().await?, Purpose::Password, link, now).await?;
        taken.ok_or_else(|| Problem::new(Code::NotFound, "This link was used already."))?;
        sql::people::set_password(ctx.tx().await?, person.id, &hash, now).await?;
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
        let tries = [(LETTERS, email.as_str()), (OF_ADDRESS, address.as_str())];
        let within = attempts::take(self.asked.engine, self.asked.now, &tries).await?.is_ok();
        if within && self.identity.mailer.is_configured() {
            self.mail_link(&email).await?;
        }
        let body =
            html! { p { "If someone has an account with this address, a link is on its way to them." } };
        Ok(reply::page(StatusCode::OK, frame::page("Look into your mail", Width::Narrow, None, &body), ""))
    }

    async fn mail_link(&self, email: &str) -> Result<(), Problem> {
        let mut tx = self.asked.engine.db.read().await?;
        let person = sql::people::person_by_email(&mut tx, email).await?;
        tx.rollback().await?;
        let Some(person) = person else { return Ok(()) };
        let mut ctx = session::acting(self.asked, &person);
        let link = self.identity.password_link(&mut ctx, person.id).await?;
        let letter = Letter {
            to: person.email.clone(),
            subject: "Choose a new password".to_owned(),
            text: format!(
                "Someone, we hope you, asked for a new password.\n\nOpen this link within an hour:\n\n{}\n\nIf it was \
                 not you, you need not do anything.\n",
                link.expose()
            ),
        };
        let engine = ctx.engine().clone();
        self.identity.mailer.post(&engine, ctx.tx().await?, &letter).await?;
        ctx.finish().await
    }
}
