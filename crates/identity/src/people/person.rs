//! People: creating them, and changing their password and address.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use portico_engine::ports::{Directory, Key, MailMessage, PersonRecord};
use portico_engine::{Ctx, Engine};
use portico_kernel::{AccountId, CallerKind, Code, PersonId, Problem, Secret, SessionId, Timestamp, hex};
use portico_store::{OnConflict, StoreError, Tx};

use super::attempts::{self, INVITATIONS, MAIL_TO};
use super::canonical;
use super::links::{self, Purpose};
use crate::claims::{AUDIENCE, Claims, Issue};
use crate::http::RequestContext;
use crate::oauth::client::CONSOLE;
use crate::sql::oauth::Ending;
use crate::sql::people::PersonRow;
use crate::{Identity, limits, sql};

/// A person who is to be created.
pub struct NewPerson {
    /// The e-mail address, in any spelling.
    pub email: String,
    /// The display name.
    pub name: String,
    /// Is the address known to be theirs?
    pub email_verified: bool,
    /// The password; without one they sign in only after a link to choose one.
    pub password: Option<Secret<String>>,
}

/// A person who is ready to be inserted: checked, and the password hashed.
pub(crate) struct ReadyPerson {
    email: String,
    name: String,
    email_verified: bool,
    hash: Option<String>,
}

/// A person who was created.
pub struct CreatedPerson {
    /// The person's id.
    pub id: PersonId,
    /// Their own account.
    pub account_id: AccountId,
    /// The e-mail address, in the form in which they are known.
    pub email: String,
}

/// Refuses a bad name of a person, or of something of theirs, as the field `name`.
pub(crate) fn check_name(name: &str) -> Result<(), Problem> {
    portico_kernel::check_name(name, 0..=limits::NAME_CHARACTERS_MAX)
        .map_err(|message| Problem::field("name", message))
}

/// Where the operator comes from, as the queue of passwords counts it.
const OPERATOR: &str = "";

impl Identity {
    /// Makes a person with an account of their own, and acts in it as `ctx` does.
    pub async fn create_person(&self, ctx: &mut Ctx, new: &NewPerson) -> Result<CreatedPerson, Problem> {
        let ready = self.prepare_person(ctx.engine(), OPERATOR, new).await?;
        self.insert_person(ctx, ready).await
    }

    /// Checks who is to be made, and hashes the password: before any transaction, because that takes long and a
    /// transaction that waits holds others up.
    pub(crate) async fn prepare_person(
        &self,
        engine: &Engine,
        network: &str,
        new: &NewPerson,
    ) -> Result<ReadyPerson, Problem> {
        let email =
            canonical(&new.email).ok_or_else(|| Problem::field("email", "must be an e-mail address"))?;
        let name = new.name.trim();
        check_name(name)?;
        let hash = match &new.password {
            None => None,
            Some(password) => {
                let entropy = engine.entropy.as_ref();
                Some(self.passwords.choose(network, entropy, password, &[&email, name]).await?)
            }
        };
        Ok(ReadyPerson { email, name: name.to_owned(), email_verified: new.email_verified, hash })
    }

    /// Makes a person who was prepared.
    pub(crate) async fn insert_person(
        &self,
        ctx: &mut Ctx,
        ready: ReadyPerson,
    ) -> Result<CreatedPerson, Problem> {
        let ReadyPerson { email, name, email_verified, hash } = ready;
        let of_account = if name.is_empty() {
            email.split('@').next().unwrap_or_default().to_owned()
        } else {
            name.clone()
        };
        let account_id = self.enrolment.open_personal(ctx, &of_account).await?;
        // Whoever signs up acts as the person that they become.
        let id = ctx.caller().subject.parse().unwrap_or_else(|_| ctx.new_id());
        let row = PersonRow { id, email, name, email_verified, account_id };
        let now = ctx.now();
        let taken = || Problem::new(Code::AlreadyExists, "A person with this e-mail address exists already.");
        sql::people::insert_person(ctx.tx().await?, &row, now).await.on_conflict(taken)?;
        if let Some(hash) = hash {
            sql::people::set_password(ctx.tx().await?, row.id, &hash, now).await?;
        }
        ctx.audit("person.created", &row.id)?;
        self.enrolment.own(ctx, account_id, row.id).await?;
        Ok(CreatedPerson { id: row.id, account_id, email: row.email })
    }

