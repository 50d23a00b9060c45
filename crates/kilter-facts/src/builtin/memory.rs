//! `memory`.

use std::collections::HashMap;

use kilter_model::Value;

use super::{capacity, count, parts, readable};
use crate::system::FactSource;

pub(super) fn memory(system: &FactSource) -> Option<Value> {
    let text = system.text("/proc/meminfo")?;
    let bytes: HashMap<&str, u64> = text.lines().filter_map(entry).collect();
    let get = |name: &str| bytes.get(name).copied();
    // Kernels before 3.14 do not report an estimate of the available memory.
    let cached = || Some(get("MemFree")? + get("Buffers").unwrap_or(0) + get("Cached").unwrap_or(0));
    parts([
        ("system", portion(get("MemTotal"), get("MemAvailable").or_else(cached))),
        ("swap", portion(get("SwapTotal").filter(|total| *total > 0), get("SwapFree"))),
    ])
}

/// Parses a line such as `MemTotal:       24684092 kB`.
fn entry(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.split_once(':')?;
    let kilobytes: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some((name, kilobytes.saturating_mul(1024)))
}

fn portion(total: Option<u64>, available: Option<u64>) -> Option<Value> {
    let (total, available) = (total?, available?);
    let used = total.saturating_sub(available);
    parts([
        ("available", Some(readable(available))),
        ("available_bytes", Some(count(available))),
        ("capacity", Some(capacity(used, total))),
        ("total", Some(readable(total))),
        ("total_bytes", Some(count(total))),
        ("used", Some(readable(used))),
        ("used_bytes", Some(count(used))),
    ])
}
