//! The area's jobs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portico_engine::{Ctx, Engine, Job, JobOutcome};
use portico_kernel::{AccountId, PersonId, Problem, Role};

use crate::copies::note_change;
use crate::member_resources::RemovalChoice;
use crate::{AccountKind, Accounts, limits, sql};

/// Erases accounts whose grace period is over: a few rows in each transaction, the account itself last, so that it may
/// be interrupted anywhere and go on later.
pub(crate) struct EraseAccounts {
    accounts: Arc<Accounts>,
    /// The last account that failed: the next run goes on with those after it.
    failed: Mutex<Option<AccountId>>,
}

impl EraseAccounts {
    pub(crate) fn new(accounts: &Arc<Accounts>) -> Self {
        Self { accounts: accounts.clone(), failed: Mutex::new(None) }
    }

    async fn erase_some(&self, engine: &Arc<Engine>, account: AccountId) -> Result<(), Problem> {
        let mut tx = engine.db.read().await?;
        let person = sql::person_of(&mut tx, account).await?;
        tx.rollback();
        if let Some(person) = person {
            self.leave_teams(engine, account, person).await?;
        }
        let mut tx = engine.db.write().await?;
        // Locked, so that one server erases at a time; and checked again, since another may have finished.
        sql::lock_account(&mut tx, account).await?;
        if !sql::is_due_for_erasure(&mut tx, account, engine.clock.now()).await? {
            tx.rollback();
            return Ok(());
        }
        if engine.registry.erase_some(&mut tx, account, limits::ERASURE_ROWS).await? == 0 {
            sql::delete_account(&mut tx, account).await?;
            tracing::info!(%account, "Erased an account");
        }
        Ok(tx.commit().await?)
    }

    /// Removes a person whose own account ends from their teams. A team of which they were the last owner is erased too,
    /// after a grace period of its own: nobody is left who could do that.
    async fn leave_teams(
        &self,
        engine: &Arc<Engine>,
        own: AccountId,
        person: PersonId,
    ) -> Result<(), Problem> {
        let accounts = &self.accounts;
        let mut ctx = Ctx::platform(engine);
        let now = ctx.now();
        sql::lock_account(ctx.tx().await?, own).await?;
        for row in sql::accounts_of(ctx.tx().await?, person).await? {
            if row.kind == AccountKind::Personal {
                continue;
            }
            let tx = ctx.tx().await?;
            sql::lock_account(tx, row.id).await?;
            // Read again under the lock: another server may have changed it.
            let Some(member) = sql::member(tx, row.id, person).await? else { continue };
            let last = member.role == Role::Owner && sql::count_owners(tx, row.id).await? < 2;
            ctx.set_account(row.id);
            accounts.remove_member(&mut ctx, row.id, person, RemovalChoice::default()).await?;
            let tx = ctx.tx().await?;
            if last && sql::erase_account(tx, row.id, now + limits::ERASURE_GRACE).await? {
                accounts.directory.set_closed(tx, row.id, true, now).await?;
                note_change(&mut ctx, row.id).await?;
                ctx.audit("account.erasing", &row.id)?;
            }
        }
        let tx = ctx.tx().await?;
        if let Some(record) = accounts.directory.person(tx, &person.to_string()).await? {
            sql::forget_invited(tx, &record.email).await?;
        }
        accounts.directory.leaves(tx, person, now).await?;
        ctx.finish().await
    }
}

impl Job for EraseAccounts {
    const NAME: &'static str = "accounts.erase";
    const EVERY: Duration = limits::ERASURE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tx = engine.db.read().await?;
        let due = sql::due_for_erasure(&mut tx, engine.clock.now(), failed).await?;
        tx.rollback();
        let Some(account) = due else {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = None;
            return Ok(JobOutcome::Idle);
        };
        if let Err(problem) = self.erase_some(engine, account).await {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(account);
            tracing::error!(%account, %problem, cause = ?problem.cause(), "Failed to erase an account");
        }
        Ok(JobOutcome::MoreWork)
    }
}

/// Removes expired invitations.
pub(crate) struct PruneInvitations;

impl Job for PruneInvitations {
    const NAME: &'static str = "accounts.prune_invitations";
    const EVERY: Duration = limits::PRUNE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let mut tx = engine.db.write().await?;
        let removed = sql::prune_all_invitations(&mut tx, engine.clock.now(), limits::ERASURE_ROWS).await?;
        tx.commit().await?;
        Ok(if removed == limits::ERASURE_ROWS.unsigned_abs() {
            JobOutcome::MoreWork
        } else {
            JobOutcome::Idle
        })
    }
}
