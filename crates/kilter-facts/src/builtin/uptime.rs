//! `system_uptime`.

use kilter_model::Value;

use super::parts;
use crate::system::FactSource;

pub(super) fn system_uptime(system: &FactSource) -> Option<Value> {
    let line = system.line("/proc/uptime")?;
    let seconds: i64 = line.split(['.', ' ']).next()?.parse().ok()?;
    let (days, hours) = (seconds / 86_400, seconds / 3600);
    let text = match days {
        0 => format!("{hours}:{:02} hours", seconds / 60 % 60),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    parts([
        ("days", Some(Value::Integer(days))),
        ("hours", Some(Value::Integer(hours))),
        ("seconds", Some(Value::Integer(seconds))),
        ("uptime", Some(Value::from(text))),
    ])
}
