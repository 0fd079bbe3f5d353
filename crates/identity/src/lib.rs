//! The identity provider: what signs tokens, the keys and API tokens it issues, how people sign in and what they let
//! apps do, and who the caller is.
//!
//! A key is exchanged for tokens of 15 minutes at `POST {auth_url}/oauth2/token`; an API token is itself the JWT; an app
//! gets its tokens by a code and then by refresh tokens. All are checked without a look at the database once they are
//! known, and refused within seconds of their revocation: API tokens against the positive list of their ids, all others
//! against the map of what was revoked.
//!
//! Absent on purpose: the token and the secret. The platform keeps an API token's id, the SHA-256 of what is random and
//! argon2id of what a person chose; what must be read again is sealed.
//!
//! Start reading at [`credentials`], then [`verify`]; for people and apps at [`http`].

mod assertion;
pub mod claims;
pub mod credentials;
mod events;
mod http;
mod jobs;
mod key_cache;
mod keys;
pub mod limits;
mod me;
mod oauth;
mod pages;
mod people;
mod resource;
mod revocations;
mod secret;
mod services;
mod signing;
mod sql;
mod uses;
pub mod verify;

use std::sync::Arc;
use std::time::Duration;

use portico_egress::{Egress, Networks};
use portico_engine::Area;
use portico_engine::ports::{ConfiguredServices, Enrolment, Mailer};
use portico_kernel::Brand;
use portico_webauthn::RelyingParty;
use url::Url;

pub use assertion::ForwardedCall;
pub use http::response::oauth_refusal;
pub use http::routes::{ROUTES, Route, open_to_any_origin};
pub use http::{Arrival, client_address, is_page};
pub use oauth::client::NewApp;
pub use oauth::refresh::RefreshTokenDays;
pub use people::{CreatedPerson, NewPerson, People};
pub use revocations::{RefreshRevocations, Revocations};
pub use services::{CreatedServiceKey, ServiceKey};
pub use signing::{SigningKeyInfo, SigningKeys};
pub use uses::Uses;

use http::brand::BrandFiles;
use http::write_limits::WriteLimits;
use key_cache::KeyCache;
use people::password::Passwords;

/// The configuration of the provider.
pub struct Setup {
    /// Its own address: the `iss` of every token, byte for byte.
    pub issuer: String,
    /// The API's address.
    pub base_url: String,
    /// The console's address.
    pub console_url: String,
    /// The proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Networks,
    /// How long what a person let an app do lasts.
    pub refresh_token_days: RefreshTokenDays,
    /// Makes calls to other hosts.
    pub egress: Egress,
    /// Opens accounts for people and adds them to teams.
    pub enrolment: Arc<dyn Enrolment>,
    /// Sends mail.
    pub mailer: Arc<dyn Mailer>,
    /// What the pages are called, and how they look.
    pub brand: Brand,
    /// Knows which services there are.
    pub services: Arc<dyn ConfiguredServices>,
}

/// What the area holds.
pub struct Identity {
    /// The address of the identity provider: the `iss` of every token, byte for byte.
    pub issuer: String,
    /// What signs and verifies.
    pub keys: SigningKeys,
    /// What was revoked lately.
    pub revocations: Revocations,
    /// What was used lately.
    pub uses: Uses,
    /// The issuer as a browser names it.
    issuer_origin: String,
    base_url: String,
    console_url: String,
    trusted_proxies: Networks,
    egress: Egress,
    enrolment: Arc<dyn Enrolment>,
    mailer: Arc<dyn Mailer>,
    brand: Brand,
    brand_files: BrandFiles,
    services: Arc<dyn ConfiguredServices>,
    key_cache: KeyCache,
    passwords: Passwords,
    write_limits: WriteLimits,
    refresh_token_life: Duration,
    /// `None` at an address where browsers offer no passkeys.
    webauthn: Option<RelyingParty>,
}

impl Identity {
    /// The area's state. [`SigningKeys::load`] and [`Revocations::refresh`] fill it before the first call.
    pub fn new(setup: Setup) -> Self {
        let origin = Url::parse(&setup.issuer).map(|url| url.origin().ascii_serialization());
        Self {
            issuer_origin: origin.unwrap_or_default(),
            webauthn: RelyingParty::new(&setup.brand.name, &setup.issuer),
            issuer: setup.issuer,
            base_url: setup.base_url,
            console_url: setup.console_url,
            trusted_proxies: setup.trusted_proxies,
            egress: setup.egress,
            enrolment: setup.enrolment,
            mailer: setup.mailer,
            brand_files: BrandFiles::new(&setup.brand),
            brand: setup.brand,
            services: setup.services,
            keys: SigningKeys::default(),
            revocations: Revocations::default(),
            uses: Uses::default(),
            key_cache: KeyCache::default(),
            passwords: Passwords::default(),
            write_limits: WriteLimits::default(),
            refresh_token_life: setup.refresh_token_days.life(),
        }
    }
}

/// The area's operations, events and jobs.
pub fn area(identity: &Arc<Identity>) -> Area {
    Area::builder("identity", identity.clone())
        .op::<me::GetMe>()
        .op::<resource::GetResource>()
        .op::<resource::GetResourceAtRoot>()
        .op::<keys::ListKeys>()
        .op::<keys::CreateKey>()
        .op::<keys::DeleteKey>()
        .op::<keys::ListTokens>()
        .op::<keys::CreateToken>()
        .op::<keys::DeleteToken>()
        .event::<events::KeyCreated>()
        .event::<events::KeyRevoked>()
        .event::<events::TokenCreated>()
        .event::<events::TokenRevoked>()
        .job(RefreshRevocations(identity.clone()))
        .job(signing::RefreshSigningKeys(identity.clone()))
        .job(uses::FlushUses(identity.clone()))
        .job(jobs::Prune)
        .probe(sql::PROBE)
        .erases(&sql::ERASE)
        .seals(&[signing::SEALED, people::totp::SEALED, oauth::refresh::SEALED])
        .build()
}
