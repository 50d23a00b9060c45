//! Package managers: their commands, and the formats of their outputs.

use std::cmp::Ordering;

use ecow::{EcoString, eco_format};

use super::rpm_version::{Rules, compare};

/// A package manager.
pub(super) struct Manager {
    /// Name of the provider.
    pub(super) name: &'static str,
    /// Programs that it needs.
    pub(super) programs: &'static [&'static str],
    /// Files that change with the installed packages.
    pub(super) databases: &'static [&'static str],
    /// Command that lists the installed packages.
    pub(super) list: &'static [&'static str],
    pub(super) installed: fn(&str) -> Vec<ManagerRow>,
    /// Command that lists the packages with newer versions.
    pub(super) outdated: &'static [&'static str],
    /// Returns the names of packages with newer versions.
    pub(super) newer: fn(&str) -> Vec<EcoString>,
    pub(super) install: &'static [&'static str],
    pub(super) install_file: &'static [&'static str],
    pub(super) upgrade: &'static [&'static str],
    pub(super) remove: &'static [&'static str],
    /// Command that updates the package lists; none if the manager has no lists.
    pub(super) update_lists: Option<&'static [&'static str]>,
    /// Returns the argument that installs a version.
    pub(super) pin: fn(&str, &str) -> String,
    /// Order of versions; none if versions are equal only as texts.
    pub(super) rules: Option<Rules>,
    /// Exit codes other than 0 that are no failure of a change.
    pub(super) successes: &'static [i32],
    /// Exit codes other than 0 of reads that found no packages.
    pub(super) nothing_found: &'static [i32],
    /// True if only resources that name the provider use it.
    pub(super) is_named_only: bool,
}

