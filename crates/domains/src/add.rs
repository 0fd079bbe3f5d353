//! Adding a domain.

use portico_engine::queue::{NewItem, enqueue};
use portico_engine::{AccountRef, Ctx, Operation, Spec, Tool};
use portico_kernel::{AccountId, Category, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::look::LookAgain;
use crate::model::State;
use crate::names::{Name, Scope};
use crate::record::OneDomain;
use crate::sql::{self, DomainRow};
use crate::{Domains, limits};

/// The characters of a token: the 32 of base32, in small letters.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Add a domain, to prove that the account controls it: publish the TXT record `record_name` with the value `record_value`,
/// check until the domain is `seen`, and confirm it. A domain that was added before is answered as it is; one whose record is
/// no longer accepted gets a new one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddDomain {
    /// The account.
    org_id: AccountRef,
    /// The domain, in international letters or as A-labels.
    #[schemars(example = &"example.com")]
    domain: String,
    /// What it is, which follows from its name.
    #[serde(default)]
    scope: Option<Scope>,
}

/// Refuses a scope that does not follow from the name.
fn check_scope(name: &Name, scope: Option<Scope>) -> Result<(), Problem> {
    let registrable = name.registrable();
    let fault = match (scope, name.scope()) {
        (Some(Scope::Domain), Scope::Subdomain) => {
            format!("must be `subdomain`: the registrable domain of {name} is {registrable}")
        }
        (Some(Scope::Subdomain), Scope::Domain) => {
            format!("must be `domain`: {registrable} is itself a registrable domain")
        }
        _ => return Ok(()),
    };
    Err(Problem::field("scope", fault))
}

/// 160 random bits as 32 characters.
fn token(random: &[u8; limits::TOKEN_BYTES]) -> String {
    let of_five_bytes = |bytes: &[u8]| {
        let bits = bytes.iter().fold(0u64, |bits, byte| (bits << 8) | u64::from(*byte));
        (0..8u32).rev().map(move |at| ALPHABET[usize::try_from((bits >> (at * 5)) & 31).unwrap_or(0)])
    };
    random.chunks(5).flat_map(of_five_bytes).map(char::from).collect()
}

impl Domains {
    /// Who serves the domain, as far as that can be found out in a moment.
    async fn provider(&self, name: &Name) -> String {
        let zone = self.dns.zone(name.as_str(), name.registrable());
        let zone = tokio::time::timeout(limits::PROVIDER_TIME_MAX, zone).await;
        zone.map(|zone| zone.provider).unwrap_or_default()
    }
}

/// A new row, or one that follows `earlier`.
fn new_row(
    ctx: &Ctx,
    account: AccountId,
    name: &Name,
    provider: String,
    earlier: Option<DomainRow>,
) -> DomainRow {
    let state = State::new(ctx.now());
    let mut row = DomainRow {
        id: ctx.new_id(),
        account_id: account,
        name: name.to_string(),
        scope: name.scope(),
        status: state.status,
        token: token(&ctx.engine().entropy.bytes()),
        dns_provider: provider,
        created_at: state.created_at,
        verified_at: None,
        last_checked_at: None,
        expires_at: state.expires_at,
        unverified_reason: state.reason,
        verified_servers: String::new(),
        misses: 0,
        missed_since: None,
        gone_since: None,
        unreachable_since: None,
        // Its checks go on to count: nobody checks more often by adding it again.
        checks: earlier.map(|row| row.checks).unwrap_or_default(),
        next_look_at: None,
    };
    row.set_state(&state);
    row
}

/// The row as it is, if adding the domain changes nothing.
fn unchanged(row: Option<&DomainRow>, now: Timestamp) -> Option<DomainRow> {
    row.filter(|row| !row.state().is_renewed_by_adding(now)).cloned()
}

impl Operation for AddDomain {
    const SPEC: Spec = Spec::post("domains.domains.create", "/v1/accounts/orgs/{org_id}/domains")
        .tool(Tool::new("domains_add_domain", "Add a domain").hint(
            "Publish record_value as a TXT record at record_name and leave it there, then check until the status is \
             `seen`; a person confirms in the console.",
        ))
        .scope("domains:write")
        .role(Role::Admin)
        .category(Category::Write)
        .accepts_idempotency_key();
    type Area = Domains;
    type Answer = OneDomain;

    async fn run(self, domains: &Domains, ctx: &mut Ctx) -> Result<OneDomain, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let (name, now) = (Name::field(&self.domain)?, ctx.now());
        check_scope(&name, self.scope)?;
        // Without a transaction, because nobody may be asked while one is open.
        let known = sql::domain(&mut ctx.engine().db.query(), account, name.as_str()).await?;
        if let Some(row) = unchanged(known.as_ref(), now) {
            return Ok(row.into());
        }
        ctx.check_calls_out()?;
        let provider = domains.provider(&name).await;
        ctx.lock_account(account).await?.active()?;
        let tx = ctx.tx().await?;
        let earlier = sql::lock_domain(tx, account, name.as_str()).await?;
        if let Some(row) = unchanged(earlier.as_ref(), now) {
            return Ok(row.into());
        }
        let limit = limits::DOMAINS_MAX;
        match &earlier {
            Some(earlier) => sql::delete(tx, earlier.id).await?,
            None if sql::count(tx, account).await? >= limit => {
                let message = format!("The account already has {limit} domains, the maximum.");
                return Err(Problem::limit_reached("domains", message, limit));
            }
            None => {}
        }
        let row = new_row(ctx, account, &name, provider, earlier);
        let tx = ctx.tx().await?;
        sql::insert(tx, &row).await?;
        if let Some(due_at) = row.next_look_at {
            let item = NewItem { id: row.id.to_string(), account: Some(account), payload: &[], due_at };
            enqueue::<LookAgain>(tx, item, now).await?;
        }
        ctx.audit("domain.added", &row.name)?;
        domains.metrics.moved_after_commit(ctx, row.status);
        Ok(row.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_base32() {
        assert_eq!(token(&[0; 20]), "a".repeat(32));
        assert_eq!(token(&[0xff; 20]), "7".repeat(32));
        let counted: [u8; 20] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        assert_eq!(token(&counted), "aaaqeayeaudaocajbifqydiob4ibceqt");
    }

    #[test]
    fn a_scope_must_fit_the_name() {
        let check = |name: &str, scope| check_scope(&Name::read(name).unwrap(), scope);
        assert!(check("example.com", None).is_ok() && check("example.com", Some(Scope::Domain)).is_ok());
        assert!(check("a.example.com", Some(Scope::Subdomain)).is_ok());
        for (name, scope) in [("a.example.com", Scope::Domain), ("example.com", Scope::Subdomain)] {
            let refused = check(name, Some(scope)).unwrap_err();
            assert!(
                refused.error().contains("`scope`") && refused.error().contains("example.com"),
                "{refused}"
            );
        }
    }
}
