//! Instants, as the wire and the database know them.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant in UTC, kept in microseconds; on the wire RFC 3339 with milliseconds and `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// `count` seconds; short, because bounds are full of them.
pub const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

impl Timestamp {
    /// The instant that many microseconds after 1970 began.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The instant that many seconds after 1970 began.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Microseconds since 1970 began.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since 1970 began.
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Whole seconds since 1970 began.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The instant in an HTTP header, such as `Wed, 18 Nov 2026 00:01:00 GMT`.
    pub fn from_http_date(text: &str) -> Option<Self> {
        let date = jiff::fmt::rfc2822::parse(text).ok()?;
        Some(Self(date.timestamp().as_microsecond()))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_millisecond(self.as_millis()).map_err(|_| fmt::Error)?;
        write!(f, "{instant:.3}")
    }
}

impl FromStr for Timestamp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The parser takes more than RFC 3339 does: no separators, a space, a zone in brackets.
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        let written =
            marks.iter().all(|(at, mark)| text.as_bytes().get(*at) == Some(mark)) && !text.ends_with(']');
        let instant = if written { text.parse::<jiff::Timestamp>().ok() } else { None };
        instant
            .map(|instant| Self(instant.as_microsecond()))
            .ok_or_else(|| "must be a time as RFC 3339 writes it, such as 2026-01-31T09:30:00Z".to_owned())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_form_has_milliseconds_and_z() {
        assert_eq!(Timestamp::from_micros(1_767_225_599_999_999).to_string(), "2025-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_seconds(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!("2026-01-01T01:00:00+01:00".parse(), Ok(Timestamp::from_seconds(1_767_225_600)));
        for bad in [
            "2026-01-01",
            "20260101T000000Z",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00Z[UTC]",
            "2026-01-01T00Z",
        ] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }
}
