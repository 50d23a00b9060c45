//! Group of fanotify: marks on directories, and their events with processes.
//!
//! An event has a handle of the directory instead of its path. `/proc/self/fdinfo` lists the handles of all marks, so
//! no system call for handles is needed.

use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::path::Path;

use ecow::{EcoString, eco_format};
use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustc_hash::FxHashMap;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};

/// Events have the directory and the name: `FAN_REPORT_DFID_NAME`, which `nix` does not name.
const REPORT_NAMES: InitFlags = InitFlags::from_bits_retain(0x0c00);

/// Type of the record with the directory and the name: `FAN_EVENT_INFO_TYPE_DFID_NAME`.
const INFO_NAME: u8 = 2;

/// Size of `struct fanotify_event_metadata` in bytes.
const METADATA: usize = 24;

/// Size of the read buffer in bytes: room for some hundred events.
const READ: usize = 16 * 1024;

/// Maximum size of an event in bytes: metadata, and a record with a handle of 128 bytes and a name of 255.
const MAX_EVENT: usize = 512;

/// Returns the events of a mark.
fn mask() -> MaskFlags {
    let names = MaskFlags::FAN_CREATE | MaskFlags::FAN_DELETE | MaskFlags::FAN_MOVE;
    let content = MaskFlags::FAN_MODIFY | MaskFlags::FAN_ATTRIB;
    names | content | MaskFlags::FAN_EVENT_ON_CHILD | MaskFlags::FAN_ONDIR
}

/// Device, inode and birth of a directory. File systems use inodes of removed directories again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryId {
    device: (u32, u32),
    inode: u64,
    born: (i64, u32),
}

impl DirectoryId {
    /// Returns the directory that a path has now.
    pub(super) fn of(path: &Path) -> Option<DirectoryId> {
        DirectoryId::found(rustix::fs::CWD, path, AtFlags::empty()).ok()
    }

    fn found(base: impl AsFd, path: &Path, flags: AtFlags) -> rustix::io::Result<DirectoryId> {
        let found = rustix::fs::statx(base, path, flags, StatxFlags::INO | StatxFlags::BTIME)?;
        Ok(DirectoryId {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            born: (found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
        })
    }

    /// Returns true if the mark of this line is on the directory.
    fn has(self, mark: &MarkLine) -> bool {
        // The kernel prints the major number above 20 bits of the minor number.
        let device = u64::from(self.device.0) << 20 | u64::from(self.device.1);
        self.inode == mark.inode && device == mark.device
    }
}

/// File system and handle of a directory, as events have them: `fsid`, `handle_bytes`, `handle_type` and the handle.
pub(super) type Handle = Box<[u8]>;

/// Event of a file in a marked directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileEvent<'a> {
    pub(super) mask: MaskFlags,
    pub(super) pid: u32,
    /// Handle of the directory and name of the file. None if events were lost.
    pub(super) file: Option<(&'a [u8], &'a [u8])>,
}

/// Marked directory whose handle is not known yet.
pub(super) struct MarkedDirectory {
    pub(super) id: DirectoryId,
    file_system: [u8; 8],
}

/// Group of fanotify.
pub(super) struct EventGroup(Fanotify);

impl EventGroup {
    /// Makes a group without marks.
    ///
    /// # Errors
    /// If the kernel reports no processes to kilter.
    pub(super) fn new() -> Result<EventGroup, EcoString> {
        let basic = InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK | InitFlags::FAN_CLASS_NOTIF;
        let group = |flags| Fanotify::init(basic | flags, EventFFlags::O_RDONLY);
        // Without the capability the kernel makes groups, but their events have no processes. It refuses this flag.
        let is_capable = group(InitFlags::FAN_UNLIMITED_QUEUE).map(drop);
        let made = is_capable.and_then(|()| group(REPORT_NAMES));
        made.map(EventGroup).map_err(|error| match error {
            Errno::EPERM => "kilter has no CAP_SYS_ADMIN".into(),
            Errno::ENOSYS | Errno::EINVAL => "the kernel has no fanotify with names".into(),
            error => eco_format!("fanotify: {}", error.desc()),
        })
    }

