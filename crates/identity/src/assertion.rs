//! What a company's own service is told of a call, signed, so that it can prove that the gateway sent it.

use portico_engine::Engine;
use portico_kernel::{AccountId, Problem, RequestId};
use serde::Serialize;

use crate::Identity;

/// How long an assertion is good for, in seconds.
const LIFE_SECONDS: i64 = 60;

/// A call that is forwarded to a service.
#[derive(Debug, Clone, Copy)]
pub struct ForwardedCall<'a> {
    /// The name of the service: the audience.
    pub service: &'a str,
    /// Who calls; `None` on a route that is open to everybody.
    pub subject: Option<&'a str>,
    /// The account that the call acts in.
    pub account: Option<AccountId>,
    /// The method.
    pub method: &'a str,
    /// The path, without the query.
    pub path: &'a str,
}

#[derive(Serialize)]
struct Assertion<'a> {
    iss: &'a str,
    aud: &'a str,
    iat: i64,
    exp: i64,
    jti: RequestId,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    org: Option<AccountId>,
    htm: &'a str,
    htp: &'a str,
}

impl Identity {
    /// Signs what a service is told of a call. It is good for a minute, for that service, method and path, and never as a
    /// token.
    pub fn sign_assertion(&self, engine: &Engine, call: &ForwardedCall<'_>) -> Result<String, Problem> {
        let now = engine.clock.now();
        let iat = now.as_seconds();
        let assertion = Assertion {
            iss: &self.issuer,
            aud: call.service,
            iat,
            exp: iat + LIFE_SECONDS,
            jti: engine.entropy.id(now),
            sub: call.subject,
            org: call.account,
            htm: call.method,
            htp: call.path,
        };
        self.keys.sign_assertion(&assertion, now)
    }
}
