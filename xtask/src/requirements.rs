//! What the tests need of the machine, beside Rust.

use std::path::Path;
use std::process::Command;

use crate::step::{shown, succeeds};

/// A program that tests start, and the Debian package that has it.
struct Requirement {
    program: &'static str,
    package: &'static str,
}

const REQUIREMENTS: [Requirement; 35] = [
    // System calls and processes are counted by it.
    Requirement { program: "strace", package: "strace" },
    // Takes rights and capabilities away.
    Requirement { program: "setpriv", package: "util-linux" },
    // Locks a file.
    Requirement { program: "flock", package: "util-linux" },
    // What a confined child tries.
    Requirement { program: "chattr", package: "e2fsprogs" },
    Requirement { program: "sysctl", package: "procps" },
    // Namespaces, in which users and mounts can be changed.
    Requirement { program: "unshare", package: "util-linux" },
    // Hosts that are booted: their root file system, mounts, names and network.
    Requirement { program: "mmdebstrap", package: "mmdebstrap" },
    Requirement { program: "mount", package: "mount" },
    Requirement { program: "findmnt", package: "util-linux" },
    Requirement { program: "nsenter", package: "util-linux" },
    Requirement { program: "ip", package: "iproute2" },
    // The shadow tools.
    Requirement { program: "useradd", package: "passwd" },
    Requirement { program: "groupadd", package: "passwd" },
    Requirement { program: "gpasswd", package: "passwd" },
    // An executable manifest is written in it.
    Requirement { program: "python3", package: "python3-minimal" },
    // Its modules json and shlex come with the whole of it, whose program this is.
    Requirement { program: "pydoc3", package: "python3" },
    // Providers are written in it,
    Requirement { program: "bash", package: "bash" },
    // and tell by it what changes.
    Requirement { program: "inotifywait", package: "inotify-tools" },
    // Takes a lock that the Rust standard library has no call for.
    Requirement { program: "perl", package: "perl-base" },
    // Answers what values are of which data types.
    Requirement { program: "puppet", package: "puppet" },
    Requirement { program: "ruby", package: "ruby" },
    // What machines share, over TLS too, and what asks it beside kilter.
    Requirement { program: "etcd", package: "etcd-server" },
    Requirement { program: "openssl", package: "openssl" },
    Requirement { program: "curl", package: "curl" },
    // What is told on a bus.
    Requirement { program: "dbus-daemon", package: "dbus-daemon" },
    Requirement { program: "dbus-monitor", package: "dbus-bin" },
    // What facts are compared with.
    Requirement { program: "getconf", package: "libc-bin" },
    // The providers that come along: their programs, and what reads their text.
    Requirement { program: "systemctl", package: "systemd" },
    Requirement { program: "crontab", package: "cron" },
    Requirement { program: "pip3", package: "python3-pip" },
    Requirement { program: "virtualenv", package: "virtualenv" },
    Requirement { program: "npm", package: "npm" },
    Requirement { program: "ip", package: "iproute2" },
    Requirement { program: "shellcheck", package: "shellcheck" },
    Requirement { program: "pyflakes3", package: "pyflakes3" },
];

/// System programs are not in every user's `PATH`.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Sees to it that every required program is there: installs what is missing, where that is
/// possible, or says what to install.
pub(crate) fn provide() -> Result<(), String> {
    let missing = missing(&has);
    if missing.is_empty() {
        return Ok(());
    }
    if !(is_root() && has("apt-get")) {
        return Err(advice(&missing));
    }
    println!("installing what the tests need: {}", missing.join(" "));
    let mut update = Command::new("apt-get");
    run(update.args(["update", "-q"]))?;
    let mut install = Command::new("apt-get");
    run(install.args(["install", "-q", "-y", "--no-install-recommends"]).args(&missing))?;
    match self::missing(&has) {
        still if still.is_empty() => Ok(()),
        still => Err(format!("installed, but their programs are still missing: {}", still.join(" "))),
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    println!("+ {}", shown(command));
    succeeds(command.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// The packages of the programs that are not there, each once.
fn missing(has: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    let absent = REQUIREMENTS.iter().filter(|requirement| !has(requirement.program));
    let mut packages: Vec<&str> = absent.map(|requirement| requirement.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn advice(packages: &[&str]) -> String {
    let packages = packages.join(" ");
    format!(
        "the tests need programs that are not installed. As root:\n    \
         apt-get update && apt-get install --no-install-recommends {packages}\n\
         (names of Debian packages; other systems have similar ones)"
    )
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.iter().map(Into::into));
    directories.into_iter().any(|directory| directory.join(program).is_file())
}

pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self").metadata().is_ok_and(|metadata| metadata.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_answered_with_the_package_that_has_it() {
        assert_eq!(missing(&|program| program != "strace"), ["strace"]);
        assert_eq!(missing(&|program| !program.ends_with("add")), ["passwd"]);
        assert_eq!(missing(&|_| true), [""; 0]);
        assert!(advice(&["passwd", "strace"]).contains("apt-get install --no-install-recommends passwd strace"));
    }
}