    /// Hashes a password that the person chose; refuses a weak one as the field `password`.
    pub(crate) async fn hash_password(
        &self,
        context: &RequestContext<'_>,
        chosen: &Secret<String>,
        person: &PersonRow,
    ) -> Result<String, Problem> {
        let (network, entropy) = (context.network(), context.engine.entropy.as_ref());
        self.passwords.choose(&network, entropy, chosen, &[&person.email, &person.name]).await
    }

    /// Gives the person another password. Their links stop working, and every session ends but `kept`.
    pub(crate) async fn change_password(
        &self,
        ctx: &mut Ctx,
        person: PersonId,
        hash: &str,
        kept: Option<SessionId>,
    ) -> Result<(), Problem> {
        let now = ctx.now();
        sql::people::set_password(ctx.tx().await?, person, hash, now).await?;
        links::forget(ctx.tx().await?, person).await?;
        self.end_sessions(ctx, person, kept).await?;
        ctx.audit("person.password_changed", &person)
    }

    /// Gives the person another address; someone else's is refused.
    pub(crate) async fn change_email(
        &self,
        ctx: &mut Ctx,
        person: &PersonRow,
        email: &str,
        verified: bool,
    ) -> Result<(), Problem> {
        let taken = || Problem::new(Code::AlreadyExists, "Someone else has this address.");
        sql::people::set_email(ctx.tx().await?, person.id, email, verified).await.on_conflict(taken)?;
        links::forget(ctx.tx().await?, person.id).await?;
        ctx.audit("person.email_changed", &person.id)?;
        if self.mailer.is_configured() && email != person.email {
            let mail = MailMessage {
                to: person.email.clone(),
                subject: "Your address was changed".to_owned(),
                text: "The e-mail address of your account was changed, and this one is no longer it.\n\nIf it was not \
                       you, tell the operator of the platform at once.\n"
                    .to_owned(),
            };
            let engine = ctx.engine().clone();
            self.mailer.post(&engine, ctx.tx().await?, &mail).await?;
        }
        Ok(())
    }

    /// A token as the console would hold it: 15 minutes, without scopes, so that the role decides.
    pub async fn person_token(
        &self,
        ctx: &mut Ctx,
        person: PersonId,
    ) -> Result<(Secret<String>, Timestamp), Problem> {
        let row = sql::people::person(ctx.tx().await?, &person.to_string()).await?;
        let row = row.ok_or_else(|| Problem::not_found("person", person))?;
        let issue = Issue {
            audience: AUDIENCE.to_owned(),
            subject: row.id.to_string(),
            kind: CallerKind::Person,
            at: ctx.now(),
            life: limits::ACCESS_TOKEN_LIFE,
            id: hex(&ctx.engine().entropy.bytes::<16>()),
        };
        let claims = Claims {
            client_id: Some(CONSOLE.to_owned()),
            org: Some(row.account_id),
            email: Some(row.email),
            email_verified: Some(row.email_verified),
            ..Claims::new(&self.issuer, issue).named(&row.name)
        };
        Ok((Secret::new(self.keys.sign(&claims, ctx.now())?.token), claims.expires_at()))
    }

    /// The link that makes the first person, while there is none. The one before stops working.
    pub async fn setup_link(&self, engine: &Arc<Engine>) -> Result<Option<Secret<String>>, Problem> {
        let mut ctx = Ctx::operator(engine);
        if sql::people::has_people(ctx.tx().await?).await? {
            return Ok(None);
        }
        let token = links::create(&mut ctx, Purpose::Setup, "", "").await?;
        ctx.finish().await?;
        Ok(Some(Secret::new(format!("{}/signup?setup={token}", self.issuer))))
    }

