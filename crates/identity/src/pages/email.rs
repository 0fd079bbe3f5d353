//! Confirming an address.

use maud::html;
use portico_kernel::{Code, Problem};

use super::PageRequest;
use super::frame::{self, Width};
use crate::http::response::{self, AuthResponse};
use crate::people::links::{self, Purpose};
use crate::people::session;
use crate::sql;

fn expired() -> Problem {
    Problem::new(Code::NotFound, "This link is over, or was used already.")
}

impl PageRequest<'_> {
    pub(crate) async fn show_email(&self) -> Result<AuthResponse, Problem> {
        let query = self.query()?;
        let mut tx = self.context.engine.db.read().await?;
        let link = links::find(&mut tx, Purpose::Email, query.text("link"), self.context.now).await?;
        tx.rollback();
        let link = link.ok_or_else(expired)?;
        let guard = self.guard();
        let body = html! {
            p { "From now on you sign in with " strong { (link.email) } "." }
            form method="post" action="/email" {
                (frame::csrf(&guard)) (frame::hidden("link", query.text("link")))
                button.primary type="submit" { "Confirm" }
            }
        };
        Ok(guard.apply(self.identity.page("Confirm the address", Width::Narrow, None, "", &body)))
    }

    pub(crate) async fn confirm_email(&self) -> Result<AuthResponse, Problem> {
        let token = self.form.text("link");
        let mut tx = self.context.engine.db.read().await?;
        let link = links::find(&mut tx, Purpose::Email, token, self.context.now).await?;
        let link = link.ok_or_else(expired)?;
        let person = sql::people::person(&mut tx, &link.person_id).await?.ok_or_else(expired)?;
        tx.rollback();
        let mut ctx = session::acting(self.context, &person);
        let now = ctx.now();
        links::take(ctx.tx().await?, Purpose::Email, token, now).await?.ok_or_else(expired)?;
        self.identity.change_email(&mut ctx, &person, &link.email, true).await?;
        ctx.finish().await?;
        Ok(response::see_other("/settings"))
    }
}
