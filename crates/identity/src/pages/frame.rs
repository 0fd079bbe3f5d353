//! The frame that every page has.

use http::StatusCode;
use maud::{DOCTYPE, Markup, html};
use portico_kernel::{Detail, Problem};
use serde_json::json;

use crate::Identity;
use crate::http::response::{self, AuthResponse};
use crate::people::session::FormGuard;
use crate::sql::people::PersonRow;

/// How wide a page is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// One thing to do.
    Narrow,
    /// A list of things.
    Wide,
}

impl Identity {
    /// A page. `refusal` is what went wrong, read out at once; its forms may lead here and, by a redirect, to `onwards`.
    pub(super) fn page(
        &self,
        title: &str,
        width: Width,
        refusal: Option<&Problem>,
        onwards: &str,
        body: &Markup,
    ) -> AuthResponse {
        let brand = &self.brand;
        let links = [("Help", &brand.support_url), ("Terms", &brand.terms_url)];
        let links = links.map(|(name, address)| (name, Some(address).filter(|address| !address.is_empty())));
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="robots" content="noindex";
                    title { (title) " · " (brand.name) }
                    link rel="icon" href="/assets/logo";
                    link rel="stylesheet" href="/assets/portico.css";
                    @if brand.accent.is_some() {
                        link rel="stylesheet" href="/assets/brand.css";
                    }
                    script src="/assets/passkeys.js" defer {}
                }
                body.wide[width == Width::Wide] {
                    header {
                        img.mark src="/assets/logo" alt="" width="26" height="26";
                        span.brand { (brand.name) }
                    }
                    main {
                        h1 { (title) }
                        @if let Some(problem) = refusal {
                            p.alert role="alert" { (message(problem)) }
                        }
                        (body)
                    }
                    @if links.iter().any(|(_, address)| address.is_some()) {
                        footer {
                            @for (name, address) in links {
                                @if let Some(address) = address { a href=(address) { (name) } " " }
                            }
                        }
                    }
                }
            }
        };
        let page = response::page(refusal.map_or(StatusCode::OK, status), markup, onwards);
        with_retry(page, refusal)
    }

    /// A refusal on a page of its own.
    pub(super) fn failure(&self, problem: &Problem, request_id: &str) -> AuthResponse {
        let body = html! {
            p.quiet { "Request " code { (request_id) } }
            p { a href="/settings" { "To your settings" } }
        };
        self.page("That did not work", Width::Narrow, Some(problem), "", &body)
    }
}

fn with_retry(response: AuthResponse, refusal: Option<&Problem>) -> AuthResponse {
    match refusal.and_then(Problem::retry_seconds) {
        Some(seconds) => response::retry_after(response, seconds),
        None => response,
    }
}

/// A refusal for the script that posted.
pub(super) fn script_failure(problem: &Problem) -> AuthResponse {
    let body = json!({ "error": message(problem) });
    with_retry(response::private_json(status(problem), &body), Some(problem))
}

/// The person's e-mail address, marked unless they have shown that it is theirs.
pub(super) fn address(person: &PersonRow) -> Markup {
    html! { strong { (person.email) } (mark(person)) }
}

/// The mark of an address that is not confirmed.
pub(super) fn mark(person: &PersonRow) -> Markup {
    html! { @if !person.email_verified { " (not confirmed)" } }
}

fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// What a refusal says to the person: what is wrong with the field, if it is about one.
fn message(problem: &Problem) -> String {
    field_message(problem).unwrap_or_else(|| problem.error().to_owned())
}

/// What is wrong with the first field that the refusal names.
pub(super) fn field_message(problem: &Problem) -> Option<String> {
    problem.details().iter().find_map(|detail| match detail {
        Detail::Field { field, description } if field == "password" || field == "name" => {
            Some(format!("The {field} {description}."))
        }
        Detail::Field { description, .. } => Some(format!("The e-mail address {description}.")),
        _ => None,
    })
}

/// A field of a form with its label.
pub(super) struct Field<'a> {
    name: &'static str,
    label: &'static str,
    kind: &'static str,
    autocomplete: &'static str,
    value: &'a str,
    hint: &'static str,
    required: bool,
    focused: bool,
}

impl<'a> Field<'a> {
    /// A line of text that must be filled.
    pub(super) const fn new(name: &'static str, label: &'static str) -> Self {
        let (kind, autocomplete, value, hint) = ("text", "off", "", "");
        Self { name, label, kind, autocomplete, value, hint, required: true, focused: false }
    }

    pub(super) fn kind(self, kind: &'static str, autocomplete: &'static str) -> Self {
        Self { kind, autocomplete, ..self }
    }

    pub(super) fn value(self, value: &'a str) -> Self {
        Self { value, ..self }
    }

    pub(super) fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn optional(self) -> Self {
        Self { required: false, ..self }
    }

    /// Is it where the cursor is when the page opens?
    pub(super) fn focused(self, focused: bool) -> Self {
        Self { focused, ..self }
    }

    /// `prefix` tells fields of one name in two forms apart.
    pub(super) fn show(&self, prefix: &str) -> Markup {
        let id = format!("{prefix}{}", self.name);
        let hint = format!("{id}-hint");
        html! {
            div.field {
                label for=(id) { (self.label) }
                input id=(id) name=(self.name) type=(self.kind) value=(self.value) autocomplete=(self.autocomplete)
                    required[self.required] autofocus[self.focused] aria-describedby=[(!self.hint.is_empty()).then_some(&hint)];
                @if !self.hint.is_empty() {
                    p.hint id=(hint) { (self.hint) }
                }
            }
        }
    }
}

/// The field for the password that is asked again.
pub(super) fn current_password() -> Field<'static> {
    Field::new("current_password", "Your password").kind("password", "current-password")
}

/// The field for a password that the person chooses.
pub(super) fn new_password(label: &'static str) -> Field<'static> {
    Field::new("password", label)
        .kind("password", "new-password")
        .hint("A few words that do not belong together are easy to keep and hard to guess.")
}

/// The hidden CSRF token.
pub(super) fn csrf(guard: &FormGuard) -> Markup {
    hidden("csrf", &guard.csrf)
}

pub(super) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}
