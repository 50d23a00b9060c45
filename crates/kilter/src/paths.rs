//! Default paths of kilter, depending on the user.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Returns true if root runs the command.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the default state directory; none if the user has no home.
pub(crate) fn state_dir() -> Option<PathBuf> {
    match is_root() {
        true => Some(PathBuf::from("/var/lib/kilter")),
        false => Some(xdg("XDG_STATE_HOME", ".local/state")?.join("kilter")),
    }
}

/// Returns the directory of the cache; none if the user has no home.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    match env::var_os("KILTER_CACHE_DIR").filter(|given| !given.is_empty()) {
        Some(given) => Some(given.into()),
        None if is_root() => Some(PathBuf::from("/var/cache/kilter")),
        None => Some(xdg("XDG_CACHE_HOME", ".cache")?.join("kilter")),
    }
}

/// Returns a path with all links of its existing part resolved, so that every path to the same directory gives the
/// same result.
pub(crate) fn whole(path: &Path) -> PathBuf {
    let Ok(absolute) = std::path::absolute(path) else { return path.to_owned() };
    for above in absolute.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), absolute.strip_prefix(above)) {
            return real.components().chain(rest.components()).collect();
        }
    }
    absolute
}

/// Returns the default directories of external facts; later directories override earlier ones.
pub(crate) fn facts_dirs() -> Vec<PathBuf> {
    match is_root() {
        true => ["/opt/puppetlabs/facter/facts.d", "/etc/puppetlabs/facter/facts.d", "/etc/facter/facts.d"]
            .into_iter()
            .chain(["/etc/kilter/facts.d"])
            .map(PathBuf::from)
            .collect(),
        false => xdg("XDG_CONFIG_HOME", ".config").map(|config| config.join("kilter/facts.d")).into_iter().collect(),
    }
}

/// Returns the default path of the configuration file; none if the user has no home.
pub(crate) fn config_file() -> Option<PathBuf> {
    match is_root() {
        true => Some(PathBuf::from("/etc/kilter/kilter.yaml")),
        false => Some(xdg("XDG_CONFIG_HOME", ".config")?.join("kilter/kilter.yaml")),
    }
}

/// Returns the default configuration of devices; none if the user has no home.
pub(crate) fn device_config() -> Option<PathBuf> {
    match is_root() {
        true => Some(PathBuf::from("/etc/kilter/device.conf")),
        false => Some(xdg("XDG_CONFIG_HOME", ".config")?.join("kilter/device.conf")),
    }
}

/// Returns the default path of the inventory; none if the user has no home.
pub(crate) fn inventory() -> Option<PathBuf> {
    match is_root() {
        true => Some(PathBuf::from("/etc/kilter/inventory.yaml")),
        false => Some(xdg("XDG_CONFIG_HOME", ".config")?.join("kilter/inventory.yaml")),
    }
}

/// Returns the directory of the public keys whose signatures of plans are trusted; none if the user has no home.
pub(crate) fn plan_keys_dir() -> Option<PathBuf> {
    match is_root() {
        true => Some(PathBuf::from("/etc/kilter/plan-keys")),
        false => Some(xdg("XDG_CONFIG_HOME", ".config")?.join("kilter/plan-keys")),
    }
}

/// Returns the default identity of age; none if the user has no home.
pub(crate) fn age_identity() -> Option<PathBuf> {
    match is_root() {
        true => Some(PathBuf::from("/etc/kilter/age.key")),
        false => Some(xdg("XDG_CONFIG_HOME", ".config")?.join("kilter/age.key")),
    }
}

/// Returns the directories of providers from the environment: `KILTER_PROVIDERS`, separated by colons.
pub(crate) fn given_providers_dirs() -> Vec<PathBuf> {
    env::var_os("KILTER_PROVIDERS").map(|list| directories(&list)).unwrap_or_default()
}

/// Returns the directories of a list separated by colons, without empty names.
pub(crate) fn directories(list: &OsStr) -> Vec<PathBuf> {
    env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Returns the default directories of providers.
pub(crate) fn providers_dirs() -> Vec<PathBuf> {
    let own = if is_root() { None } else { xdg("XDG_CONFIG_HOME", ".config") };
    let usual = ["/etc/kilter/providers", "/usr/local/share/kilter/providers", "/usr/share/kilter/providers"];
    own.map(|config| config.join("kilter/providers")).into_iter().chain(usual.map(PathBuf::from)).collect()
}

/// Returns a directory of the XDG base directory specification: relative ones are not valid.
fn xdg(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |variable: &str| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))
}

/// Returns the path of the status socket in a state directory.
pub(crate) fn status_socket(state_dir: &Path) -> PathBuf {
    state_dir.join("status.sock")
}
