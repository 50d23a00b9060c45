//! Process that undoes the repairs of a contested resource.
//!
//! inotify reports no process, fanotify does. A group of fanotify needs CAP_SYS_ADMIN to report processes of other
//! users, so only a contested resource has one, and a run without the capability names no process.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use ecow::EcoString;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::watch::{PathWatch, Scope};

/// Last process that undid the repairs of a contested resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opponent {
    /// Number of the process.
    pub pid: u32,
    /// Program and user; none if the process ended before kilter could read them.
    pub process: Option<OpponentProcess>,
}

/// Program and user of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpponentProcess {
    /// Name of the program.
    pub program: EcoString,
    /// Real user.
    pub uid: u32,
}

/// Events have the directory and the name: `FAN_REPORT_DFID_NAME`, which `nix` does not name.
const REPORT_NAMES: InitFlags = InitFlags::from_bits_retain(0x0c00);

/// Type of the record with the directory and the name: `FAN_EVENT_INFO_TYPE_DFID_NAME`.
const INFO_NAME: u8 = 2;

/// Maximum number of ancestors of a process that are searched for kilter.
const MAX_ANCESTORS: usize = 64;

/// Size of the read buffer in bytes: room for some dozen events.
const READ: usize = 16 * 1024;

/// Records the processes that change the paths of one resource, until it is dropped.
pub(crate) struct OpponentWatch {
    group: Arc<Group>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

struct Group {
    fanotify: Fanotify,
    /// Names of the paths; none if every entry of the marked directories belongs to the resource.
    names: Option<Vec<Box<OsStr>>>,
    record: Mutex<Record>,
}

struct Record {
    last: Option<Opponent>,
    /// [`reaped`] before the events that are handled next.
    reaped: Option<u64>,
}

impl OpponentWatch {
    /// Starts to record. Returns none if the kernel reports no process for these paths.
    pub(crate) fn start(paths: &[PathWatch]) -> Option<OpponentWatch> {
        let flags = InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK | InitFlags::FAN_CLASS_NOTIF | REPORT_NAMES;
        let fanotify = Fanotify::init(flags, EventFFlags::O_RDONLY).ok()?;
        let is_alone = paths.iter().all(|watch| watch.scope == Scope::This);
        let marked = paths.iter().filter(|watch| mark(&fanotify, watch).is_some()).count();
        if marked == 0 {
            return None;
        }
        let names = paths.iter().filter_map(|watch| watch.path.file_name().map(Into::into));
        let names = is_alone.then(|| names.collect());
        let group = Arc::new(Group { fanotify, names, record: Mutex::new(Record { last: None, reaped: reaped() }) });
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?);
        let (of_thread, stopped) = (Arc::clone(&group), Arc::clone(&stop));
        let thread = thread::Builder::new().name("opponent".to_owned()).spawn(move || of_thread.record(&stopped));
        Some(OpponentWatch { group, stop, thread: Some(thread.ok()?) })
    }

    /// Returns the last process that changed one of the paths.
    pub(crate) fn last(&self) -> Option<Opponent> {
        self.group.drain()
    }
}

