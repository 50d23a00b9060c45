//! Points in time and durations in Puppet's notation.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;

/// The text is not a point in time or a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}")]
pub struct TimeError {
    text: String,
    what: &'static str,
}

/// A point in time with nanosecond resolution. Shown in UTC: `2026-01-31T12:00:00.000000000 UTC`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub jiff::Timestamp);

/// A duration with nanosecond resolution, possibly negative. Shown as days, hours, minutes and seconds:
/// `1-02:03:04.5`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timespan(pub SignedDuration);

impl Timestamp {
    /// Returns the time `seconds` after 1970-01-01 00:00 UTC.
    pub fn from_seconds(seconds: f64) -> Option<Timestamp> {
        let span = SignedDuration::try_from_secs_f64(seconds).ok()?;
        jiff::Timestamp::from_duration(span).ok().map(Timestamp)
    }
}

impl Timespan {
    /// Returns a duration of `seconds`.
    pub fn from_seconds(seconds: f64) -> Option<Timespan> {
        SignedDuration::try_from_secs_f64(seconds).ok().map(Timespan)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = Offset::UTC.to_datetime(self.0);
        let (date, time) = (t.date(), t.time());
        write!(f, "{:04}-{:02}-{:02}T", date.year(), date.month(), date.day())?;
        write!(f, "{:02}:{:02}:{:02}.{:09} UTC", time.hour(), time.minute(), time.second(), time.subsec_nanosecond())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Timespan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs().unsigned_abs();
        let nanoseconds = self.0.subsec_nanos().unsigned_abs();
        let sign = if self.0.is_negative() { "-" } else { "" };
        let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
        let fraction = format!("{nanoseconds:09}");
        let fraction = match fraction.trim_end_matches('0') {
            "" => "0",
            digits => digits,
        };
        write!(f, "{sign}{days}-{hours:02}:{minutes:02}:{:02}.{fraction}", seconds % 60)
    }
}

impl fmt::Debug for Timespan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Parses a date, with or without a time and a zone: `2026-01-31`, `2026-01-31 12:00:00`,
/// `2026-01-31T12:00:00.5 UTC`, `2026-01-31T12:00:00+01:00`, `2026-01-31 12:00:00 CET`. The default zone is
/// UTC.
impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Timestamp, TimeError> {
        timestamp(text).ok_or_else(|| TimeError { text: text.to_owned(), what: "a point in time" })
    }
}

fn timestamp(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(10)?;
    let date = date_of(date)?;
    let rest = rest.strip_prefix(['T', ' ']).unwrap_or(rest);
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(rest.len());
    let time = if end == 0 { Time::midnight() } else { time_of(&rest[..end])? };
    let offset = offset_of(rest[end..].trim_start())?;
    offset.to_timestamp(DateTime::from_parts(date, time)).ok().map(Timestamp)
}

fn date_of(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let (year, month, day) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    let date = Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok();
    date.filter(|_| parts.next().is_none())
}

fn time_of(text: &str) -> Option<Time> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.split(':').map(|part| i8::try_from(number(part)?).ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() {
        return None;
    }
    Time::new(hour, minute, second, i32::try_from(nanoseconds(fraction)?).ok()?).ok()
}

/// Time zone names that Ruby and Puppet accept (`date_parse`, zone table), with their offsets in minutes.
/// Region names such as `Europe/Berlin` are not supported.
const ZONES: [(&str, i32); 54] = [
    ("UT", 0),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("MET", 60),
    ("MEZ", 60),
    ("WAT", 60),
    ("CEST", 120),
    ("MEST", 120),
    ("MESZ", 120),
    ("EET", 120),
    ("SAST", 120),
    ("EEST", 180),
    ("EAT", 180),
    ("MSK", 180),
    ("MSD", 240),
    ("IST", 330),
    ("CCT", 480),
    ("SGT", 480),
    ("JST", 540),
    ("KST", 540),
    ("EAST", 600),
    ("GST", 600),
    ("AEST", 600),
    ("ACST", 570),
    ("AWST", 480),
    ("EADT", 660),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZT", 720),
    ("NZDT", 780),
    ("BRST", -120),
    ("NDT", -150),
    ("ADT", -180),
    ("ART", -180),
    ("BRT", -180),
    ("CLST", -180),
    ("NST", -210),
    ("AST", -240),
    ("CLT", -240),
    ("EDT", -240),
    ("EST", -300),
    ("CDT", -300),
    ("CST", -360),
    ("MDT", -360),
    ("MST", -420),
    ("PDT", -420),
    ("PST", -480),
    ("AKDT", -480),
    ("AKST", -540),
    ("HADT", -540),
    ("HAST", -600),
    ("HST", -600),
];

