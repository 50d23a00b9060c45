//! Built-in facts, one module per group.

mod block;
mod dmi;
mod identity;
mod kernel;
mod load;
mod memory;
mod mountpoints;
mod networking;
mod os;
mod processors;
mod ssh;
mod timezone;
mod uptime;
mod virtualization;

use kilter_model::Value;

use crate::system::FactSource;

/// A built-in fact.
pub(crate) struct Builtin {
    /// Name of the fact.
    pub(crate) name: &'static str,
    /// Reads the fact. Returns none if the machine does not have it.
    pub(crate) gather: fn(&FactSource) -> Option<Value>,
}

/// All built-in facts, sorted by name.
static TABLE: [Builtin; 21] = [
    Builtin { name: "architecture", gather: os::architecture },
    Builtin { name: "disks", gather: block::disks },
    Builtin { name: "dmi", gather: dmi::dmi },
    Builtin { name: "fips_enabled", gather: kernel::fips_enabled },
    Builtin { name: "identity", gather: identity::identity },
    Builtin { name: "is_virtual", gather: virtualization::is_virtual },
    Builtin { name: "kernel", gather: kernel::name },
    Builtin { name: "kernelmajversion", gather: kernel::major_version },
    Builtin { name: "kernelrelease", gather: kernel::release },
    Builtin { name: "kernelversion", gather: kernel::version },
    Builtin { name: "load_averages", gather: load::load_averages },
    Builtin { name: "memory", gather: memory::memory },
    Builtin { name: "mountpoints", gather: mountpoints::mountpoints },
    Builtin { name: "networking", gather: networking::networking },
    Builtin { name: "os", gather: os::os },
    Builtin { name: "partitions", gather: block::partitions },
    Builtin { name: "processors", gather: processors::processors },
    Builtin { name: "ssh", gather: ssh::ssh },
    Builtin { name: "system_uptime", gather: uptime::system_uptime },
    Builtin { name: "timezone", gather: timezone::timezone },
    Builtin { name: "virtual", gather: virtualization::virtual_kind },
];

/// Returns the built-in fact with this name.
pub(crate) fn find(name: &str) -> Option<&'static Builtin> {
    TABLE.binary_search_by(|builtin| builtin.name.cmp(name)).ok().map(|at| &TABLE[at])
}

/// Returns the names of all built-in facts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|builtin| builtin.name)
}

/// Returns a hash of the known parts. None if no part is known.
fn parts<const N: usize>(parts: [(&'static str, Option<Value>); N]) -> Option<Value> {
    let known: Vec<_> = parts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    (!known.is_empty()).then(|| Value::hash(known))
}

/// Converts a count or a number of bytes. Larger numbers than 63 bits do not occur.
fn count(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Formats a number of bytes for people like Facter: `1.95 GiB`.
fn readable(bytes: u64) -> Value {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return Value::from(format!("{bytes} bytes"));
    }
    #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    // An amount that rounds to 1024.00 belongs to the next unit.
    while amount >= 1023.995 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    Value::from(format!("{amount:.2} {}", UNITS[unit]))
}

/// Formats the ratio of `used` to `total` like Facter: `12.50%`.
fn capacity(used: u64, total: u64) -> Value {
    if used == 0 || total == 0 {
        return Value::from("0%");
    }
    if used >= total {
        return Value::from("100%");
    }
    #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
    let percent = used as f64 * 100.0 / total as f64;
    Value::from(format!("{percent:.2}%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_facts_are_found_by_name() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
        assert!(names().all(|name| find(name).is_some_and(|builtin| builtin.name == name)));
        assert!(find("o").is_none());
    }

    #[test]
    fn sizes_have_the_format_of_facter() {
        assert_eq!(readable(512), Value::from("512 bytes"));
        assert_eq!(readable(1536), Value::from("1.50 KiB"));
        assert_eq!(readable(1024 * 1024 - 1), Value::from("1.00 MiB"));
        assert_eq!(readable(24_684_092 * 1024), Value::from("23.54 GiB"));
        assert_eq!(capacity(1, 8), Value::from("12.50%"));
        assert_eq!(capacity(0, 0), Value::from("0%"));
    }
}