    /// Marks the directory that a path has now.
    ///
    /// # Errors
    /// If there is no such directory, or the kernel refuses the mark.
    pub(super) fn mark(&self, path: &Path) -> Result<MarkedDirectory, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let of = |error: rustix::io::Errno| Errno::from_raw(error.raw_os_error());
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(of)?;
        let id = DirectoryId::found(&directory, Path::new(""), AtFlags::EMPTY_PATH).map_err(of)?;
        self.0.mark(MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_ONLYDIR, mask(), &directory, Some("."))?;
        let file_system = rustix::fs::fstatvfs(&directory).map_err(of)?.f_fsid;
        let (first, second) = (file_system as u32, (file_system >> 32) as u32);
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_ne_bytes());
        bytes[4..].copy_from_slice(&second.to_ne_bytes());
        Ok(MarkedDirectory { id, file_system: bytes })
    }

    /// Returns the handles of marked directories. A directory whose handle is not certain has none.
    pub(super) fn handles(&self, marked: &[MarkedDirectory]) -> Vec<Option<Handle>> {
        let mut marks: FxHashMap<u64, Vec<MarkLine>> = FxHashMap::default();
        self.each_mark(|mark| marks.entry(mark.inode).or_default().push(mark));
        let handle = |directory: &MarkedDirectory| {
            let of_inode = marks.get(&directory.id.inode)?;
            let exact = of_inode.iter().find(|mark| directory.id.has(mark));
            // On some file systems, such as btrfs, the device of a file is not that of the file system.
            let is_only = || {
                let same = |other: &&MarkedDirectory| other.id.inode == directory.id.inode && other.id != directory.id;
                of_inode.len() == 1 && !marked.iter().any(|other| same(&other))
            };
            let mark = exact.or_else(|| of_inode.first().filter(|_| is_only()))?;
            Some([&directory.file_system[..], &mark.handle].concat().into())
        };
        marked.iter().map(handle).collect()
    }

    /// Removes the mark of a directory, if the path still has it.
    pub(super) fn unmark(&self, path: &Path, id: DirectoryId) {
        if DirectoryId::of(path) == Some(id) {
            // Without the mark there is nothing to remove.
            let _ = self.0.mark(MarkFlags::FAN_MARK_REMOVE, mask(), rustix::fs::CWD, Some(path));
        }
    }

    /// Returns false if a directory that was marked is not marked any longer: its mark goes when it is removed.
    pub(super) fn is_marked(&self, id: DirectoryId) -> bool {
        let mut is_marked = false;
        self.each_mark(|mark| is_marked |= mark.inode == id.inode);
        is_marked
    }

    fn each_mark(&self, mut each: impl FnMut(MarkLine)) {
        let path = format!("/proc/self/fdinfo/{}", self.as_fd().as_raw_fd());
        let Ok(file) = std::fs::File::open(path) else { return };
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            MarkLine::of(&line).into_iter().for_each(&mut each);
        }
    }

    /// Reads one buffer of events. Returns true if no event was left.
    pub(super) fn read(&self, mut each: impl FnMut(FileEvent<'_>)) -> bool {
        let mut buffer = [0; READ];
        let Ok(length) = rustix::io::read(&self.0, &mut buffer) else { return true };
        events(&buffer[..length], &mut each);
        length + MAX_EVENT <= READ
    }
}

impl AsFd for EventGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Mark in `/proc/self/fdinfo`, see proc_pid_fdinfo(5).
#[derive(Debug, PartialEq, Eq)]
struct MarkLine {
    inode: u64,
    device: u64,
    /// `handle_bytes`, `handle_type` and the handle.
    handle: Vec<u8>,
}

impl MarkLine {
    fn of(line: &str) -> Option<MarkLine> {
        let values = line.strip_prefix("fanotify ")?;
        let value = |key: &str| values.split(' ').find_map(|field| field.strip_prefix(key)?.strip_prefix(':'));
        let number = |key: &str| u64::from_str_radix(value(key)?, 16).ok();
        let bytes = |at: usize| u8::from_str_radix(value("f_handle")?.get(2 * at..2 * at + 2)?, 16).ok();
        let length = u32::try_from(number("fhandle-bytes")?).ok().filter(|length| *length <= 128)?;
        let kind = u32::try_from(number("fhandle-type")?).ok()?;
        let mut handle = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        for at in 0..length as usize {
            handle.push(bytes(at)?);
        }
        Some(MarkLine { inode: number("ino")?, device: number("sdev")?, handle })
    }
}

/// Reads the events in a buffer, see fanotify(7).
fn events<'a>(mut buffer: &'a [u8], each: &mut impl FnMut(FileEvent<'a>)) {
    while let Some(length) = word(buffer, 0).map(|length| length as usize).filter(|length| *length >= METADATA)
        && let Some((event, rest)) = buffer.split_at_checked(length)
    {
        let [mask_low, mask_high, _, pid] = [8, 12, 16, 20].map(|at| word(event, at).unwrap_or_default());
        let mask = if cfg!(target_endian = "little") { (mask_low, mask_high) } else { (mask_high, mask_low) };
        let mask = MaskFlags::from_bits_retain(u64::from(mask.0) | u64::from(mask.1) << 32);
        let file = file(&event[METADATA..]);
        if file.is_some() || mask.contains(MaskFlags::FAN_Q_OVERFLOW) {
            each(FileEvent { mask, pid, file });
        }
        buffer = rest;
    }
}

