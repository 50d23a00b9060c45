//! Unit files and their states, read from the disk.
//!
//! systemd needs more than a millisecond for the state of a unit file that it has not been asked for since it started,
//! and reads the same files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::unit;

/// Maximum number of bytes that are read of a unit file. systemd reads no larger ones.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Services and links in the directories of unit files.
#[derive(Default)]
pub(super) struct UnitFiles {
    /// First file of each name.
    files: BTreeMap<String, PathBuf>,
    /// Units with a link in a directory such as `multi-user.target.wants`.
    enabled: BTreeSet<String>,
    /// The same until the next boot.
    enabled_until_boot: BTreeSet<String>,
    /// Units with such a link that the distribution has made.
    wanted: BTreeSet<String>,
    /// Units with another name that is not of the distribution.
    aliased: BTreeSet<String>,
    /// Units whose drop-ins have a section `[Install]`.
    extended: BTreeSet<String>,
}

/// Returns the name of the file that a link points to.
fn target_of(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_str()?.to_owned())
}

/// Returns true if the file is empty or a link to `/dev/null`.
fn is_masked(path: &Path) -> bool {
    fs::read_link(path).map_or_else(
        |_| fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0),
        |target| target == Path::new("/dev/null"),
    )
}

/// Returns true if the file is a link to a unit of another name.
fn is_alias(name: &str, path: &Path) -> bool {
    !is_masked(path) && target_of(path).is_some_and(|target| target != name)
}

fn entries(directory: &Path) -> impl Iterator<Item = (String, DirEntry)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry)))
}

impl UnitFiles {
    /// Reads these directories. The first one with a name decides. `config` is the directory of links that persist.
    pub(super) fn read(directories: &[String], config: &Path) -> UnitFiles {
        let mut files = UnitFiles::default();
        directories.iter().for_each(|directory| files.add(Path::new(directory), config));
        files
    }

    /// Returns the services with files. Templates are not units, and aliases are other names of units.
    pub(super) fn services(&self) -> impl Iterator<Item = &str> {
        let is_service = |(name, path): &(&String, &PathBuf)| unit::problem(name).is_none() && !is_alias(name, path);
        self.files.iter().filter(is_service).map(|(name, _)| name.as_str())
    }

    fn add(&mut self, directory: &Path, config: &Path) {
        let is_config = directory == config;
        let is_until_boot = directory.starts_with("/run");
        for (name, entry) in entries(directory) {
            let path = entry.path();
            if let Some(unit) = name.strip_suffix(".d") {
                if entries(&path).any(|(_, entry)| has_install_section(&entry.path())) {
                    self.extended.insert(unit.to_owned());
                }
            } else if name.ends_with(".wants") || name.ends_with(".requires") {
                for (name, entry) in entries(&path) {
                    if is_config || is_until_boot {
                        self.enable(target_of(&entry.path()), is_config);
                        self.enable(Some(name), is_config);
                    } else {
                        self.wanted.insert(name);
                    }
                }
            } else if name.ends_with(".service") {
                if (is_config || is_until_boot) && is_alias(&name, &path) {
                    self.aliased.extend(target_of(&path));
                }
                self.files.entry(name).or_insert(path);
            }
        }
    }

    fn enable(&mut self, unit: Option<String>, persists: bool) {
        if persists { &mut self.enabled } else { &mut self.enabled_until_boot }.extend(unit);
    }

    /// Returns the state of the file of a service (systemctl(1), `is-enabled`); empty if it has none. None if only
    /// systemd can tell.
    pub(super) fn state(&self, name: &str) -> Option<&'static str> {
        let template = name.split_once('@').map(|(prefix, _)| format!("{prefix}@.service"));
        let Some(path) = self.files.get(name).or_else(|| self.files.get(template.as_ref()?)) else {
            return Some("");
        };
        let is_until_boot = path.starts_with("/run");
        if is_masked(path) {
            return Some(if is_until_boot { "masked-runtime" } else { "masked" });
        }
        if path.is_symlink() || path.ancestors().any(|path| path.ends_with("transient")) {
            return None;
        }
        if path.to_str().is_some_and(|path| path.contains("/generator")) {
            return Some("generated");
        }
        if self.enabled.contains(name) {
            return Some("enabled");
        }
        if self.enabled_until_boot.contains(name) {
            return Some("enabled-runtime");
        }
        if template.is_some() && self.wanted.contains(name) {
            return Some("static");
        }
        // An alias enables a unit only if the section `[Install]` names it.
        if self.aliased.contains(name)
            || self.is_extended(name)
            || template.is_some_and(|template| self.is_extended(&template))
        {
            return None;
        }
        install_state(&read(path)?)
    }

    /// Returns true if drop-ins may change the section `[Install]` of a service: those of the service itself, of all
    /// services with a prefix of its name (`a-.service.d`), or of all services.
    fn is_extended(&self, name: &str) -> bool {
        let prefix = |(at, _)| self.extended.contains(&format!("{}-.service", &name[..at]));
        self.extended.contains(name) || self.extended.contains("service") || name.match_indices('-').any(prefix)
    }
}

