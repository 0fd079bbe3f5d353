//! Signing out.

use maud::html;
use portico_kernel::Problem;

use super::PageRequest;
use super::frame::{self, Width};
use crate::http::response::{self, AuthResponse};
use crate::people::session;

impl PageRequest<'_> {
    pub(crate) fn show_signout(&self) -> AuthResponse {
        let Some(session) = &self.session else { return response::see_other("/signin") };
        let guard = self.guard();
        let body = html! {
            p { "You are signed in as " (frame::address(&session.person)) "." }
            form method="post" action="/signout" {
                (frame::csrf(&guard))
                button.primary type="submit" { "Sign out" }
            }
            p.quiet { a href="/settings" { "Stay signed in" } }
        };
        self.identity.page("Sign out", Width::Narrow, None, "", &body)
    }

    pub(crate) async fn signout(&self) -> Result<AuthResponse, Problem> {
        if let Some(session) = &self.session {
            let mut ctx = session.ctx(self.context);
            self.identity.end_session(&mut ctx, session.person.id, session.id).await?;
            ctx.finish().await?;
        }
        Ok(session::forget(response::see_other("/signin")))
    }
}
