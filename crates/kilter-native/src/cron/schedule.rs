//! Times of crontab(5).

use ecow::{EcoString, eco_format};
use kilter_provider::ValidationError;

/// The attributes with times, in the order of a line.
pub(super) const TIMES: [&str; 5] = ["minute", "hour", "monthday", "month", "weekday"];

/// Smallest and largest number of each time.
const BOUNDS: [(u32, u32); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)];

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Words in place of the five times, written `@daily` in a crontab.
pub(super) const SPECIALS: [&str; 8] =
    ["reboot", "yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];

/// Times of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    Special(EcoString),
    Times([EcoString; 5]),
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule::Times(std::array::from_fn(|_| "*".into()))
    }
}

impl Schedule {
    /// Returns the word, or `none`.
    pub(super) fn special(&self) -> &str {
        match self {
            Schedule::Special(word) => word,
            Schedule::Times(_) => "none",
        }
    }

    /// Returns a time by its number in [`TIMES`].
    pub(super) fn time(&self, at: usize) -> &str {
        match self {
            Schedule::Special(_) => "*",
            Schedule::Times(times) => &times[at],
        }
    }

    /// Returns the schedule as the line of a crontab begins.
    pub(super) fn text(&self) -> String {
        match self {
            Schedule::Special(word) => format!("@{word}"),
            Schedule::Times(times) => times.join(" "),
        }
    }
}

/// Returns the problem of a time: `5`, `*`, `1-5`, `*/10`, `0,30`, `mon`, `0~30`.
pub(super) fn problem(at: usize, text: &str) -> Option<ValidationError> {
    if !text.is_empty() && text.split(',').all(|part| is_part(at, part)) {
        return None;
    }
    let (least, most) = BOUNDS[at];
    let names = match TIMES[at] {
        "month" => ", or jan to dec",
        "weekday" => ", or sun to sat",
        _ => "",
    };
    let problem = ValidationError::with(TIMES[at], eco_format!("`{text}` is no time of cron"));
    Some(problem.hint(eco_format!("write {least} to {most}{names}: such as *, 5, 1-5, */10, 1,3")))
}

fn is_part(at: usize, part: &str) -> bool {
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    let is_step = |step: &str| number(step).is_some_and(|step| step > 0);
    let value = |text: &str| value(at, text);
    let is_range = match (range.split_once('-'), range.split_once('~')) {
        _ if range == "*" => true,
        (Some((from, to)), _) => matches!((value(from), value(to)), (Some(from), Some(to)) if from <= to),
        // A random time within a range, which may be open.
        (None, Some((from, to))) => {
            let bound = |text: &str, open: u32| if text.is_empty() { Some(open) } else { value(text) };
            let (least, most) = BOUNDS[at];
            matches!((bound(from, least), bound(to, most)), (Some(from), Some(to)) if from <= to)
        }
        (None, None) => value(range).is_some() && step.is_none(),
    };
    is_range && step.is_none_or(is_step)
}

fn value(at: usize, text: &str) -> Option<u32> {
    let (least, most) = BOUNDS[at];
    let named = |names: &[&str]| names.iter().position(|name| name.eq_ignore_ascii_case(text));
    let name = match TIMES[at] {
        "month" => named(&MONTHS).map(|at| at + 1),
        "weekday" => named(&WEEKDAYS),
        _ => None,
    };
    let number = name.and_then(|name| u32::try_from(name).ok()).or_else(|| number(text));
    number.filter(|number| (least..=most).contains(number))
}

fn number(text: &str) -> Option<u32> {
    let is_short = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_short { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_that_cron_reads() {
        let is_good = |at: usize, text: &str| problem(at, text).is_none();
        for text in ["*", "0", "59", "05", "*/5", "0,30", "1-5,10-20/2", "0~30", "~", "5~"] {
            assert!(is_good(0, text), "{text}");
        }
        for text in ["", "60", "-1", "5-1", "*/0", "1/5", "1,,2", "1 2", "a", "1-5-7", "*5", "**", "1\n", "mon"] {
            assert!(!is_good(0, text), "{text}");
        }
        assert!(is_good(3, "jan,Feb-DEC") && !is_good(3, "0") && !is_good(3, "sun"));
        assert!(is_good(4, "sun,1-5,7") && !is_good(4, "8") && is_good(2, "31") && !is_good(2, "0"));
        let shown = problem(4, "8").unwrap().to_string();
        assert_eq!(
            shown,
            "weekday: `8` is no time of cron (write 0 to 7, or sun to sat: such as *, 5, 1-5, */10, 1,3)"
        );
    }
}
