//! What ends when someone says so: apps, people's access, and what the operator names.

use std::sync::Arc;

use portico_engine::{Ctx, Engine};
use portico_kernel::{AuthorizationId, PersonId, Problem, ServiceKeyId};

use crate::sql::oauth::{AuthorizationRow, Ending};
use crate::{Identity, sql};

impl Identity {
    /// Ends what the app may do in the person's name.
    pub(crate) async fn end_app(&self, ctx: &mut Ctx, person: PersonId, client: &str) -> Result<(), Problem> {
        end(ctx, &Ending::OfApp(person, client.to_owned())).await.map(drop)
    }

    /// Revokes whatever has that id, for the operator: a key, an API token, an app, an authorization, or all that a
    /// person is signed in to.
    pub async fn revoke_any(&self, engine: &Arc<Engine>, id: &str) -> Result<Vec<String>, Problem> {
        let mut ctx = Ctx::operator(engine);
        let now = ctx.now();
        if let Ok(key) = id.parse::<ServiceKeyId>() {
            self.revoke_service_key(&mut ctx, key).await?;
            ctx.finish().await?;
            return Ok(vec![id.to_owned()]);
        }
        let is_app = id.starts_with("app_") || id.starts_with("http");
        let ended = if is_app {
            if !sql::oauth::revoke_client(ctx.tx().await?, id, now).await? {
                return Err(Problem::not_found("app", id));
            }
            end(&mut ctx, &Ending::OfClient(id.to_owned())).await?
        } else if let Ok(authorization) = id.parse::<AuthorizationId>() {
            let ended = end(&mut ctx, &Ending::One(authorization)).await?;
            if ended.is_empty() {
                return Err(Problem::not_found("authorization", id));
            }
            ended
        } else if let Ok(person) = id.parse::<PersonId>() {
            self.revoke_person(&mut ctx, person).await?
        } else {
            let revoked = self.revoke(&mut ctx, id).await?;
            ctx.finish().await?;
            return Ok(revoked);
        };
        ctx.finish().await?;
        let ended = ended.into_iter().map(|row| row.id.to_string()).filter(|ended| ended != id);
        Ok([id.to_owned()].into_iter().chain(ended).collect())
    }

    /// Signs a person out everywhere, apps included. They may sign in again.
    async fn revoke_person(&self, ctx: &mut Ctx, id: PersonId) -> Result<Vec<AuthorizationRow>, Problem> {
        let now = ctx.now();
        let person = sql::people::person(ctx.tx().await?, &id.to_string()).await?;
        let person = person.ok_or_else(|| Problem::not_found("person", id))?;
        ctx.set_account(person.account_id);
        self.end_sessions(ctx, id, None).await?;
        sql::add_revocation(ctx.tx().await?, &id.to_string(), false, now).await?;
        ctx.audit("person.signed_out_everywhere", &id)?;
        end(ctx, &Ending::OfPerson(id)).await
    }
}

/// Ends authorizations, and writes that into the logs of the accounts that they were for.
pub(crate) async fn end(ctx: &mut Ctx, ending: &Ending) -> Result<Vec<AuthorizationRow>, Problem> {
    let now = ctx.now();
    let ended = sql::oauth::end_authorizations(ctx.tx().await?, ending, now).await?;
    audit(ctx, &ended)?;
    Ok(ended)
}

/// Writes what was ended into the logs of the accounts that it was for. The console's own is a sign-out.
fn audit(ctx: &mut Ctx, ended: &[AuthorizationRow]) -> Result<(), Problem> {
    for row in ended.iter().filter(|row| row.scopes.is_some()) {
        ctx.set_account(row.account_id);
        ctx.audit_with("app.revoked", &row.id, serde_json::json!({ "client_id": row.client_id }))?;
    }
    Ok(())
}
