//! Months, days and hours in UTC, as units are counted by them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use jiff::civil;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Timestamp;

const HOUR_SECONDS: i64 = 3_600;
const DAY_SECONDS: i64 = 24 * HOUR_SECONDS;

/// A month: units are counted from its first midnight to the next one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: i16,
    month: i8,
}

/// A day, counted from 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i64);

/// An hour, counted from the beginning of 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(i64);

impl Month {
    /// The month that `at` lies in.
    pub fn of(at: Timestamp) -> Self {
        let date = Day::of(at).date();
        Self { year: date.year(), month: date.month() }
    }

    /// The month as a number that grows with time.
    pub fn number(self) -> u32 {
        u32::try_from(i32::from(self.year) * 12 + i32::from(self.month) - 1).unwrap_or(0)
    }

    /// The month of that number; `None` when it lies beyond the calendar.
    pub fn from_number(number: u32) -> Option<Self> {
        let (year, month) = (i16::try_from(number / 12).ok()?, i8::try_from(number % 12).ok()? + 1);
        civil::Date::new(year, month, 1).ok().map(|_| Self { year, month })
    }

    /// The next month.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self { year, month: 12 } => Self { year: year.saturating_add(1), month: 1 },
            Self { year, month } => Self { year, month: month + 1 },
        }
    }

    /// Its first day.
    pub fn first_day(self) -> Day {
        civil::Date::new(self.year, self.month, 1).map_or(Day(0), Day::of_date)
    }

    /// Its first instant.
    pub fn start(self) -> Timestamp {
        self.first_day().start()
    }
}

impl Day {
    /// The day that `at` lies in.
    pub fn of(at: Timestamp) -> Self {
        Self(at.as_seconds().div_euclid(DAY_SECONDS))
    }

    fn of_date(date: civil::Date) -> Self {
        let since = date.since(civil::date(1970, 1, 1));
        Self(since.map_or(0, |span| i64::from(span.get_days())))
    }

    fn date(self) -> civil::Date {
        // What a clock can show lies well within the calendar.
        let days = jiff::Span::new().try_days(self.0);
        days.and_then(|days| civil::date(1970, 1, 1).checked_add(days)).unwrap_or(civil::Date::MAX)
    }

    /// Its first instant.
    pub const fn start(self) -> Timestamp {
        Timestamp::from_seconds(self.0.saturating_mul(DAY_SECONDS))
    }

    /// The day as a number, from 1970-01-01 on.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// The day of that number.
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// Its first hour.
    pub const fn first_hour(self) -> Hour {
        Hour(self.0 * 24)
    }
}

impl Hour {
    /// The hour that `at` lies in.
    pub fn of(at: Timestamp) -> Self {
        Self(at.as_seconds().div_euclid(HOUR_SECONDS))
    }

    /// The hour as a number, from the beginning of 1970 on.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// The hour of that number.
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// The day it belongs to.
    pub const fn day(self) -> Day {
        Day(self.0.div_euclid(24))
    }

    /// Its first instant.
    pub const fn start(self) -> Timestamp {
        Timestamp::from_seconds(self.0.saturating_mul(HOUR_SECONDS))
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.date().fmt(f)
    }
}

/// Does the text have `length` characters, with digits everywhere but at the hyphens? The calendar's own parser accepts
/// more than one spelling.
fn has_one_spelling(text: &str, length: usize) -> bool {
    text.len() == length
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

impl FromStr for Month {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let day = if has_one_spelling(text, 7) { format!("{text}-01").parse::<Day>().ok() } else { None };
        let day = day.filter(|day| day.0 >= 0);
        day.map(|day| Self::of(day.start())).ok_or_else(|| "must be a month, such as 2026-01".to_owned())
    }
}

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let date = if has_one_spelling(text, 10) { text.parse::<civil::Date>().ok() } else { None };
        date.map(Self::of_date).ok_or_else(|| "must be a day, such as 2026-01-31".to_owned())
    }
}

macro_rules! on_the_wire {
    ($($type:ident $format:tt)+) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($format)
            }
        }
    )+};
}

on_the_wire! {
    Month { "type": "string", "pattern": "^(19[7-9]|[2-9][0-9]{2})[0-9]-(0[1-9]|1[0-2])$" }
    Day { "type": "string", "format": "date" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_month_begins_at_midnight_utc_on_the_first() {
        let (last, first) = (at("2026-12-31T23:59:59.999Z"), at("2027-01-01T00:00:00Z"));
        assert_eq!(Month::of(last).to_string(), "2026-12");
        assert_eq!(Month::of(first).to_string(), "2027-01");
        assert_eq!(Month::of(last).next(), Month::of(first));
        assert_eq!(Month::of(first).start(), first);
        assert_eq!(Day::of(last).to_string(), "2026-12-31");
        assert_eq!(Hour::of(last).day(), Day::of(last));
    }

    #[test]
    fn there_is_one_spelling() {
        assert_eq!("2024-02-29".parse::<Day>().map(|day| day.to_string()), Ok("2024-02-29".to_owned()));
        assert_eq!("2024-02".parse::<Month>().map(|month| month.to_string()), Ok("2024-02".to_owned()));
        for bad in ["", "2026", "2026-13", "2026-1", "202601", "2026-00", "2026-01-01", "1969-12", " 2026-01"]
        {
            assert!(bad.parse::<Month>().is_err(), "{bad:?}");
        }
        for bad in ["", "2026-02-29", "20260228", "2026-2-8", "2026-02-28T00:00", "2026-02-28 "] {
            assert!(bad.parse::<Day>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_instant_lies_in_its_month_day_and_hour(seconds in 0i64..200_000_000_000) {
            let at = Timestamp::from_seconds(seconds);
            let (month, day, hour) = (Month::of(at), Day::of(at), Hour::of(at));
            prop_assert!(month.start() <= at && at < month.next().start());
            prop_assert!(day.start() <= at && at < Day::from_number(day.number() + 1).start());
            prop_assert!(hour.start() <= at && at < Hour::from_number(hour.number() + 1).start());
            prop_assert_eq!(Month::from_number(month.number()), Some(month));
            prop_assert_eq!(hour.day(), day);
            prop_assert_eq!(day.to_string().parse::<Day>(), Ok(day));
            prop_assert_eq!(month.to_string().parse::<Month>(), Ok(month));
        }
    }
}
