//! Links that work once.

use std::time::Duration;

use portico_engine::Ctx;
use portico_kernel::{PersonId, Problem, Timestamp, text_enum};
use portico_store::{StoreError, Tx, text_value};

use crate::sql::people::{self as sql, LinkRow};
use crate::{limits, secret};

text_enum! {
    /// What a link is for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Purpose {
        /// To make the first person.
        Setup = "setup",
        /// To choose a password.
        Password = "password",
        /// To confirm an address.
        Email = "email",
    }
}

text_value!(Purpose);

impl Purpose {
    const fn life(self) -> Duration {
        match self {
            Self::Setup => limits::SETUP_LINK_LIFE,
            Self::Password | Self::Email => limits::MAIL_LINK_LIFE,
        }
    }
}

/// Makes a link for `person` (empty for nobody yet); returns the secret in it. The last link to sign up first or to
/// confirm an address is the one that works; of those to choose a password each does, so that nobody can make another's
/// useless by asking for a new one.
pub(crate) async fn create(
    ctx: &mut Ctx,
    purpose: Purpose,
    person: &str,
    email: &str,
) -> Result<String, Problem> {
    let token = secret::random(ctx.engine().entropy.as_ref());
    let row = LinkRow {
        hash: secret::hash(&token),
        purpose: purpose.name().to_owned(),
        person_id: person.to_owned(),
        email: email.to_owned(),
        expires_at: ctx.now() + purpose.life(),
    };
    let tx = ctx.tx().await?;
    if purpose != Purpose::Password {
        sql::delete_links(tx, person, purpose).await?;
    }
    sql::insert_link(tx, &row).await?;
    Ok(token)
}

/// Makes every link of the person useless: their password or address is another now.
pub(crate) async fn forget(tx: &mut Tx, person: PersonId) -> Result<(), Problem> {
    for purpose in [Purpose::Password, Purpose::Email] {
        sql::delete_links(tx, &person.to_string(), purpose).await?;
    }
    Ok(())
}

/// The link behind a token, if it still works.
pub(crate) async fn find(
    tx: &mut Tx,
    purpose: Purpose,
    token: &str,
    now: Timestamp,
) -> Result<Option<LinkRow>, Problem> {
    Ok(sql::link(tx, secret::hash(token), purpose, now).await?)
}

/// Uses a link up; of any number that try, one gets it.
pub(crate) async fn take(
    tx: &mut Tx,
    purpose: Purpose,
    token: &str,
    now: Timestamp,
) -> Result<Option<LinkRow>, Problem> {
    let Some(row) = find(tx, purpose, token, now).await? else { return Ok(None) };
    Ok(sql::take_link(tx, row.hash.clone()).await?.then_some(row))
}

/// Uses something up that was sealed and not kept: the second time is a conflict. It is remembered `until` it counts for
/// nothing anyway.
pub(crate) async fn use_once(
    tx: &mut Tx,
    purpose: &'static str,
    sealed: &str,
    until: Timestamp,
) -> Result<(), StoreError> {
    let used = LinkRow {
        hash: secret::hash(sealed),
        purpose: purpose.to_owned(),
        person_id: String::new(),
        email: String::new(),
        expires_at: until,
    };
    sql::insert_link(tx, &used).await
}
