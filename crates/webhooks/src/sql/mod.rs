//! Every statement of the area; here what several of them share.

mod deliveries;
mod endpoints;
mod history;
mod inboxes;
mod queue;
mod results;

use portico_store::Arg;

pub(crate) use deliveries::*;
pub(crate) use endpoints::*;
pub(crate) use history::*;
pub(crate) use inboxes::*;
pub(crate) use queue::*;
pub(crate) use results::*;

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from webhook_endpoints limit 1";

/// Erases what the area keeps of an account: deliveries, with their attempts, before the endpoints they are found by.
pub(crate) const ERASE: [&str; 7] = [
    "delete from webhook_deliveries where id in (select d.id from webhook_deliveries d where d.endpoint_id = \
     (select p.id from webhook_endpoints p where p.account_id = $1 \
     and exists (select 1 from webhook_deliveries x where x.endpoint_id = p.id) order by p.id limit 1) \
     order by d.created_at, d.id limit $2)",
    "delete from webhook_stats where account_id = $1 and (endpoint_id, hour, outcome, step) in \
     (select endpoint_id, hour, outcome, step from webhook_stats where account_id = $1 limit $2)",
    "delete from webhook_subscriptions where account_id = $1 and $2 > 0",
    "delete from webhook_endpoints where account_id = $1 and $2 > 0",
    "delete from webhook_requests where inbox_id in (select id from webhook_inboxes where account_id = $1) and $2 > 0",
    "delete from webhook_inboxes where account_id = $1 and $2 > 0",
    "delete from webhook_queues where account_id = $1 and $2 > 0",
];

/// One statement in a few sizes: many rows go in a few statements, and the database knows each text already.
pub(crate) struct ByRows {
    texts: [(usize, String); 5],
}

impl ByRows {
    /// The statement `head` rows `tail`. Each row is as `row` writes it, with placeholders `$a`, `$b` … of its own and
    /// others, by number, that it shares; there are `shared` of these.
    pub(crate) fn new(head: &str, row: &str, tail: &str, shared: usize) -> Self {
        let own =
            (b'a'..=b'z').take_while(|letter| row.contains(&format!("${}", char::from(*letter)))).count();
        let text = |count: usize| {
            let rows = (0..count).map(|at| {
                (0..own).fold(row.to_owned(), |row, column| {
                    let letter = char::from(b'a' + u8::try_from(column).unwrap_or(0));
                    row.replace(&format!("${letter}"), &format!("${}", shared + at * own + column + 1))
                })
            });
            format!("{head} {} {tail}", rows.collect::<Vec<_>>().join(", "))
        };
        Self { texts: [64, 16, 4, 2, 1].map(|count| (count, text(count))) }
    }

    /// The rows in pieces, each with its text and its arguments behind the shared ones.
    pub(crate) fn pieces<'a, R>(
        &'static self,
        rows: &'a [R],
        shared: &'a [Arg],
        args: impl Fn(&R) -> Vec<Arg> + 'a,
    ) -> impl Iterator<Item = (&'static str, Vec<Arg>)> + 'a {
        let mut rest = rows;
        std::iter::from_fn(move || {
            let (count, text) = self.texts.iter().find(|(count, _)| *count <= rest.len())?;
            let (piece, left) = rest.split_at(*count);
            rest = left;
            Some((text.as_str(), shared.iter().cloned().chain(piece.iter().flat_map(&args)).collect()))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use portico_store::args;

    use super::*;

    static SOME: LazyLock<ByRows> = LazyLock::new(|| ByRows::new("values", "($a, $1, $b)", "end", 1));

    #[test]
    fn rows_go_in_a_few_statements() {
        let rows: Vec<i64> = (0..21).collect();
        let shared = args![7_i64];
        let pieces: Vec<_> = SOME.pieces(&rows, &shared, |row| args![*row, -*row]).collect();
        let sizes: Vec<_> = pieces.iter().map(|(_, args)| (args.len() - 1) / 2).collect();
        assert_eq!(sizes, [16, 4, 1]);
        assert_eq!(pieces[2].0, "values ($2, $1, $3) end");
        assert!(pieces[1].0.contains("($2, $1, $3), ($4, $1, $5), "));
        assert_eq!(SOME.pieces(&[] as &[i64], &[], |_| args![]).count(), 0);
    }
}
