//! Output of `kilter status` (docs/reference/status.md): the JSON of a run, and the text for people that is made from
//! it.

mod conditions;
mod corrections;
mod document;
mod event;
mod text;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value as Json;

pub(crate) use conditions::{conditions, holding_collected, holding_source};
pub(crate) use corrections::Corrections;
pub(crate) use document::{brief, plain, write};
pub(crate) use event::{ended, event};
pub(crate) use text::{pause_line, text};

/// Returns the JSON as one line for a stream of events.
pub(crate) fn line(json: &Json) -> String {
    plain(json) + "\n"
}

fn ms(duration: Duration) -> Json {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into()
}

/// Returns a time in milliseconds since 1970.
pub(crate) fn unix(at: SystemTime) -> Json {
    ms(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Returns a time in milliseconds in its two largest units.
fn long(ms: &Json) -> String {
    let ms = ms.as_u64().unwrap_or(0);
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn event_line_is_escaped() {
        assert_eq!(line(&json!("a\u{9b}2J\u{7f}\u{1b}ü")), "\"a\\u009b2J\\u007f\\u001bü\"\n");
    }

    #[test]
    fn times_have_two_units() {
        let said = [0, 999, 59_999, 60_000, 3_600_000, 90_000_000].map(|ms| long(&json!(ms)));
        assert_eq!(said, ["0 ms", "999 ms", "59 s", "1 min 0 s", "1 h 0 min", "1 d 1 h"]);
    }
}
