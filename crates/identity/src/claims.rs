//! What a token says.

use std::time::Duration;

use portico_kernel::{AccountId, Caller, CallerKey, CallerKind, Role, ScopeSet, ServiceKeyId, Timestamp};
use serde::{Deserialize, Serialize};

/// The audience of the API.
pub const AUDIENCE: &str = "platform-api";

/// The claims of an access token (RFC 9068). `exp` and `iat` are whole seconds and must be there: a claim of another
/// type does not read, and a token that does not read is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who issued it.
    pub iss: String,
    /// The key, API token or person.
    pub sub: String,
    /// What it is for.
    pub aud: String,
    /// When it ends.
    pub exp: i64,
    /// When it was issued.
    pub iat: i64,
    /// Its own id.
    pub jti: String,
    /// The OAuth client that it came through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The granted scopes with spaces between them; none for a person in the console, whose role decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The account that calls count against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub org: Option<AccountId>,
    /// `person`, `client` or `service`.
    pub kind: String,
    /// A display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The person's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Has the person shown that the address is theirs?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email_verified: Option<bool>,
    /// The role that the consent step stamped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The key or API token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The parent of a sub-key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// What every token says, whoever it is for.
pub(crate) struct Issue {
    pub(crate) audience: String,
    pub(crate) subject: String,
    pub(crate) kind: CallerKind,
    pub(crate) at: Timestamp,
    pub(crate) life: Duration,
    /// The id of the token itself.
    pub(crate) id: String,
}

impl Claims {
    /// The claims that every token has, and no others yet.
    pub(crate) fn new(issuer: &str, issue: Issue) -> Self {
        let issued_at = issue.at.as_seconds();
        Self {
            iss: issuer.to_owned(),
            sub: issue.subject,
            aud: issue.audience,
            exp: (Timestamp::from_seconds(issued_at) + issue.life).as_seconds(),
            iat: issued_at,
            jti: issue.id,
            client_id: None,
            scope: None,
            org: None,
            kind: issue.kind.name().to_owned(),
            name: None,
            email: None,
            email_verified: None,
            role: None,
            key: None,
            parent: None,
        }
    }

    /// The claims with the display name, unless that is empty.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned()).filter(|name| !name.is_empty());
        self
    }

    /// Everything that the token names and that can be revoked: itself, its subject, the authorization it came from,
    /// and the account of a key or an app. Persons may still act in an account that is closed.
    pub(crate) fn revocable(&self) -> Vec<String> {
        let authorization = self.jti.split_once('.').map(|(authorization, _)| authorization.to_owned());
        let bound = self.kind == CallerKind::Client.name() || self.scope.is_some();
        let account = self.org.filter(|_| bound).map(|account| account.to_string());
        let known = [Some(self.sub.clone()), Some(self.jti.clone()), authorization, account];
        let mut ids: Vec<_> = known.into_iter().flatten().collect();
        ids.dedup();
        ids
    }

    /// What is left of its life at `now` in whole seconds. The second that has begun is not left any more, so it is 899
    /// for a new token of 15 minutes.
    pub(crate) fn expires_in(&self, now: Timestamp) -> i64 {
        (self.expires_at().as_micros() - now.as_micros() - 1) / 1_000_000
    }

    /// When the token ends.
    pub(crate) fn expires_at(&self) -> Timestamp {
        Timestamp::from_seconds(self.exp)
    }

    /// The caller that the token is of; `None` when the claims do not fit together.
    pub fn caller(self) -> Option<Caller> {
        let kind = CallerKind::parse(&self.kind)?;
        let scopes = self.scope.as_deref().map(ScopeSet::from);
        if scopes.is_none() && kind != CallerKind::Person {
            return None;
        }
        // A service is known by its name, and acts in no account.
        if kind == CallerKind::Service
            && (self.sub.parse::<ServiceKeyId>().is_err() || self.name.is_none() || self.org.is_some())
        {
            return None;
        }
        let parent = self.parent;
        Some(Caller {
            subject: self.sub,
            kind,
            scopes,
            client_id: self.client_id,
            email: self.email,
            name: self.name,
            org: self.org,
            role: self.role,
            key: self.key.map(|id| CallerKey { id, parent }),
        })
    }
}
