//! Confirming an address.

use http::StatusCode;
use maud::html;
use portico_kernel::{Code, Problem};

use super::Visit;
use super::frame::{self, Width};
use crate::http::reply::{self, Reply};
use crate::people::links::{self, Purpose};
use crate::people::session;
use crate::sql;

impl Visit<'_> {
    pub(super) async fn show_email(&self) -> Result<Reply, Problem> {
        let query = self.query()?;
        let mut tx = self.asked.engine.db.read().await?;
        let link = links::find(&mut tx, Purpose::Email, query.text("link"), self.asked.now).await?;
        tx.rollback().await?;
        let link =
            link.ok_or_else(|| Problem::new(Code::NotFound, "This link is over, or was used already."))?;
        let guard = self.guard();
        let body = html! {
            p { "From now on you sign in with " strong { (link.email) } "." }
            form method="post" action="/email" {
                (frame::csrf(&guard)) (frame::hidden("link", query.text("link")))
                button.primary type="submit" { "Confirm" }
            }
        };
        let page = frame::page("Confirm the address", Width::Narrow, None, &body);
        Ok(guard.apply(reply::page(StatusCode::OK, page, "")))
    }

    pub(super) async fn confirm_email(&self) -> Result<Reply, Problem> {
        let form = self.form()?;
        let over = || Problem::new(Code::NotFound, "This link is over, or was used already.");
        let mut tx = self.asked.engine.db.read().await?;
        let link = links::find(&mut tx, Purpose::Email, form.text("link"), self.asked.now).await?;
        let link = link.ok_or_else(over)?;
        let person = sql::people::person(&mut tx, &link.person_id).await?.ok_or_else(over)?;
        tx.rollback().await?;
        let mut ctx = session::acting(self.asked, &person);
        let now = ctx.now();
        links::take(ctx.tx().await?, Purpose::Email, form.text("link"), now).await?.ok_or_else(over)?;
        self.identity.change_email(&mut ctx, &person, &link.email, true).await?;
        ctx.finish().await?;
        Ok(reply::see_other("/settings"))
    }
}
