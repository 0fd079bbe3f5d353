//! The frame that every page has.

use maud::{DOCTYPE, Markup, html};

use crate::people::session::FormGuard;

/// How wide a page is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// One thing to do.
    Narrow,
    /// A list of things.
    Wide,
}

/// A page of that title. `alert` is what went wrong, read out at once.
pub(super) fn page(title: &str, width: Width, alert: Option<&str>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (title) " · Portico" }
                link rel="icon" type="image/svg+xml" href="/assets/icon.svg";
                link rel="stylesheet" href="/assets/portico.css";
                script src="/assets/passkeys.js" defer {}
            }
            body.wide[width == Width::Wide] {
                header {
                    svg.mark viewBox="0 0 32 32" aria-hidden="true" {
                        path d="M4 28V14a12 12 0 0 1 24 0v14h-5V14a7 7 0 0 0-14 0v14z" {}
                    }
                    span.brand { "Portico" }
                }
                main {
                    h1 { (title) }
                    @if let Some(alert) = alert {
                        p.alert role="alert" { (alert) }
                    }
                    (body)
                }
            }
        }
    }
}

/// A refusal.
pub(super) fn failure(words: &str, request_id: &str) -> Markup {
    let body = html! {
        p.alert role="alert" { (words) }
        p.quiet { "Request " code { (request_id) } }
        p { a href="/settings" { "To your settings" } }
    };
    page("That did not work", Width::Narrow, None, &body)
}

/// A field of a form with its label.
pub(super) struct Field<'a> {
    pub(super) name: &'static str,
    pub(super) label: &'a str,
    pub(super) kind: &'static str,
    pub(super) autocomplete: &'static str,
    pub(super) value: &'a str,
    /// What helps to fill it.
    pub(super) hint: &'a str,
    pub(super) required: bool,
    /// Is it where one begins to type?
    pub(super) focus: bool,
}

impl Default for Field<'_> {
    fn default() -> Self {
        Self {
            name: "",
            label: "",
            kind: "text",
            autocomplete: "off",
            value: "",
            hint: "",
            required: true,
            focus: false,
        }
    }
}

impl Field<'_> {
    /// `prefix` tells fields of one name in two forms apart.
    pub(super) fn show(&self, prefix: &str) -> Markup {
        let id = format!("{prefix}{}", self.name);
        let hint = format!("{id}-hint");
        html! {
            div.field {
                label for=(id) { (self.label) }
                input id=(id) name=(self.name) type=(self.kind) value=(self.value) autocomplete=(self.autocomplete)
                    required[self.required] autofocus[self.focus] aria-describedby=[(!self.hint.is_empty()).then_some(&hint)];
                @if !self.hint.is_empty() {
                    p.hint id=(hint) { (self.hint) }
                }
            }
        }
    }
}

/// The hidden proof that a form is ours.
pub(super) fn csrf(guard: &FormGuard) -> Markup {
    html! { input type="hidden" name="csrf" value=(guard.csrf); }
}

pub(super) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}
