//! Who may come in: the page that asks, the token, and a scope of assistants' tools.

use http::header::{AUTHORIZATION, ORIGIN};
use http::{HeaderMap, HeaderValue};
use portico_kernel::{Caller, Code, Problem, ScopeSet};

use super::Mcp;
use crate::credential::Credential;
use crate::response::Refusal;

/// Any of them lets a caller in; which more it needs, each tool says.
const TOOL_SCOPES: [&str; 3] = ["mcp:read", "mcp:write", "mcp:generate"];
/// What an assistant is told to ask for. It lists its tools once and never asks for one that is not listed, so it would
/// never learn to ask for what changes something; the person sees both on the consent page.
const DEFAULT_SCOPES: &str = "mcp:read mcp:write";

impl Mcp {
    /// Pages of origins that we do not know have no business here, whatever name they found us under.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let mut sent = headers.get_all(ORIGIN).iter();
        let fits = match (sent.next(), sent.next()) {
            (None, _) => true,
            (Some(origin), None) => *origin == self.origin || self.origins.allowed(headers).is_some(),
            (Some(_), Some(_)) => false,
        };
        if fits {
            return Ok(());
        }
        let message =
            "Pages of this origin may not call the tools; the operator can name it in `allow_origins`.";
        Err(Problem::new(Code::Forbidden, message))
    }

    /// Who calls. Without a token, the answer says where to get one.
    pub(super) async fn authenticate(&self, headers: &HeaderMap) -> Result<Credential, Refusal> {
        self.calls.authenticate_assistant(headers).await.map_err(|problem| {
            let unauthenticated = problem.code() == Code::Unauthenticated;
            let error = if headers.contains_key(AUTHORIZATION) { "error=\"invalid_token\", " } else { "" };
            let challenge = format!("Bearer {error}{}, scope=\"{DEFAULT_SCOPES}\"", self.resource_metadata());
            Refusal { challenge: unauthenticated.then(|| header(&challenge)).flatten(), ..problem.into() }
        })
    }

    /// Refuses a caller who holds no scope of tools at all.
    pub(super) fn require_any_scope(&self, caller: &Caller) -> Result<(), Refusal> {
        if TOOL_SCOPES.iter().any(|scope| caller.holds(scope)) {
            return Ok(());
        }
        let needed = &["mcp:read"];
        Err(Refusal { challenge: self.step_up(caller, needed), ..missing_scopes(needed).into() })
    }

    fn resource_metadata(&self) -> String {
        format!("resource_metadata=\"{}\"", self.metadata_url)
    }

    /// Tells an assistant what to ask for: all that it has, and what it lacks.
    pub(super) fn step_up(&self, caller: &Caller, needed: &[&str]) -> Option<HeaderValue> {
        let held = caller.scopes.iter().flat_map(ScopeSet::names);
        let all: ScopeSet = held.chain(needed.iter().copied()).collect();
        let problem = missing_scopes(needed);
        header(&format!(
            "Bearer error=\"insufficient_scope\", scope=\"{}\", {}, error_description=\"{}\"",
            all,
            self.resource_metadata(),
            problem.error().replace('`', ""),
        ))
    }
}

/// 403: the token lacks scopes.
pub(super) fn missing_scopes(needed: &[&str]) -> Problem {
    let listed = needed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
    Problem::new(Code::Forbidden, format!("The token lacks {listed}.")).with_info(
        "SCOPE_REQUIRED",
        "gateway",
        [("scope", needed.join(" "))],
    )
}

fn header(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok()
}
