//! Details of a process, which the kernel keeps until the parent has waited for it.

use std::os::fd::OwnedFd;

use ecow::{EcoString, eco_format};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::fs::{CWD, Mode, OFlags};

use super::changing_process::ProcessDetails;

/// Maximum number of ancestors of a process that are searched for kilter. The origin of a process with more is unknown.
const MAX_ANCESTORS: usize = 16;

/// Maximum length of a command line in bytes. The rest is left out.
const MAX_COMMAND: usize = 4096;

/// Origin of a process, and its details if it has not ended.
pub(super) struct ProcessOrigin {
    pub(super) details: Option<ProcessDetails>,
    /// True if kilter or a process of kilter started it. None if that is unknown.
    pub(super) is_own: Option<bool>,
}

impl ProcessOrigin {
    /// Reads the origin of a process that is not this one. A process that has ended may have been a descendant if this
    /// process has children, or had some since `ended_before`.
    pub(super) fn of(pid: u32, ended_before: i64) -> ProcessOrigin {
        match ProcessFiles::of(pid).and_then(|files| files.details()) {
            Some((details, parent)) => ProcessOrigin { details: Some(details), is_own: is_own(parent) },
            None => {
                let is_foreign = !has_children() && ended_children() == ended_before;
                ProcessOrigin { details: None, is_own: is_foreign.then_some(false) }
            }
        }
    }
}

/// Returns true if the process with this parent is a descendant of this process.
fn is_own(mut parent: u32) -> Option<bool> {
    let own = std::process::id();
    for _ in 0..MAX_ANCESTORS {
        match parent {
            0 => return Some(false),
            parent if parent == own => return Some(true),
            _ => parent = status_of(&ProcessFiles::of(parent)?.read("status")?)?.parent,
        }
    }
    None
}

/// Returns true if this process has children, or if that cannot be read.
fn has_children() -> bool {
    let Ok(mut threads) = std::fs::read_dir("/proc/self/task") else { return true };
    threads.any(|thread| {
        let children = thread.and_then(|thread| std::fs::read(thread.path().join("children")));
        !children.is_ok_and(|children| children.is_empty())
    })
}

/// Returns a number that grows with each child that ends: the page faults of all of them.
pub(super) fn ended_children() -> i64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(-1, |usage| usage.minor_page_faults())
}

/// Directory of one process below `/proc`. It never shows another process with the same number.
struct ProcessFiles(OwnedFd);

impl ProcessFiles {
    fn of(pid: u32) -> Option<ProcessFiles> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()).ok().map(ProcessFiles)
    }

    /// Returns the first bytes of a file. The kernel writes them in one read.
    fn read(&self, name: &str) -> Option<Vec<u8>> {
        let file = rustix::fs::openat(&self.0, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut bytes = vec![0; MAX_COMMAND + 1];
        let length = rustix::io::read(&file, &mut bytes).ok()?;
        bytes.truncate(length);
        Some(bytes)
    }

    /// Returns the details and the parent.
    fn details(&self) -> Option<(ProcessDetails, u32)> {
        let status = status_of(&self.read("status")?)?;
        let command = self.read("cmdline").map(|bytes| command_of(&bytes)).unwrap_or_default();
        let unit = self.read("cgroup").and_then(|bytes| unit_of(&String::from_utf8_lossy(&bytes)));
        let terminal = self.read("stat").and_then(|bytes| terminal_of(&String::from_utf8_lossy(&bytes)));
        let details = ProcessDetails { program: status.program, command, uid: status.uid, unit, terminal };
        Some((details, status.parent))
    }
}

/// Values of `/proc/PID/status`.
struct ProcessStatus {
    program: EcoString,
    parent: u32,
    uid: u32,
}

fn status_of(bytes: &[u8]) -> Option<ProcessStatus> {
    let text = String::from_utf8_lossy(bytes);
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim_start);
    let uid = value("Uid:")?.split_whitespace().next()?.parse().ok()?;
    Some(ProcessStatus { program: value("Name:")?.into(), parent: value("PPid:")?.parse().ok()?, uid })
}

/// Returns the arguments in `/proc/PID/cmdline`. A process that has ended has none.
fn command_of(bytes: &[u8]) -> Vec<EcoString> {
    let is_cut = bytes.len() > MAX_COMMAND;
    let bytes = &bytes[..bytes.len().min(MAX_COMMAND)];
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    let mut command: Vec<EcoString> =
        bytes.split(|byte| *byte == 0).map(|argument| String::from_utf8_lossy(argument).into()).collect();
    if let Some(last) = command.last_mut().filter(|_| is_cut) {
        last.push('…');
    }
    command
}

