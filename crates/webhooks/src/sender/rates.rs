//! How often the receivers of an account are called.
//!
//! Nobody proves that an address is theirs when they make an endpoint. So hosts that have not taken any delivery of the
//! account yet are called seldom, all of them together, and whoever makes endpoints at the hosts of others cannot have
//! them called more often than that. What is over a rate waits, and is sent when there is room.

use std::collections::{HashMap, HashSet};

use portico_engine::Engine;
use portico_kernel::{AccountId, Problem, Timestamp};

use super::endpoint_queue::Target;
use crate::endpoints::address::host;
use crate::model::AttemptWindow;
use crate::sql::EndpointRow;
use crate::{Webhooks, limits};

/// The attempts of one account in the last minute, and what it may.
#[derive(Default)]
pub(super) struct Rates {
    all: AttemptWindow,
    to_unproven: AttemptWindow,
    /// Of these, the first ones at hosts at which none was made before.
    first: AttemptWindow,
    /// What the account's plan says, and when it was asked.
    plan: Option<(u32, Timestamp)>,
    /// The hosts that took a delivery of the account.
    proven_hosts: HashSet<String>,
    /// The hosts at which an attempt was made.
    tried_hosts: HashSet<String>,
    /// The attempts in a row that a host did not take: how many, and when the last one ended.
    failures: HashMap<String, (u32, Timestamp)>,
}

impl Webhooks {
    /// The host of the endpoint that must take a delivery before it is called often.
    pub(super) fn host_to_prove(&self, row: &EndpointRow) -> Option<String> {
        let is_ours = row.inbox_id.is_some() || self.egress.is_to_allowed_networks(&row.url);
        if is_ours { None } else { host(&row.url) }
    }
}

impl Rates {
    /// Reads the account's plan, if that was long ago.
    pub(super) async fn read_plan(
        &mut self,
        engine: &Engine,
        account: AccountId,
        now: Timestamp,
    ) -> Result<(), Problem> {
        if self.plan.is_some_and(|(_, read_at)| now.since(read_at) < limits::PLAN_LIFE) {
            return Ok(());
        }
        let mut tx = engine.db.read().await?;
        let plan = engine.memberships.plan(&mut tx, account).await?;
        tx.rollback();
        let plan = engine.plans.get_or_first(plan.as_deref().unwrap_or_default());
        self.plan = Some((plan.deliveries_per_minute, now));
        Ok(())
    }

    /// Notes which hosts have taken a delivery, as the database says.
    pub(super) fn read_hosts<'a>(&mut self, rows: impl Iterator<Item = &'a EndpointRow>) {
        let rows: Vec<_> = rows.filter(|row| row.inbox_id.is_none()).collect();
        let proven = rows.iter().filter(|row| row.proven_at.is_some());
        self.proven_hosts.extend(proven.filter_map(|row| host(&row.url)));
        // What is remembered is bounded by what there is.
        let hosts: HashSet<_> = rows.iter().filter_map(|row| host(&row.url)).collect();
        self.proven_hosts.retain(|host| hosts.contains(host));
        self.failures.retain(|host, _| hosts.contains(host));
        self.tried_hosts.retain(|host| hosts.contains(host));
    }

    /// Notes whether the target took a delivery. Who answers at a host may change, so a host that takes nothing any more
    /// has to prove itself again.
    pub(super) fn note(&mut self, target: &Target, taken: bool, now: Timestamp) {
        let Some(host) = &target.host_to_prove else { return };
        if taken {
            self.failures.remove(host);
            self.proven_hosts.insert(host.clone());
            return;
        }
        let (count, at) = self.failures.entry(host.clone()).or_insert((0, now));
        (*count, *at) = (count.saturating_add(1), now);
    }

    fn per_minute(&self) -> u32 {
        self.plan.map_or(u32::MAX, |(per_minute, _)| per_minute)
    }

    fn is_unproven(&self, target: &Target) -> bool {
        target.host_to_prove.as_ref().is_some_and(|host| {
            let failed = self.failures.get(host).map_or(0, |(count, _)| *count);
            failed >= limits::PROOF_FAILURES_MAX || !self.proven_hosts.contains(host)
        })
    }

    /// Is it the first attempt at its host?
    fn is_first(&self, target: &Target) -> bool {
        target.host_to_prove.as_ref().is_some_and(|host| !self.tried_hosts.contains(host))
    }

    /// When the target may be sent something, if not now.
    pub(super) fn next_at(&mut self, target: &Target, now: Timestamp) -> Option<Timestamp> {
        let by_plan = self.all.next_at(now, self.per_minute());
        let by_host = if self.is_unproven(target) { self.unproven_at(target, now) } else { None };
        by_plan.max(by_host)
    }

    /// When a host that has not proven itself may be sent something, if not now. The first attempt at one need not wait
    /// for those at others.
    fn unproven_at(&mut self, target: &Target, now: Timestamp) -> Option<Timestamp> {
        let next = self.to_unproven.next_at(now, limits::UNPROVEN_PER_MINUTE)?;
        if self.is_first(target) {
            return self.first.next_at(now, limits::FIRST_PER_MINUTE).map(|first| first.min(next));
        }
        Some(next)
    }

    /// Since when the account is idle that has nothing to send from now on: later, where the attempts of the last minute
    /// must not be forgotten with its worker.
    pub(super) fn idle_since(&self, now: Timestamp) -> Timestamp {
        let windows = [
            (&self.all, self.per_minute()),
            (&self.to_unproven, limits::UNPROVEN_PER_MINUTE),
            (&self.first, limits::FIRST_PER_MINUTE),
        ];
        let remembered =
            windows.iter().filter_map(|(window, limit)| window.remembered_until(*limit, limits::IDLE_LIFE));
        // Of hosts that have proven themselves: the others are counted in windows.
        let failures = self.failures.iter().filter(|(host, _)| self.proven_hosts.contains(*host));
        let failed = failures.map(|(_, (_, at))| *at + limits::FAILURES_LIFE);
        remembered.chain(failed).map(|until| until - limits::IDLE_LIFE).fold(now, Timestamp::max)
    }

    /// Counts an attempt at the target that begins now.
    pub(super) fn add(&mut self, target: &Target, now: Timestamp) {
        self.all.add(now);
        if self.is_unproven(target) {
            self.to_unproven.add(now);
            if self.is_first(target) {
                self.first.add(now);
            }
        }
        self.tried_hosts.extend(target.host_to_prove.clone());
    }
}
