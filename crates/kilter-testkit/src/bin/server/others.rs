//! Files of a host that changed without a declaration.

use std::collections::BTreeMap;

use crate::empty_host::State;

/// Files that declared resources change through their types, beside the titles of `file`. A path that ends with `/`
/// stands for itself and all paths below it. [first server](docs/get-started/first-server.md) lists them.
const OF_TYPES: [(&str, &[&str]); 12] = [
    ("user, group", &["/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid"]),
    // The tools for accounts keep the former file.
    ("user, group", &["/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-"]),
    // The copy of /etc/skel, and the keys.
    ("user, ssh_authorized_key", &["/home/alice/", "/home/bob/", "/home/carol/", "/home/dave/"]),
    ("cron", &["/var/spool/cron/crontabs/root"]),
    ("host, mount", &["/etc/hosts", "/etc/fstab"]),
    ("line, ini", &["/etc/shop/settings.d.env", "/etc/ssh/sshd_config", "/etc/systemd/journald.conf.d/size.conf"]),
    ("sysctl", &["/etc/sysctl.d/zz-kilter.conf"]),
    // The table for the next boot, and its inclusion.
    ("firewall", &["/etc/nftables.d/", "/etc/nftables.conf"]),
    ("timezone", &["/etc/localtime", "/etc/timezone"]),
    ("vcsrepo, archive", &["/srv/shop/source/", "/srv/shop/theme/"]),
    (
        "service",
        &[
            "/etc/systemd/system/multi-user.target.wants/shop.service",
            "/etc/systemd/system/sysinit.target.wants/nftables.service",
            "/etc/systemd/system/timers.target.wants/shop-report.timer",
            // systemd writes the time at which a persistent timer was started.
            "/var/lib/systemd/timers/stamp-shop-report.timer",
        ],
    ),
    ("state of kilter", &["/var/lib/kilter/"]),
];

/// Path → its description.
pub(crate) type FileTexts<'s> = BTreeMap<&'s str, &'s str>;

/// Fails if a file changed that is neither declared nor changed by an installation of the same packages alone.
pub(crate) fn none(before: &State, after: &State, control: &State, references: &[&str]) -> Result<(), String> {
    let (before, after, control) = (files(before), files(after), files(control));
    let (mut packages, mut declared, mut of_types, mut others) = (0, 0, 0, String::new());
    let mut paths: Vec<&str> = before.keys().chain(after.keys()).copied().collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let (then, now, alone) = (before.get(path), after.get(path), control.get(path));
        let is_of_packages = alone != then && alone.map(|file| timeless(file)) == now.map(|file| timeless(file));
        if then == now {
        } else if is_of_packages {
            packages += 1;
        } else if is_declared(path, references) {
            declared += 1;
        } else if is_of_type(path) {
            of_types += 1;
        } else {
            let shown = |file: Option<&&str>| file.map_or("absent", |file| *file).to_owned();
            others += &format!("\n  {path}: {} → {}", shown(then), shown(now));
        }
    }
    println!("changed files: {packages} of the packages, {declared} declared, {of_types} of other declared resources");
    if others.is_empty() { Ok(()) } else { Err(format!("other files changed:{others}")) }
}

/// Returns true if the path is the title of a `file`.
fn is_declared(path: &str, references: &[&str]) -> bool {
    let mut titles = references.iter().filter_map(|reference| reference.strip_prefix("file[")?.strip_suffix(']'));
    titles.any(|title| is_value_of(title, path))
}

/// Returns true if a title can have this value. An expression stands for any text without `/`.
fn is_value_of(title: &str, value: &str) -> bool {
    let Some((before, rest)) = title.split_once("${") else { return title == value };
    let (_, after) = rest.split_once('}').expect("an expression ends with }");
    let Some(value) = value.strip_prefix(before) else { return false };
    let end = value.find('/').unwrap_or(value.len());
    (1..=end).filter(|end| value.is_char_boundary(*end)).any(|end| is_value_of(after, &value[end..]))
}

fn is_of_type(path: &str) -> bool {
    let mut paths = OF_TYPES.iter().flat_map(|(_, paths)| *paths);
    paths.any(|of| path == of.trim_end_matches('/') || of.ends_with('/') && path.starts_with(of))
}

/// Splits `file PATH DESCRIPTION`.
pub(crate) fn files(state: &State) -> FileTexts<'_> {
    state.0.iter().filter_map(|line| line.strip_prefix("file ")?.split_once(' ')).collect()
}

/// Removes the time of a file whose content differs between two equal installations.
pub(crate) fn timeless(description: &str) -> &str {
    description.split(" modified ").next().expect("a split has a first part")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expression_in_a_title_stands_for_one_part_of_a_path() {
        let references = ["file[/etc/${vars.name}.d/${vars.version}/main]", "service[/etc/a]", "file[/etc/b]"];
        for path in ["/etc/shop.d/17/main", "/etc/x.y.d/1/main", "/etc/b"] {
            assert!(is_declared(path, &references), "{path}");
        }
        for path in ["/etc/.d/17/main", "/etc/a.d/1/2/main", "/etc/a.d/1/main/x", "/etc/a", "/etc/b/c"] {
            assert!(!is_declared(path, &references), "{path}");
        }
    }
}
