//! The schema as a document.

use crate::StoreError;
use crate::migrate::{MIGRATIONS, MIGRATIONS_TABLE};
use crate::sqlite::schema_after;

/// What `docs/schema.sql` begins with.
const HEAD: &str = "-- The tables and indexes after all migrations, as SQLite has them. `make docs` writes this file, by way of\n\
    -- `portico schema`; it is not edited by hand.\n";

/// Returns the schema after every migration, by table. It is read from a database in memory.
pub fn schema() -> Result<String, StoreError> {
    let scripts = std::iter::once(MIGRATIONS_TABLE).chain(MIGRATIONS.iter().map(|migration| migration.text));
    let select =
        "select sql as value from sqlite_master where sql is not null order by tbl_name, type desc, name";
    let rows = schema_after(scripts, select)?;
    let mut text = HEAD.to_owned();
    for row in rows {
        let statement = tidy(row.get("value")?);
        let before = if statement.starts_with("create table") { "\n" } else { "" };
        text.extend([before, &statement, ";\n"]);
    }
    Ok(text)
}

/// SQLite keeps a statement as it was written, but for its first words, and for columns that were added later, which stand
/// behind the last line.
fn tidy(statement: String) -> String {
    let first_words = ["CREATE TABLE", "CREATE UNIQUE INDEX", "CREATE INDEX"];
    let statement = first_words.into_iter().fold(statement, |text, words| match text.strip_prefix(words) {
        Some(rest) => words.to_lowercase() + rest,
        None => text,
    });
    match statement.split_once("\n, ") {
        Some((before, added)) => format!("{before},\n    {}\n)", added.strip_suffix(')').unwrap_or(added)),
        None => statement,
    }
}
