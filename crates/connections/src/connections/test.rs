//! Testing a connection.

use portico_engine::clock::Stopwatch;
use portico_engine::{AccountRef, Ctx, Operation, Spec};
use portico_kernel::{Category, ConnectionId, Problem, Role};
use schemars::JsonSchema;
use serde::Deserialize;

use super::store::{is_other_workspace, tested};
use crate::calls::Trial;
use crate::model::Consumer;
use crate::provider::{Provider, mode_of};
use crate::records::{ConnectionAnswer, config_of, connection_record};
use crate::sql::{self, CallRow};
use crate::{Connections, refusals};

/// Test a connection: one request shows whether the provider takes its credential. The answer is the connection, whether or
/// not it passed; one that needed another credential and passes is active again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestConnection {
    /// The account.
    org_id: AccountRef,
    /// The connection.
    connection_id: ConnectionId,
}

impl Operation for TestConnection {
    const SPEC: Spec = Spec::post(
        "connections.connections.test",
        "/v1/accounts/orgs/{org_id}/connections/{connection_id}/test",
    )
    .scope("connections:write")
    .role(Role::Admin)
    .category(Category::Check);
    type Area = Connections;
    type Answer = ConnectionAnswer;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<ConnectionAnswer, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let (engine, now) = (ctx.engine().clone(), ctx.now());
        let missing = || refusals::no_connection(self.connection_id);
        let consumer = Consumer::of(ctx.caller());
        let (from, caller) = (&mut engine.db.query(), consumer.to_string());
        let seen = sql::for_call(from, account, self.connection_id, &caller, now).await?;
        let CallRow { connection: seen, credential: stored, .. } = seen.ok_or_else(missing)?;
        let provider = Provider::of(&seen.kind).ok_or_else(missing)?;
        ctx.egress()?;
        ctx.give_back();
        let trial = Trial {
            account,
            connection: Some(seen.id),
            provider,
            config: config_of(&seen.config),
            consumer,
            at: now,
            watch: Stopwatch::start(),
        };
        let result = connections.calls.test_stored(&engine, &trial, &seen, stored).await;
        let row = sql::lock_connection(ctx.tx().await?, account, self.connection_id).await?;
        let mut row = row.ok_or_else(missing)?;
        // What was tested may not be what it is by now.
        if row.credential_id == seen.credential_id && row.config == seen.config {
            let before = row.status;
            match result {
                Ok(reading) if is_other_workspace(&row, mode_of(&row.auth_mode), &row.host, &reading) => {
                    row.last_test_at = Some(now);
                    row.last_test_ok = false;
                    "other_workspace".clone_into(&mut row.last_test_error);
                }
                Ok(reading) => tested(&mut row, &reading, now)?,
                Err(class) => {
                    row.last_test_at = Some(now);
                    row.last_test_ok = false;
                    class.name().clone_into(&mut row.last_test_error);
                }
            }
            sql::note_test(ctx.tx().await?, &row).await?;
            if row.status != before {
                connections.tools_changed(ctx, account).await?;
            }
        }
        Ok(ConnectionAnswer { connection: connection_record(ctx, row).await? })
    }
}
