//! `cargo xtask selinux`: checks the type `selboolean` in a virtual machine that enforces SELinux.
//!
//! The machine has the kernel and the policy of Debian 12. Its root file system is an archive in memory, so nothing
//! of a run stays. qemu emulates the processor: the command needs no `/dev/kvm`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{built_kilter, output, shown, succeeds};

/// First process of the virtual machine.
const INIT: &str = include_str!("selinux-init.bash");

/// Line of the console after all checks.
const SUCCESS: &str = "checks: ok";

/// Maximum duration of the virtual machine, in seconds.
const TIME_LIMIT: &str = "600";

/// Programs of the command, and their Debian packages.
const PROGRAMS: [(&str, &str); 5] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mmdebstrap", "mmdebstrap"),
    ("cpio", "cpio"),
    ("zstd", "zstd"),
    ("strip", "binutils"),
];

/// Makes `base.cpio.zst` and `vmlinuz` in the working directory.
const MAKE_BASE: &str = r"
set -euo pipefail
own=()
if [ -s /etc/apt/sources.list.d/debian.sources ] && grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then
    own=(/etc/apt/sources.list.d/debian.sources)
fi
rm -rf root root.tar
packages=linux-image-cloud-amd64,selinux-basics,selinux-policy-default,policycoreutils
mmdebstrap --quiet --variant=minbase --include=$packages bookworm root.tar ${own[@]+${own[@]}}
mkdir root
tar -xf root.tar -C root
cp root/boot/vmlinuz-* vmlinuz
unused=(./boot ./dev ./usr/lib/modules ./usr/share/doc ./usr/share/man ./usr/share/locale ./var/cache/apt ./var/lib/apt/lists)
skip=()
for path in ${unused[@]}; do skip+=(-o -path $path); done
(cd root && find . \( -false ${skip[@]} \) -prune -o -print0 | cpio --null -o -H newc --quiet) |
    zstd -q -f -o base.cpio.zst.part
rm -rf root root.tar
mv base.cpio.zst.part base.cpio.zst
";

/// Makes `initrd` of `base.cpio.zst` and the directory `added`.
const MAKE_INITRD: &str = r"
set -euo pipefail
{ cat base.cpio.zst; (cd added && find . | cpio -o -H newc --quiet) | zstd -q; } >initrd
";

/// Makes the virtual machine, boots it and reads its console.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    checked(root).map_err(|why| vec![why])
}

fn checked(root: &Path) -> Result<String, String> {
    let missing: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| !has(program)).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        return Err(format!("programs are missing: apt-get install --no-install-recommends {}", missing.join(" ")));
    }
    if !crate::requirements::is_root() {
        return Err("only root can make the root file system".to_owned());
    }
    let program = built_kilter(root)?;
    let directory = crate::dist::target_directory(root).join("selinux");
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(&directory).map_err(failed)?;
    if !directory.join("base.cpio.zst").exists() {
        println!("making the root file system: some minutes, once");
        bash(MAKE_BASE, &directory)?;
    }
    let added = directory.join("added");
    fs::create_dir_all(added.join("usr/bin")).map_err(failed)?;
    fs::write(added.join("init"), INIT).map_err(failed)?;
    succeeds(Command::new("chmod").arg("755").arg(added.join("init")))?;
    succeeds(Command::new("strip").arg("-o").arg(added.join("usr/bin/kilter")).arg(program))?;
    bash(MAKE_INITRD, &directory)?;
    let mut machine = machine(&directory);
    println!("+ {}", shown(&machine));
    judged(&output(&mut machine)?)
}

/// Returns the command that boots the virtual machine, with its console as output.
fn machine(directory: &Path) -> Command {
    let mut machine = Command::new("timeout");
    machine.args([TIME_LIMIT, "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2"]);
    machine.args(["-m", "2048", "-nographic", "-no-reboot", "-nic", "none", "-kernel", "vmlinuz", "-initrd", "initrd"]);
    machine.args(["-append", "console=ttyS0 quiet panic=-1 rdinit=/init security=selinux selinux=1 enforcing=1"]);
    machine.current_dir(directory);
    machine
}

/// Returns the result of a run from its console.
fn judged(console: &str) -> Result<String, String> {
    match console.lines().any(|line| line.trim() == SUCCESS) {
        true => Ok(format!("selboolean in a virtual machine that enforces SELinux: {SUCCESS}")),
        false => Err(format!("the checks in the virtual machine failed. Its console:\n{}", console.trim())),
    }
}

fn bash(script: &str, directory: &Path) -> Result<(), String> {
    output(Command::new("bash").args(["-c", script]).current_dir(directory)).map(drop)
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory: PathBuf| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_without_the_last_line_is_a_failure() {
        assert!(judged("boot\r\nchecks: ok\r\npower down\r\n").is_ok());
        assert!(judged("checks: failed: 'getenforce' ended with 1\r\n").unwrap_err().contains("getenforce"));
        assert!(judged("").is_err());
    }
}
