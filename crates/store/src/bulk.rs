//! One statement for many rows.

use std::sync::OnceLock;

use crate::placeholders::placeholders;
use crate::{Arg, FromRow, PendingRows, Select, StoreError, Tx, Value};

/// Numbers of rows for which a statement has a text. They are few, so that the database knows each text already.
const SIZES: [usize; 5] = [64, 16, 4, 2, 1];

/// A statement for many rows, because a statement costs far more than a row. Its text is written once for each of a few
/// numbers of rows; any other number runs as several statements.
pub struct BulkStatement {
    head: &'static str,
    row: &'static str,
    tail: &'static str,
    /// Has a text for every number of rows up to this one; for those of [`SIZES`] when it is 0.
    every: usize,
    texts: OnceLock<Vec<(usize, String)>>,
}

impl BulkStatement {
    /// The statement `head` rows `tail`. Each row is as `row` writes it, with placeholders `$a`, `$b` … of its own.
    /// Placeholders with a number, anywhere in the statement, are arguments that all rows share.
    pub const fn new(head: &'static str, row: &'static str, tail: &'static str) -> Self {
        Self { head, row, tail, every: 0, texts: OnceLock::new() }
    }

    /// Has a text for every number of rows up to `rows`, and no larger one.
    #[must_use]
    pub const fn every_size_up_to(mut self, rows: usize) -> Self {
        self.every = rows;
        self
    }

    /// Runs it for `rows`, which are the arguments of each; returns how many rows it touched.
    pub async fn execute(
        &'static self,
        tx: &mut Tx,
        shared: Vec<Arg>,
        rows: Vec<Vec<Arg>>,
    ) -> Result<u64, StoreError> {
        let mut touched = 0;
        for (text, args) in self.pieces(&shared, &rows) {
            touched += tx.execute(text, args).await?;
        }
        Ok(touched)
    }

    /// The same, where nobody needs the result, as [`Tx::run`] does.
    pub async fn run(
        &'static self,
        tx: &mut Tx,
        shared: Vec<Arg>,
        rows: Vec<Vec<Arg>>,
    ) -> Result<(), StoreError> {
        for (text, args) in self.pieces(&shared, &rows) {
            tx.run(text, args).await?;
        }
        Ok(())
    }

    /// The same for a statement whose rows are read once the transaction is committed.
    pub async fn run_for_rows(
        &'static self,
        tx: &mut Tx,
        shared: Vec<Arg>,
        rows: Vec<Vec<Arg>>,
    ) -> Result<Vec<PendingRows>, StoreError> {
        let mut pending = Vec::new();
        for (text, args) in self.pieces(&shared, &rows) {
            pending.push(tx.run_for_rows(text, args).await?);
        }
        Ok(pending)
    }

    /// Runs it for `rows`; returns every row of the answer as a record.
    pub async fn all<T: FromRow + Send>(
        &'static self,
        tx: &mut Tx,
        shared: Vec<Arg>,
        rows: Vec<Vec<Arg>>,
    ) -> Result<Vec<T>, StoreError> {
        let mut all = Vec::new();
        for (text, args) in self.pieces(&shared, &rows) {
            all.extend(tx.all::<T>(text, args).await?);
        }
        Ok(all)
    }

    /// Runs it for `rows`; returns the column `value` of every row of the answer.
    pub async fn values<T: Value + Send>(
        &'static self,
        tx: &mut Tx,
        shared: Vec<Arg>,
        rows: Vec<Vec<Arg>>,
    ) -> Result<Vec<T>, StoreError> {
        let mut values = Vec::new();
        for (text, args) in self.pieces(&shared, &rows) {
            values.extend(tx.values::<T>(text, args).await?);
        }
        Ok(values)
    }

    /// The statements that `rows` take, each with its arguments, the shared ones first.
    fn pieces(&'static self, shared: &[Arg], rows: &[Vec<Arg>]) -> Vec<(&'static str, Vec<Arg>)> {
        let texts = self.texts.get_or_init(|| self.texts());
        let mut rest = rows;
        std::iter::from_fn(|| {
            let (count, text) = texts.iter().find(|(count, _)| *count <= rest.len())?;
            let (piece, left) = rest.split_at(*count);
            rest = left;
            Some((text.as_str(), shared.iter().chain(piece.iter().flatten()).cloned().collect()))
        })
        .collect()
    }

    fn texts(&self) -> Vec<(usize, String)> {
        let sizes: Vec<_> = if self.every == 0 { SIZES.into() } else { (1..=self.every).rev().collect() };
        sizes.into_iter().map(|count| (count, self.text(count))).collect()
    }

    fn text(&self, count: usize) -> String {
        let Self { head, row, tail, .. } = *self;
        let letters: Vec<_> = ('a'..='z')
            .map(|letter| format!("${letter}"))
            .take_while(|letter| row.contains(letter))
            .collect();
        let shared = [head, row, tail].map(placeholders).into_iter().max().unwrap_or(0);
        let rows = (0..count).map(|at| {
            letters
                .iter()
                .zip(shared + at * letters.len() + 1..)
                .fold(row.to_owned(), |row, (letter, number)| row.replace(letter, &format!("${number}")))
        });
        format!("{head} {} {tail}", rows.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    static SOME: BulkStatement = BulkStatement::new("values", "($a, $1, $b)", "end");
    static EVERY: BulkStatement = BulkStatement::new("values", "($a)", "").every_size_up_to(3);

    fn sizes(statement: &'static BulkStatement, shared: &[Arg], rows: usize, columns: usize) -> Vec<usize> {
        let rows: Vec<_> = (0..rows).map(|_| vec![Arg::Int(None); columns]).collect();
        let pieces = statement.pieces(shared, &rows);
        pieces.iter().map(|(_, args)| (args.len() - shared.len()) / columns).collect()
    }

    #[test]
    fn rows_go_in_a_few_statements() {
        let shared = args![7_i64];
        assert_eq!(sizes(&SOME, &shared, 21, 2), [16, 4, 1]);
        assert!(sizes(&SOME, &shared, 0, 2).is_empty());
        let rows: Vec<_> = (0..5_i64).map(|row| args![row, -row]).collect();
        let pieces = SOME.pieces(&shared, &rows);
        assert!(pieces[0].0.contains("($2, $1, $3), ($4, $1, $5), "));
        assert_eq!(pieces[1].0, "values ($2, $1, $3) end");
    }

    #[test]
    fn every_size_takes_one_statement() {
        assert_eq!(sizes(&EVERY, &[], 2, 1), [2]);
        assert_eq!(sizes(&EVERY, &[], 5, 1), [3, 2]);
    }
}