fn offset_of(text: &str) -> Option<Offset> {
    if matches!(text, "" | "Z" | "UTC" | "GMT") {
        return Some(Offset::UTC);
    }
    if let Some((_, minutes)) = ZONES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        return Offset::from_seconds(minutes * 60).ok();
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits = text.strip_prefix(['+', '-'])?.replace(':', "");
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { 0 } else { number(minutes)? };
    let seconds = i32::try_from(number(hours)? * 3600 + minutes * 60).ok()?;
    Offset::from_seconds(sign * seconds).ok()
}

/// Parses `DAYS-HH:MM:SS.F`, `HH:MM:SS.F`, `MM:SS.F` or `SS.F`, with an optional sign.
impl FromStr for Timespan {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Timespan, TimeError> {
        timespan(text).ok_or_else(|| TimeError { text: text.to_owned(), what: "a span of time" })
    }
}

fn timespan(text: &str) -> Option<Timespan> {
    let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (days, clock) = rest.split_once('-').unwrap_or(("0", rest));
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut seconds: i64 = number(days)?;
    let parts: Vec<&str> = clock.split(':').collect();
    // Leading parts may be missing.
    let [hours, minutes, rest] = match parts.as_slice() {
        [h, m, s] => [number(h)?, number(m)?, number(s)?],
        [m, s] => [0, number(m)?, number(s)?],
        [s] => [0, 0, number(s)?],
        _ => return None,
    };
    seconds = seconds.checked_mul(86400)?.checked_add(hours.checked_mul(3600)?)?;
    seconds = seconds.checked_add(minutes.checked_mul(60)?)?.checked_add(rest)?;
    let span = SignedDuration::new(seconds, i32::try_from(nanoseconds(fraction)?).ok()?);
    Some(Timespan(if negative { -span } else { span }))
}

/// Parses a number that consists only of decimal digits.
fn number(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Converts the digits after a decimal point to nanoseconds.
fn nanoseconds(fraction: &str) -> Option<i64> {
    let digits = &fraction[..fraction.len().min(9)];
    number(fraction.get(..fraction.len().min(9))?)?;
    fraction.bytes().all(|b| b.is_ascii_digit()).then(|| number(&format!("{digits:0<9}"))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_are_read_in_every_usual_form() {
        let noon = "2026-01-31T12:00:00.000000000 UTC";
        for text in ["2026-01-31 12:00:00", "2026-01-31T12:00:00Z", "2026-01-31T13:00:00.0+01:00", noon] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), noon, "{text}");
        }
        assert_eq!("2026-01-31".parse::<Timestamp>().unwrap().to_string(), "2026-01-31T00:00:00.000000000 UTC");
        for text in ["", "2026", "2026-02-30", "2026-01-31T25:00:00", "2026-01-31T12", "2026-01-31 x", "äöüäöüäöü"]
        {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn spans_of_time_are_read_in_every_usual_form() {
        for (text, shown) in [
            ("1-02:03:04.5", "1-02:03:04.5"),
            ("-0-00:00:01.5", "-0-00:00:01.5"),
            ("90", "0-00:01:30.0"),
            ("-1:30", "-0-00:01:30.0"),
            ("25:00:00", "1-01:00:00.0"),
        ] {
            assert_eq!(text.parse::<Timespan>().unwrap().to_string(), shown);
        }
        for text in ["", "-", "1-", "a", "1:2:3:4", "99999999999999999-00:00:00", "1.é"] {
            assert!(text.parse::<Timespan>().is_err(), "{text}");
        }
    }
}
