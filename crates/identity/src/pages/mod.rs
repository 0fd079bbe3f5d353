//! What people see: plain forms that work without scripts, passkeys excepted.

mod authorize;
mod consent;
mod device;
mod email;
mod frame;
mod overview;
mod password;
mod settings;
mod signin;
mod signout;
mod signup;
mod totp;

use http::{Method, StatusCode};
use portico_engine::log_failure;
use portico_kernel::{Code, Problem, Secret};

use crate::Identity;
use crate::http::reply::{self, Reply};
use crate::http::{Asked, Params};
use crate::people::session::{self, FormGuard, Session};

/// For whoever has used up a limit.
const TOO_MANY: &str = "Too many wrong tries. Wait a few minutes, then try again.";
const STYLE: &str = include_str!("../../assets/portico.css");
const ICON: &str = include_str!("../../assets/icon.svg");
const SCRIPT: &str = include_str!("../../assets/passkeys.js");

/// A page that is asked for: everything that it needs to answer.
pub(crate) struct Visit<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) asked: &'a Asked<'a>,
    /// Whoever is signed in.
    pub(crate) session: Option<Session>,
}

/// Answers a request for a page. Whatever goes wrong is a page too.
pub(crate) async fn answer(identity: &Identity, asked: &Asked<'_>, method: &Method, path: &str) -> Reply {
    match path {
        "/assets/portico.css" => return reply::asset("text/css; charset=utf-8", STYLE),
        "/assets/icon.svg" => return reply::asset("image/svg+xml", ICON),
        "/assets/passkeys.js" => return reply::asset("text/javascript; charset=utf-8", SCRIPT),
        _ => {}
    }
    let answered = async {
        let session = identity.session(asked).await?;
        let visit = Visit { identity, asked, session };
        if method == Method::POST { visit.post(path).await } else { visit.get(path).await }
    };
    answered.await.unwrap_or_else(|problem| {
        log_failure(&problem, "page", &asked.request_id);
        failure(&problem, &asked.request_id)
    })
}

/// A refusal, for a person.
fn failure(problem: &Problem, request_id: &str) -> Reply {
    let status = StatusCode::from_u16(problem.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let page = reply::page(status, frame::failure(problem.error(), request_id), "");
    match problem.retry_seconds() {
        Some(seconds) => {
            reply::retry_after(page, std::time::Duration::from_secs(seconds.unsigned_abs().saturating_sub(1)))
        }
        None => page,
    }
}

impl Visit<'_> {
    async fn get(&self, path: &str) -> Result<Reply, Problem> {
        match path {
            "/oauth2/auth" => self.authorize().await,
            "/signin" => self.show_signin().await,
            "/signin/code" => self.show_code().await,
            "/signup" => self.show_signup().await,
            "/password" => self.show_password().await,
            "/password/forgotten" => self.show_forgotten(),
            "/email" => self.show_email().await,
            "/consent" => self.show_consent().await,
            "/signout" => Ok(self.show_signout()),
            "/settings" => self.show_settings(None).await,
            "/settings/totp" => self.show_totp(),
            _ => Ok(reply::see_other("/settings")),
        }
    }

    async fn post(&self, path: &str) -> Result<Reply, Problem> {
        match path {
            "/signin" => self.signin().await,
            "/signin/code" => self.signin_code().await,
            "/signin/passkey/begin" => self.begin_passkey_signin(),
            "/signin/passkey" => self.passkey_signin().await,
            "/signup" => self.signup().await,
            "/password" => self.choose_password().await,
            "/password/forgotten" => self.forgotten().await,
            "/email" => self.confirm_email().await,
            "/consent" => self.consent().await,
            "/signout" => self.signout().await,
            "/settings/totp" => self.add_totp().await,
            "/settings/passkeys/begin" => self.begin_passkey().await,
            "/settings/passkeys" => self.add_passkey().await,
            _ => self.change_settings(path).await,
        }
    }

    /// What the page's forms need.
    fn guard(&self) -> FormGuard {
        session::guard(self.asked, self.session.as_ref())
    }

    /// The form that was posted, if a page of ours sent it.
    fn form(&self) -> Result<Params, Problem> {
        let form = self.asked.form().map_err(|error| Problem::new(Code::BadRequest, error.description))?;
        self.check_guard(form.text("csrf"))?;
        Ok(form)
    }

    fn check_guard(&self, csrf: &str) -> Result<(), Problem> {
        if session::is_guarded(self.asked, self.session.as_ref(), &self.identity.issuer_origin, csrf) {
            return Ok(());
        }
        let words =
            "The form is too old, or was sent from elsewhere. Go back, load the page again and retry.";
        Err(Problem::new(Code::Forbidden, words))
    }

    fn query(&self) -> Result<Params, Problem> {
        self.asked.query().map_err(|error| Problem::new(Code::BadRequest, error.description))
    }

    /// To sign in, and then back here.
    fn to_signin(&self) -> Reply {
        let here = self.asked.request.uri().path_and_query().map_or("/settings", |here| here.as_str());
        signin::to_signin(if self.asked.request.method() == Method::POST { "/settings" } else { here })
    }
}

/// A secret out of a form.
fn secret(form: &Params, name: &str) -> Secret<String> {
    Secret::new(form.text(name).to_owned())
}

/// Where a person goes on after signing in: to a page of ours, never to another site.
fn safe_return(address: &str) -> &str {
    let known = ["/oauth2/auth?", "/consent?", "/settings", "/signup?invitation="];
    let plain = address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if plain && known.iter().any(|start| address.starts_with(start)) { address } else { "/settings" }
}

#[cfg(test)]
mod tests {
    use super::safe_return;

    #[test]
    fn nobody_is_sent_to_another_site() {
        assert_eq!(safe_return("/oauth2/auth?client_id=a"), "/oauth2/auth?client_id=a");
        for evil in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "javascript:alert(1)",
            "",
            "/oauth2/auth\n?",
            "\\/evil",
            "/%2fevil",
            "settings",
        ] {
            assert_eq!(safe_return(evil), "/settings", "{evil}");
        }
    }
}
