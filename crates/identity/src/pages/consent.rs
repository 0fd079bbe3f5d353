//! Consent: what an app wants, in plain words, before it gets it.

use maud::html;
use portico_engine::ports::Membership;
use portico_kernel::{Code, Problem};
use portico_store::OnConflict;

use super::PageRequest;
use super::frame::{self, Width};
use crate::http::response::{self, AuthResponse};
use crate::limits;
use crate::oauth::authorize::AuthorizationRequest;
use crate::oauth::client::Origin;
use crate::oauth::{OAuthError, redirect};
use crate::people::links;
use crate::people::session::Session;

/// Warns of an app that registered itself, or describes itself.
pub(super) const UNCHECKED: &str = "Nobody here has checked this app. ";

fn expired() -> Problem {
    Problem::new(Code::BadRequest, "This request is too old. Go back to the app and start again.")
}

impl PageRequest<'_> {
    async fn request(&self, sealed: &str) -> Result<AuthorizationRequest, Problem> {
        let session = self.session.as_ref().ok_or_else(expired)?;
        self.identity.open_request(self.context, session.id, sealed).await?.ok_or_else(expired)
    }

    async fn memberships(&self) -> Result<Vec<Membership>, Problem> {
        let session = self.session.as_ref().ok_or_else(expired)?;
        let mut tx = self.context.engine.db.read().await?;
        let memberships = self.identity.enrolment.memberships(&mut tx, session.person.id).await?;
        tx.rollback();
        Ok(memberships)
    }

    pub(crate) async fn show_consent(&self, session: &Session) -> Result<AuthResponse, Problem> {
        let query = self.query()?;
        let sealed = query.text("request");
        let request = self.request(sealed).await?;
        let memberships = self.memberships().await?;
        let (client, guard) = (&request.client, self.guard());
        let scopes = request.params.scopes.clone().unwrap_or_default();
        let catalog = self.context.engine.registry.catalog();
        let service = catalog.audience(&request.params.audience).map(|audience| audience.title.as_str());
        let host = redirect::shown_host(&request.params.redirect_uri);
        let body = html! {
            p { "Signed in as " (frame::address(&session.person)) ". " a href="/signout" { "Not you?" } }
            @if !client.origin.is_verified() {
                p.warning {
                    strong { (UNCHECKED) }
                    "It gave itself this name" @if client.origin == Origin::Document { " at " strong { (redirect::shown_host(&client.id)) } }
                    ". Go on only if you started this yourself, a moment ago."
                    @if redirect::is_loopback(&request.params.redirect_uri) {
                        " It runs on your own computer, where any program could pretend to be it."
                    }
                }
            }
            p { @if let Some(service) = service { "In " strong { (service) } ", it" } @else { "It" } " will be able to:" }
            ul.scopes {
                @for scope in catalog.scopes().iter().filter(|scope| scopes.contains(scope.name)) {
                    li { (scope.description) " " span.quiet { (scope.name) } }
                }
            }
            form method="post" action="/consent" {
                (frame::csrf(&guard)) (frame::hidden("request", sealed))
                @if let [only] = memberships.as_slice() {
                    (frame::hidden("account", &only.account.to_string()))
                } @else {
                    div.field {
                        label for="account" { "In the account" }
                        select id="account" name="account" {
                            @for membership in &memberships {
                                option value=(membership.account) {
                                    (membership.name) @if membership.personal { " (your own)" } @else { " (" (membership.role.name()) ")" }
                                }
                            }
                        }
                    }
                }
                p.quiet { "You will be sent to " strong { (host) } ". You can take this back in your settings at any time." }
                div.actions {
                    button.primary type="submit" name="decision" value="allow" { "Allow" }
                    button type="submit" name="decision" value="deny" { "Deny" }
                }
            }
        };
        let title = format!("Let {} in?", client.name);
        let onwards = redirect::form_action(&request.params.redirect_uri);
        Ok(guard.apply(self.identity.page(&title, Width::Narrow, None, &onwards, &body)))
    }

    /// Uses the sealed request up: it works once.
    async fn use_once(&self, sealed: &str) -> Result<(), Problem> {
        let mut tx = self.context.engine.db.write().await?;
        let until = self.context.now + limits::CONSENT_LIFE;
        links::use_once(&mut tx, "consent used", sealed, until).await.on_conflict(expired)?;
        Ok(tx.commit().await?)
    }

    pub(crate) async fn consent(&self) -> Result<AuthResponse, Problem> {
        let form = &self.form;
        let request = self.request(form.text("request")).await?;
        if form.text("decision") != "allow" {
            let denied = OAuthError::new("access_denied", "The person did not let the app in.");
            return Ok(response::see_other(&request.refuse(&self.identity.issuer, &denied)));
        }
        let memberships = self.memberships().await?;
        let chosen =
            memberships.iter().find(|membership| membership.account.to_string() == form.text("account"));
        let chosen =
            chosen.ok_or_else(|| Problem::new(Code::BadRequest, "Choose an account that you belong to."))?;
        self.use_once(form.text("request")).await?;
        self.let_in(&request, chosen.account)
    }
}
