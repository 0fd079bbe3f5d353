//! Passkeys, as browsers know them (`WebAuthn`). The browser finds the person's passkey by itself, so that nobody types an address first and
//! nobody learns from the answer who has an account.

use portico_engine::Ctx;
use portico_kernel::{Code, PersonId, Problem, hex};
use portico_store::OnConflict;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;
use webauthn_rs::prelude::{
    DiscoverableAuthentication, DiscoverableKey, Passkey, PasskeyRegistration, PublicKeyCredential,
    RegisterPublicKeyCredential, Uuid,
};
use webauthn_rs::{Webauthn, WebauthnBuilder};

use crate::http::Asked;
use crate::http::carried::For;
use crate::limits;
use crate::people::links;
use crate::sql::people::{self as sql, PasskeyRow, PersonRow};

/// The platform as browsers know it. There is none at an address without a name, such as `127.0.0.1`.
pub(crate) fn relying_party(issuer: &str) -> Option<Webauthn> {
    let origin = Url::parse(issuer).ok()?;
    let name = origin.domain()?.to_owned();
    WebauthnBuilder::new(&name, &origin).ok()?.rp_name("Portico").build().ok()
}

/// What a browser sends at the end of a ceremony.
#[derive(Deserialize)]
pub(crate) struct Finished<C> {
    pub(crate) csrf: String,
    state: String,
    credential: C,
    #[serde(default)]
    pub(crate) name: String,
}

const ADDING: &str = "passkey registration";
const SIGN_IN: &str = "passkey sign-in";

fn fault(error: impl std::fmt::Display) -> Problem {
    Problem::internal(format!("WebAuthn: {error}"))
}

/// Begins to add a passkey to the person.
pub(crate) async fn begin_adding(
    asked: &Asked<'_>,
    webauthn: &Webauthn,
    person: &PersonRow,
    browser: &str,
) -> Result<Value, Problem> {
    let mut tx = asked.engine.db.read().await?;
    let known = sql::passkeys(&mut tx, person.id).await?;
    tx.rollback().await?;
    let known = known.iter().filter_map(|row| serde_json::from_str::<Passkey>(&row.passkey).ok());
    let known = known.map(|passkey| passkey.cred_id().clone()).collect();
    let name = if person.name.is_empty() { &person.email } else { &person.name };
    let id = Uuid::from_u128(person.id.as_u128());
    let (options, state) =
        webauthn.start_passkey_registration(id, &person.email, name, Some(known)).map_err(fault)?;
    let mut options = serde_json::to_value(options).map_err(Problem::internal)?;
    // So that it is found later without typing an address.
    options["publicKey"]["authenticatorSelection"]["residentKey"] = json!("required");
    options["publicKey"]["authenticatorSelection"]["requireResidentKey"] = json!(true);
    Ok(
        json!({ "options": options, "state": For { whom: browser, purpose: ADDING }.seal(asked, limits::STEP_LIFE, state)? }),
    )
}

/// Adds the passkey that the browser made; `None` when it is not in order.
pub(crate) async fn finish_adding(
    ctx: &mut Ctx,
    asked: &Asked<'_>,
    webauthn: &Webauthn,
    person: &PersonRow,
    browser: &str,
    finished: Finished<RegisterPublicKeyCredential>,
) -> Result<Option<()>, Problem> {
    let state: Option<PasskeyRegistration> =
        For { whom: browser, purpose: ADDING }.open(asked, &finished.state);
    let Some(passkey) =
        state.and_then(|state| webauthn.finish_passkey_registration(&finished.credential, &state).ok())
    else {
        return Ok(None);
    };
    let name = finished.name.trim();
    let row = PasskeyRow {
        id: hex(passkey.cred_id()),
        person_id: person.id,
        name: if name.is_empty() { "Passkey".to_owned() } else { name.to_owned() },
        passkey: serde_json::to_string(&passkey).map_err(Problem::internal)?,
        created_at: ctx.now(),
        last_used_at: None,
    };
    if sql::passkeys(ctx.tx().await?, person.id).await?.len() >= limits::PASSKEYS_MAX {
        return Ok(None);
    }
    let known = || Problem::new(Code::AlreadyExists, "This passkey is known already.");
    sql::insert_passkey(ctx.tx().await?, &row).await.on_conflict(known)?;
    ctx.audit("person.passkey_added", &person.id)?;
    Ok(Some(()))
}

/// Begins a sign-in.
pub(crate) fn begin_sign_in(asked: &Asked<'_>, webauthn: &Webauthn, browser: &str) -> Result<Value, Problem> {
    let (options, state) = webauthn.start_discoverable_authentication().map_err(fault)?;
    let mut options = serde_json::to_value(options).map_err(Problem::internal)?;
    // The person pressed a button; the browser asks at once.
    if let Some(options) = options.as_object_mut() {
        options.remove("mediation");
    }
    Ok(
        json!({ "options": options, "state": For { whom: browser, purpose: SIGN_IN }.seal(asked, limits::STEP_LIFE, state)? }),
    )
}

/// Who signed in with a passkey; `None` when it is not in order. What a browser carried works once.
pub(crate) async fn finish_sign_in(
    asked: &Asked<'_>,
    webauthn: &Webauthn,
    browser: &str,
    finished: &Finished<PublicKeyCredential>,
) -> Result<Option<PersonRow>, Problem> {
    let state: Option<DiscoverableAuthentication> =
        For { whom: browser, purpose: SIGN_IN }.open(asked, &finished.state);
    let found = webauthn.identify_discoverable_authentication(&finished.credential).ok();
    let Some((state, (person, credential))) = state.zip(found) else { return Ok(None) };
    let (person, credential) = (PersonId::from_u128(person.as_u128()), hex(credential));
    let mut tx = asked.engine.db.write().await?;
    let row = sql::passkeys(&mut tx, person).await?.into_iter().find(|row| row.id == credential);
    let Some(mut passkey) = row.and_then(|row| serde_json::from_str::<Passkey>(&row.passkey).ok()) else {
        return Ok(None);
    };
    let key = DiscoverableKey::from(&passkey);
    let Ok(result) = webauthn.finish_discoverable_authentication_v2(&finished.credential, state, &key) else {
        return Ok(None);
    };
    let until = asked.now + limits::STEP_LIFE;
    let used = || Problem::new(Code::Unauthenticated, "This sign-in was finished already.");
    links::use_once(&mut tx, "passkey used", &finished.state, until).await.on_conflict(used)?;
    passkey.update_credential(&result);
    let kept = serde_json::to_string(&passkey).map_err(Problem::internal)?;
    sql::use_passkey(&mut tx, &credential, &kept, asked.now).await?;
    let person = sql::person(&mut tx, &person.to_string()).await?;
    tx.commit().await?;
    Ok(person)
}