    /// A link with which the person chooses a password, for the operator to hand on.
    pub async fn password_link(&self, ctx: &mut Ctx, person: PersonId) -> Result<Secret<String>, Problem> {
        let row = sql::people::person(ctx.tx().await?, &person.to_string()).await?;
        let row = row.ok_or_else(|| Problem::not_found("person", person))?;
        Self::make_password_link(ctx, &self.issuer, &row).await
    }

    /// The same, for a person who is known already.
    pub(crate) async fn make_password_link(
        ctx: &mut Ctx,
        issuer: &str,
        person: &PersonRow,
    ) -> Result<Secret<String>, Problem> {
        let token = links::create(ctx, Purpose::Password, &person.id.to_string(), &person.email).await?;
        ctx.set_account(person.account_id);
        ctx.audit("person.password_link_made", &person.id)?;
        Ok(Secret::new(format!("{issuer}/password?link={token}")))
    }
}

/// The directory of people for the other areas; a struct of its own, because accounts needs it before the area exists.
pub struct People;

impl Directory for People {
    fn credential<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Key>, StoreError>> {
        Box::pin(async move {
            let row = sql::credential(tx, id).await?.filter(|row| row.account_id == account);
            Ok(row.map(sql::CredentialRow::into_key))
        })
    }

    fn accounts_of_credentials<'a>(
        &'a self,
        tx: &'a mut Tx,
        ids: Vec<String>,
    ) -> BoxFuture<'a, Result<Vec<(String, AccountId)>, StoreError>> {
        Box::pin(async move {
            let rows = sql::services::accounts_of_credentials(tx, ids).await?;
            Ok(rows.into_iter().map(|row| (row.id, row.account_id)).collect())
        })
    }

    fn ended_credentials<'a>(
        &'a self,
        tx: &'a mut Tx,
        ids: Vec<String>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let in_use = sql::services::credentials_in_use(tx, ids.clone(), now).await?;
            Ok(ids.into_iter().filter(|id| !in_use.contains(id)).collect())
        })
    }

    fn has_app<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        app: &'a str,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(sql::oauth::has_app(tx, account, app, now))
    }

    fn person<'a>(
        &'a self,
        tx: &'a mut Tx,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<PersonRecord>, StoreError>> {
        Box::pin(async move { Ok(sql::people::person(tx, id).await?.map(PersonRecord::from)) })
    }

    fn people<'a>(
        &'a self,
        tx: &'a mut Tx,
        ids: &'a [PersonId],
    ) -> BoxFuture<'a, Result<Vec<PersonRecord>, StoreError>> {
        Box::pin(async move {
            let rows = sql::people::people(tx, ids).await?;
            Ok(rows.into_iter().map(PersonRecord::from).collect())
        })
    }

    fn person_by_email<'a>(
        &'a self,
        tx: &'a mut Tx,
        email: &'a str,
    ) -> BoxFuture<'a, Result<Option<PersonRecord>, StoreError>> {
        Box::pin(async move { Ok(sql::people::person_by_email(tx, email).await?.map(PersonRecord::from)) })
    }

    fn take_mail_quota<'a>(
        &'a self,
        engine: &'a Engine,
        from: &'a str,
        to: &'a str,
    ) -> BoxFuture<'a, Result<Option<Duration>, Problem>> {
        Box::pin(async move {
            attempts::take(engine, engine.clock.now(), &[(INVITATIONS, from), (MAIL_TO, to)]).await
        })
    }

    fn canonical_email(&self, email: &str) -> Option<String> {
        canonical(email)
    }

    fn set_closed<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        closed: bool,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { sql::add_revocation(tx, &account.to_string(), !closed, now).await })
    }

    fn leaves<'a>(
        &'a self,
        tx: &'a mut Tx,
        person: PersonId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            for session in sql::people::sessions(tx, person).await? {
                sql::people::delete_session(tx, person, session.id).await?;
            }
            sql::oauth::end_authorizations(tx, &Ending::OfPerson(person), now).await?;
            sql::add_revocation(tx, &person.to_string(), false, now).await
        })
    }

    fn left<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        person: PersonId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            sql::oauth::end_authorizations(tx, &Ending::OfMember(account, person), now).await.map(drop)
        })
    }
}
