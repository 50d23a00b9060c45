//! Process that undoes the repairs of a contested resource.
//!
//! inotify reports no process, fanotify does. A group of fanotify needs CAP_SYS_ADMIN to report processes of other
//! users, so only a contested resource has one, and a run without the capability names no process.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use ecow::EcoString;
use kilter_provider::{Scope, WatchSource};
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

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

/// Maximum number of ancestors of a process that are searched for kilter. A process with more is not named.
const MAX_ANCESTORS: usize = 16;

/// Size of the read buffer in bytes: room for some dozen events.
const READ: usize = 16 * 1024;

/// Maximum size of an event in bytes: metadata, and a record with a handle of 128 bytes and a name of 255.
const MAX_EVENT: usize = 512;

/// Returns the name of a resource as a path if the provider watches this path as the state of the resource. Other
/// paths, such as a source, are inputs: a process that changes them undoes no repair.
pub(crate) fn own_path<'a>(name: &'a str, watches: &[WatchSource]) -> Option<&'a Path> {
    let own = Path::new(name);
    let is_own = |watch: &WatchSource| match watch {
        WatchSource::Path { path, scope } => path == own && *scope != Scope::Entries,
        _ => false,
    };
    (own.is_absolute() && watches.iter().any(is_own)).then_some(own)
}

/// Last process that a watch, or one before it, recorded.
#[derive(Default)]
struct RecordedOpponent {
    last: Option<Opponent>,
    /// True if the process was recorded after the last repair.
    is_new: bool,
}

/// Records the last process that changes a path, until it is dropped.
pub(crate) struct OpponentWatch {
    recorded: Arc<Mutex<RecordedOpponent>>,
    stop: Arc<OwnedFd>,
    directory: DirectoryId,
}

/// Device and inode of a directory.
type DirectoryId = (u64, u64);

/// Returns the directory of a path.
fn directory_of(path: &Path) -> Option<DirectoryId> {
    let found = std::fs::metadata(path.parent()?).ok()?;
    Some((found.dev(), found.ino()))
}

impl OpponentWatch {
    /// Starts to record, in the directory that the path has now. A former watch of the path ends. If it has the same
    /// directory, its process stays the last one until the next event. Returns none if the kernel reports no process
    /// for this path.
    pub(crate) fn start(path: &Path, former: Option<OpponentWatch>) -> Option<OpponentWatch> {
        let mut group = EventGroup::of(path)?;
        let directory = directory_of(path)?;
        let former = former.filter(|former| former.directory == directory);
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?);
        let recorded = former.map(|former| Arc::clone(&former.recorded)).unwrap_or_default();
        // The thread of the former watch may still record a process that undid the repair immediately.
        lock(&recorded).is_new = false;
        let (to, stopped) = (Arc::clone(&recorded), Arc::clone(&stop));
        let thread = thread::Builder::new().name("opponent".to_owned());
        thread.spawn(move || group.record(&to, &stopped)).ok()?;
        Some(OpponentWatch { recorded, stop, directory })
    }

    /// Returns true if the path is still in the watched directory. Processes that changed another directory of this
    /// name undid no repair.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        directory_of(path) == Some(self.directory)
    }

    /// Returns the last recorded process, of this watch or one before it. Makes no system calls: a process that floods
    /// the path delays nothing.
    pub(crate) fn last(&self) -> Option<Opponent> {
        lock(&self.recorded).last.clone()
    }

    /// Returns the last process that was recorded after the last repair.
    pub(crate) fn newest(&self) -> Option<Opponent> {
        let recorded = lock(&self.recorded);
        recorded.last.clone().filter(|_| recorded.is_new)
    }
}

fn lock(recorded: &Mutex<RecordedOpponent>) -> MutexGuard<'_, RecordedOpponent> {
    recorded.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for OpponentWatch {
    /// Stops the thread, which reads one more buffer, without waiting for it.
    fn drop(&mut self) {
        // An eventfd whose counter is full is readable already.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
    }
}

/// Events in the directory of one path.
struct EventGroup {
    fanotify: Fanotify,
    /// Name of the path in the directory.
    name: Box<OsStr>,
    /// [`reaped`] before all events that are not read yet.
    reaped: Option<u64>,
}

