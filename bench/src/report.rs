//! The table of figures.

use std::fmt::Write as _;
use std::process::Command;

/// From the root of the repository, where `make bench` runs.
const RESULTS: &str = "bench/RESULTS.md";

/// Collects lines, prints them as they come, and writes them down at the end.
#[derive(Default)]
pub(crate) struct Report(Vec<[String; 3]>);

impl Report {
    /// A plain figure.
    pub(crate) fn figure(&mut self, what: &str, value: f64, unit: &str) {
        self.line(what, &format!("{value:.0} {unit}"), "");
    }

    /// A figure beside the one that it is measured against, with the bar that it must reach.
    pub(crate) fn ratio(&mut self, what: &str, value: f64, against: f64, unit: &str, bar: &str) {
        let ratio = value / against;
        self.line(
            what,
            &format!("{value:.0} {unit} against {against:.0} {unit}"),
            &format!("{ratio:.2} ({bar})"),
        );
    }

    /// What goes with the figure before.
    pub(crate) fn words(&mut self, what: &str, words: &str) {
        self.line(what, words, "");
    }

    fn line(&mut self, what: &str, figures: &str, ratio: &str) {
        println!("{what:<58} {figures:<40} {ratio}");
        self.0.push([what.to_owned(), figures.to_owned(), ratio.to_owned()]);
    }

    /// Writes `bench/RESULTS.md`.
    pub(crate) fn finish(self) {
        let said = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
        };
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        let mut text = format!(
            "# Results of `make bench`\n\n{}, commit {}, {processors} processors, {}. PostgreSQL runs without fsync; SQLite \
             syncs every commit.\n\n| What | Figures | Ratio (bar) |\n|---|---|---|\n",
            said("date", &["-u", "+%F"]),
            said("git", &["rev-parse", "--short", "HEAD"]),
            said("uname", &["-sm"]),
        );
        for [what, figures, ratio] in &self.0 {
            let _ = writeln!(text, "| {what} | {figures} | {ratio} |");
        }
        std::fs::write(RESULTS, text).unwrap();
        println!("written to {RESULTS}");
    }
}
