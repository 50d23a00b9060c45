//! `os` and `architecture`.

use std::collections::HashMap;

use kilter_model::Value;

use super::parts;
use crate::system::FactSource;

/// Contents of `/etc/os-release` (os-release(5)).
struct OsRelease(HashMap<String, String>);

impl OsRelease {
    fn of(system: &FactSource) -> OsRelease {
        let text = system.text("/etc/os-release").or_else(|| system.text("/usr/lib/os-release")).unwrap_or_default();
        let entries = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        OsRelease(
            entries
                .filter_map(|line| {
                    let (key, value) = line.split_once('=')?;
                    Some((key.trim().to_owned(), unquote(value.trim())))
                })
                .collect(),
        )
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the name of the distribution: Facter's name for its id, in lower case.
    fn name(&self) -> Option<&str> {
        Some(match self.get("ID")? {
            "rhel" => "redhat",
            "ol" => "oraclelinux",
            "arch" => "archlinux",
            "amzn" => "amazon",
            "opensuse-leap" | "opensuse-tumbleweed" => "opensuse",
            id => id,
        })
    }

    /// Returns the family of the distribution, from its id or from `ID_LIKE`.
    fn family(&self) -> Option<String> {
        let like = self.get("ID_LIKE").unwrap_or_default().split_whitespace();
        let mut ids = self.get("ID").into_iter().chain(like);
        ids.find_map(family_of).or_else(|| self.name()).map(str::to_owned)
    }
}

fn family_of(id: &str) -> Option<&'static str> {
    Some(match id {
        "debian" | "ubuntu" | "raspbian" | "devuan" | "linuxmint" | "kali" => "debian",
        "rhel" | "centos" | "fedora" | "rocky" | "almalinux" | "ol" | "amzn" | "scientific" | "virtuozzo" => "redhat",
        "suse" | "sles" | "sled" | "opensuse" | "opensuse-leap" | "opensuse-tumbleweed" => "suse",
        "alpine" => "alpine",
        "arch" | "archlinux" | "manjaro" => "archlinux",
        "gentoo" => "gentoo",
        _ => return None,
    })
}

pub(super) fn os(system: &FactSource) -> Option<Value> {
    let os_release = OsRelease::of(system);
    let machine = system.kernel().uname().machine;
    let release = release(system, &os_release);
    parts([
        ("architecture", architecture_of(&machine, &os_release).map(Value::from)),
        (
            "distro",
            parts([
                ("codename", codename(&os_release).map(Value::from)),
                ("description", os_release.get("PRETTY_NAME").map(Value::from)),
                ("id", os_release.name().map(Value::from)),
                ("release", release.clone()),
            ]),
        ),
        ("family", os_release.family().map(Value::from)),
        ("hardware", Some(Value::from(machine))),
        ("name", os_release.name().map(Value::from)),
        ("release", release),
        ("selinux", selinux(system)),
    ])
}

pub(super) fn architecture(system: &FactSource) -> Option<Value> {
    architecture_of(&system.kernel().uname().machine, &OsRelease::of(system)).map(Value::from)
}

/// Returns the distribution's name for the hardware. Debian calls x86_64 amd64.
fn architecture_of(machine: &str, os_release: &OsRelease) -> Option<String> {
    let is_debian = os_release.family().as_deref() == Some("debian");
    Some(match machine {
        "x86_64" if is_debian || os_release.get("ID") == Some("gentoo") => "amd64".to_owned(),
        "i386" | "i486" | "i586" | "i686" => "i386".to_owned(),
        "" => return None,
        other => other.to_owned(),
    })
}

fn release(system: &FactSource, os_release: &OsRelease) -> Option<Value> {
    // Only Debian's own file contains the point release. On Ubuntu, this file contains the Debian release that
    // Ubuntu is based on.
    let own_file = match os_release.get("ID") {
        Some("debian" | "raspbian") => system.line("/etc/debian_version"),
        Some("alpine") => system.line("/etc/alpine-release"),
        Some("centos" | "rhel" | "rocky" | "almalinux") => {
            system.line("/etc/redhat-release").and_then(|l| number_in(&l))
        }
        _ => None,
    };
    let version = os_release.get("VERSION_ID").map(str::to_owned);
    // `trixie/sid` is not a number.
    let full = own_file.filter(|full| full.starts_with(|c: char| c.is_ascii_digit())).or(version)?;
    if os_release.get("ID") == Some("ubuntu") {
        // Both numbers together are the release (22.04). There is no release 22.
        return Some(Value::hash([("full", Value::from(full.as_str())), ("major", Value::from(full.as_str()))]));
    }
    let mut numbers = full.split('.');
    let (major, minor) = (numbers.next().map(Value::from), numbers.next().map(Value::from));
    parts([("full", Some(Value::from(full.as_str()))), ("major", major), ("minor", minor)])
}

/// Returns the version in a line such as `Rocky Linux release 9.3 (Blue Onyx)`.
fn number_in(line: &str) -> Option<String> {
    let word = line.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(word.to_owned())
}

/// Returns `VERSION_CODENAME`, or the text in parentheses at the end of `VERSION`.
fn codename(os_release: &OsRelease) -> Option<String> {
    let in_version = || {
        let (_, rest) = os_release.get("VERSION")?.rsplit_once('(')?;
        rest.strip_suffix(')')
    };
    os_release.get("VERSION_CODENAME").or_else(in_version).map(str::to_owned)
}

fn selinux(system: &FactSource) -> Option<Value> {
    let enforce = system.line("/sys/fs/selinux/enforce");
    let Some(enforce) = enforce else { return Some(Value::hash([("enabled", Value::from(false))])) };
    let mode = if enforce == "1" { "enforcing" } else { "permissive" };
    let config = system.text("/etc/selinux/config").unwrap_or_default();
    let of = |key: &str| config.lines().find_map(|line| line.trim().strip_prefix(key)).map(Value::from);
    parts([
        ("config_mode", of("SELINUX=")),
        ("config_policy", of("SELINUXTYPE=")),
        ("current_mode", Some(Value::from(mode))),
        ("enabled", Some(Value::from(true))),
        ("enforced", Some(Value::from(enforce == "1"))),
        ("policy_version", system.line("/sys/fs/selinux/policyvers").map(Value::from)),
    ])
}

/// Removes the quotes and backslashes of a value in a shell assignment.
fn unquote(value: &str) -> String {
    let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inner) = quoted('\'') {
        return inner.to_owned();
    }
    let mut text = String::new();
    let mut chars = quoted('"').unwrap_or(value).chars();
    while let Some(c) = chars.next() {
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_quotes_are_removed() {
        assert_eq!(unquote(r#""Rocky \"Blue\" Linux""#), r#"Rocky "Blue" Linux"#);
        assert_eq!(unquote("'9.3'"), "9.3");
        assert_eq!(unquote("debian"), "debian");
    }
}