impl EventGroup {
    /// Marks the directory of a path.
    fn of(path: &Path) -> Option<EventGroup> {
        let flags = InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK | InitFlags::FAN_CLASS_NOTIF | REPORT_NAMES;
        let fanotify = Fanotify::init(flags, EventFFlags::O_RDONLY).ok()?;
        let names = MaskFlags::FAN_CREATE | MaskFlags::FAN_DELETE | MaskFlags::FAN_MOVE;
        let content = MaskFlags::FAN_MODIFY | MaskFlags::FAN_ATTRIB;
        let mask = names | content | MaskFlags::FAN_EVENT_ON_CHILD | MaskFlags::FAN_ONDIR;
        let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_ONLYDIR;
        let reaped = reaped();
        fanotify.mark(flags, mask, rustix::fs::CWD, Some(path.parent()?)).ok()?;
        Some(EventGroup { fanotify, name: path.file_name()?.into(), reaped })
    }

    /// Records until the stop. A thread of its own reads events at once, because a program such as `chmod` ends
    /// immediately.
    fn record(&mut self, recorded: &Mutex<RecordedOpponent>, stop: &OwnedFd) {
        loop {
            let mut all = [PollFd::new(&self.fanotify, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            let is_stopped = match poll(&mut all, None) {
                Ok(_) => !all[1].revents().is_empty(),
                Err(Errno::INTR) => continue,
                Err(_) => return,
            };
            if let Some(opponent) = self.read() {
                *lock(recorded) = RecordedOpponent { last: Some(opponent), is_new: true };
            }
            if is_stopped {
                return;
            }
        }
    }

    /// Reads one buffer of events. Returns the last process among them that changed the path.
    fn read(&mut self) -> Option<Opponent> {
        let reaped_now = reaped();
        let mut buffer = [0; READ];
        let length = rustix::io::read(&self.fanotify, &mut buffer).ok()?;
        let opponent = newest(&buffer[..length], &self.name).and_then(|pid| opponent(pid, self.reaped));
        if length + MAX_EVENT <= READ {
            // The queue was empty after the read.
            self.reaped = reaped_now;
        }
        opponent
    }
}

/// Returns the last process other than kilter with an event of this name.
fn newest(buffer: &[u8], name: &OsStr) -> Option<u32> {
    let is_meant = |(pid, of): &(u32, &[u8])| *of == name.as_bytes() && ![0, std::process::id()].contains(pid);
    events(buffer).into_iter().rfind(is_meant).map(|(pid, _)| pid)
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

/// Returns the name in the record of an event.
///
/// The record has a header of 4 bytes, the file system (8), length (4) and type (4) of the directory's handle, the
/// handle, and the name with a zero byte.
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

/// Returns a process; none if it may be kilter or a descendant of kilter. A process that has ended may have been one if
/// kilter has children, or had some since `reaped_before`.
fn opponent(pid: u32, reaped_before: Option<u64>) -> Option<Opponent> {
    let own = std::process::id();
    if pid == own {
        return None;
    }
    let Some(ProcessStatus { program, mut parent, uid }) = ProcessStatus::of(pid) else {
        let is_foreign = !has_children() && reaped_before.is_some() && reaped() == reaped_before;
        return is_foreign.then_some(Opponent { pid, process: None });
    };
    for _ in 0..MAX_ANCESTORS {
        match parent {
            0 => return Some(Opponent { pid, process: Some(OpponentProcess { program, uid }) }),
            parent if parent == own => return None,
            _ => parent = ProcessStatus::of(parent)?.parent,
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

/// Returns a number that grows with each child that ends: the page faults of all of them, `cminflt` of proc(5).
fn reaped() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(8)?.parse().ok()
}

/// Values of `/proc/PID/status`, which a process has until its parent has waited for it.
struct ProcessStatus {
    program: EcoString,
    parent: u32,
    uid: u32,
}

impl ProcessStatus {
    fn of(pid: u32) -> Option<ProcessStatus> {
        let text = std::fs::read(format!("/proc/{pid}/status")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim_start);
        let uid = value("Uid:")?.split_whitespace().next()?.parse().ok()?;
        Some(ProcessStatus { program: value("Name:")?.into(), parent: value("PPid:")?.parse().ok()?, uid })
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
    fn only_events_of_the_name_by_other_processes_count() {
        let own = event(std::process::id(), b"f");
        let buffer = [event(7, b"f"), event(8, b"f"), event(9, b"other"), event(0, b"f"), own].concat();
        assert_eq!(newest(&buffer, OsStr::new("f")), Some(8));
        assert_eq!(newest(&buffer, OsStr::new("g")), None);
    }

    #[test]
    fn source_and_listed_inputs_are_not_the_own_path() {
        let path = |path: &str, scope| WatchSource::Path { path: path.into(), scope };
        let file = [path("/etc/f", Scope::This), path("/srv/source", Scope::This), path("/srv/parts", Scope::Entries)];
        assert_eq!(own_path("/etc/f", &file), Some(Path::new("/etc/f")));
        for name in ["/srv/parts", "/etc/g", "etc/f", "f"] {
            assert_eq!(own_path(name, &file), None, "{name}");
        }
    }

    /// Process that appends to files and that is no descendant of this one. It runs until it is dropped.
    struct Stranger {
        orders: std::process::ChildStdin,
        done: std::io::BufReader<std::process::ChildStdout>,
        pid: u32,
    }

    impl Stranger {
        fn begin() -> Stranger {
            let script = "exec 3<&0; (while read -r file <&3; do echo x >> \"$file\"; sh -c 'echo $PPID'; done) &";
            let mut shell = std::process::Command::new("sh");
            let pipes = shell.args(["-c", script]).stdin(std::process::Stdio::piped());
            let mut shell = pipes.stdout(std::process::Stdio::piped()).spawn().unwrap();
            let (orders, done) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
            shell.wait().unwrap();
            Stranger { orders, done: std::io::BufReader::new(done), pid: 0 }
        }

        /// Appends to a file, and returns when that is done.
        fn append(&mut self, file: &Path) {
            use std::io::{BufRead as _, Write as _};
            writeln!(self.orders, "{}", file.display()).unwrap();
            let mut pid = String::new();
            self.done.read_line(&mut pid).unwrap();
            self.pid = pid.trim().parse().unwrap();
        }
    }

    #[test]
    fn new_group_follows_the_replaced_directory() {
        let place = tempfile::tempdir().unwrap();
        let (directory, old) = (place.path().join("d"), place.path().join("old"));
        std::fs::create_dir(&directory).unwrap();
        let file = directory.join("f");
        let group = || EventGroup::of(&file).expect("run this test as root with CAP_SYS_ADMIN");
        let pid = |group: &mut EventGroup| group.read().map(|opponent| opponent.pid);
        let (mut stranger, mut first) = (Stranger::begin(), group());
        stranger.append(&directory.join("other"));
        assert_eq!(pid(&mut first), None);
        stranger.append(&file);
        assert_eq!(pid(&mut first), Some(stranger.pid));

        std::fs::rename(&directory, &old).unwrap();
        assert!(EventGroup::of(&file).is_none());
        std::fs::create_dir(&directory).unwrap();
        let mut second = group();
        stranger.append(&old.join("f"));
        assert_eq!(pid(&mut second), None);
        stranger.append(&file);
        assert_eq!(pid(&mut second), Some(stranger.pid));
    }

    /// Waits until a watch has recorded a process.
    fn until(watch: &OpponentWatch, pid: u32) {
        let begun = std::time::Instant::now();
        while watch.last().is_none_or(|last| last.pid != pid) {
            assert!(begun.elapsed().as_secs() < 60, "{:?} for {pid}", watch.last());
            thread::yield_now();
        }
    }

    #[test]
    fn new_watch_keeps_the_process_of_the_former_one() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("f");
        let start = |former| OpponentWatch::start(&file, former).expect("run this test as root with CAP_SYS_ADMIN");
        let (mut one, mut other) = (Stranger::begin(), Stranger::begin());
        let first = start(None);
        one.append(&file);
        until(&first, one.pid);
        let second = start(Some(first));
        assert_eq!(second.last().map(|last| last.pid), Some(one.pid));
        // The event may still be in the queue of the second watch when the third one starts.
        other.append(&file);
        let third = start(Some(second));
        until(&third, other.pid);
        one.append(&file);
        until(&third, one.pid);
        assert_eq!(third.newest(), third.last());
    }

    #[test]
    fn process_that_changed_a_moved_directory_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let (directory, moved) = (place.path().join("d"), place.path().join("moved"));
        let file = directory.join("f");
        std::fs::create_dir(&directory).unwrap();
        let first = OpponentWatch::start(&file, None).expect("run this test as root with CAP_SYS_ADMIN");
        std::fs::rename(&directory, &moved).unwrap();
        std::fs::create_dir(&directory).unwrap();
        let mut stranger = Stranger::begin();
        stranger.append(&moved.join("f"));
        until(&first, stranger.pid);
        assert!(!first.is_at(&file) && first.is_at(&moved.join("f")));
        assert_eq!(OpponentWatch::start(&file, Some(first)).map(|second| second.last()), Some(None));
    }

    #[test]
    fn kilter_and_its_children_are_not_opponents() {
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
