//! What services gives to the others: which services there are.

use portico_kernel::{Caller, Code, Problem, ScopeSet};

/// The services that the configuration names. Kept by services.
pub trait ConfiguredServices: Send + Sync {
    /// The scopes that the service's own document declares; `None` where no service of that name is configured.
    fn scopes(&self, service: &str) -> Option<ScopeSet>;

    /// How many calls the service may make itself in 60 seconds, where the configuration says so.
    fn calls_per_minute(&self, service: &str) -> Option<u32>;

    /// The name of the service that calls. Refuses one that is not configured any more: its tokens may outlive it.
    fn calling<'a>(&self, caller: &'a Caller) -> Result<&'a str, Problem> {
        caller.service().filter(|service| self.scopes(service).is_some()).ok_or_else(|| {
            Problem::new(Code::Forbidden, "The service of this token is not configured any more.")
        })
    }
}
