//! The rule at the end of a time zone file, such as `CET-1CEST,M3.5.0,M10.5.0/3`. It is a POSIX `TZ` string
//! with the wider range of hours of RFC 9636.

/// Returns the abbreviation at `now`. None if the rule is missing or invalid.
pub(super) fn abbreviation(rule: &str, now: i64) -> Option<String> {
    let (standard, rest) = name(rule)?;
    let (offset, rest) = seconds(rest)?;
    if rest.is_empty() {
        return Some(standard.to_owned());
    }
    let (summer, rest) = name(rest)?;
    // Summer time is one hour ahead by default. Offsets count westwards.
    let (summer_offset, rest) = if rest.starts_with(',') { (offset - 3600, rest) } else { seconds(rest)? };
    let (start, end) = rest.strip_prefix(',')?.split_once(',')?;
    let year = year_of(now - offset);
    let start = Day::read(start)?.moment(year)? + offset;
    let end = Day::read(end)?.moment(year)? + summer_offset;
    let is_summer = if start <= end { (start..end).contains(&now) } else { !(end..start).contains(&now) };
    Some(if is_summer { summer } else { standard }.to_owned())
}

/// Splits off a name of letters or in angle brackets.
fn name(rule: &str) -> Option<(&str, &str)> {
    if let Some(rest) = rule.strip_prefix('<') {
        return rest.split_once('>');
    }
    let end = rule.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rule.len());
    (end >= 3).then(|| rule.split_at(end))
}

/// Splits off a time such as `-1`, `3:30` or `+02:00:00`, in seconds.
fn seconds(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | ':'))).unwrap_or(text.len());
    let (time, rest) = text.split_at(end);
    let (sign, digits) = match time.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, time.strip_prefix('+').unwrap_or(time)),
    };
    let mut total = 0;
    for (part, unit) in digits.splitn(3, ':').zip([3600, 60, 1]) {
        total += part.parse::<u16>().map(i64::from).ok()? * unit;
    }
    Some((sign * total, rest))
}

/// A day of the year, and a time on that day in seconds.
struct Day {
    kind: Kind,
    time: i64,
}

enum Kind {
    /// The n-th weekday of a month. 5 means the last.
    Weekday { month: i64, week: i64, weekday: i64 },
    /// A day from 1 to 365. February 29 is not counted.
    Julian(i64),
    /// A day from 0 to 365, including February 29.
    Counted(i64),
}

impl Day {
    fn read(text: &str) -> Option<Day> {
        let (day, time) = match text.split_once('/') {
            Some((day, time)) => (day, seconds(time)?.0),
            None => (text, 2 * 3600),
        };
        let number = |text: &str| text.parse::<u16>().map(i64::from).ok();
        let kind = if let Some(date) = day.strip_prefix('M') {
            let mut numbers = date.splitn(3, '.').map(number);
            let (month, week, weekday) = (numbers.next()??, numbers.next()??, numbers.next()??);
            if !(1..=12).contains(&month) || !(1..=5).contains(&week) || weekday > 6 {
                return None;
            }
            Kind::Weekday { month, week, weekday }
        } else if let Some(day) = day.strip_prefix('J') {
            Kind::Julian(number(day)?)
        } else {
            Kind::Counted(number(day)?)
        };
        Some(Day { kind, time })
    }

    /// Returns the time in a year, in seconds since 1970, without an offset.
    fn moment(&self, year: i64) -> Option<i64> {
        let day = match self.kind {
            Kind::Weekday { month, week, weekday } => {
                let first = days(year, month);
                // January 1, 1970 was a Thursday.
                let to_weekday = (weekday - (first + 4)).rem_euclid(7);
                let next = if month == 12 { days(year + 1, 1) } else { days(year, month + 1) };
                let mut day = first + to_weekday + (week - 1) * 7;
                while day >= next {
                    day -= 7;
                }
                day
            }
            Kind::Julian(day) => {
                let after_february = day >= 60 && days(year, 3) - days(year, 2) == 29;
                days(year, 1) + day - 1 + i64::from(after_february)
            }
            Kind::Counted(day) => days(year, 1) + day,
        };
        day.checked_mul(86_400)?.checked_add(self.time)
    }
}

/// Returns the number of days from 1970 to the first day of a month.
fn days(year: i64, month: i64) -> i64 {
    // In years that start in March, the leap day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 - 719_468
}

fn year_of(moment: i64) -> i64 {
    let day = moment.div_euclid(86_400);
    let guess = 1970 + day.div_euclid(366);
    let later = (guess..).take_while(|year| days(*year + 1, 1) <= day).count();
    guess + i64::try_from(later).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        assert_eq!(days(1970, 1), 0);
        assert_eq!(days(2000, 3), 11_017);
        assert_eq!((year_of(1_767_225_599), year_of(1_767_225_600)), (2025, 2026));
    }

    #[test]
    fn summer_begins_and_ends_to_the_second() {
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        // 2026-03-29 01:00 UTC and 2026-10-25 01:00 UTC.
        for (moment, expected) in [(1_774_746_000, "CEST"), (1_792_890_000, "CET")] {
            assert_eq!(abbreviation(berlin, moment).as_deref(), Some(expected));
            assert_ne!(abbreviation(berlin, moment - 1).as_deref(), Some(expected));
        }
    }

    #[test]
    fn summer_in_the_south_spans_the_turn_of_the_year() {
        let sydney = "AEST-10AEDT,M10.1.0,M4.1.0/3";
        assert_eq!(abbreviation(sydney, 1_767_225_600).as_deref(), Some("AEDT"));
        assert_eq!(abbreviation(sydney, 1_782_864_000).as_deref(), Some("AEST"));
    }

    #[test]
    fn names_in_brackets_and_plain_rules_are_read() {
        assert_eq!(abbreviation("<+0530>-5:30", 0).as_deref(), Some("+0530"));
        assert_eq!(abbreviation("UTC0", 0).as_deref(), Some("UTC"));
        assert_eq!(abbreviation("", 0), None);
    }
}
