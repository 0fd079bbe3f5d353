//! What ends when someone says so: apps, people's access, and what the operator names.

use std::sync::Arc;

use portico_engine::{Ctx, Engine};
use portico_kernel::{AccountId, PersonId, Problem};

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
        let ended = match id.split('_').next() {
            _ if id.starts_with("app_") || id.starts_with("http") => {
                if !sql::oauth::revoke_client(ctx.tx().await?, id, now).await? {
                    return Err(Problem::not_found("app", id));
                }
                sql::oauth::end_authorizations(ctx.tx().await?, &Ending::OfClient(id.to_owned()), now).await?
            }
            Some("aut") => {
                let id = id.parse().map_err(|_| Problem::not_found("authorization", id))?;
                let ended = sql::oauth::end_authorizations(ctx.tx().await?, &Ending::One(id), now).await?;
                if ended.is_empty() {
                    return Err(Problem::not_found("authorization", id));
                }
                ended
            }
            Some("usr") => return self.revoke_person(ctx, id).await,
            _ => {
                let revoked = self.revoke(&mut ctx, id).await?;
                ctx.finish().await?;
                return Ok(revoked);
            }
        };
        audit(&mut ctx, &ended)?;
        ctx.finish().await?;
        Ok([id.to_owned()].into_iter().chain(ended.into_iter().map(|row| row.id.to_string())).collect())
    }

    /// Signs a person out everywhere, apps included. They may sign in again.
    async fn revoke_person(&self, mut ctx: Ctx, id: &str) -> Result<Vec<String>, Problem> {
        let now = ctx.now();
        let person = sql::people::person(ctx.tx().await?, id).await?;
        let person = person.ok_or_else(|| Problem::not_found("person", id))?;
        ctx.act_in(person.account_id);
        self.end_sessions(&mut ctx, person.id, None).await?;
        let tx = ctx.tx().await?;
        let ended = sql::oauth::end_authorizations(tx, &Ending::OfPerson(person.id), now).await?;
        sql::add_revocation(tx, id, false, now).await?;
        audit(&mut ctx, &ended)?;
        ctx.act_in(person.account_id);
        ctx.audit("person.signed_out_everywhere", &person.id)?;
        ctx.finish().await?;
        Ok([id.to_owned()].into_iter().chain(ended.into_iter().map(|row| row.id.to_string())).collect())
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
        let account: AccountId = row.account_id;
        ctx.act_in(account);
        ctx.audit_with("app.revoked", &row.id, serde_json::json!({ "client_id": row.client_id }))?;
    }
    Ok(())
}