/// Returns true if a file has a section `[Install]`, or cannot be read.
fn has_install_section(path: &Path) -> bool {
    read(path).is_none_or(|text| text.contains("[Install]"))
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the state of a unit without links, by its section `[Install]`.
fn install_state(text: &str) -> Option<&'static str> {
    let (mut is_install, mut has_also) = (false, false);
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_install = line == "[Install]";
        }
        let (key, value) = line.split_once('=').filter(|_| is_install).unwrap_or_default();
        match (key.trim_end(), value.trim()) {
            ("", _) | (_, "") => {}
            // A continued line may hide a setting.
            (_, value) if value.ends_with('\\') => return None,
            ("WantedBy" | "RequiredBy" | "UpheldBy" | "Alias", _) => return Some("disabled"),
            ("Also", _) => has_also = true,
            _ => {}
        }
    }
    Some(if has_also { "indirect" } else { "static" })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn states_follow_from_files_and_links() {
        let root = tempfile::tempdir().unwrap();
        let directory = |name: &str| root.path().join(name);
        let (config, vendor, generated) = (directory("etc"), directory("lib"), directory("generator.late"));
        let (transient, wants) = (directory("transient"), config.join("multi-user.target.wants"));
        for made in [&wants, &vendor.join("basic.target.wants"), &generated, &transient] {
            fs::create_dir_all(made).unwrap();
        }
        let install = "[Unit]\nDescription=[Install]\n[Install]\nWantedBy = multi-user.target\n";
        for (name, text) in [
            ("disabled.service", install),
            ("enabled.service", install),
            ("aliased.service", "[Install]\nAlias=other.service\n"),
            ("static.service", "[Unit]\nWantedBy=x\n[Service]\n"),
            ("vendor.service", "[Service]\n"),
            ("indirect.service", "[Install]\nAlso=a.socket\nWantedBy=\n"),
            ("hidden.service", "[Install]\nAlso=a.socket \\\n"),
            ("extended.service", "[Service]\n"),
            ("limited.service", "[Service]\n"),
            ("a-b-c.service", "[Service]\n"),
            ("template@.service", install),
            ("masked.service", install),
            ("empty.service", ""),
            ("bad name.service", ""),
            ("a.socket", ""),
        ] {
            fs::write(vendor.join(name), text).unwrap();
        }
        for (name, text) in [("extended", install), ("limited", "[Service]\nNice=1\n"), ("a-b-", install)] {
            fs::create_dir(config.join(format!("{name}.service.d"))).unwrap();
            fs::write(config.join(format!("{name}.service.d/own.conf")), text).unwrap();
        }
        fs::write(generated.join("generated.service"), "[Service]\n").unwrap();
        fs::write(transient.join("transient.service"), "[Service]\n").unwrap();
        symlink("/x/enabled.service", wants.join("enabled.service")).unwrap();
        symlink("/x/template@.service", wants.join("template@on.service")).unwrap();
        symlink("../vendor.service", vendor.join("basic.target.wants/vendor.service")).unwrap();
        symlink("../template@.service", vendor.join("basic.target.wants/template@fixed.service")).unwrap();
        symlink("/x/aliased.service", config.join("other.service")).unwrap();
        symlink("/dev/null", config.join("masked.service")).unwrap();
        symlink("/srv/linked.service", config.join("linked.service")).unwrap();
        let directories = [&config, &transient, &vendor, &generated].map(|path| path.display().to_string());
        let files = UnitFiles::read(&directories, &config);
        let found: Vec<(&str, Option<&str>)> = files.services().map(|name| (name, files.state(name))).collect();
        let expected = [
            ("a-b-c.service", None),
            ("aliased.service", None),
            ("disabled.service", Some("disabled")),
            ("empty.service", Some("masked")),
            ("enabled.service", Some("enabled")),
            ("extended.service", None),
            ("generated.service", Some("generated")),
            ("hidden.service", None),
            ("indirect.service", Some("indirect")),
            ("limited.service", Some("static")),
            ("linked.service", None),
            ("masked.service", Some("masked")),
            ("static.service", Some("static")),
            ("transient.service", None),
            ("vendor.service", Some("static")),
        ];
        assert_eq!(found, expected);
        for (instance, state) in [("on", "enabled"), ("fixed", "static"), ("other", "disabled")] {
            assert_eq!(files.state(&format!("template@{instance}.service")), Some(state), "{instance}");
        }
        assert_eq!(files.state("no-file.service"), Some(""));
    }
}
