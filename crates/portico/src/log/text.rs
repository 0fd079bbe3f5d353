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

/// The number in thousandths, where it has no more digits than that: then the shortest text that reads as the number is
/// written without a search for it.
fn thousandths(value: f64) -> Option<u64> {
    let scaled = (value * 1e3).round();
    let fits = value.is_sign_positive() && scaled < 1e12 && (scaled / 1e3).to_bits() == value.to_bits();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and in this range")]
    fits.then_some(scaled as u64)
}

/// Writes `1.25` for 1,250 thousandths, and `1.0` for 1,000.
fn write_thousandths(thousandths: u64, to: &mut impl Write) -> fmt::Result {
    let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
    match part {
        0 => write!(to, "{whole}.0"),
        _ if part % 100 == 0 => write!(to, "{whole}.{}", part / 100),
        _ if part % 10 == 0 => write!(to, "{whole}.{:02}", part / 10),
        _ => write!(to, "{whole}.{part:03}"),
    }
}

impl<W: Write> Visit for Values<'_, W> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, |writer| match thousandths(value) {
            Some(thousandths) => write_thousandths(thousandths, writer),
            None => write!(writer, "{value:?}"),
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, |writer| write!(writer, "{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // Whatever could be taken for something else is quoted, as nothing of a caller's may make a line of its own.
        let plain = !value.is_empty()
            && value.bytes().all(|byte| matches!(byte, b'!' | b'#'..=b'<' | b'>'..=b'[' | b']'..=b'~'));
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

    #[test]
    fn a_number_is_written_as_it_always_is() {
        let millis = (0..5_000_u32).chain([999_999, 1_000_000, 123_456_789, u32::MAX]);
        let millis = millis.map(|micros| f64::from(micros) / 1e3);
        for value in millis.chain([-0.0, -1.5, 0.1234, 1e9, 1e300, f64::NAN, f64::INFINITY]) {
            let mut text = String::new();
            match thousandths(value) {
                Some(thousandths) => write_thousandths(thousandths, &mut text).unwrap(),
                None => write!(text, "{value:?}").unwrap(),
            }
            assert_eq!(text, format!("{value:?}"));
        }
        assert_eq!(thousandths(0.25), Some(250));
    }
}
