//! Maintenance windows: the times at which an apply may begin.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

/// Form of a window, for messages.
const FORM: &str = "a window such as `Mon..Fri 22:00-04:00 Europe/Berlin` is expected";

/// Names of the days, Monday first.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Minutes of a day.
const DAY: u16 = 24 * 60;

/// Maintenance window: days of the week, a begin and an end in a time zone. It ends on the next day if the end is not
/// after the begin.
#[derive(Clone, Debug)]
pub(crate) struct MaintenanceWindow {
    text: String,
    /// Days on which it begins, Monday first.
    days: [bool; 7],
    /// Begin and end in minutes after midnight.
    begin: u16,
    end: u16,
    zone: TimeZone,
}

impl MaintenanceWindow {
    /// Parses a window such as `Mon..Fri 22:00-04:00 Europe/Berlin`. Without days, it is open on each day.
    ///
    /// # Errors
    /// The reason why the text is no window.
    pub(crate) fn parse(text: &str) -> Result<MaintenanceWindow, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (given_days, times, zone) = match words.as_slice() {
            [times, zone] => (None, times, zone),
            [days, times, zone] => (Some(days), times, zone),
            _ => return Err(FORM.to_owned()),
        };
        let days = given_days.map_or(Ok([true; 7]), |text| days(text))?;
        let (begin, end) = times.split_once('-').ok_or(FORM)?;
        let (begin, end) = (minutes(begin)?, minutes(end)?);
        if begin == end || begin == DAY {
            return Err(format!("`{times}` is empty: write 00:00-24:00 for the whole day"));
        }
        let found = TimeZone::get(zone);
        let zone =
            found.map_err(|_| format!("there is no time zone `{zone}`: write its name, such as Europe/Berlin"))?;
        Ok(MaintenanceWindow { text: words.join(" "), days, begin, end, zone })
    }

    /// Returns the text of the window.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if the window is open.
    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        let today = now.to_zoned(self.zone.clone()).date();
        let began = [Ok(today), today.checked_sub(1.day())];
        began.into_iter().flatten().any(|day| self.is_open_since(day, now))
    }

    fn is_open_since(&self, day: Date, now: Timestamp) -> bool {
        let is_next_day = self.end <= self.begin;
        let last = if is_next_day { day.checked_add(1.day()).unwrap_or(day) } else { day };
        let is_chosen = self.days[usize::from(day.weekday().to_monday_zero_offset().unsigned_abs())];
        is_chosen
            && self.at(day, self.begin).is_some_and(|begin| begin <= now)
            && self.at(last, self.end).is_some_and(|end| now < end)
    }

    fn at(&self, day: Date, minutes: u16) -> Option<Timestamp> {
        let (day, minutes) = if minutes == DAY { (day.checked_add(1.day()).ok()?, 0) } else { (day, minutes) };
        let time = Time::midnight().checked_add(i64::from(minutes).minutes()).ok()?;
        self.zone.to_ambiguous_timestamp(day.to_datetime(time)).compatible().ok()
    }
}

/// Parses days such as `Mon..Fri` or `Sat,Sun`.
fn days(text: &str) -> Result<[bool; 7], String> {
    let mut chosen = [false; 7];
    let wrong = || format!("`{text}` are no days: write Mon..Fri or Sat,Sun");
    let day = |name: &str| {
        let name = name.to_ascii_lowercase();
        DAYS.iter().position(|known| *known == name).ok_or_else(wrong)
    };
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (mut at, last) = (day(first)?, day(last)?);
        chosen[at] = true;
        // `Sat..Mon` goes over the end of the week.
        while at != last {
            at = (at + 1) % DAYS.len();
            chosen[at] = true;
        }
    }
    Ok(chosen)
}

/// Parses a time of the day.
fn minutes(text: &str) -> Result<u16, String> {
    let wrong = || format!("`{text}` is no time: write 22:00");
    let (hours, minutes) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|_| is_number).ok_or_else(wrong)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    match hours * 60 + minutes {
        time if minutes < 60 && time <= DAY => Ok(time),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(window: &str, now: &str) -> bool {
        MaintenanceWindow::parse(window).unwrap().is_open(now.parse().unwrap())
    }

    #[test]
    fn window_over_midnight_belongs_to_the_day_on_which_it_begins() {
        let window = "Mon..Fri 22:00-04:00 Europe/Berlin";
        // Friday is 2026-11-27. Berlin is one hour ahead.
        for (now, expected) in [
            ("2026-11-27T20:59:59Z", false),
            ("2026-11-27T21:00:00Z", true),
            ("2026-11-28T02:59:59Z", true),
            ("2026-11-28T03:00:00Z", false),
            ("2026-11-28T21:30:00Z", false),
            ("2026-11-30T02:00:00Z", false),
            ("2026-11-30T22:00:00Z", true),
        ] {
            assert_eq!(is_open(window, now), expected, "{now}");
        }
    }

    #[test]
    fn time_zone_has_its_summer_time() {
        // In summer, Berlin is two hours ahead.
        assert!(is_open("12:00-13:00 Europe/Berlin", "2026-07-01T10:30:00Z"));
        assert!(!is_open("12:00-13:00 Europe/Berlin", "2026-07-01T11:30:00Z"));
        assert!(is_open("12:00-13:00 Europe/Berlin", "2026-12-01T11:30:00Z"));
        // The night on which 02:30 does not exist: the window begins at 03:30.
        assert!(!is_open("02:30-04:00 Europe/Berlin", "2026-03-29T01:29:59Z"));
        assert!(is_open("02:30-04:00 Europe/Berlin", "2026-03-29T01:30:00Z"));
        assert!(is_open("Sun 00:00-24:00 UTC", "2026-11-29T23:59:59Z"));
        assert!(!is_open("Sun 00:00-24:00 UTC", "2026-11-30T00:00:00Z"));
        assert!(is_open("sat..mon 00:00-24:00 UTC", "2026-11-30T12:00:00Z"));
    }

    #[test]
    fn wrong_windows_have_a_reason() {
        for (text, reason) in [
            ("", "is expected"),
            ("Mon 22:00 UTC", "is expected"),
            ("22:00-04:00", "is expected"),
            ("Mon..Foo 22:00-04:00 UTC", "`Mon..Foo` are no days"),
            ("24:01-04:00 UTC", "`24:01` is no time"),
            ("9:00-10:00 UTC", "`9:00` is no time"),
            ("09:00-09:60 UTC", "`09:60` is no time"),
            ("09:00-09:00 UTC", "is empty"),
            ("09:00-10:00 Mars/Base", "there is no time zone `Mars/Base`"),
        ] {
            let refused = MaintenanceWindow::parse(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
