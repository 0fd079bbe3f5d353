//! Signing out.

use http::StatusCode;
use maud::html;
use portico_kernel::Problem;

use super::Visit;
use super::frame::{self, Width};
use crate::http::reply::{self, Reply};
use crate::people::session;

impl Visit<'_> {
    pub(super) fn show_signout(&self) -> Reply {
        let Some(session) = &self.session else { return reply::see_other("/signin") };
        let guard = self.guard();
        let body = html! {
            p { "You are signed in as " strong { (session.person.email) } "." }
            form method="post" action="/signout" {
                (frame::csrf(&guard))
                button.primary type="submit" { "Sign out" }
            }
            p.quiet { a href="/settings" { "Stay signed in" } }
        };
        reply::page(StatusCode::OK, frame::page("Sign out", Width::Narrow, None, &body), "")
    }

    pub(super) async fn signout(&self) -> Result<Reply, Problem> {
        self.form()?;
        if let Some(session) = &self.session {
            let mut ctx = session.ctx(self.asked);
            self.identity.end_session(&mut ctx, session.person.id, session.id).await?;
            ctx.finish().await?;
        }
        Ok(session::forget(reply::see_other("/signin")))
    }
}
