//! Passkeys, as browsers know them (`WebAuthn`). The browser finds the person's passkey by itself, so that nobody types an address first and
//! nobody learns from the answer who has an account.

use portico_engine::Ctx;
use portico_kernel::{Code, PersonId, Problem, hex};
use portico_store::OnConflict;
use portico_webauthn::{AuthenticationResponse, Passkey, Refusal, RegistrationResponse, RelyingParty, User};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::RequestContext;
use crate::http::sealed_state::StateSeal;
use crate::limits;
use crate::people::links;
use crate::secret;
use crate::sql::people::{self as sql, PasskeyRow, PersonRow};

/// What a browser sends at the end of a ceremony.
#[derive(Deserialize)]
pub(crate) struct PasskeyResponse<C> {
    state: String,
    credential: C,
    #[serde(default)]
    pub(crate) name: String,
}

const ADDING: &str = "passkey registration";
const SIGN_IN: &str = "passkey sign-in";

fn log_refusal(refusal: Refusal) {
    tracing::debug!(?refusal, "Passkey refused");
}

/// Begins to add a passkey to the person.
pub(crate) async fn begin_adding(
    context: &RequestContext<'_>,
    relying_party: &RelyingParty,
    person: &PersonRow,
    browser: &str,
) -> Result<Value, Problem> {
    let mut tx = context.engine.db.read().await?;
    let known = sql::passkeys(&mut tx, person.id).await?;
    tx.rollback();
    let known: Vec<Passkey> =
        known.iter().filter_map(|row| serde_json::from_str(&row.passkey).ok()).collect();
    let display_name = if person.name.is_empty() { &person.email } else { &person.name };
    let user = User { id: person.id.as_u128(), name: &person.email, display_name };
    let challenge = secret::random(context.engine.entropy.as_ref());
    let options = relying_party.creation_options(&user, &challenge, known.iter());
    Ok(
        json!({ "options": options, "state": StateSeal { bound_to: browser, purpose: ADDING }.seal(context, limits::STEP_LIFE, challenge)? }),
    )
}

/// Adds the passkey that the browser made; `None` when it is not in order.
pub(crate) async fn finish_adding(
    ctx: &mut Ctx,
    context: &RequestContext<'_>,
    relying_party: &RelyingParty,
    person: &PersonRow,
    browser: &str,
    finished: PasskeyResponse<RegistrationResponse>,
) -> Result<Option<()>, Problem> {
    let challenge: Option<String> =
        StateSeal { bound_to: browser, purpose: ADDING }.open(context, &finished.state);
    let Some(challenge) = challenge else { return Ok(None) };
    let verified =
        relying_party.register(&finished.credential, &challenge).inspect_err(|why| log_refusal(*why));
    let Ok(passkey) = verified else { return Ok(None) };
    let name = finished.name.trim();
    let row = PasskeyRow {
        id: hex(passkey.credential_id()),
        person_id: person.id,
        name: if name.is_empty() { "Passkey".to_owned() } else { name.to_owned() },
        passkey: serde_json::to_string(&passkey).map_err(Problem::internal)?,
        created_at: ctx.now(),
        last_used_at: None,
    };
    let registered = sql::passkeys(ctx.tx().await?, person.id).await?;
    if registered.len() >= limits::PASSKEYS_MAX || registered.iter().any(|known| known.id == row.id) {
        return Ok(None);
    }
    let until = ctx.now() + limits::STEP_LIFE;
    let used = || Problem::new(Code::AlreadyExists, "This passkey was added already.");
    links::use_once(ctx.tx().await?, "passkey added", &finished.state, until).await.on_conflict(used)?;
    let known = || Problem::new(Code::AlreadyExists, "This passkey is known already.");
    sql::insert_passkey(ctx.tx().await?, &row).await.on_conflict(known)?;
    ctx.audit("person.passkey_added", &person.id)?;
    Ok(Some(()))
}

/// Begins a sign-in.
pub(crate) fn begin_sign_in(
    context: &RequestContext<'_>,
    relying_party: &RelyingParty,
    browser: &str,
) -> Result<Value, Problem> {
    let challenge = secret::random(context.engine.entropy.as_ref());
    let options = relying_party.request_options(&challenge);
    Ok(
        json!({ "options": options, "state": StateSeal { bound_to: browser, purpose: SIGN_IN }.seal(context, limits::STEP_LIFE, challenge)? }),
    )
}

/// Who signed in with a passkey; `None` when it is not in order. What a browser carried works once.
pub(crate) async fn finish_sign_in(
    context: &RequestContext<'_>,
    relying_party: &RelyingParty,
    browser: &str,
    finished: &PasskeyResponse<AuthenticationResponse>,
) -> Result<Option<PersonRow>, Problem> {
    let challenge: Option<String> =
        StateSeal { bound_to: browser, purpose: SIGN_IN }.open(context, &finished.state);
    let claimed = finished.credential.user_handle().map(PersonId::from_u128);
    let Some((challenge, person)) = challenge.zip(claimed) else { return Ok(None) };
    let credential = hex(finished.credential.credential_id());
    let mut tx = context.engine.db.write().await?;
    let row = sql::passkeys(&mut tx, person).await?.into_iter().find(|row| row.id == credential);
    let Some(row) = row else { return Ok(None) };
    let Ok(mut passkey) = serde_json::from_str::<Passkey>(&row.passkey) else { return Ok(None) };
    let verified = relying_party.authenticate(&finished.credential, &challenge, &mut passkey);
    if verified.inspect_err(|why| log_refusal(*why)).is_err() {
        return Ok(None);
    }
    let until = context.now + limits::STEP_LIFE;
    let used = || Problem::new(Code::Unauthenticated, "This sign-in was finished already.");
    links::use_once(&mut tx, "passkey used", &finished.state, until).await.on_conflict(used)?;
    let kept = serde_json::to_string(&passkey).map_err(Problem::internal)?;
    // It may have been used or removed meanwhile: then what was compared is not what is stored.
    if !sql::use_passkey(&mut tx, &row, &kept, context.now).await? {
        return Ok(None);
    }
    let person = sql::person(&mut tx, &person.to_string()).await?;
    tx.commit().await?;
    Ok(person)
}