impl Drop for OpponentWatch {
    fn drop(&mut self) {
        // An eventfd whose counter is full is readable already.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        // A panic of the thread has printed its own message.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Marks the directory of a path, or the path itself if its entries belong to the resource.
fn mark(fanotify: &Fanotify, watch: &PathWatch) -> Option<()> {
    let names = MaskFlags::FAN_CREATE | MaskFlags::FAN_DELETE | MaskFlags::FAN_MOVE;
    let content = MaskFlags::FAN_MODIFY | MaskFlags::FAN_ATTRIB;
    let mask = names | content | MaskFlags::FAN_EVENT_ON_CHILD | MaskFlags::FAN_ONDIR;
    let directory = if watch.scope == Scope::This { watch.path.parent()? } else { &watch.path };
    fanotify.mark(MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_ONLYDIR, mask, rustix::fs::CWD, Some(directory)).ok()
}

impl Group {
    /// Reads events until the stop. A thread of its own reads them at once, because a program such as `chmod` ends
    /// immediately.
    fn record(&self, stop: &OwnedFd) {
        loop {
            let mut all = [PollFd::new(&self.fanotify, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut all, None) {
                Ok(_) if all[1].revents().is_empty() => drop(self.drain()),
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Handles the queued events. Returns the last process.
    fn drain(&self) -> Option<Opponent> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [0; READ];
        while let Ok(length @ 1..) = rustix::io::read(&self.fanotify, &mut buffer) {
            for (pid, name) in events(&buffer[..length]) {
                let is_meant = |names: &Vec<Box<OsStr>>| names.iter().any(|known| known.as_bytes() == name);
                if self.names.as_ref().is_none_or(is_meant)
                    && let Some(opponent) = opponent(pid, record.reaped)
                {
                    record.last = Some(opponent);
                }
            }
            record.reaped = reaped();
        }
        record.last.clone()
    }
}

/// Size of `struct fanotify_event_metadata` in bytes.
const METADATA: usize = 24;

/// Returns the process and the name of each event in a buffer, see fanotify(7).
fn events(mut buffer: &[u8]) -> Vec<(u32, &[u8])> {
    let mut all = Vec::new();
    while let Some(length) = word(buffer, 0).map(|length| length as usize).filter(|length| *length >= METADATA)
        && let Some((event, rest)) = buffer.split_at_checked(length)
    {
        all.extend(word(event, 20).zip(name(&event[METADATA..])));
        buffer = rest;
    }
    all
}

/// Returns the name in the record of an event: a header of 4 bytes, the file system (8), length (4) and type (4) of the
/// directory's handle, the handle, and the name with a zero byte.
fn name(record: &[u8]) -> Option<&[u8]> {
    if record.first() != Some(&INFO_NAME) {
        return None;
    }
    let handle = word(record, 12)? as usize;
    record.get(20 + handle..)?.split(|byte| *byte == 0).next()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns a process; none if it is kilter or a child of kilter, or if this PID namespace does not have it. A process
/// that has ended may have been a child if kilter has children, or had some since `reaped_before`.
fn opponent(pid: u32, reaped_before: Option<u64>) -> Option<Opponent> {
    let own = std::process::id();
    if pid == 0 || pid == own {
        return None;
    }
    let Some(status) = Status::of(pid) else {
        let is_foreign = !has_children() && reaped() == reaped_before;
        return is_foreign.then_some(Opponent { pid, process: None });
    };
    let mut parent = status.parent;
    for _ in 0..MAX_ANCESTORS {
        if parent == own {
            return None;
        }
        match Status::of(parent) {
            Some(status) => parent = status.parent,
            None => break,
        }
    }
    Some(Opponent { pid, process: Some(OpponentProcess { program: status.program, uid: status.uid }) })
}

/// Returns true if this process has children.
fn has_children() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.map(|thread| std::fs::read(thread.path().join("children"))).any(|read| !read.unwrap_or_default().is_empty())
}

/// Returns a number that grows with each child that ends: the page faults of all of them, `cminflt` of proc(5).
fn reaped() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(8)?.parse().ok()
}

/// Values of `/proc/PID/status`, which a process has until its parent has waited for it.
struct Status {
    program: EcoString,
    parent: u32,
    uid: u32,
}

impl Status {
    fn of(pid: u32) -> Option<Status> {
        let text = std::fs::read(format!("/proc/{pid}/status")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim_start);
        let uid = value("Uid:")?.split_whitespace().next()?.parse().ok()?;
        Some(Status { program: value("Name:")?.into(), parent: value("PPid:")?.parse().ok()?, uid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an event as the kernel writes it: 24 bytes, and a record with a handle of 8 bytes and the name.
    fn event(pid: u32, name: &[u8]) -> Vec<u8> {
        let record = 20 + 8 + name.len() + 1;
        let mut event = vec![0; METADATA];
        event[..4].copy_from_slice(&((METADATA + record) as u32).to_ne_bytes());
        event[20..].copy_from_slice(&pid.to_ne_bytes());
        event.extend([INFO_NAME, 0]);
        event.extend((record as u16).to_ne_bytes());
        event.extend([0; 8]);
        event.extend(8u32.to_ne_bytes());
        event.extend([0; 4 + 8]);
        event.extend(name);
        event.push(0);
        event
    }

    #[test]
    fn buffer_with_two_events_gives_processes_and_names() {
        let buffer = [event(7, b"a"), event(8, b"name")].concat();
        assert_eq!(events(&buffer), [(7, &b"a"[..]), (8, b"name")]);
    }

    #[test]
    fn truncated_buffer_gives_the_complete_events() {
        let buffer = [event(7, b"a"), event(8, b"name")].concat();
        for length in 0..buffer.len() {
            let expected = usize::from(length >= event(7, b"a").len());
            assert_eq!(events(&buffer[..length]).len(), expected, "{length} bytes");
        }
        assert!(events(&[0; 64]).is_empty() && events(&[255; 64]).is_empty());
    }

    #[test]
    fn kilter_and_its_children_are_no_opponents() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert_eq!((opponent(child.id(), reaped()), opponent(std::process::id(), reaped())), (None, None));
        let other = opponent(1, reaped()).unwrap();
        assert!(other.pid == 1 && other.process.is_some(), "{other:?}");
        let before = reaped();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(opponent(child.id(), before), None);
    }
}
