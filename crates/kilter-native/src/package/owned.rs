//! Paths owned by packages, from dpkg's lists.

use std::path::{Path, PathBuf};

use ecow::EcoString;
use kilter_process::trust::TrustPolicy;

/// Maximum size of a list in bytes. The longest lists of Debian have 4 MB.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// Directories that many packages share, with all directories below. `/bin` and others are links into `/usr`.
const SHARED_TREES: [&str; 17] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/X11",
    "/etc/fonts",
    "/etc/kernel",
    "/etc/network",
    "/etc/perl",
    "/etc/skel",
    "/etc/ssl",
    "/etc/systemd",
    "/etc/udev",
    "/etc/xdg",
];

/// Other directories that many packages share.
const SHARED: [&str; 7] =
    ["/etc/alternatives", "/etc/dbus-1", "/etc/default", "/etc/opt", "/etc/security", "/etc/sgml", "/etc/xml"];

/// Returns the wanted paths that a package owns: those in its list, without shared directories. As root, does not read
/// lists that another user can change.
pub(super) fn paths(lists: &[PathBuf], trust: &TrustPolicy, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
    let Some(list) = lists.iter().find(|list| list.is_file()) else { return Vec::new() };
    let Ok(bytes) = trust.read(list, MAX_LIST_BYTES) else { return Vec::new() };
    let text = String::from_utf8_lossy(&bytes);
    let is_everybodys = |path: &&str| is_shared(path) && Path::new(path).is_dir();
    text.lines().filter(|path| is_wanted(path)).filter(|path| !is_everybodys(path)).map(EcoString::from).collect()
}

/// Returns true if a path, as a directory, belongs to no single package.
fn is_shared(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let last = parts.last().copied().unwrap_or_default();
    let is_below = |tree: &&str| path.strip_prefix(*tree).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match parts.as_slice() {
        [_] | ["var", _] | ["var", _, "dpkg"] => true,
        ["etc", _] if last.ends_with(".d") || last.starts_with("cron.") => true,
        ["etc", _, _] | ["etc", _, _, _] if last.ends_with(".d") => true,
        _ => SHARED.contains(&path) || SHARED_TREES.iter().any(is_below),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn directories_of_many_packages_are_shared() {
        for path in [
            "/etc",
            "/etc/cron.d",
            "/etc/apt/apt.conf.d",
            "/etc/cron.daily",
            "/usr/lib/x",
            "/bin",
            "/var/lib",
            "/var/lib/dpkg",
            "/etc/default",
        ] {
            assert!(is_shared(path), "{path}");
        }
        for path in ["/etc/nginx", "/etc/nginx/sites", "/usrlocal/x", "/var/lib/nginx", "/opt/x", "/etc/nginx/conf"] {
            assert!(!is_shared(path), "{path}");
        }
    }

    #[test]
    fn first_list_counts_and_an_untrusted_one_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let list = |name: &str| directory.path().join(name);
        fs::write(list("b.list"), "/.\n/etc\n/etc/b.conf\n/usr/bin\n/usr/bin/env\n").unwrap();
        let lists = [list("a.list"), list("b.list")];
        let wanted = |path: &str| ["/etc", "/etc/b.conf", "/usr/bin", "/usr/bin/env"].contains(&path);
        assert_eq!(paths(&lists, &TrustPolicy::any(), &wanted), ["/etc/b.conf", "/usr/bin/env"]);
        fs::set_permissions(list("b.list"), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(paths(&lists, &TrustPolicy::root(), &wanted), [""; 0]);
    }
}