impl Manager {
    pub(super) fn is_same(&self, one: &str, other: &str) -> bool {
        one == other || self.rules.is_some_and(|rules| compare(one, other, rules).is_eq())
    }
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManagerRow {
    pub(super) name: EcoString,
    pub(super) architecture: EcoString,
    /// The newest installed version.
    pub(super) version: EcoString,
    /// Other installed versions.
    pub(super) others: Vec<EcoString>,
}

impl ManagerRow {
    fn new(name: &str, architecture: &str, version: impl Into<EcoString>) -> ManagerRow {
        ManagerRow { name: name.into(), architecture: architecture.into(), version: version.into(), others: Vec::new() }
    }
}

const RPM_LIST: &[&str] = &["rpm", "-qa", "--qf", "%{NAME}\t%{EPOCHNUM}\t%{VERSION}-%{RELEASE}\t%{ARCH}\n"];

/// Databases of rpm: sqlite, Berkeley DB and ndb, in both directories. A read changes other files beside them.
const RPM_DATABASES: &[&str] = &[
    "var/lib/rpm/rpmdb.sqlite",
    "var/lib/rpm/Packages",
    "var/lib/rpm/Packages.db",
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "usr/lib/sysimage/rpm/Packages.db",
];

/// The package managers, in the order in which a machine that has several uses them.
pub(super) static MANAGERS: [Manager; 5] = [
    Manager {
        name: "dnf",
        programs: &["dnf", "rpm"],
        databases: RPM_DATABASES,
        list: RPM_LIST,
        installed: rpm_rows,
        outdated: &["dnf", "-q", "--cacheonly", "repoquery", "--upgrades", "--qf", "%{name}.%{arch}\n"],
        newer: first_words,
        install: &["dnf", "-y", "install"],
        install_file: &["dnf", "-y", "install"],
        upgrade: &["dnf", "-y", "upgrade"],
        // Without the option, dnf also removes packages that were installed as dependencies.
        remove: &["dnf", "-y", "--setopt=clean_requirements_on_remove=False", "remove"],
        update_lists: Some(&["dnf", "-y", "--refresh", "makecache"]),
        pin: dnf_pin,
        rules: Some(Rules::Rpm),
        successes: &[],
        nothing_found: &[],
        is_named_only: false,
    },
    Manager {
        name: "zypper",
        programs: &["zypper", "rpm"],
        databases: RPM_DATABASES,
        list: RPM_LIST,
        installed: rpm_rows,
        outdated: &["zypper", "-q", "-n", "--no-refresh", "list-updates"],
        newer: zypper_newer,
        install: &["zypper", "-n", "install", "--oldpackage"],
        install_file: &["zypper", "-n", "install", "--oldpackage"],
        upgrade: &["zypper", "-n", "update"],
        remove: &["zypper", "-n", "remove"],
        update_lists: Some(&["zypper", "-n", "refresh"]),
        pin: |name, version| format!("{name}={version}"),
        rules: Some(Rules::Rpm),
        // A reboot or a restart of zypper is needed.
        successes: &[102, 103],
        nothing_found: &[],
        is_named_only: false,
    },
    Manager {
        name: "pacman",
        programs: &["pacman"],
        databases: &["var/lib/pacman/local"],
        list: &["pacman", "-Q"],
        installed: |output| output.lines().filter_map(|line| pair(line, " ")).collect(),
        outdated: &["pacman", "-Qu"],
        newer: first_words,
        install: &["pacman", "-S", "--noconfirm", "--needed", "--noprogressbar"],
        install_file: &["pacman", "-U", "--noconfirm", "--noprogressbar"],
        upgrade: &["pacman", "-S", "--noconfirm", "--needed", "--noprogressbar"],
        remove: &["pacman", "-R", "--noconfirm"],
        update_lists: Some(&["pacman", "-Sy", "--noprogressbar"]),
        pin: |name, version| format!("{name}={version}"),
        rules: Some(Rules::Pacman),
        successes: &[],
        nothing_found: &[1],
        is_named_only: false,
    },
    Manager {
        name: "apk",
        programs: &["apk"],
        databases: &["lib/apk/db/installed", "usr/lib/apk/db/installed"],
        list: &["apk", "list", "--installed"],
        installed: apk_rows,
        outdated: &["apk", "version", "--limit", "<"],
        newer: |output| output.lines().filter(|line| line.contains(" < ")).filter_map(apk_name).collect(),
        install: &["apk", "--wait", "600", "add"],
        install_file: &["apk", "--wait", "600", "add"],
        upgrade: &["apk", "--wait", "600", "add", "--upgrade"],
        remove: &["apk", "--wait", "600", "del"],
        update_lists: Some(&["apk", "--wait", "600", "update"]),
        pin: |name, version| format!("{name}={version}"),
        rules: None,
        successes: &[],
        nothing_found: &[],
        is_named_only: false,
    },
    Manager {
        name: "gem",
        programs: &["gem"],
        databases: &[],
        list: &["gem", "list", "--local"],
        installed: gem_rows,
        outdated: &["gem", "outdated"],
        newer: first_words,
        install: &["gem", "install", "--no-document"],
        install_file: &["gem", "install", "--no-document"],
        upgrade: &["gem", "install", "--no-document"],
        remove: &["gem", "uninstall", "--all", "--executables", "--abort-on-dependent"],
        update_lists: None,
        pin: |name, version| format!("{name}:{version}"),
        rules: None,
        successes: &[],
        nothing_found: &[],
        is_named_only: true,
    },
];

/// Parses the output of [`RPM_LIST`]. Several versions of a package, as of the kernel, become one row.
fn rpm_rows(output: &str) -> Vec<ManagerRow> {
    let mut rows: Vec<ManagerRow> = Vec::new();
    let mut fields: Vec<Vec<&str>> = output.lines().map(|line| line.split('\t').collect()).collect();
    fields.sort_by(|one, other| (one.first(), one.get(3)).cmp(&(other.first(), other.get(3))));
    for fields in fields {
        let [name, epoch, version, architecture] = fields[..] else { continue };
        // Keys of repositories are packages for rpm.
        if name == "gpg-pubkey" {
            continue;
        }
        let version = if epoch == "0" { version.into() } else { eco_format!("{epoch}:{version}") };
        match rows.last_mut().filter(|row| row.name == name && row.architecture == architecture) {
            Some(row) if compare(&version, &row.version, Rules::Rpm) == Ordering::Greater => {
                row.others.push(std::mem::replace(&mut row.version, version));
            }
            Some(row) => row.others.push(version),
            None => rows.push(ManagerRow::new(name, architecture, version)),
        }
    }
    rows
}

/// Parses a name and a version.
fn pair(line: &str, separator: &str) -> Option<ManagerRow> {
    let (name, version) = line.trim().split_once(separator)?;
    (!name.is_empty() && !version.is_empty()).then(|| ManagerRow::new(name, "", version))
}

/// Parses `musl-1.2.4-r2 x86_64 {musl} (MIT) [installed]`.
fn apk_rows(output: &str) -> Vec<ManagerRow> {
    let row = |line: &str| {
        let mut words = line.split(' ');
        let (name, version) = apk_split(words.next()?)?;
        Some(ManagerRow::new(name, words.next()?, version))
    };
    output.lines().filter_map(row).collect()
}

/// Splits `NAME-VERSION-rN`.
fn apk_split(word: &str) -> Option<(&str, &str)> {
    let (rest, _) = word.rsplit_once('-').filter(|(_, release)| release.starts_with('r'))?;
    let (name, _) = rest.rsplit_once('-')?;
    Some((name, &word[name.len() + 1..]))
}

/// Returns the name in `musl-1.2.4-r2 < 1.2.5-r0`.
fn apk_name(line: &str) -> Option<EcoString> {
    apk_split(line.split(' ').next()?).map(|(name, _)| name.into())
}

/// Parses `rake (13.0.6, default: 12.3.3)`. The versions are sorted, the newest first.
fn gem_rows(output: &str) -> Vec<ManagerRow> {
    let row = |line: &str| {
        let (name, versions) = line.trim().strip_suffix(')')?.split_once(" (")?;
        // `1.15.0 x86_64-linux` is a version for a platform.
        let version = |text: &str| {
            let text = text.trim().trim_start_matches("default: ");
            text.split(' ').next().map(EcoString::from)
        };
        let mut versions = versions.split(',').filter_map(version);
        let mut row = ManagerRow::new(name, "", versions.next()?);
        row.others = versions.collect();
        Some(row)
    };
    output.lines().filter_map(row).collect()
}

fn first_words(output: &str) -> Vec<EcoString> {
    output.lines().filter_map(|line| line.split_whitespace().next().map(EcoString::from)).collect()
}

/// Parses the table of `zypper list-updates`: `v | Repository | Name | Current | Available | Arch`.
fn zypper_newer(output: &str) -> Vec<EcoString> {
    let name = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells.len() == 6 && cells[0] == "v").then(|| eco_format!("{}.{}", cells[2], cells[5]))
    };
    output.lines().filter_map(name).collect()
}

