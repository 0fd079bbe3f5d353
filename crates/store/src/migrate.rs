//! Migrations: embedded, forward only, run once however many processes start together.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use portico_kernel::Timestamp;

use crate::{Db, Select, StoreError, Tx, args, from_row};

pub(crate) struct Migration {
    number: i64,
    name: &'static str,
    pub(crate) text: &'static str,
}

impl Migration {
    fn checksum(&self) -> String {
        BASE64_STANDARD_NO_PAD.encode(digest(&SHA256, self.text.as_bytes()))
    }
}

pub(crate) const MIGRATIONS: &[Migration] = include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// Makes the table of what was applied.
pub(crate) const MIGRATIONS_TABLE: &str = "create table if not exists schema_migrations (
    number bigint primary key,
    name text not null,
    checksum text not null,
    applied_at bigint not null
)";

struct Applied {
    number: i64,
    checksum: String,
}

from_row!(Applied { number, checksum });

/// What a migration run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// Names of the migrations that ran now.
    pub ran: Vec<&'static str>,
    /// The number that the database stands at.
    pub version: i64,
}

impl Db {
    /// Brings the database to the newest shape. Refuses one that a newer program made, or whose past was edited.
    pub async fn migrate(&self, now: Timestamp) -> Result<Migrated, StoreError> {
        let mut tx = self.write().await?;
        if let Some(lock) = self.dialect().lock_for_migration() {
            tx.script(lock).await?;
        }
        tx.script(MIGRATIONS_TABLE).await?;
        let applied = applied(&mut tx).await?;
        let mut ran = Vec::new();
        for migration in MIGRATIONS {
            if applied.iter().any(|done| done.number == migration.number) {
                continue;
            }
            tx.script(migration.text).await?;
            tx.run(
                "insert into schema_migrations (number, name, checksum, applied_at) values ($1, $2, $3, $4)",
                args![migration.number, migration.name.to_owned(), migration.checksum(), now],
            )
            .await?;
            ran.push(migration.name);
        }
        tx.commit().await?;
        Ok(Migrated { ran, version: MIGRATIONS.last().map_or(0, |newest| newest.number) })
    }
}

/// What was applied before, once it is known to be a past that we share.
async fn applied(tx: &mut Tx) -> Result<Vec<Applied>, StoreError> {
    let applied: Vec<Applied> =
        tx.all("select number, checksum from schema_migrations order by number", args![]).await?;
    for done in &applied {
        let known = MIGRATIONS.iter().find(|migration| migration.number == done.number);
        let Some(known) = known else {
            return Err(StoreError::fault(format!(
                "the database is at migration {}, which this program does not know: run a newer portico",
                done.number
            )));
        };
        if known.checksum() != done.checksum {
            return Err(StoreError::fault(format!(
                "migration {} is not the one that made this database; a migration is never edited",
                known.name
            )));
        }
    }
    Ok(applied)
}
