//! What a service is told of the caller.

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method};
use portico_engine::Engine;
use portico_identity::{ForwardedCall, Identity};
use portico_kernel::{AccountId, Caller, Problem};

const ACCOUNT: HeaderName = HeaderName::from_static("portico-account");
const SUBJECT: HeaderName = HeaderName::from_static("portico-subject");
const KIND: HeaderName = HeaderName::from_static("portico-kind");
const CLIENT: HeaderName = HeaderName::from_static("portico-client");
const KEY: HeaderName = HeaderName::from_static("portico-key");
const SCOPES: HeaderName = HeaderName::from_static("portico-scopes");
const PLAN: HeaderName = HeaderName::from_static("portico-plan");
const ROLE: HeaderName = HeaderName::from_static("portico-role");
const ASSERTION: HeaderName = HeaderName::from_static("portico-assertion");

/// Who calls a service, and how the call came to us.
pub(super) struct CallerHeaders<'a> {
    pub(super) service: &'a str,
    /// Nobody, on a route that is open to everybody.
    pub(super) caller: Option<&'a Caller>,
    /// The account that the call acts in, and the name of its plan.
    pub(super) account: Option<AccountId>,
    pub(super) plan: &'a str,
    pub(super) request_id: &'a str,
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
}

impl CallerHeaders<'_> {
    /// Adds them; of each there is one, which is ours.
    pub(super) fn add(
        &self,
        engine: &Engine,
        identity: &Identity,
        headers: &mut HeaderMap,
    ) -> Result<(), Problem> {
        if let Some(caller) = self.caller {
            let account = self.account.map(|account| account.to_string());
            let scopes = caller.scopes.as_ref().map(portico_kernel::ScopeSet::as_str);
            let values = [
                (ACCOUNT, account.as_deref()),
                (SUBJECT, Some(caller.subject.as_str())),
                (KIND, Some(caller.kind.name())),
                (CLIENT, caller.client_id.as_deref()),
                (KEY, caller.key.as_ref().map(|key| key.id.as_str())),
                (SCOPES, scopes),
                (PLAN, Some(self.plan)),
                (ROLE, caller.role.map(portico_kernel::Role::name)),
            ];
            for (name, value) in values {
                if let Some(value) = value.filter(|value| !value.is_empty()) {
                    headers.insert(name, text(value)?);
                }
            }
        }
        headers.insert(crate::response::REQUEST_ID, text(self.request_id)?);
        let assertion = identity.sign_assertion(
            engine,
            &ForwardedCall {
                service: self.service,
                subject: self.caller.map(|caller| caller.subject.as_str()),
                account: self.caller.and(self.account),
                method: self.method.as_str(),
                path: self.path,
            },
        )?;
        headers.insert(ASSERTION, text(&assertion)?);
        Ok(())
    }
}

fn text(value: &str) -> Result<HeaderValue, Problem> {
    HeaderValue::from_str(value).map_err(Problem::internal)
}
