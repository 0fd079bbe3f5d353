//! People. Sign-in is yet to come; here they are made by the operator and hold what the console would hold.

use portico_engine::Ctx;
use portico_kernel::{AccountId, CallerKind, PersonId, Problem, Secret, Timestamp, hex};
use portico_store::OnConflict;

use crate::claims::{Claims, Issue};
use crate::sql::{self, PersonRow};
use crate::{Identity, limits};

/// The client that the console is.
const CONSOLE_CLIENT: &str = "console";

impl Identity {
    /// Makes a person whose own account is `account`.
    pub async fn create_person(
        &self,
        ctx: &mut Ctx,
        email: &str,
        name: &str,
        account: AccountId,
    ) -> Result<PersonId, Problem> {
        let (local, domain) = email.rsplit_once('@').unwrap_or_default();
        if local.is_empty() || domain.is_empty() || email.chars().any(|c| c.is_whitespace() || c.is_control())
        {
            return Err(Problem::field("email", "must be an e-mail address"));
        }
        let row = PersonRow {
            id: ctx.new_id(),
            // One person has one address, however it is capitalised.
            email: email.to_lowercase(),
            name: name.to_owned(),
            email_verified: false,
            account_id: account,
        };
        let now = ctx.now();
        sql::insert_person(ctx.tx().await?, &row, now).await.on_conflict(|| {
            Problem::new(
                portico_kernel::Code::AlreadyExists,
                "A person with this e-mail address exists already.",
            )
        })?;
        ctx.audit("person.created", &row.id)?;
        Ok(row.id)
    }

    /// A token as the console would hold it: 15 minutes, without scopes, so that the role decides.
    pub async fn person_token(
        &self,
        ctx: &mut Ctx,
        person: PersonId,
    ) -> Result<(Secret<String>, Timestamp), Problem> {
        let row = sql::person_row(ctx.tx().await?, &person.to_string()).await?;
        let row = row.ok_or_else(|| Problem::not_found("person", person))?;
        let issue = Issue {
            subject: row.id.to_string(),
            kind: CallerKind::Person,
            at: ctx.now(),
            life: limits::ACCESS_TOKEN_LIFE,
            id: hex(&ctx.engine().entropy.bytes::<16>()),
        };
        let claims = Claims {
            client_id: Some(CONSOLE_CLIENT.to_owned()),
            org: Some(row.account_id),
            email: Some(row.email),
            ..Claims::new(&self.issuer, issue).named(&row.name)
        };
        Ok((Secret::new(self.keys.sign(&claims)?), claims.expires_at()))
    }
}
