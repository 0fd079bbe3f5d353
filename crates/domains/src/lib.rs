//! Domains: an account proves that it controls one by publishing a TXT record. Whoever proves it last holds it.
//!
//! Three things look for a record, and they move a domain by one table of states (`model/transition.rs`): a check, which
//! tells how the record stands; a confirmation, which takes the domain, from another account too; and the platform itself
//! (`look.rs`), which looks often while a record is awaited, and every day once the domain is verified. What the world sees
//! of a record is found out by the crate `dns`.
//!
//! Start reading at `checks.rs`.
//!
//! Invariants: at most one account holds a name (a unique index says so too). No transaction is open while anybody is asked;
//! what was found is applied to the domain as it stands at the commit, and to nothing if it has another token by then.

mod add;
mod checks;
mod confirm;
mod domains;
mod events;
pub mod limits;
mod look;
mod metrics;
mod model;
mod moves;
mod names;
mod record;
mod sql;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use portico_dns::{Busy, Dns, Look, Record};
use portico_engine::{Area, Engine, ports};
use portico_kernel::AccountId;
use portico_store::StoreError;

use metrics::Metrics;
use names::Scope;

/// The state of the area.
pub struct Domains {
    dns: Dns,
    pub(crate) metrics: Arc<Metrics>,
}

impl Domains {
    /// The area's state, with whom to ask.
    pub fn new(dns: Dns) -> Arc<Self> {
        Arc::new(Self { dns, metrics: Arc::default() })
    }

    /// Looks for the record of a domain. No transaction may be open.
    pub(crate) async fn look(&self, name: &str, scope: Scope, token: &str) -> Result<Look, Busy> {
        let record = Record {
            domain: name.to_owned(),
            registrable: names::registrable(name).to_owned(),
            label: scope.record_label().to_owned(),
            other_label: scope.other_label().to_owned(),
            key: record::VALUE_KEY.to_owned(),
            token: token.to_owned(),
        };
        self.dns.look(&record).await
    }
}

impl ports::Domains for Domains {
    fn covers<'a>(
        &'a self,
        engine: &'a Engine,
        account: AccountId,
        host: &'a str,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let Some(host) = names::host(host) else { return Ok(false) };
            let verified = sql::verified_names(&mut engine.db.query(), account).await?;
            Ok(verified.iter().any(|domain| names::covers(domain, &host)))
        })
    }
}

/// The area's operations, events, and the looks of the platform itself.
pub fn area(domains: &Arc<Domains>) -> Area {
    Area::builder("domains", domains.clone())
        .scope("domains:read", "List and read domains.")
        .scope("domains:write", "Add, check, confirm and remove domains.")
        .op::<add::AddDomain>()
        .op::<domains::ListDomains>()
        .op::<domains::GetDomain>()
        .op::<checks::CheckDomain>()
        .op::<confirm::ConfirmDomain>()
        .op::<domains::DeleteDomain>()
        .event::<events::DomainVerified>()
        .event::<events::DomainUnverified>()
        .event::<events::DomainTransferred>()
        .worker(Arc::new(look::LookAgain(domains.clone())))
        .job(look::CountDue(domains.metrics.clone()))
        .metrics({
            let domains = domains.clone();
            move || domains.metrics.shown(&domains.dns.figures())
        })
        .tool_subjects(&["domains"])
        .probe(sql::PROBE)
        .erases(&sql::ERASE)
        .build()
}
