//! `load_averages`.

use kilter_model::Value;

use super::parts;
use crate::system::FactSource;

pub(super) fn load_averages(system: &FactSource) -> Option<Value> {
    let line = system.line("/proc/loadavg")?;
    let mut words = line.split_whitespace();
    let mut next = || words.next()?.parse().ok().map(Value::Float);
    parts([("1m", next()), ("5m", next()), ("15m", next())])
}
