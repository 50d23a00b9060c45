//! Days since 1970-01-01, and dates of the Gregorian calendar.

/// Returns days since 1970-01-01 as a date such as `2030-12-31`.
pub(crate) fn date(days: i64) -> String {
    // Years start in March, so that the leap day is the last day of a year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the days since 1970-01-01 for a date such as `2030-12-31`; none for an invalid date.
pub(crate) fn days(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year_from_march = year - i64::from(month <= 2);
    let era = year_from_march.div_euclid(400);
    let year_of_era = year_from_march.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    (date(days) == text).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_convert_both_ways() {
        for day in 0..100_000 {
            assert_eq!(days(&date(day)), Some(day));
        }
        assert_eq!((date(0).as_str(), date(19_782).as_str()), ("1970-01-01", "2024-02-29"));
    }

    #[test]
    fn invalid_day_of_month_is_refused() {
        for text in ["2023-02-29", "2023-02-30", "2023-13-01", "2023-1-1", "tomorrow", "2023-01", ""] {
            assert_eq!(days(text), None, "{text}");
        }
    }
}
