//! Setting up a code generator.

use http::StatusCode;
use maud::{Markup, PreEscaped, html};
use portico_kernel::Problem;
use qrcode::QrCode;
use qrcode::render::svg;

use super::Visit;
use super::frame::{self, Field, Width};
use crate::http::carried::For;
use crate::http::reply::{self, Reply};
use crate::limits;
use crate::people::session::Session;
use crate::people::totp::{self, Generator};

/// A secret that is not the person's yet: it travels with the form, sealed, until a code proves that the phone has it.
fn proposed(session: &str) -> For<'_> {
    For { whom: session, purpose: "totp proposed" }
}

impl Visit<'_> {
    pub(super) fn show_totp(&self) -> Result<Reply, Problem> {
        let Some(session) = &self.session else { return Ok(self.to_signin()) };
        self.totp_page(StatusCode::OK, None, session, &totp::new_secret(self.asked.engine))
    }

    fn totp_page(
        &self,
        status: StatusCode,
        alert: Option<&str>,
        session: &Session,
        secret: &[u8],
    ) -> Result<Reply, Problem> {
        let guard = self.guard();
        let generator = Generator::new(secret, &session.person.email, &self.identity.issuer)?;
        let password = Field {
            name: "current_password",
            label: "Your password",
            kind: "password",
            autocomplete: "current-password",
            ..Field::default()
        };
        let code = Field {
            name: "code",
            label: "Code from the app",
            autocomplete: "one-time-code",
            ..Field::default()
        };
        let own = session.id.to_string();
        let sealed = proposed(&own).seal(self.asked, limits::TOTP_SETUP_LIFE, secret)?;
        let body = html! {
            p { "Scan this with an authenticator app on your phone, or type the key into it." }
            div.qr role="img" aria-label="QR code of the key below" { (picture(&generator.address()?)) }
            p.key { code id="totp-secret" { (generator.secret_text()) } }
            form method="post" action="/settings/totp" {
                (frame::csrf(&guard)) (frame::hidden("proposed", &sealed))
                (code.show("")) (password.show(""))
                button.primary type="submit" { "Turn on" }
            }
            p.quiet { a href="/settings" { "Back to settings" } }
        };
        Ok(reply::page(status, frame::page("Codes from an app", Width::Narrow, alert, &body), ""))
    }

    pub(super) async fn add_totp(&self) -> Result<Reply, Problem> {
        let Some(session) = &self.session else { return Ok(self.to_signin()) };
        let form = self.form()?;
        let own = session.id.to_string();
        let Some(secret) = proposed(&own).open::<Vec<u8>>(self.asked, form.text("proposed")) else {
            return Ok(reply::see_other("/settings/totp"));
        };
        if let Some(refused) = self.recheck(session, &form).await? {
            return self.totp_page(refused.status, Some(&refused.words), session, &secret);
        }
        let generator = Generator::new(&secret, &session.person.email, &self.identity.issuer)?;
        let Some(step) = generator.step(form.text("code"), self.asked.now) else {
            let words = "The code is wrong. Does the phone show the right time?";
            return self.totp_page(StatusCode::BAD_REQUEST, Some(words), session, &secret);
        };
        let mut ctx = session.ctx(self.asked);
        let codes = totp::keep(&mut ctx, session.person.id, &secret, step).await?;
        ctx.audit("person.totp_added", &session.person.id)?;
        ctx.finish().await?;
        let body = html! {
            p { "From now on you enter a code when you sign in with your password." }
            p { "Keep these recovery codes somewhere safe. Each works once, when you do not have your phone:" }
            ul.codes id="recovery-codes" { @for code in &codes { li { code { (code) } } } }
            p { a href="/settings" { "Done" } }
        };
        Ok(reply::page(StatusCode::OK, frame::page("Codes are on", Width::Narrow, None, &body), ""))
    }
}

/// A QR code, drawn.
fn picture(text: &str) -> Markup {
    let drawn = QrCode::new(text.as_bytes()).map(|code| {
        code.render::<svg::Color<'_>>()
            .min_dimensions(200, 200)
            .dark_color(svg::Color("#000"))
            .light_color(svg::Color("#fff"))
            .build()
    });
    // The crate draws it; nothing of a person's is in it but squares.
    let drawn = drawn.unwrap_or_default();
    PreEscaped(drawn.split_once("?>").map_or(drawn.clone(), |(_, svg)| svg.to_owned()))
}
