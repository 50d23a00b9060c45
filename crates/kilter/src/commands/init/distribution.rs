//! State of a fresh installation of the distribution, as its own files describe it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kilter_model::{State, Value};
use kilter_process::{Cancel, Invocation, run};

use crate::signals;

/// Timeout of each program that describes the distribution.
const DEADLINE: Duration = Duration::from_secs(120);

/// Maximum size of the output of such a program in bytes.
const MAX_OUTPUT_BYTES: usize = 64 << 20;

/// Directories of systemd's presets. A file replaces files of the same name in later directories.
const PRESET_DIRECTORIES: [&str; 4] = [
    "/etc/systemd/system-preset",
    "/run/systemd/system-preset",
    "/usr/local/lib/systemd/system-preset",
    "/usr/lib/systemd/system-preset",
];

/// Names of the local machine in a fresh `/etc/hosts`.
const USUAL_HOSTS: [&str; 8] = [
    "localhost",
    "ip6-localhost",
    "ip6-loopback",
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-localnet",
    "ip6-mcastprefix",
    "localhost.localdomain",
];

/// Fresh installation. Each part is read when it is needed.
#[derive(Default)]
pub(super) struct Distribution {
    chosen_packages: Option<BTreeSet<String>>,
    presets: Option<Vec<Preset>>,
    ids: Option<IdRange>,
}

/// Identifiers of accounts of people and applications, from `/etc/login.defs`.
#[derive(Clone, Copy)]
struct IdRange {
    users: (i64, i64),
    groups: (i64, i64),
}

/// Rule of systemd for the units of a pattern.
struct Preset {
    pattern: String,
    enable: bool,
}

impl Distribution {
    /// Returns true if the package was installed by choice: apt did not install it as a dependency, and it is not part
    /// of every installation.
    pub(super) fn is_chosen_package(&mut self, package: &State) -> bool {
        self.chosen_packages.get_or_insert_with(chosen_packages).contains(&*package.name)
            && package.attributes.get("ensure").and_then(Value::as_str) == Some("present")
    }

    /// Returns true if the account is not one of the system.
    pub(super) fn is_local_user(&mut self, user: &State) -> bool {
        let (first, last) = self.ids().users;
        number(user, "uid").is_some_and(|uid| (first..=last).contains(&uid))
    }

    /// Returns true if the group is not one of the system.
    pub(super) fn is_local_group(&mut self, group: &State) -> bool {
        let (first, last) = self.ids().groups;
        number(group, "gid").is_some_and(|gid| (first..=last).contains(&gid))
    }

    fn ids(&mut self) -> IdRange {
        *self.ids.get_or_insert_with(|| {
            let defined = std::fs::read_to_string("/etc/login.defs").unwrap_or_default();
            let of = |key: &str, otherwise: i64| {
                let mut lines = defined.lines().map(str::split_whitespace);
                let value = lines.find_map(|mut words| words.next().filter(|word| *word == key).and(words.next()));
                value.and_then(|value| value.parse().ok()).unwrap_or(otherwise)
            };
            IdRange {
                users: (of("UID_MIN", 1000), of("UID_MAX", 60_000)),
                groups: (of("GID_MIN", 1000), of("GID_MAX", 60_000)),
            }
        })
    }

    /// Returns true if the entry is not one of the local machine.
    pub(super) fn is_added_host(&mut self, host: &State) -> bool {
        let ip = host.attributes.get("ip").and_then(Value::as_str).unwrap_or_default();
        !USUAL_HOSTS.contains(&&*host.name) && !ip.starts_with("127.") && ip != "::1"
    }

    /// Returns true if the unit is enabled or disabled against its preset, or comes from the administrator.
    pub(super) fn is_changed_service(&mut self, service: &State) -> bool {
        let unit = match service.name.rsplit_once('.') {
            Some((_, "service" | "socket" | "timer" | "path" | "target" | "mount")) => service.name.to_string(),
            _ => format!("{}.service", service.name),
        };
        let is_local =
            Path::new("/etc/systemd/system").join(&unit).symlink_metadata().is_ok_and(|found| found.is_file());
        match service.attributes.get("enable").and_then(Value::as_str) {
            Some("mask") => true,
            Some("true") => is_local || !self.enables(&unit),
            Some("false") => is_local || self.enables(&unit),
            // Without a section [Install] there is nothing to enable.
            _ => is_local,
        }
    }

    fn enables(&mut self, unit: &str) -> bool {
        let presets = self.presets.get_or_insert_with(presets);
        // systemd enables units without a rule.
        presets.iter().find(|preset| matches(&preset.pattern, unit)).is_none_or(|preset| preset.enable)
    }

