//! Sign-up: by the link of the first start, or by an invitation.

use maud::{Markup, html};
use portico_engine::Ctx;
use portico_engine::ports::PendingInvitation;
use portico_kernel::{Caller, PersonId, Problem};

use super::frame::{self, Field, Width};
use super::{PageRequest, expired_link, signin, used_link};
use crate::http::Params;
use crate::http::response::{self, AuthResponse};
use crate::oauth::redirect;
use crate::people::NewPerson;
use crate::people::links::{self, Purpose};
use crate::sql;
use crate::sql::people::PersonRow;

/// What allows someone to sign up, with the token in its link.
enum SignupToken {
    Setup(String),
    Invitation(String, PendingInvitation),
}

impl SignupToken {
    fn hidden(&self) -> Markup {
        match self {
            Self::Setup(token) => frame::hidden("setup", token),
            Self::Invitation(token, _) => frame::hidden("invitation", token),
        }
    }
}

impl PageRequest<'_> {
    async fn signup_token(&self, params: &Params) -> Result<SignupToken, Problem> {
        let mut tx = self.context.engine.db.read().await?;
        let found = match (params.get("setup"), params.get("invitation")) {
            (Some(token), None) => {
                // Once there is someone, nobody is the first.
                let first = !sql::people::has_people(&mut tx).await?;
                let link = links::find(&mut tx, Purpose::Setup, token, self.context.now).await?;
                link.filter(|_| first).map(|_| SignupToken::Setup(token.to_owned()))
            }
            (None, Some(token)) => {
                let invited = self.identity.enrolment.invitation(&mut tx, token, self.context.now).await?;
                invited.map(|invited| SignupToken::Invitation(token.to_owned(), invited))
            }
            _ => None,
        };
        tx.rollback();
        found.ok_or_else(expired_link)
    }

    pub(crate) async fn show_signup(&self) -> Result<AuthResponse, Problem> {
        let query = self.query()?;
        let token = self.signup_token(&query).await?;
        self.signup_page(None, &token, &query).await
    }

    async fn signup_page(
        &self,
        refusal: Option<&Problem>,
        token: &SignupToken,
        filled: &Params,
    ) -> Result<AuthResponse, Problem> {
        if let SignupToken::Invitation(text, invited) = token {
            if let Some(session) = &self.session {
                return Ok(self.join_page(refusal, text, invited, &session.person));
            }
            let mut tx = self.context.engine.db.read().await?;
            let known = sql::people::person_by_email(&mut tx, &invited.email).await?.is_some();
            tx.rollback();
            if known {
                return Ok(signin::to_signin(&format!("/signup?invitation={text}")));
            }
        }
        let guard = self.guard();
        let name = Field::new("name", "Your name")
            .kind("text", "name")
            .value(filled.text("name"))
            .optional()
            .focused(matches!(token, SignupToken::Invitation(..)));
        let email =
            Field::new("email", "E-mail").kind("email", "username").value(filled.text("email")).focused(true);
        let body = html! {
            @match token {
                SignupToken::Setup(_) => p { "This makes the first account of this platform: yours." },
                SignupToken::Invitation(_, invited) => p {
                    "You are invited to join " strong { (invited.team) } " as " (invited.role.name()) ", with the address "
                    strong { (invited.email) } "."
                },
            }
            form method="post" action="/signup" {
                (frame::csrf(&guard)) (token.hidden())
                @if matches!(token, SignupToken::Setup(_)) { (email.show("")) }
                (name.show("")) (frame::new_password("Password").show(""))
                button.primary type="submit" { "Create account" }
            }
        };
        let onwards = self.console_origin();
        Ok(guard.apply(self.identity.page("Create your account", Width::Narrow, refusal, &onwards, &body)))
    }

    /// For someone who has an account already.
    fn join_page(
        &self,
        refusal: Option<&Problem>,
        token: &str,
        invited: &PendingInvitation,
        own: &PersonRow,
    ) -> AuthResponse {
        let guard = self.guard();
        let body = html! {
            p { "You are invited as " (invited.role.name()) ", with the address " strong { (invited.email) } "." }
            @if own.email == invited.email {
                form method="post" action="/signup" {
                    (frame::csrf(&guard)) (frame::hidden("invitation", token))
                    button.primary type="submit" { "Join " (invited.team) }
                }
            } @else {
                p.alert role="alert" { "You are signed in as " (own.email) (frame::mark(own)) ". Sign out first, then open the link again." }
                p { a href="/signout" { "Sign out" } }
            }
        };
        self.identity.page(
            &format!("Join {}", invited.team),
            Width::Narrow,
            refusal,
            &self.console_origin(),
            &body,
        )
    }

    /// The console, which shows a person what there is to do next.
    fn to_console(&self) -> AuthResponse {
        response::see_other(&format!("{}/", self.identity.console_url))
    }

    fn console_origin(&self) -> String {
        redirect::form_action(&self.identity.console_url)
    }

    pub(crate) async fn signup(&self) -> Result<AuthResponse, Problem> {
        let token = self.signup_token(&self.form).await?;
        if let (SignupToken::Invitation(text, _), Some(session)) = (&token, &self.session) {
            let mut ctx = session.ctx(self.context);
            self.identity.enrolment.accept(&mut ctx, text, session.person.id).await?;
            ctx.finish().await?;
            return Ok(self.to_console());
        }
        match self.create_account(&token).await {
            Err(problem) if frame::field_message(&problem).is_some() => {
                self.signup_page(Some(&problem), &token, &self.form).await
            }
            result => result,
        }
    }

    async fn create_account(&self, token: &SignupToken) -> Result<AuthResponse, Problem> {
        let id: PersonId = self.context.engine.entropy.id(self.context.now);
        let name = self.form.text("name").trim();
        let mut ctx = Ctx::acting(self.context.engine, Caller::person(id, name), &self.context.request_id);
        let new = NewPerson {
            email: match token {
                SignupToken::Setup(_) => self.form.text("email").to_owned(),
                SignupToken::Invitation(_, invited) => invited.email.clone(),
            },
            name: name.to_owned(),
            // A link that came by mail shows that the address is theirs.
            email_verified: matches!(token, SignupToken::Invitation(_, invited) if invited.mailed),
            password: Some(self.secret("password")),
        };
        let ready = self.identity.prepare_person(self.context.engine, &self.context.network(), &new).await?;
        if let SignupToken::Setup(text) = token {
            let now = ctx.now();
            links::take(ctx.tx().await?, Purpose::Setup, text, now).await?.ok_or_else(used_link)?;
        }
        let person = self.identity.insert_person(&mut ctx, ready).await?;
        if let SignupToken::Invitation(text, _) = token {
            self.identity.enrolment.accept(&mut ctx, text, person.id).await?;
        }
        ctx.set_account(person.account_id);
        let with_session = self.identity.begin_session(&mut ctx, self.context, person.id, "signup").await?;
        ctx.finish().await?;
        Ok(with_session(self.to_console()))
    }
}
