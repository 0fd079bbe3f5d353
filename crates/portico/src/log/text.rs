//! Lines for people: time, level, message, then each value by its name.

use std::cell::RefCell;
use std::fmt::{self, Debug, Write};

use portico_engine::clock::SystemClock;
use portico_kernel::{Clock, Timestamp};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The form of a line. There is one for every request, so it is made with as little ado as possible.
pub(super) struct Text {
    /// Does a terminal show it, in colours?
    pub(super) ansi: bool,
}

thread_local! {
    /// The second that was written last, and how: most lines are of the same one.
    static SECOND: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
}

/// Writes `2026-01-31T09:30:00.250Z`.
fn write_time(now: Timestamp, to: &mut dyn Write) -> fmt::Result {
    let second = now.as_seconds();
    SECOND.with_borrow_mut(|(last, text)| {
        if *last != second {
            *text = Timestamp::from_seconds(second).to_string();
            text.truncate("2026-01-31T09:30:00".len());
            *last = second;
        }
        to.write_str(text)
    })?;
    let millis = now.as_millis().rem_euclid(1_000);
    write!(to, ".{millis:03}Z ")
}

fn name(level: Level, ansi: bool) -> &'static str {
    match (level, ansi) {
        (Level::ERROR, true) => "\x1b[31mERROR\x1b[0m ",
        (Level::WARN, true) => "\x1b[33m WARN\x1b[0m ",
        (Level::INFO, true) => "\x1b[32m INFO\x1b[0m ",
        (Level::ERROR, false) => "ERROR ",
        (Level::WARN, false) => " WARN ",
        (Level::INFO, false) => " INFO ",
        (Level::DEBUG, _) => "DEBUG ",
        (Level::TRACE, _) => "TRACE ",
    }
}

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write_time(SystemClock.now(), &mut writer)?;
        writer.write_str(name(*event.metadata().level(), self.ansi))?;
        let mut values = Values { writer: &mut writer, first: true, result: Ok(()) };
        event.record(&mut values);
        values.result?;
        writer.write_char('\n')
    }
}

/// Writes values.
struct Values<'a, W> {
    writer: &'a mut W,
    first: bool,
    result: fmt::Result,
}

impl<W: Write> Values<'_, W> {
    fn put(&mut self, field: &Field, write: impl FnOnce(&mut W) -> fmt::Result) {
        let is_message = field.name() == "message";
        let result = (|| {
            if !std::mem::take(&mut self.first) {
                self.writer.write_char(' ')?;
            }
            if !is_message {
                self.writer.write_str(field.name())?;
                self.writer.write_char('=')?;
            }
            write(self.writer)
        })();
        self.result = self.result.and(result);
    }
}

impl<W: Write> Visit for Values<'_, W> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, |writer| write!(writer, "{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // Whatever could be taken for something else is quoted, as nothing of a caller's may make a line of its own.
        let plain = !value.is_empty()
            && value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"=\\".contains(&byte));
        self.put(field, |writer| if plain { writer.write_str(value) } else { write!(writer, "{value:?}") });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_has_milliseconds_whichever_second_it_is() {
        for (time, text) in [
            ("2026-01-31T23:59:59.999Z", "2026-01-31T23:59:59.999Z "),
            ("2026-02-01T00:00:00.001Z", "2026-02-01T00:00:00.001Z "),
            ("2026-02-01T00:00:00.250Z", "2026-02-01T00:00:00.250Z "),
        ] {
            let mut line = String::new();
            write_time(time.parse().unwrap(), &mut line).unwrap();
            assert_eq!(line, text);
        }
    }
}