/// Architectures that may follow the name of an rpm package.
const ARCHITECTURES: [&str; 10] =
    ["noarch", "x86_64", "i386", "i486", "i586", "i686", "aarch64", "armv7hl", "ppc64le", "s390x"];

/// Splits `glibc.i686` into the name and the architecture.
pub(super) fn split_architecture(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.').filter(|(_, architecture)| ARCHITECTURES.contains(architecture)) {
        Some((plain, architecture)) => (plain, Some(architecture)),
        None => (name, None),
    }
}

/// Returns `NAME-VERSION`, or `NAME-VERSION.ARCHITECTURE`.
fn dnf_pin(name: &str, version: &str) -> String {
    match split_architecture(name) {
        (plain, Some(architecture)) if version.contains('-') => format!("{plain}-{version}.{architecture}"),
        (plain, Some(architecture)) => format!("{plain}-{version}-*.{architecture}"),
        (plain, None) => format!("{plain}-{version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(name: &str) -> &'static Manager {
        MANAGERS.iter().find(|manager| manager.name == name).unwrap()
    }

    /// Returns the rows as texts: name, architecture, versions.
    fn rows(manager_name: &str, output: &str) -> Vec<String> {
        let rows = (manager(manager_name).installed)(output);
        let all = |row: &ManagerRow| {
            [&row.version].into_iter().chain(&row.others).map(EcoString::as_str).collect::<Vec<_>>().join(" ")
        };
        rows.iter().map(|row| format!("{} {} {}", row.name, row.architecture, all(row))).collect()
    }

    #[test]
    fn rpm_packages_have_epochs_architectures_and_several_versions() {
        let output = "kernel\t0\t6.1.0-1\tx86_64\nbash\t0\t5.2.15-3.fc38\tx86_64\ngpg-pubkey\t0\t1-2\t(none)\n\
                      kernel\t0\t6.10.2-1\tx86_64\nglibc\t0\t2.37-1\ti686\nglibc\t0\t2.37-1\tx86_64\n\
                      vim\t2\t9.0-1\tx86_64\nkernel\t0\t6.9.0-1\tx86_64\n";
        let expected = [
            "bash x86_64 5.2.15-3.fc38",
            "glibc i686 2.37-1",
            "glibc x86_64 2.37-1",
            "kernel x86_64 6.10.2-1 6.1.0-1 6.9.0-1",
            "vim x86_64 2:9.0-1",
        ];
        assert_eq!(rows("dnf", output), expected);
        assert_eq!(rows("zypper", output), expected);
    }

    #[test]
    fn lists_of_the_other_managers_are_parsed() {
        assert_eq!(rows("pacman", "acl 2.3.2-1\npacman 6.0.2-7\n"), ["acl  2.3.2-1", "pacman  6.0.2-7"]);
        let output = "alpine-baselayout-data-3.4.3-r1 x86_64 {alpine-baselayout} (GPL-2.0-only) [installed]\n\
                      musl-1.2.4-r2 x86_64 {musl} (MIT) [installed]\nWARNING: opening from cache\n";
        assert_eq!(rows("apk", output), ["alpine-baselayout-data x86_64 3.4.3-r1", "musl x86_64 1.2.4-r2"]);
        let output = "\n*** LOCAL GEMS ***\n\nbigdecimal (default: 3.1.3)\nnokogiri (1.15.0 x86_64-linux, 1.14.0)\n\
                      rake (13.0.6, 12.3.3)\n";
        assert_eq!(rows("gem", output), ["bigdecimal  3.1.3", "nokogiri  1.15.0 1.14.0", "rake  13.0.6 12.3.3"]);
    }

    #[test]
    fn lists_of_newer_packages_are_parsed() {
        let newer = |name: &str, output: &str| (manager(name).newer)(output);
        assert_eq!(newer("dnf", "bash.x86_64\n\nvim.noarch\n"), ["bash.x86_64", "vim.noarch"]);
        let output = "S | Repository | Name | Current Version | Available Version | Arch\n\
                      --+------------+------+-----------------+-------------------+-------\n\
                      v | repo-oss   | vim  | 9.0-1           | 9.1-1             | x86_64\n";
        assert_eq!(newer("zypper", output), ["vim.x86_64"]);
        assert_eq!(newer("zypper", "No updates found.\n"), [""; 0]);
        assert_eq!(newer("pacman", "acl 2.3.1-1 -> 2.3.2-1\n"), ["acl"]);
        let output = "Installed:                                Available:\n\
                      busybox-1.36.1-r15                      < 1.36.1-r19 \nmusl-1.2.4-r2 = 1.2.4-r2\n";
        assert_eq!(newer("apk", output), ["busybox"]);
        assert_eq!(newer("gem", "rake (13.0.3 < 13.1.0)\n"), ["rake"]);
    }

    #[test]
    fn versions_are_pinned_as_each_manager_expects() {
        let pin = |name: &str, package: &str, version: &str| (manager(name).pin)(package, version);
        assert_eq!(pin("dnf", "python3.11", "3.11.2-1"), "python3.11-3.11.2-1");
        assert_eq!(pin("dnf", "glibc.i686", "2.37-1"), "glibc-2.37-1.i686");
        assert_eq!(pin("dnf", "glibc.i686", "2.37"), "glibc-2.37-*.i686");
        assert_eq!(pin("zypper", "vim", "2:9.0-1"), "vim=2:9.0-1");
        assert_eq!(pin("gem", "rake", "13.0.6"), "rake:13.0.6");
    }
}
