//! The sections of the settings page.

use std::collections::BTreeMap;

use maud::{Markup, html};
use portico_kernel::{Problem, Timestamp};

use super::device;
use super::frame::{self, Field, current_password};
use crate::http::RequestContext;
use crate::oauth::client::CONSOLE;
use crate::people::session::{FormGuard, Session};
use crate::sql;
use crate::sql::oauth::AuthorizationRow;
use crate::sql::people::{PasskeyRow, PersonRow, SessionRow};

/// The data of the settings page.
pub(super) struct Overview {
    has_totp: bool,
    recovery_codes: i64,
    passkeys: Vec<PasskeyRow>,
    sessions: Vec<SessionRow>,
    /// The apps by id: their name and what the person let them do.
    apps: BTreeMap<String, (String, Vec<AuthorizationRow>)>,
}

fn day(time: Timestamp) -> String {
    time.to_string().chars().take(16).collect::<String>().replace('T', " ")
}

impl Overview {
    pub(super) async fn read(context: &RequestContext<'_>, session: &Session) -> Result<Self, Problem> {
        let person = session.person.id;
        let mut tx = context.engine.db.read().await?;
        let mut apps: BTreeMap<String, (String, Vec<AuthorizationRow>)> = BTreeMap::new();
        for row in sql::oauth::authorizations_of(&mut tx, person, context.now).await? {
            if row.client_id == CONSOLE {
                continue;
            }
            let name = match apps.get(&row.client_id) {
                Some((name, _)) => name.clone(),
                None => sql::oauth::client(&mut tx, &row.client_id)
                    .await?
                    .map(|client| client.name)
                    .unwrap_or_default(),
            };
            apps.entry(row.client_id.clone()).or_insert_with(|| (name, Vec::new())).1.push(row);
        }
        let overview = Self {
            has_totp: sql::people::totp(&mut tx, person).await?.is_some(),
            recovery_codes: sql::people::count_recovery_codes(&mut tx, person).await?,
            passkeys: sql::people::passkeys(&mut tx, person).await?,
            sessions: sql::people::sessions(&mut tx, person).await?,
            apps,
        };
        tx.rollback();
        Ok(overview)
    }

    pub(super) fn sign_in(&self, guard: &FormGuard, has_passkeys: bool) -> Markup {
        let new = Field::new("new_password", "New password")
            .kind("password", "new-password")
            .hint("You will be signed out everywhere else. Connected apps stay connected.");
        html! {
            section aria-labelledby="sign-in" {
                h2 id="sign-in" { "Sign-in" }
                details {
                    summary { "Change the password" }
                    form method="post" action="/settings/password" {
                        (frame::csrf(guard)) (current_password().show("password-")) (new.show("password-"))
                        button type="submit" { "Change the password" }
                    }
                }
                h3 { "Codes from an app" }
                @if self.has_totp {
                    p { "On, with " (self.recovery_codes) " recovery codes left. " a href="/settings/totp" { "Set up anew" } }
                    details {
                        summary { "Turn off" }
                        form method="post" action="/settings/totp/remove" {
                            (frame::csrf(guard)) (current_password().show("totp-"))
                            button.danger type="submit" { "Turn codes off" }
                        }
                    }
                } @else {
                    p { "Off. " a href="/settings/totp" { "Turn on" } }
                }
                h3 { "Passkeys" }
                ul.rows {
                    @for passkey in &self.passkeys {
                        li {
                            div {
                                strong { (passkey.name) }
                                p.quiet { "Added " (day(passkey.created_at))
                                    @if let Some(used) = passkey.last_used_at { ", last used " (day(used)) } }
                            }
                            details {
                                summary { "Remove" }
                                form method="post" action="/settings/passkeys/remove" {
                                    (frame::csrf(guard)) (frame::hidden("passkey", &passkey.id))
                                    (current_password().show(&format!("passkey-{}-", passkey.id)))
                                    button.danger type="submit" { "Remove this passkey" }
                                }
                            }
                        }
                    }
                    @if self.passkeys.is_empty() { li.none { "None yet." } }
                }
                @if has_passkeys { (add_passkey(guard)) }
                @else { p.quiet { "Passkeys need an address with a name; this platform is reached by a number." } }
            }
        }
    }

    pub(super) fn sessions(&self, guard: &FormGuard, own: &Session) -> Markup {
        html! {
            section aria-labelledby="sessions" {
                h2 id="sessions" { "Where you are signed in" }
                ul.rows {
                    @for session in &self.sessions {
                        li {
                            div {
                                strong title=(session.user_agent) { (device::shown(&session.user_agent)) }
                                p.quiet { (session.address) ", last seen " (day(session.last_seen_at)) " UTC"
                                    @if session.id == own.id { " · this browser" } }
                            }
                            @if session.id != own.id {
                                form method="post" action="/settings/sessions/end" {
                                    (frame::csrf(guard)) (frame::hidden("session", &session.id.to_string()))
                                    button type="submit" { "Sign out" }
                                }
                            }
                        }
                    }
                }
                @if self.sessions.len() > 1 {
                    form method="post" action="/settings/sessions/end-others" {
                        (frame::csrf(guard))
                        button.danger type="submit" { "Sign out everywhere else" }
                    }
                }
            }
        }
    }

    pub(super) fn apps(&self, guard: &FormGuard) -> Markup {
        html! {
            section aria-labelledby="apps" {
                h2 id="apps" { "Connected apps" }
                ul.rows {
                    @for (client, (name, rows)) in &self.apps {
                        li {
                            div {
                                strong { (name) }
                                @for row in rows {
                                    p.quiet { "Since " (day(row.created_at)) ": " (row.scopes.as_deref().unwrap_or_default()) }
                                }
                            }
                            form method="post" action="/settings/apps/end" {
                                (frame::csrf(guard)) (frame::hidden("client", client))
                                button.danger type="submit" { "Disconnect" }
                            }
                        }
                    }
                    @if self.apps.is_empty() { li.none { "None." } }
                }
            }
        }
    }
}

pub(super) fn profile(guard: &FormGuard, person: &PersonRow) -> Markup {
    let name = Field::new("name", "Name").kind("text", "name").value(&person.name).optional();
    let email = Field::new("email", "New address").kind("email", "email");
    html! {
        section aria-labelledby="profile" {
            h2 id="profile" { "You" }
            form.inline method="post" action="/settings/name" {
                (frame::csrf(guard)) (name.show("profile-"))
                button type="submit" { "Save" }
            }
            details {
                summary { @if person.email_verified { "Change the e-mail address" } @else { "Change or confirm the e-mail address" } }
                form method="post" action="/settings/email" {
                    (frame::csrf(guard)) (email.show("email-")) (current_password().show("email-"))
                    button type="submit" { "Change the address" }
                }
            }
        }
    }
}

fn add_passkey(guard: &FormGuard) -> Markup {
    let name = Field::new("name", "A name for it").optional();
    html! {
        details hidden data-passkey="add" data-csrf=(guard.csrf) {
            summary { "Add a passkey" }
            form {
                (name.show("add-passkey-")) (current_password().show("add-passkey-"))
                button type="submit" { "Add a passkey" }
                p.alert role="alert" hidden {}
            }
        }
        noscript { p.quiet { "Adding a passkey needs JavaScript." } }
    }
}
