//! `processors`.

use std::collections::BTreeSet;

use kilter_model::Value;

use super::{count, parts};
use crate::system::FactSource;

pub(super) fn processors(system: &FactSource) -> Option<Value> {
    let cpus = system.text("/proc/cpuinfo").map(|text| read_cpuinfo(&text)).unwrap_or_default();
    let online = system.line("/sys/devices/system/cpu/online").and_then(|list| list_length(&list));
    let logical = online.unwrap_or(cpus.len() as u64);
    if logical == 0 {
        return None;
    }
    let topology = Topology::of(system, &cpus);
    let isa = system.kernel().uname().machine;
    parts([
        ("cores", topology.cores.map(count)),
        ("count", Some(count(logical))),
        ("isa", Some(Value::from(isa))),
        ("models", models(&cpus)),
        ("physicalcount", Some(count(topology.sockets.max(1)))),
        ("speed", speed(system, &cpus)),
        ("threads", topology.threads.map(count)),
    ])
}

/// Data of a logical processor in `/proc/cpuinfo`.
#[derive(Default)]
struct Cpu {
    model: Option<String>,
    megahertz: Option<f64>,
    package: Option<String>,
    core: Option<String>,
}

fn read_cpuinfo(text: &str) -> Vec<Cpu> {
    let mut cpus: Vec<Cpu> = Vec::new();
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let (key, value) = (key.trim(), value.trim());
        if key == "processor" && value.parse::<u32>().is_ok() {
            cpus.push(Cpu::default());
            continue;
        }
        let Some(cpu) = cpus.last_mut() else { continue };
        match key {
            "model name" | "cpu" => cpu.model = Some(value.to_owned()),
            "cpu MHz" => cpu.megahertz = value.parse().ok(),
            "clock" => cpu.megahertz = value.trim_end_matches("MHz").parse().ok(),
            "physical id" => cpu.package = Some(value.to_owned()),
            "core id" => cpu.core = Some(value.to_owned()),
            _ => {}
        }
    }
    cpus
}

/// Number of sockets, of cores per socket, and of threads per core.
struct Topology {
    sockets: u64,
    cores: Option<u64>,
    threads: Option<u64>,
}

impl Topology {
    /// Reads the topology from `/proc/cpuinfo`, or from sysfs if that has none (ARM).
    fn of(system: &FactSource, cpus: &[Cpu]) -> Topology {
        let mut threads: Vec<(String, String)> =
            cpus.iter().filter_map(|cpu| Some((cpu.package.clone()?, cpu.core.clone()?))).collect();
        if threads.is_empty() {
            threads = sysfs_threads(system);
        }
        let sockets = threads.iter().map(|(package, _)| package).collect::<BTreeSet<_>>().len() as u64;
        let cores = threads.iter().collect::<BTreeSet<_>>().len() as u64;
        let threads = threads.len() as u64;
        Topology {
            sockets,
            cores: (sockets > 0).then(|| cores / sockets),
            threads: (cores > 0).then(|| threads / cores),
        }
    }
}

fn sysfs_threads(system: &FactSource) -> Vec<(String, String)> {
    let names = system.names("/sys/devices/system/cpu");
    let cpus = names.iter().filter(|name| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok()));
    let of = |cpu: &str, part: &str| system.line(&format!("/sys/devices/system/cpu/{cpu}/topology/{part}"));
    cpus.filter_map(|cpu| Some((of(cpu, "physical_package_id")?, of(cpu, "core_id")?))).collect()
}

fn models(cpus: &[Cpu]) -> Option<Value> {
    let models: Vec<&str> = cpus.iter().filter_map(|cpu| cpu.model.as_deref()).collect();
    (!models.is_empty()).then(|| Value::strings(models))
}

fn speed(system: &FactSource, cpus: &[Cpu]) -> Option<Value> {
    let kilohertz = system.number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
    let most = kilohertz.map(|kilohertz| kilohertz as f64 / 1000.0);
    let megahertz = most.or_else(|| cpus.iter().find_map(|cpu| cpu.megahertz))?;
    Some(Value::from(match megahertz {
        slow if slow < 1000.0 => format!("{slow:.2} MHz"),
        fast => format!("{:.2} GHz", fast / 1000.0),
    }))
}

/// Returns the number of elements in a list such as `0-3,8`.
fn list_length(list: &str) -> Option<u64> {
    list.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            Some(last.checked_sub(first)? + 1)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_processors_are_counted() {
        assert_eq!(list_length("0-3,8"), Some(5));
        assert_eq!(list_length("0"), Some(1));
        assert_eq!(list_length("3-1"), None);
    }
}
