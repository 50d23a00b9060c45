//! Undo of the first apply: the difference to the empty host is what the plan of the undo names.

use kilter_testkit::declarations::Declarations;

use crate::empty_host::{EmptyHost, Inputs};
use crate::others::{files, timeless};

/// Files that an undo leaves, as [its reference](docs/reference/history.md) says. A path that ends with `/` stands for
/// itself and all paths below it.
const LEFT: [(&str, &[&str]); 4] = [
    ("state of kilter", &["/var/lib/kilter/"]),
    (
        "former account files, which the tools for accounts write",
        &["/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-"],
    ),
    // Packages add accounts, with the next free numbers.
    (
        "accounts of packages, which this trial compares by their names",
        &["/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow"],
    ),
    ("time of a timer, which systemd writes", &["/var/lib/systemd/timers/"]),
];

/// Applies the manifests to a host, and undoes that. Another host, on which apt-get installs and purges the same
/// packages, shows what packages leave.
pub(crate) fn run(inputs: &Inputs) -> Result<(), String> {
    let declarations = Declarations::new(&inputs.texts);
    let host = EmptyHost::boot(inputs)?;
    host.set_password_of_root()?;
    let installed = host.packages()?;
    host.apt_get(&declarations.packages())?;
    let mut added = declarations.packages();
    added.retain(|name| !installed.0.contains(*name));
    let control = host.purge(&added)?;
    let accounts = host.accounts()?;
    host.down();

    let host = EmptyHost::boot(inputs)?;
    host.set_password_of_root()?;
    let before = host.files()?;
    host.apply(&inputs.texts)?;
    let plan = host.undo("--noop", 2)?;
    println!("plan of the undo: {}", last_line(&plan));
    let refused = plan.lines().filter(|line| line.contains("cannot be undone")).count();
    let undone = host.undo("", 0)?;
    println!("undo: {}", last_line(&undone));
    let after = host.files()?;
    let same_accounts = host.accounts()?.compared(&accounts).map_err(|why| format!("accounts: {why}"));
    host.down();
    same_accounts?;

    let (before, after, control) = (files(&before), files(&after), files(&control));
    let mut paths: Vec<&str> = before.keys().chain(after.keys()).copied().collect();
    paths.sort_unstable();
    paths.dedup();
    let (mut of_packages, mut left, mut others) = (0, 0, String::new());
    for path in paths {
        let (then, now, alone) = (before.get(path), after.get(path), control.get(path));
        let is_of_packages = alone != then && alone.map(|file| timeless(file)) == now.map(|file| timeless(file));
        if then == now {
        } else if is_of_packages {
            of_packages += 1;
        } else if is_left(path) {
            left += 1;
        } else {
            let shown = |file: Option<&&str>| file.map_or("absent", |file| *file).to_owned();
            others += &format!("\n  {path}: {} → {}", shown(then), shown(now));
        }
    }
    println!("{refused} changes that cannot be undone; files that differ: {of_packages} of packages, {left} named");
    if others.is_empty() { Ok(()) } else { Err(format!("other files differ:{others}\n{plan}\n{undone}")) }
}

fn last_line(text: &str) -> &str {
    text.lines().rfind(|line| line.contains(" resources: ")).unwrap_or_default()
}

fn is_left(path: &str) -> bool {
    let mut paths = LEFT.iter().flat_map(|(_, paths)| *paths);
    paths.any(|of| path == of.trim_end_matches('/') || of.ends_with('/') && path.starts_with(of))
}
