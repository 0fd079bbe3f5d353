//! Sign-up: by the link of the first start, or by an invitation.

use http::StatusCode;
use maud::{Markup, html};
use portico_engine::Ctx;
use portico_engine::ports::PendingInvitation;
use portico_kernel::{Caller, Code, Detail, PersonId, Problem};

use super::frame::{self, Field, Width};
use super::{Visit, secret, signin};
use crate::http::Params;
use crate::http::reply::{self, Reply};
use crate::people::NewPerson;
use crate::people::links::{self, Purpose};
use crate::sql;

/// What lets someone sign up.
enum Pass {
    Setup(String),
    Invitation(String, PendingInvitation),
}

impl Pass {
    fn hidden(&self) -> Markup {
        match self {
            Self::Setup(token) => frame::hidden("setup", token),
            Self::Invitation(token, _) => frame::hidden("invitation", token),
        }
    }
}

/// The first thing that is wrong, for the person who filled the form.
fn in_words(problem: &Problem) -> Option<String> {
    problem.details().iter().find_map(|detail| match detail {
        Detail::Field { field, description } if field == "password" || field == "name" => {
            Some(description.clone())
        }
        Detail::Field { description, .. } => Some(format!("The e-mail address {description}.")),
        _ => None,
    })
}

impl Visit<'_> {
    async fn pass(&self, params: &Params) -> Result<Pass, Problem> {
        let over = || Problem::new(Code::NotFound, "This link is over, was used already, or never was one.");
        let mut tx = self.asked.engine.db.read().await?;
        let pass = match (params.get("setup"), params.get("invitation")) {
            (Some(token), None) => {
                // Once there is someone, nobody is the first.
                let first = !sql::people::has_people(&mut tx).await?;
                let link = links::find(&mut tx, Purpose::Setup, token, self.asked.now).await?;
                link.filter(|_| first).map(|_| Pass::Setup(token.to_owned()))
            }
            (None, Some(token)) => {
                let invited = self.identity.enrolment.invitation(&mut tx, token, self.asked.now).await?;
                invited.map(|invited| Pass::Invitation(token.to_owned(), invited))
            }
            _ => None,
        };
        tx.rollback().await?;
        pass.ok_or_else(over)
    }

    pub(super) async fn show_signup(&self) -> Result<Reply, Problem> {
        let query = self.query()?;
        let pass = self.pass(&query).await?;
        self.signup_page(StatusCode::OK, None, &pass, &query).await
    }

    async fn signup_page(
        &self,
        status: StatusCode,
        alert: Option<&str>,
        pass: &Pass,
        filled: &Params,
    ) -> Result<Reply, Problem> {
        if let Pass::Invitation(token, invited) = pass {
            if let Some(session) = &self.session {
                return Ok(self.join_page(status, alert, token, invited, &session.person.email));
            }
            let mut tx = self.asked.engine.db.read().await?;
            let known = sql::people::person_by_email(&mut tx, &invited.email).await?.is_some();
            tx.rollback().await?;
            if known {
                return Ok(signin::to_signin(&format!("/signup?invitation={token}")));
            }
        }
        let guard = self.guard();
        let name = Field {
            name: "name",
            label: "Your name",
            autocomplete: "name",
            value: filled.text("name"),
            required: false,
            focus: matches!(pass, Pass::Invitation(..)),
            ..Field::default()
        };
        let email = Field {
            name: "email",
            label: "E-mail",
            kind: "email",
            autocomplete: "username",
            value: filled.text("email"),
            focus: true,
            ..Field::default()
        };
        let password = Field {
            name: "password",
            label: "Password",
            kind: "password",
            autocomplete: "new-password",
            hint: "A few words that do not belong together are easy to keep and hard to guess.",
            ..Field::default()
        };
        let body = html! {
            @match pass {
                Pass::Setup(_) => p { "This makes the first account of this platform: yours." },
                Pass::Invitation(_, invited) => p {
                    "You are invited to join " strong { (invited.team) } " as " (invited.role.name()) ", with the address "
                    strong { (invited.email) } "."
                },
            }
            form method="post" action="/signup" {
                (frame::csrf(&guard)) (pass.hidden())
                @if matches!(pass, Pass::Setup(_)) { (email.show("")) }
                (name.show("")) (password.show(""))
                button.primary type="submit" { "Create account" }
            }
        };
        Ok(guard.apply(reply::page(
            status,
            frame::page("Create your account", Width::Narrow, alert, &body),
            "",
        )))
    }

    /// For someone who has an account already.
    fn join_page(
        &self,
        status: StatusCode,
        alert: Option<&str>,
        token: &str,
        invited: &PendingInvitation,
        own: &str,
    ) -> Reply {
        let guard = self.guard();
        let body = html! {
            p { "You are invited as " (invited.role.name()) ", with the address " strong { (invited.email) } "." }
            @if own == invited.email {
                form method="post" action="/signup" {
                    (frame::csrf(&guard)) (frame::hidden("invitation", token))
                    button.primary type="submit" { "Join " (invited.team) }
                }
            } @else {
                p.alert role="alert" { "You are signed in as " (own) ". Sign out first, then open the link again." }
                p { a href="/signout" { "Sign out" } }
            }
        };
        reply::page(status, frame::page(&format!("Join {}", invited.team), Width::Narrow, alert, &body), "")
    }

    pub(super) async fn signup(&self) -> Result<Reply, Problem> {
        let form = self.form()?;
        let pass = self.pass(&form).await?;
        if let (Pass::Invitation(token, _), Some(session)) = (&pass, &self.session) {
            let mut ctx = session.ctx(self.asked);
            self.identity.enrolment.accept(&mut ctx, token, session.person.id).await?;
            ctx.finish().await?;
            return Ok(reply::see_other("/settings"));
        }
        match self.make(&pass, &form).await {
            Ok(reply) => Ok(reply),
            Err(problem) => match in_words(&problem) {
                Some(words) => self.signup_page(StatusCode::BAD_REQUEST, Some(&words), &pass, &form).await,
                None => Err(problem),
            },
        }
    }

    async fn make(&self, pass: &Pass, form: &Params) -> Result<Reply, Problem> {
        let over = || Problem::new(Code::NotFound, "This link was used already.");
        let id: PersonId = self.asked.engine.entropy.id(self.asked.now);
        let name = form.text("name").trim();
        let mut ctx = Ctx::acting(self.asked.engine, Caller::person(id, name), &self.asked.request_id);
        let new = NewPerson {
            email: match pass {
                Pass::Setup(_) => form.text("email").to_owned(),
                Pass::Invitation(_, invited) => invited.email.clone(),
            },
            name: name.to_owned(),
            // A link that came by mail shows that the address is theirs.
            email_verified: matches!(pass, Pass::Invitation(_, invited) if invited.mailed),
            password: Some(secret(form, "password")),
        };
        let ready = self.identity.prepare_person(self.asked.engine, &new).await?;
        if let Pass::Setup(token) = pass {
            let now = ctx.now();
            links::take(ctx.tx().await?, Purpose::Setup, token, now).await?.ok_or_else(over)?;
        }
        let person = self.identity.insert_person(&mut ctx, ready).await?;
        match pass {
            Pass::Setup(_) => {}
            Pass::Invitation(token, _) => {
                self.identity.enrolment.accept(&mut ctx, token, person.id).await?;
            }
        }
        ctx.set_account(person.account_id);
        let with_session = self.identity.begin_session(&mut ctx, self.asked, person.id, "signup").await?;
        ctx.finish().await?;
        Ok(with_session(reply::see_other("/settings")))
    }
}
