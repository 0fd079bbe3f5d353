//! Two builds of the bench, measured in turns: `portico-bench against OLD_BENCH [PART..]`.
//!
//! Figures of two runs differ by what else the machine did meanwhile. So each part is run by the old build and by this
//! one, round after round, and the medians are compared. `OLD_BENCH` is the `portico-bench` of another commit, with its
//! `portico` beside it, as `make bench` builds them.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::PARTS;

const ROUNDS: usize = 3;
/// A figure in one of these is better when it is larger, one in any other unit when it is smaller.
const RATE: &str = "/s";
const UNITS: [&str; 7] = [RATE, "ns", "µs", "ms", "MB", "kB", "bytes"];

/// What both builds measured of one row.
#[derive(Default)]
struct Row {
    unit: String,
    old: Vec<f64>,
    new: Vec<f64>,
}

/// Prints each row of `parts`, or of all parts, with how the new build compares: above 1 it is the better one.
pub(crate) fn measure(mut arguments: impl Iterator<Item = String>) {
    let Some(old) = arguments.next() else { panic!("usage: portico-bench against OLD_BENCH [PART..]") };
    let new = std::env::current_exe().unwrap();
    let chosen: Vec<String> = arguments.collect();
    for part in PARTS.iter().filter(|part| chosen.is_empty() || chosen.iter().any(|name| name == *part)) {
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for _ in 0..ROUNDS {
            for (what, value, unit) in run(Command::new(&old), part) {
                rows.entry(what).or_insert_with(|| Row { unit, ..Row::default() }).old.push(value);
            }
            for (what, value, unit) in run(Command::new(&new), part) {
                rows.entry(what).or_insert_with(|| Row { unit, ..Row::default() }).new.push(value);
            }
        }
        for (what, row) in &mut rows {
            print_row(what, row);
        }
    }
}

fn print_row(what: &str, row: &mut Row) {
    if row.old.is_empty() || row.new.is_empty() {
        println!("{what:<96} measured by one of the builds only");
        return;
    }
    let (old, new) = (median(&mut row.old), median(&mut row.new));
    let ratio = if row.unit == RATE { new / old } else { old / new };
    let unit = &row.unit;
    println!("{what:<96} {old:>10.0} {unit:<5} -> {new:>10.0} {unit:<5} {ratio:.2}");
}

/// The rows that one build prints of a part, each with its first figure.
fn run(mut bench: Command, part: &str) -> Vec<(String, f64, String)> {
    let output = bench.arg(part).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{bench:?} failed");
    String::from_utf8(output.stdout).unwrap().lines().filter_map(figure).collect()
}

/// Reads `what 123 /s against 456 /s`: the name ends before the first number that a unit follows.
fn figure(line: &str) -> Option<(String, f64, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.windows(2).position(|pair| pair[0].parse::<f64>().is_ok() && UNITS.contains(&pair[1]))?;
    Some((words[..at].join(" "), words[at].parse().unwrap(), words[at + 1].to_owned()))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