/// Returns the unit of systemd in `/proc/PID/cgroup`: the innermost service, scope or other unit that has processes.
fn unit_of(text: &str) -> Option<EcoString> {
    let is_unit = |name: &&str| {
        let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix);
        matches!(suffix, Some("service" | "scope" | "socket" | "mount" | "swap"))
    };
    let of_line = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_of_systemd = controllers.is_empty() || controllers == "name=systemd";
        path.rsplit('/').find(is_unit).filter(|_| is_of_systemd).map(EcoString::from)
    };
    text.lines().find_map(of_line)
}

/// Returns the controlling terminal in `/proc/PID/stat`.
///
/// The program name, in brackets, may contain spaces and brackets. The terminal is the fifth value after it: a device
/// number with the minor number in the bits 0 to 7 and 20 to 31, and the major number in the bits 8 to 15.
fn terminal_of(stat: &str) -> Option<EcoString> {
    let device: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(4)?.parse::<i32>().ok()?.cast_unsigned();
    let (major, minor) = (device >> 8 & 0xff, device & 0xff | device >> 12 & 0xf_ff00);
    match major {
        4 if minor < 64 => Some(eco_format!("/dev/tty{minor}")),
        4 => Some(eco_format!("/dev/ttyS{}", minor - 64)),
        136..=143 => Some(eco_format!("/dev/pts/{}", (major - 136) << 8 | minor)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_split_and_cut() {
        assert_eq!(command_of(b"vim\0/etc/a b\0"), ["vim", "/etc/a b"]);
        assert_eq!(command_of(b"sh\0-c\0\0"), ["sh", "-c", ""]);
        assert!(command_of(b"").is_empty());
        let long = command_of(&[b'x'; MAX_COMMAND + 1]);
        assert_eq!((long.len(), long[0].len()), (1, MAX_COMMAND + '…'.len_utf8()));
    }

    #[test]
    fn unit_is_the_innermost_service_or_scope() {
        let unit = |text: &str| unit_of(text).map(|unit| unit.to_string());
        assert_eq!(unit("0::/system.slice/cron.service\n").as_deref(), Some("cron.service"));
        assert_eq!(unit("0::/user.slice/user-1000.slice/session-3.scope\n").as_deref(), Some("session-3.scope"));
        assert_eq!(unit("0::/system.slice/a.service/payload\n").as_deref(), Some("a.service"));
        assert_eq!(unit("4:cpu:/b.service\n1:name=systemd:/a.service\n").as_deref(), Some("a.service"));
        assert_eq!((unit("0::/\n"), unit("0::/user.slice\n"), unit("")), (None, None, None));
    }

    #[test]
    fn terminal_is_named_by_its_device_number() {
        let terminal =
            |device: i64| terminal_of(&format!("7 (a) b) S 1 7 7 {device} 7 0")).map(|name| name.to_string());
        assert_eq!(terminal(0), None);
        assert_eq!(terminal(136 << 8).as_deref(), Some("/dev/pts/0"));
        assert_eq!(terminal(136 << 8 | 1 << 20 | 3).as_deref(), Some("/dev/pts/259"));
        assert_eq!(terminal(137 << 8 | 2).as_deref(), Some("/dev/pts/258"));
        assert_eq!(terminal(4 << 8 | 1).as_deref(), Some("/dev/tty1"));
        assert_eq!(terminal(4 << 8 | 64).as_deref(), Some("/dev/ttyS0"));
    }

    #[test]
    fn children_are_own_processes_and_others_are_not() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let before = ended_children();
        // The kernel has no command line of a program that is about to start.
        while std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap().is_empty() {
            std::thread::yield_now();
        }
        let running = ProcessOrigin::of(child.id(), before);
        assert_eq!((running.is_own, running.details.map(|of| of.command)), (Some(true), Some(vec!["cat".into()])));
        assert_eq!(ProcessOrigin::of(1, before).is_own, Some(false));
        drop(child.stdin.take());
        child.wait().unwrap();
        let ended = ProcessOrigin::of(child.id(), before);
        assert_eq!((ended.is_own, ended.details), (None, None));
    }
}
