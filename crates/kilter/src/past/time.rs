//! Times of the history.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

use crate::exit::Exit;
use crate::output;

/// Returns a time of the history in the time zone of the machine.
pub(crate) fn shown(milliseconds: i64) -> String {
    match Timestamp::from_millisecond(milliseconds) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => milliseconds.to_string(),
    }
}

/// Returns a time of the history with its time zone, for programs.
pub(crate) fn exact(milliseconds: i64) -> String {
    Timestamp::from_millisecond(milliseconds).map_or_else(|_| milliseconds.to_string(), |time| time.to_string())
}

/// Returns a duration in its two largest units.
pub(crate) fn span(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Returns a duration that may be shorter than a second.
pub(crate) fn short_span(milliseconds: u64) -> String {
    match milliseconds {
        ..1000 => format!("{milliseconds} ms"),
        1000..60_000 => format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => span(i64::try_from(milliseconds).unwrap_or(i64::MAX)),
    }
}

/// Returns a time in milliseconds since 1970: an age such as `2h`, a day, a date, or a date with a time.
///
/// # Errors
/// If it is none of these; reported.
pub(crate) fn parsed(text: &str) -> Result<i64, Exit> {
    at(text, &Zoned::now()).map(|time| time.as_millisecond()).ok_or_else(|| {
        output::fail_with(
            format_args!("`{text}` is no time"),
            ["write an age (90s, 10m, 2h, 3d, 1w), now, today, yesterday, a date (2026-11-26), or a date and a time \
                 (\"2026-11-26 17:00\")"],
        )
    })
}

fn at(text: &str, now: &Zoned) -> Option<Timestamp> {
    let day = |days: i64| now.checked_sub(days.days()).ok()?.start_of_day().ok().map(|day| day.timestamp());
    match text {
        "now" => return Some(now.timestamp()),
        "today" => return day(0),
        "yesterday" => return day(1),
        _ => {}
    }
    if let Some((number, unit)) = text.char_indices().last().map(|(at, unit)| (&text[..at], unit))
        && let Ok(number) = number.parse::<i64>()
    {
        let age = match unit {
            's' => number.seconds(),
            'm' => number.minutes(),
            'h' => number.hours(),
            'd' => number.days(),
            'w' => number.weeks(),
            _ => return None,
        };
        return now.checked_sub(age).ok().map(|time| time.timestamp());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    let local = |time: DateTime| time.to_zoned(now.time_zone().clone()).ok().map(|time| time.timestamp());
    if let Ok(date) = text.parse::<Date>()
        && !text.contains([':', 'T', ' '])
    {
        return local(date.at(0, 0, 0, 0));
    }
    text.parse::<DateTime>().ok().and_then(local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_span_has_milliseconds_or_tenths_of_seconds() {
        let shown = [0, 999, 1000, 59_999, 60_000].map(short_span);
        assert_eq!(shown, ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 min"]);
    }

    #[test]
    fn span_has_two_units() {
        for (seconds, expected) in [(0, "0 s"), (59, "59 s"), (61, "1 min"), (7_380, "2 h 3 min"), (90_000, "1 d 1 h")]
        {
            assert_eq!(span(seconds * 1000), expected);
        }
    }

    #[test]
    fn ages_days_dates_and_times_are_understood() {
        let now: Zoned = "2026-11-26T17:30:00+01:00[+01:00]".parse().unwrap();
        let seen = |text: &str| at(text, &now).map(|time| time.to_string());
        for (text, expected) in [
            ("now", "2026-11-26T16:30:00Z"),
            ("90s", "2026-11-26T16:28:30Z"),
            ("2h", "2026-11-26T14:30:00Z"),
            ("3d", "2026-11-23T16:30:00Z"),
            ("1w", "2026-11-19T16:30:00Z"),
            ("today", "2026-11-25T23:00:00Z"),
            ("yesterday", "2026-11-24T23:00:00Z"),
            ("2026-11-20", "2026-11-19T23:00:00Z"),
            ("2026-11-20 08:15", "2026-11-20T07:15:00Z"),
            ("2026-11-20T08:15:30", "2026-11-20T07:15:30Z"),
            ("2026-11-20T08:15:30Z", "2026-11-20T08:15:30Z"),
        ] {
            assert_eq!(seen(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "tomorrow", "5", "5x", "2026-13-01", "h", "99999999999999999999h", "ü"] {
            assert_eq!(seen(text), None, "{text}");
        }
    }
}
