//! `kernel`, `kernelrelease`, `kernelversion`, `kernelmajversion`, `fips_enabled`.

use kilter_model::Value;

use crate::system::FactSource;

pub(super) fn name(system: &FactSource) -> Option<Value> {
    Some(Value::from(system.kernel().uname().sysname))
}

pub(super) fn release(system: &FactSource) -> Option<Value> {
    Some(Value::from(system.kernel().uname().release))
}

/// Returns the numbers at the start of the release: `6.1.0` for `6.1.0-18-amd64`.
pub(super) fn version(system: &FactSource) -> Option<Value> {
    Some(Value::from(numbers(&system.kernel().uname().release)))
}

/// Returns the first two numbers of the version: `6.1`.
pub(super) fn major_version(system: &FactSource) -> Option<Value> {
    let release = system.kernel().uname().release;
    let two: Vec<&str> = numbers(&release).split('.').take(2).collect();
    Some(Value::from(two.join(".")))
}

pub(super) fn fips_enabled(system: &FactSource) -> Option<Value> {
    Some(Value::from(system.number("/proc/sys/crypto/fips_enabled") == Some(1)))
}

fn numbers(release: &str) -> &str {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    release[..end].trim_end_matches('.')
}