/// Returns the handle of the directory and the name in the record of an event.
///
/// The record has a header of 4 bytes, the file system (8), length (4) and type (4) of the handle, the handle, and the
/// name with a zero byte.
fn file(record: &[u8]) -> Option<(&[u8], &[u8])> {
    if record.first() != Some(&INFO_NAME) {
        return None;
    }
    let end = 20 + word(record, 12)? as usize;
    Some((record.get(4..end)?, record.get(end..)?.split(|byte| *byte == 0).next()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an event as the kernel writes it: 24 bytes, and a record with a handle of 8 bytes and the name.
    fn event(pid: u32, name: &[u8]) -> Vec<u8> {
        let record = 20 + 8 + name.len() + 1;
        let mut event = vec![0; METADATA];
        event[..4].copy_from_slice(&((METADATA + record) as u32).to_ne_bytes());
        event[8..16].copy_from_slice(&MaskFlags::FAN_MODIFY.bits().to_ne_bytes());
        event[20..].copy_from_slice(&pid.to_ne_bytes());
        event.extend([INFO_NAME, 0]);
        event.extend((record as u16).to_ne_bytes());
        event.extend([1; 8]);
        event.extend(8u32.to_ne_bytes());
        event.extend(5u32.to_ne_bytes());
        event.extend([2; 8]);
        event.extend(name);
        event.push(0);
        event
    }

    fn parsed(buffer: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut all = Vec::new();
        events(buffer, &mut |event: FileEvent<'_>| {
            assert_eq!(event.mask, MaskFlags::FAN_MODIFY);
            all.push((event.pid, event.file.unwrap().1.to_vec()));
        });
        all
    }

    #[test]
    fn buffer_with_two_events_gives_processes_and_names() {
        let buffer = [event(7, b"a"), event(8, b"name")].concat();
        assert_eq!(parsed(&buffer), [(7, b"a".to_vec()), (8, b"name".to_vec())]);
    }

    #[test]
    fn truncated_buffer_gives_the_complete_events() {
        let buffer = [event(7, b"a"), event(8, b"name")].concat();
        for length in 0..buffer.len() {
            let expected = usize::from(length >= event(7, b"a").len());
            assert_eq!(parsed(&buffer[..length]).len(), expected, "{length} bytes");
        }
        assert!(parsed(&[0; 64]).is_empty() && parsed(&[255; 64]).is_empty());
    }

    #[test]
    fn mark_of_fdinfo_has_the_handle_of_its_events() {
        let line = "fanotify ino:4f969 sdev:800013 mflags:0 mask:3b ignored_mask:40000000 fhandle-bytes:8 \
                    fhandle-type:5 f_handle:0202020202020202";
        let mark = MarkLine::of(line).unwrap();
        assert_eq!((mark.inode, mark.device), (0x4f969, 0x80_0013));
        let buffer = event(7, b"a");
        let (handle, _) = file(&buffer[METADATA..]).unwrap();
        assert_eq!(handle[8..], mark.handle);
        assert_eq!(MarkLine::of("fanotify flags:0 event-flags:0"), None);
        assert_eq!(MarkLine::of(&line[..line.len() - 1]), None);
    }

    #[test]
    fn marked_directory_is_found_by_its_handle() {
        let place = tempfile::tempdir().unwrap();
        let group = EventGroup::new().expect("run this test as root with CAP_SYS_ADMIN");
        let paths = ["d", "e"].map(|name| place.path().join(name));
        paths.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let marked: Vec<MarkedDirectory> = paths.iter().map(|path| group.mark(path).unwrap()).collect();
        let handles: Vec<Handle> = group.handles(&marked).into_iter().map(Option::unwrap).collect();
        assert_ne!(handles[0], handles[1]);
        std::fs::write(paths[1].join("f"), "").unwrap();
        let mut seen = Vec::new();
        assert!(group.read(|event| seen.extend(event.file.map(|(handle, name)| (handle.to_vec(), name.to_vec())))));
        assert!(!seen.is_empty() && seen.iter().all(|file| *file == (handles[1].to_vec(), b"f".to_vec())), "{seen:?}");
        assert!(group.is_marked(marked[0].id));
        std::fs::remove_dir(&paths[0]).unwrap();
        assert!(!group.is_marked(marked[0].id));
    }
}
