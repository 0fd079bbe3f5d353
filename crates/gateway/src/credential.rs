//! A token that was verified, and who holds it.

use std::sync::Arc;

use portico_identity::verify::{Audience, VerifiedToken, refused};
use portico_kernel::{Caller, Problem};
use portico_metering::RateLimitKey;

/// A token that was valid when it was last seen.
#[derive(Clone)]
pub(crate) struct Credential(Arc<Inner>);

struct Inner {
    verified: VerifiedToken,
    /// What its calls are counted under; the platform's own are not.
    rate_limit_key: Option<Arc<RateLimitKey>>,
}

impl Credential {
    pub(crate) fn new(verified: VerifiedToken, rate_limit_key: Option<Arc<RateLimitKey>>) -> Self {
        Self(Arc::new(Inner { verified, rate_limit_key }))
    }

    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.0.verified.caller
    }

    /// The same, if the token opens the API: one of an assistant opens its tools alone.
    pub(crate) fn for_api(self) -> Result<Self, Problem> {
        self.with_audience(|audience| *audience == Audience::Api)
    }

    /// The same, if the token opens the tools of assistants; one for the API does.
    pub(crate) fn for_tools(self) -> Result<Self, Problem> {
        self.with_audience(|audience| matches!(audience, Audience::Api | Audience::Tools))
    }

    /// The same, if the token is one to show to this service: for the API, or for the service alone.
    pub(crate) fn for_service(self, name: &str) -> Result<Self, Problem> {
        self.with_audience(|audience| match audience {
            Audience::Api => true,
            Audience::Service(service) => **service == *name,
            Audience::Tools => false,
        })
    }

    fn with_audience(self, is_right: impl FnOnce(&Audience) -> bool) -> Result<Self, Problem> {
        if is_right(&self.0.verified.audience) { Ok(self) } else { Err(refused()) }
    }

    pub(crate) fn rate_limit_key(&self) -> Option<&Arc<RateLimitKey>> {
        self.0.rate_limit_key.as_ref()
    }

    pub(crate) fn verified(&self) -> &VerifiedToken {
        &self.0.verified
    }
}
