//! Setting up a code generator.

use maud::{Markup, PreEscaped, html};
use portico_kernel::{Code, Problem};
use qrcode::QrCode;
use qrcode::render::svg;

use super::PageRequest;
use super::frame::{self, Field, Width};
use crate::http::response::{self, AuthResponse};
use crate::http::sealed_state::StateSeal;
use crate::limits;
use crate::people::session::Session;
use crate::people::totp::{self, Generator};

/// Seals a secret that is not the person's yet: the form carries it until a code proves that the phone has it.
fn proposed(session: &str) -> StateSeal<'_> {
    StateSeal { bound_to: session, purpose: "totp proposed" }
}

impl PageRequest<'_> {
    fn proposed_secret(&self, session: &Session) -> Option<Vec<u8>> {
        proposed(&session.id.to_string()).open(self.context, self.form.text("proposed"))
    }

    /// Shows a new secret or, after a refusal, the one that was shown before.
    pub(crate) fn show_totp(
        &self,
        session: &Session,
        refusal: Option<&Problem>,
    ) -> Result<AuthResponse, Problem> {
        let secret = match refusal {
            None => Some(totp::new_secret(self.context.engine).to_vec()),
            Some(_) => self.proposed_secret(session),
        };
        let Some(secret) = secret else { return Ok(response::see_other("/settings/totp")) };
        let guard = self.guard();
        let generator = Generator::new(&secret, &session.person.email, &self.identity.issuer)?;
        let code = Field::new("code", "Code from the app").kind("text", "one-time-code");
        let sealed =
            proposed(&session.id.to_string()).seal(self.context, limits::TOTP_SETUP_LIFE, &secret)?;
        let body = html! {
            p { "Scan this with an authenticator app on your phone, or type the key into it." }
            div.qr role="img" aria-label="QR code of the key below" { (picture(&generator.address()?)) }
            p.key { code id="totp-secret" { (generator.secret_text()) } }
            form method="post" action="/settings/totp" {
                (frame::csrf(&guard)) (frame::hidden("proposed", &sealed))
                (code.show("")) (frame::current_password().show(""))
                button.primary type="submit" { "Turn on" }
            }
            p.quiet { a href="/settings" { "Back to settings" } }
        };
        Ok(self.identity.page("Codes from an app", Width::Narrow, refusal, "", &body))
    }

    pub(crate) async fn add_totp(&self, session: &Session) -> Result<AuthResponse, Problem> {
        let Some(secret) = self.proposed_secret(session) else {
            return Ok(response::see_other("/settings/totp"));
        };
        let generator = Generator::new(&secret, &session.person.email, &self.identity.issuer)?;
        let step = generator.step(self.form.text("code"), self.context.now);
        let message = "The code is wrong. Does the phone show the right time?";
        let step = step.ok_or_else(|| Problem::new(Code::BadRequest, message))?;
        let mut ctx = session.ctx(self.context);
        let codes = totp::keep(&mut ctx, session.person.id, &secret, step).await?;
        ctx.audit("person.totp_added", &session.person.id)?;
        ctx.finish().await?;
        let body = html! {
            p { "From now on you enter a code when you sign in with your password." }
            p { "Keep these recovery codes somewhere safe. Each works once, when you do not have your phone:" }
            ul.codes id="recovery-codes" { @for code in &codes { li { code { (code) } } } }
            p { a href="/settings" { "Done" } }
        };
        Ok(self.identity.page("Codes are on", Width::Narrow, None, "", &body))
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
