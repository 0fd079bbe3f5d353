//! Sessions: browsers that are signed in. They live here, and a browser holds a name for one that only it knows.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portico_engine::Ctx;
use portico_kernel::{Caller, PersonId, Problem, SessionId};

use crate::http::RequestContext;
use crate::http::response::{self, AuthResponse};
use crate::people::known_browser::KnownBrowser;
use crate::sql::oauth::Ending;
use crate::sql::people::{PersonRow, SessionRow};
use crate::{Identity, limits, secret, sql};

/// Holds the secret of the session.
const SESSION_COOKIE: &str = "__Host-portico-session";
/// Ties a form to the browser that it was shown to, before there is a session.
const FORM_COOKIE: &str = "__Host-portico-form";
/// Holds a sign-in whose code is still missing.
pub(crate) const PENDING_COOKIE: &str = "__Host-portico-step";

/// A browser that is signed in, and who is.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) person: PersonRow,
    secret: String,
}

/// The CSRF token for the forms of a page, and the cookie that it was made of.
pub(crate) struct FormGuard {
    pub(crate) csrf: String,
    new_cookie: Option<String>,
}

impl FormGuard {
    /// The response with the cookie, if the browser has none yet.
    pub(crate) fn apply(&self, response: AuthResponse) -> AuthResponse {
        match &self.new_cookie {
            Some(cookie) => response::set_cookie(response, FORM_COOKIE, cookie, None),
            None => response,
        }
    }
}

/// The CSRF token of a cookie, from which the cookie cannot be told.
fn csrf(secret: &str) -> String {
    let hash = digest(&SHA256, format!("csrf {secret}").as_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(hash)
}

/// The CSRF token for the forms of a page.
pub(crate) fn guard(context: &RequestContext<'_>, session: Option<&Session>) -> FormGuard {
    match (session, context.cookie(FORM_COOKIE)) {
        (Some(session), _) => FormGuard { csrf: csrf(&session.secret), new_cookie: None },
        (None, Some(cookie)) if cookie.len() >= 43 => FormGuard { csrf: csrf(&cookie), new_cookie: None },
        (None, _) => {
            let cookie = secret::random(context.engine.entropy.as_ref());
            FormGuard { csrf: csrf(&cookie), new_cookie: Some(cookie) }
        }
    }
}

/// Did a page of ours send this form, from the browser that it was shown to?
pub(crate) fn is_guarded(
    context: &RequestContext<'_>,
    session: Option<&Session>,
    own: &str,
    given: &str,
) -> bool {
    let guard = guard(context, session);
    guard.new_cookie.is_none()
        && !context.is_cross_site(own)
        && verify_slices_are_equal(guard.csrf.as_bytes(), given.as_bytes()).is_ok()
}

/// What a passkey ceremony is bound to: the session, or the browser's cookie.
pub(crate) fn browser(context: &RequestContext<'_>, session: Option<&Session>) -> Option<String> {
    session
        .map(|session| session.id.to_string())
        .or_else(|| context.cookie(FORM_COOKIE).map(|cookie| csrf(&cookie)))
}

impl Session {
    /// Someone who acts through a page, in their own account.
    pub(crate) fn ctx(&self, context: &RequestContext<'_>) -> Ctx {
        acting(context, &self.person)
    }
}

/// A person who acts through a page, in their own account.
pub(crate) fn acting(context: &RequestContext<'_>, person: &PersonRow) -> Ctx {
    let mut ctx = Ctx::acting(context.engine, Caller::person(person.id, &person.name), &context.request_id);
    ctx.set_account(person.account_id);
    ctx
}

impl Identity {
    /// The session of the browser that asks.
    pub(crate) async fn session(&self, context: &RequestContext<'_>) -> Result<Option<Session>, Problem> {
        let Some(secret) = context.cookie(SESSION_COOKIE) else { return Ok(None) };
        let mut tx = context.engine.db.read().await?;
        let row = sql::people::session(&mut tx, secret::hash(&secret)).await?;
        let Some(row) = row.filter(|row| context.now < row.expires_at) else { return Ok(None) };
        let person = sql::people::person(&mut tx, &row.person_id.to_string()).await?;
        tx.rollback();
        if context.now.since(row.last_seen_at) >= limits::SESSION_SEEN_EVERY {
            let expires_at = (context.now + limits::SESSION_IDLE).min(row.created_at + limits::SESSION_LIFE);
            let mut tx = context.engine.db.write().await?;
            sql::people::see_session(&mut tx, row.id, context.now, expires_at).await?;
            tx.commit().await?;
        }
        Ok(person.map(|person| Session { id: row.id, person, secret }))
    }

    /// Signs the person in; the response carries the new session. It never has the name of an older one.
    pub(crate) async fn begin_session(
        &self,
        ctx: &mut Ctx,
        context: &RequestContext<'_>,
        person: PersonId,
        how: &'static str,
    ) -> Result<impl FnOnce(AuthResponse) -> AuthResponse + use<>, Problem> {
        self.write_limits.count_sign_in(person, context.now)?;
        let secret = secret::random(context.engine.entropy.as_ref());
        let row = SessionRow {
            id: ctx.new_id(),
            person_id: person,
            token_hash: secret::hash(&secret),
            address: context.address.to_string(),
            user_agent: context.user_agent(),
            created_at: context.now,
            last_seen_at: context.now,
            expires_at: context.now + limits::SESSION_IDLE,
        };
        let older = sql::people::sessions(ctx.tx().await?, person).await?;
        for oldest in older.iter().skip(limits::SESSIONS_MAX - 1) {
            self.end_session(ctx, person, oldest.id).await?;
        }
        sql::people::insert_session(ctx.tx().await?, &row).await?;
        ctx.audit_with("person.signed_in", &person, serde_json::json!({ "with": how, "session": row.id }))?;
        let known = KnownBrowser::remember(context, person)?;
        Ok(move |response| {
            let response =
                response::set_cookie(known(response), SESSION_COOKIE, &secret, Some(limits::SESSION_LIFE));
            response::remove_cookie(response::remove_cookie(response, PENDING_COOKIE), FORM_COOKIE)
        })
    }

    /// Signs a session out, and the console with it.
    pub(crate) async fn end_session(
        &self,
        ctx: &mut Ctx,
        person: PersonId,
        session: SessionId,
    ) -> Result<(), Problem> {
        let now = ctx.now();
        let tx = ctx.tx().await?;
        if sql::people::delete_session(tx, person, session).await? {
            sql::oauth::end_authorizations(tx, &Ending::OfSession(session), now).await?;
            ctx.audit("person.signed_out", &session)?;
        }
        Ok(())
    }

    /// Signs every session of the person out but `kept`.
    pub(crate) async fn end_sessions(
        &self,
        ctx: &mut Ctx,
        person: PersonId,
        kept: Option<SessionId>,
    ) -> Result<(), Problem> {
        let sessions = sql::people::sessions(ctx.tx().await?, person).await?;
        for session in sessions.iter().filter(|session| Some(session.id) != kept) {
            self.end_session(ctx, person, session.id).await?;
        }
        // Also where the session itself is gone already.
        let now = ctx.now();
        sql::oauth::end_authorizations(ctx.tx().await?, &Ending::OfOtherSessions(person, kept), now).await?;
        Ok(())
    }
}

/// The response without the cookie of a session.
pub(crate) fn forget(response: AuthResponse) -> AuthResponse {
    response::remove_cookie(response, SESSION_COOKIE)
}
