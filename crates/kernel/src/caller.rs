//! Who makes a call.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::{AccountId, PersonId, Role, ScopeSet, text_enum};

text_enum! {
    /// What kind of caller it is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub enum CallerKind {
        /// A person, in the console or through an app.
        Person = "person",
        /// An API key or an API token.
        Client = "client",
        /// A service behind the gateway, Portico itself, or its operator.
        Service = "service",
    }
}

/// The key or API token behind a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CallerKey {
    /// The id of the key or API token.
    pub id: String,
    /// The parent key of a sub-key.
    pub parent: Option<String>,
}

/// Who makes a call, as the gateway read it from the token. Areas see this and never the token; a caller sees it at
/// `GET /v1/me`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Caller {
    /// The id of the key or API token, or of the person.
    pub subject: String,
    /// What kind of caller it is: `client` for a key or API token.
    pub kind: CallerKind,
    /// The granted scopes; for a person in the console there are none, since the role decides.
    #[serde(serialize_with = "granted")]
    #[schemars(with = "ScopeSet")]
    pub scopes: Option<ScopeSet>,
    /// The OAuth client that the call came through.
    pub client_id: Option<String>,
    /// The e-mail address, when the token carries one.
    pub email: Option<String>,
    /// A display name.
    pub name: Option<String>,
    /// The account that the call counts against: the `org_id` of paths.
    pub org: Option<AccountId>,
    /// The role that the consent step stamped.
    pub role: Option<Role>,
    /// The key or API token; null for a person.
    pub key: Option<CallerKey>,
}

#[expect(clippy::ref_option, reason = "serde passes the field as it is")]
fn granted<S: Serializer>(scopes: &Option<ScopeSet>, serializer: S) -> Result<S::Ok, S::Error> {
    match scopes {
        Some(scopes) => scopes.serialize(serializer),
        None => ScopeSet::default().serialize(serializer),
    }
}

impl Caller {
    /// Portico's operator, at the command line.
    pub fn operator() -> Self {
        Self { subject: "operator".to_owned(), kind: CallerKind::Service, scopes: None, ..Self::anonymous() }
    }

    /// Portico itself, for what it does unasked.
    pub fn platform() -> Self {
        Self { subject: "platform".to_owned(), ..Self::operator() }
    }

    /// Nobody: a caller without a token, of an operation that asks for none. Belongs nowhere and holds nothing.
    pub fn anonymous() -> Self {
        Self {
            subject: String::new(),
            kind: CallerKind::Client,
            scopes: Some(ScopeSet::default()),
            client_id: None,
            email: None,
            name: None,
            org: None,
            role: None,
            key: None,
        }
    }

    /// A person who acts by themselves: bound by role, not by scopes.
    pub fn person(id: PersonId, name: &str) -> Self {
        Self {
            subject: id.to_string(),
            kind: CallerKind::Person,
            scopes: None,
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            ..Self::anonymous()
        }
    }

    /// Is it a person who acts by themselves, and not an app that acts for one?
    pub fn is_person(&self) -> bool {
        self.kind == CallerKind::Person && self.scopes.is_none()
    }

    /// The name of the service that calls with a token of its own; `None` for everybody else, Portico and its operator
    /// included, who have no token.
    pub fn service(&self) -> Option<&str> {
        match (self.kind, &self.scopes) {
            (CallerKind::Service, Some(_)) => self.name.as_deref(),
            _ => None,
        }
    }

    /// Who acts: the subject, and for an app that acts for a person also the app, so that a person's apps do not share
    /// idempotency keys and running calls.
    pub fn actor(&self) -> Cow<'_, str> {
        match (&self.client_id, self.kind) {
            (Some(client), CallerKind::Person) if self.scopes.is_some() => {
                format!("{} {client}", self.subject).into()
            }
            _ => self.subject.as_str().into(),
        }
    }

    /// May the caller use the scope of that name? A person without scopes may: roles bind persons.
    pub fn holds(&self, scope: &str) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contains(scope))
    }
}
