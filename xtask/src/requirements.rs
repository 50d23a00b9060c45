//! Programs other than Rust that the tests need.

use std::path::Path;
use std::process::Command;

use crate::step::{shown, succeeds};

/// A program that tests start, and its Debian package.
struct Requirement {
    program: &'static str,
    package: &'static str,
}

const REQUIREMENTS: [Requirement; 59] = [
    // Counts system calls and processes.
    Requirement { program: "strace", package: "strace" },
    Requirement { program: "sqlite3", package: "sqlite3" },
    Requirement { program: "age", package: "age" },
    // Drops rights and capabilities.
    Requirement { program: "setpriv", package: "util-linux" },
    // Sets the clock of a process.
    Requirement { program: "faketime", package: "faketime" },
    // Locks a file.
    Requirement { program: "flock", package: "util-linux" },
    // Operations that a confined child tries.
    Requirement { program: "chattr", package: "e2fsprogs" },
    Requirement { program: "sysctl", package: "procps" },
    // Namespaces, in which users and mounts can be changed.
    Requirement { program: "unshare", package: "util-linux" },
    // Test hosts: their root file system, mounts, names and network.
    Requirement { program: "mmdebstrap", package: "mmdebstrap" },
    Requirement { program: "mount", package: "mount" },
    Requirement { program: "findmnt", package: "util-linux" },
    Requirement { program: "nsenter", package: "util-linux" },
    Requirement { program: "ip", package: "iproute2" },
    Requirement { program: "locale-gen", package: "locales" },
    Requirement { program: "nft", package: "nftables" },
    Requirement { program: "logrotate", package: "logrotate" },
    Requirement { program: "visudo", package: "sudo" },
    Requirement { program: "update-ca-certificates", package: "ca-certificates" },
    // The shadow tools.
    Requirement { program: "useradd", package: "passwd" },
    Requirement { program: "groupadd", package: "passwd" },
    Requirement { program: "gpasswd", package: "passwd" },
    // Runs an executable manifest.
    Requirement { program: "python3", package: "python3-minimal" },
    // Represents the complete package, which contains the modules json and shlex.
    Requirement { program: "pydoc3", package: "python3" },
    // Runs providers.
    Requirement { program: "bash", package: "bash" },
    // Reports changes for providers.
    Requirement { program: "inotifywait", package: "inotify-tools" },
    // Takes a kind of lock that the Rust standard library does not support.
    Requirement { program: "perl", package: "perl-base" },
    // Reference for values and data types.
    Requirement { program: "puppet", package: "puppet" },
    Requirement { program: "ruby", package: "ruby" },
    // Shared worlds, also over TLS, and a second client.
    Requirement { program: "etcd", package: "etcd-server" },
    Requirement { program: "openssl", package: "openssl" },
    Requirement { program: "curl", package: "curl" },
    // D-Bus messages.
    Requirement { program: "dbus-daemon", package: "dbus-daemon" },
    Requirement { program: "dbus-monitor", package: "dbus-bin" },
    // Reference for facts.
    Requirement { program: "getconf", package: "libc-bin" },
    // Programs that the included providers and the built-in types use.
    Requirement { program: "systemctl", package: "systemd" },
    Requirement { program: "crontab", package: "cron" },
    Requirement { program: "pip3", package: "python3-pip" },
    Requirement { program: "virtualenv", package: "virtualenv" },
    Requirement { program: "npm", package: "npm" },
    Requirement { program: "rpm", package: "rpm" },
    Requirement { program: "rpmbuild", package: "rpm" },
    Requirement { program: "dnf", package: "dnf" },
    Requirement { program: "createrepo_c", package: "createrepo-c" },
    Requirement { program: "zypper", package: "zypper" },
    Requirement { program: "pacman", package: "pacman-package-manager" },
    Requirement { program: "augtool", package: "augeas-tools" },
    Requirement { program: "podman", package: "podman" },
    Requirement { program: "crun", package: "crun" },
    Requirement { program: "dockerd", package: "docker.io" },
    Requirement { program: "busybox", package: "busybox-static" },
    // Virtual machines.
    Requirement { program: "virsh", package: "libvirt-clients" },
    Requirement { program: "libvirtd", package: "libvirt-daemon" },
    Requirement { program: "qemu-img", package: "qemu-utils" },
    // Other hosts, on the loopback interface.
    Requirement { program: "ssh", package: "openssh-client" },
    Requirement { program: "sshd", package: "openssh-server" },
    // Makes a zip archive.
    Requirement { program: "zip", package: "zip" },
    Requirement { program: "shellcheck", package: "shellcheck" },
    Requirement { program: "pyflakes3", package: "pyflakes3" },
];

/// Directories of system programs, which may be missing in a user's `PATH`.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Ensures that all required programs exist. Installs missing packages if possible, otherwise names them.
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

/// Returns the packages of missing programs without duplicates.
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
    fn missing_program_error_names_package() {
        assert_eq!(missing(&|program| program != "strace"), ["strace"]);
        assert_eq!(missing(&|program| !program.ends_with("add")), ["passwd"]);
        assert_eq!(missing(&|_| true), [""; 0]);
        assert!(advice(&["passwd", "strace"]).contains("apt-get install --no-install-recommends passwd strace"));
    }
}
