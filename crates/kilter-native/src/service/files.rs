//! Unit files that systemd has not loaded, and their states, read from the disk.
//!
//! systemd needs more than a millisecond for the state of a unit that is not in memory, and reads the same files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::unit;

/// Maximum number of bytes that are read of a unit file. systemd reads no larger ones.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A unit file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitFile {
    pub(super) name: String,
    /// Its state in the terms of systemd. None if only systemd can tell, because drop-ins may change it.
    pub(super) state: Option<&'static str>,
}

/// Services and links in the directories of unit files.
#[derive(Default)]
struct Index {
    /// First file of each name.
    files: BTreeMap<String, PathBuf>,
    /// Units with a link in a directory such as `multi-user.target.wants`, or with an alias.
    enabled: BTreeSet<String>,
    /// The same until the next boot.
    enabled_until_boot: BTreeSet<String>,
    /// Units with drop-ins.
    extended: BTreeSet<String>,
}

/// Returns the services with files in these directories, without `known` ones. The first directory with a name decides.
/// Templates are not units, and aliases are other names of units. `config` is the directory of links that persist.
pub(super) fn services(directories: &[String], config: &Path, known: &BTreeSet<String>) -> Vec<UnitFile> {
    let mut index = Index::default();
    directories.iter().for_each(|directory| index.read(Path::new(directory), config));
    let is_new = |name: &str| !known.contains(name) && unit::problem(name).is_none();
    let files = index.files.iter().filter(|(name, path)| is_new(name) && !is_alias(name, path));
    files.map(|(name, path)| UnitFile { name: name.clone(), state: index.state(name, path) }).collect()
}

/// Returns the name of the file that a link points to.
fn target_of(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_str()?.to_owned())
}

fn is_masked(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target == Path::new("/dev/null"))
}

/// Returns true if the file is a link to a unit of another name.
fn is_alias(name: &str, path: &Path) -> bool {
    !is_masked(path) && target_of(path).is_some_and(|target| target != name)
}

fn entries(directory: &Path) -> impl Iterator<Item = (String, DirEntry)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry)))
}

impl Index {
    fn read(&mut self, directory: &Path, config: &Path) {
        let is_config = directory == config;
        let is_until_boot = directory.starts_with("/run");
        for (name, entry) in entries(directory) {
            let path = entry.path();
            if let Some(unit) = name.strip_suffix(".d") {
                self.extended.insert(unit.to_owned());
            } else if name.ends_with(".wants") || name.ends_with(".requires") {
                for (name, entry) in entries(&path).filter(|_| is_config || is_until_boot) {
                    self.enable(target_of(&entry.path()), is_config);
                    self.enable(Some(name), is_config);
                }
            } else if name.ends_with(".service") {
                if (is_config || is_until_boot) && is_alias(&name, &path) {
                    self.enable(target_of(&path), is_config);
                }
                self.files.entry(name).or_insert(path);
            }
        }
    }

    fn enable(&mut self, unit: Option<String>, persists: bool) {
        if persists { &mut self.enabled } else { &mut self.enabled_until_boot }.extend(unit);
    }

    /// Returns the state of a unit file (systemctl(1), `is-enabled`).
    fn state(&self, name: &str, path: &Path) -> Option<&'static str> {
        let is_until_boot = path.starts_with("/run");
        if is_masked(path) {
            return Some(if is_until_boot { "masked-runtime" } else { "masked" });
        }
        if path.to_str().is_some_and(|path| path.contains("/generator")) || name.contains('@') {
            return None;
        }
        if self.enabled.contains(name) {
            return Some("enabled");
        }
        if self.enabled_until_boot.contains(name) {
            return Some("enabled-runtime");
        }
        if path.is_symlink() || is_until_boot || self.extended.contains(name) {
            return None;
        }
        install_state(&read(path)?)
    }
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
        let (config, vendor) = (root.path().join("etc"), root.path().join("lib"));
        fs::create_dir_all(config.join("multi-user.target.wants")).unwrap();
        fs::create_dir_all(vendor.join("basic.target.wants")).unwrap();
        fs::create_dir_all(config.join("extended.service.d")).unwrap();
        let install = "[Unit]\nDescription=[Install]\n[Install]\nWantedBy = multi-user.target\n";
        for (name, text) in [
            ("disabled.service", install),
            ("enabled.service", install),
            ("aliased.service", "[Install]\nAlias=other.service\n"),
            ("static.service", "[Unit]\nWantedBy=x\n[Service]\n"),
            ("vendor.service", ""),
            ("indirect.service", "[Install]\nAlso=a.socket\nWantedBy=\n"),
            ("hidden.service", "[Install]\nAlso=a.socket \\\n"),
            ("extended.service", ""),
            ("known.service", ""),
            ("template@.service", ""),
            ("masked.service", install),
            ("bad name.service", ""),
            ("a.socket", ""),
        ] {
            fs::write(vendor.join(name), text).unwrap();
        }
        symlink("/x/enabled.service", config.join("multi-user.target.wants/enabled.service")).unwrap();
        symlink("../vendor.service", vendor.join("basic.target.wants/vendor.service")).unwrap();
        symlink("/x/aliased.service", config.join("other.service")).unwrap();
        symlink("/dev/null", config.join("masked.service")).unwrap();
        symlink("/srv/linked.service", config.join("linked.service")).unwrap();
        let directories = [&config, &vendor].map(|path| path.display().to_string());
        let found = services(&directories, &config, &BTreeSet::from(["known.service".to_owned()]));
        let found: Vec<(&str, Option<&str>)> = found.iter().map(|file| (file.name.as_str(), file.state)).collect();
        let expected = [
            ("aliased.service", Some("enabled")),
            ("disabled.service", Some("disabled")),
            ("enabled.service", Some("enabled")),
            ("extended.service", None),
            ("hidden.service", None),
            ("indirect.service", Some("indirect")),
            ("linked.service", None),
            ("masked.service", Some("masked")),
            ("static.service", Some("static")),
            ("vendor.service", Some("static")),
        ];
        assert_eq!(found, expected);
    }
}