    /// Returns the configuration files of packages whose content differs from that of the package.
    pub(super) fn edited_files(&mut self) -> Vec<PathBuf> {
        let listed = printed("dpkg-query", &["--show", "--showformat=${Conffiles}\n"]).unwrap_or_default();
        let original: BTreeMap<&str, &str> = listed.lines().filter_map(conffile).collect();
        let regular = |path: &&&str| Path::new(path).symlink_metadata().is_ok_and(|found| found.is_file());
        let paths: Vec<&str> = original.keys().filter(regular).copied().collect();
        let mut edited = Vec::new();
        for some in paths.chunks(500) {
            let sums = printed("md5sum", &[&["--zero", "--"], some].concat()).unwrap_or_default();
            // An unreadable file has no sum. It is none of the distribution's files any more, or a secret.
            let sums = sums.split('\0').filter_map(|line| line.split_once("  "));
            edited.extend(
                sums.filter(|(sum, path)| original.get(path) != Some(sum)).map(|(_, path)| PathBuf::from(path)),
            );
        }
        edited
    }
}

/// Returns a configuration file and its MD5 sum from a line of dpkg; none for files that the package no longer has.
fn conffile(line: &str) -> Option<(&str, &str)> {
    let mut words = line.trim().rsplit(' ');
    let sum = words.next()?;
    let path = line.trim().strip_suffix(sum)?.trim_end();
    (sum.len() == 32 && path.starts_with('/')).then_some((path, sum))
}

/// Returns the packages that apt-mark calls manual, without those that every installation has.
fn chosen_packages() -> BTreeSet<String> {
    let listed =
        printed("dpkg-query", &["--show", "--showformat=${Package}\t${Priority}\t${Essential}\n"]).unwrap_or_default();
    let usual: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| {
            let mut words = line.split('\t');
            let (name, priority, essential) = (words.next()?, words.next()?, words.next()?);
            (matches!(priority, "required" | "important" | "standard") || essential == "yes").then_some(name)
        })
        .collect();
    let manual = printed("apt-mark", &["showmanual"]).unwrap_or_default();
    manual.lines().filter(|name| !usual.contains(name.split(':').next().unwrap_or(name))).map(str::to_owned).collect()
}

/// Reads the rules of systemd in their order.
fn presets() -> Vec<Preset> {
    let mut files: BTreeMap<std::ffi::OsString, PathBuf> = BTreeMap::new();
    for directory in PRESET_DIRECTORIES {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "preset") {
                files.entry(entry.file_name()).or_insert_with(|| entry.path());
            }
        }
    }
    let texts = files.values().filter_map(|path| std::fs::read_to_string(path).ok());
    texts.flat_map(|text| text.lines().filter_map(preset).collect::<Vec<_>>()).collect()
}

fn preset(line: &str) -> Option<Preset> {
    let mut words = line.split_whitespace();
    let (verb, pattern) = (words.next()?, words.next()?.to_owned());
    match verb {
        "enable" => Some(Preset { pattern, enable: true }),
        "disable" | "ignore" => Some(Preset { pattern, enable: false }),
        _ => None,
    }
}

/// Returns true if a unit matches a pattern with `*`.
fn matches(pattern: &str, unit: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == unit,
        Some((start, rest)) => unit.strip_prefix(start).is_some_and(|left| {
            let mut ends = left.char_indices().map(|(at, _)| at).chain([left.len()]);
            ends.any(|at| matches(rest, &left[at..]))
        }),
    }
}

fn number(state: &State, attribute: &str) -> Option<i64> {
    match state.attributes.get(attribute) {
        Some(Value::Integer(number)) => Some(*number),
        _ => None,
    }
}

/// Returns the output of a program; none if it does not exist or fails without output.
fn printed(program: &str, args: &[&str]) -> Option<String> {
    let invocation = Invocation::new(program).args(args.iter().copied()).captured(MAX_OUTPUT_BYTES).deadline(DEADLINE);
    let finished = run(&invocation, Some(Cancel::new(signals::raised()))).ok()?;
    Some(finished.stdout.text().into_owned()).filter(|text| finished.is_success() || !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preset_patterns_match_whole_names() {
        for (pattern, unit, is_match) in [
            ("*", "a.service", true),
            ("systemd-*", "systemd-networkd.service", true),
            ("*.socket", "a.service", false),
            ("a*c*.service", "abcd.service", true),
            ("a.service", "a.service.x", false),
        ] {
            assert_eq!(matches(pattern, unit), is_match, "{pattern} {unit}");
        }
    }

    #[test]
    fn conffile_line_has_path_and_sum() {
        let sum = "0123456789abcdef0123456789abcdef";
        assert_eq!(conffile(&format!(" /etc/a b {sum}")), Some(("/etc/a b", sum)));
        // dpkg marks files that the package no longer has.
        assert_eq!(conffile(&format!(" /etc/a {sum} obsolete")), None);
        assert_eq!(conffile(""), None);
        assert_eq!(conffile(" /etc/new newconffile"), None);
    }
}
