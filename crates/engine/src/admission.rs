//! May this caller make this call? Scope first, then account.

use std::sync::Arc;

use portico_kernel::{AccountId, Caller, CallerKind, Code, Problem, Role};
use portico_store::Tx;

use crate::input::{Fields, InputError, Node};
use crate::{ACCOUNT_VARIABLE, Access, Engine, Spec, timed_out};

/// The reason of a refusal to somebody who belongs to the account, but with too low a role.
pub const ROLE_REQUIRED: &str = "ROLE_REQUIRED";

/// A caller that may make the call, and the account that it acts in.
#[derive(Debug, Clone)]
pub struct Admission {
    pub(crate) caller: Arc<Caller>,
    pub(crate) account: Option<AccountId>,
}

impl Admission {
    /// Nobody, for an operation that is open to all.
    pub fn anonymous() -> Self {
        Self { caller: Arc::new(Caller::anonymous()), account: None }
    }

    /// Who calls.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The account that the call acts in.
    pub fn account(&self) -> Option<AccountId> {
        self.account
    }
}

/// Where a call comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryPoint {
    /// The API: the operation's own scope.
    Api,
    /// A tool of assistants: the scopes of tools.
    Tool,
    /// A tool that an area offers: the scopes that it says.
    Offered(&'static [&'static str]),
}

impl EntryPoint {
    /// The scopes that it asks for: of several lists all of one are enough.
    pub fn scopes(self, spec: &Spec) -> impl Iterator<Item = &[&'static str]> {
        let (one, lists): (&[&'static str], &[&[&'static str]]) = match (self, &spec.access) {
            (Self::Tool, _) => (spec.tool_scopes(), &[]),
            (Self::Offered(scopes), _) => (scopes, &[]),
            (Self::Api, Access::AnyOf(lists)) => (&[], lists),
            (Self::Api, Access::Scope(scope) | Access::Service(scope)) => (std::slice::from_ref(scope), &[]),
            (Self::Api, Access::Open | Access::AnyToken | Access::Person) => (&[], &[]),
        };
        let alone = lists.is_empty().then_some(one);
        alone.into_iter().chain(lists.iter().copied())
    }

    /// The scopes that `caller` lacks, of the list of which they hold the most; none where they may call it.
    pub fn missing(self, spec: &Spec, caller: &Caller) -> Vec<&'static str> {
        let missing = |scopes: &[&'static str]| -> Vec<_> {
            scopes.iter().copied().filter(|scope| !caller.holds(scope)).collect()
        };
        self.scopes(spec).map(missing).min_by_key(Vec::len).unwrap_or_default()
    }
}

impl Engine {
    /// Admits `caller` to an operation, whose path variables are `path`; refuses with 403 otherwise.
    pub async fn admit(
        &self,
        spec: &Spec,
        entry_point: EntryPoint,
        caller: Arc<Caller>,
        path: &Fields,
    ) -> Result<Admission, Problem> {
        let is_service = caller.service().is_some();
        let missing = entry_point.missing(spec, &caller);
        if let Some(scope) = missing.first().filter(|_| !(is_service && spec.services)) {
            return Err(Problem::new(Code::Forbidden, format!("The token lacks the scope `{scope}`."))
                .with_info("SCOPE_REQUIRED", "gateway", [("scope", (*scope).to_owned())]));
        }
        if spec.access == Access::Person && !caller.is_person() {
            let words = "Only a person may do this, signed in to the console.";
            return Err(Problem::new(Code::Forbidden, words).with_info("PERSON_REQUIRED", "gateway", []));
        }
        // A person holds every scope by their role, but is no service.
        if matches!(spec.access, Access::Service(_)) && !is_service {
            let words = "Only a service may do this, with a credential that the operator made for it.";
            return Err(Problem::new(Code::Forbidden, words).with_info("SERVICE_REQUIRED", "gateway", []));
        }
        let account = match path.get(ACCOUNT_VARIABLE) {
            Some(named) => Some(account_id(named)?),
            None => caller.org,
        };
        if let Some(account) = account {
            self.check_access(&caller, account, spec.role, None).await?;
        }
        Ok(Admission { caller, account })
    }

    /// Refuses a caller that does not belong to `account`, or not with that role.
    pub(crate) async fn check_access(
        &self,
        caller: &Caller,
        account: AccountId,
        least: Role,
        tx: Option<&mut Tx>,
    ) -> Result<(), Problem> {
        let role = match caller.kind {
            // The platform and its operator act anywhere; a service that calls with a token acts in no account.
            CallerKind::Service => caller.scopes.is_none().then_some(Role::Owner),
            CallerKind::Client => (caller.org == Some(account)).then_some(Role::Owner),
            // An app acts in the account that the person chose for it, and in no other.
            CallerKind::Person if caller.scopes.is_some() && caller.org != Some(account) => None,
            // The own account is the common case and needs no look-up.
            CallerKind::Person if caller.org == Some(account) && caller.role.is_none() => Some(Role::Owner),
            CallerKind::Person => {
                let asking = Box::pin(self.role(tx, account, &caller.subject));
                let asked = tokio::time::timeout(self.operation_time_max, asking).await;
                asked.unwrap_or_else(|_| Err(timed_out()))?
            }
        };
        match role {
            None => {
                Err(Problem::new(Code::Forbidden, format!("The token is not for the account {account}.")))
            }
            Some(role) if role < least => {
                let words = format!("This needs the role {} in the account {account}.", least.name());
                Err(Problem::new(Code::Forbidden, words).with_info(
                    ROLE_REQUIRED,
                    "gateway",
                    [("role", least.name().to_owned())],
                ))
            }
            Some(_) => Ok(()),
        }
    }

    /// The role of a person, as the database says.
    async fn role(
        &self,
        tx: Option<&mut Tx>,
        account: AccountId,
        person: &str,
    ) -> Result<Option<Role>, Problem> {
        Ok(match tx {
            Some(tx) => self.memberships.role(tx, account, person).await?,
            None => self.memberships.role(&mut self.db.read().await?, account, person).await?,
        })
    }
}

fn account_id(node: &Node) -> Result<AccountId, InputError> {
    let malformed = |description: String| InputError::of(ACCOUNT_VARIABLE, description);
    match node {
        Node::Texts(words) if words.len() == 1 => words[0].parse().map_err(malformed),
        _ => Err(malformed("must be one account id".to_owned())),
    }
}
