//! File systems and swap areas that the kernel uses (proc_pid_mountinfo(5), proc_swaps(5)).

use std::path::Path;

use ecow::EcoString;

use super::fstab::unescaped;

/// A mounted file system, or a swap area in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LiveMount {
    /// Mount point, or the path of the swap area.
    pub(super) name: EcoString,
    pub(super) device: EcoString,
    pub(super) fstype: EcoString,
    /// Options of the mount and of its file system, without duplicates.
    pub(super) options: EcoString,
}

/// Mounts and swap areas, in the order of the kernel.
pub(super) struct LiveMounts(Vec<LiveMount>);

impl LiveMounts {
    /// Reads the files below `proc`. A missing file has no lines.
    pub(super) fn read(proc: &Path) -> std::io::Result<LiveMounts> {
        let text = |name: &str| match std::fs::read(proc.join(name)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error),
        };
        Ok(LiveMounts::parse(&text("self/mountinfo")?, &text("swaps")?))
    }

    fn parse(mountinfo: &str, swaps: &str) -> LiveMounts {
        let areas = swaps.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next());
        let area = |path| LiveMount {
            name: unescaped(path),
            device: unescaped(path),
            fstype: super::fstab::SWAP.into(),
            options: EcoString::new(),
        };
        LiveMounts(mountinfo.lines().filter_map(mount).chain(areas.map(area)).collect())
    }

    /// Returns the mount that is visible at a path. The last one hides the others.
    pub(super) fn find(&self, name: &str) -> Option<&LiveMount> {
        self.0.iter().rfind(|mount| mount.name == name)
    }
}

/// Parses `id parent major:minor root dir options [fields…] - fstype device options`.
fn mount(line: &str) -> Option<LiveMount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(4);
    let (dir, own) = (mount.next()?, mount.next()?);
    let mut file_system = file_system.split(' ');
    let (fstype, device) = (file_system.next()?, file_system.next()?);
    let mut options: Vec<&str> = own.split(',').collect();
    // The file system may be read-only below a writable mount.
    for option in file_system.next().unwrap_or_default().split(',') {
        match option {
            "ro" => options.iter_mut().filter(|own| **own == "rw").for_each(|own| *own = "ro"),
            "" | "rw" => {}
            option if options.contains(&option) => {}
            option => options.push(option),
        }
    }
    Some(LiveMount {
        name: unescaped(dir),
        device: unescaped(device),
        fstype: fstype.into(),
        options: unescaped(&options.join(",")),
    })
}

/// Returns the declared options that the mount does not have, as words such as `rw`. Only flags are compared that the
/// kernel shows for each mount; the other options mean something to mount(8), or differ in their notation.
pub(super) fn missing_flags<'a>(declared: &'a str, live: &str) -> Vec<&'a str> {
    const FLAGS: [(&str, &str); 8] = [
        ("ro", "rw"),
        ("rw", "ro"),
        ("nosuid", "suid"),
        ("suid", "nosuid"),
        ("nodev", "dev"),
        ("dev", "nodev"),
        ("noexec", "exec"),
        ("exec", "noexec"),
    ];
    let live: Vec<&str> = live.split(',').collect();
    let last = |one: &str, other: &str| {
        declared.split(',').rfind(|word| *word == one || *word == other).is_some_and(|word| word == one)
    };
    let is_missing = |flag: &str, opposite: &str| match flag {
        "suid" | "dev" | "exec" => live.contains(&opposite),
        flag => !live.contains(&flag),
    };
    let word = |flag: &str| declared.split(',').find(|word| *word == flag);
    let missing = FLAGS.iter().filter(|(flag, opposite)| last(flag, opposite) && is_missing(flag, opposite));
    missing.filter_map(|(flag, _)| word(flag)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
30 22 0:30 / /mnt/a\\040b ro,nosuid - tmpfs tmpfs rw,size=1024k
31 30 0:31 / /mnt/a\\040b rw - xfs /dev/x ro
broken
";

    #[test]
    fn topmost_mount_counts_with_all_its_options() {
        let mounts = LiveMounts::parse(MOUNTINFO, "Filename\tType\n/swap\\040file file 1 0 -2\n");
        let at = |name: &str| mounts.find(name).map(|mount| (mount.fstype.as_str(), mount.options.as_str()));
        assert_eq!(at("/"), Some(("ext4", "rw,relatime,errors=remount-ro")));
        assert_eq!(at("/mnt/a b"), Some(("xfs", "ro")));
        assert_eq!(at("/swap file"), Some(("swap", "")));
        assert_eq!(at("/mnt"), None);
    }

    #[test]
    fn only_flags_that_are_declared_and_not_set_are_missing() {
        for (declared, live, missing) in [
            ("defaults", "ro,nosuid", vec![]),
            ("ro", "rw", vec!["ro"]),
            ("ro,rw", "rw", vec![]),
            ("rw,noexec,nosuid", "rw,nosuid", vec!["noexec"]),
            ("exec,dev", "rw,noexec", vec!["exec"]),
            ("noatime,size=1g,uid=0", "rw", vec![]),
        ] {
            assert_eq!(missing_flags(declared, live), missing, "{declared} on {live}");
        }
    }
}
