//! Confirmation of an apply: without it, all changes are undone.
//!
//! A file in the state directory holds the state of the confirmation. The apply, `kilter confirm` and a supervisor
//! change it under a lock. The supervisor is a process of its own session, so that it survives the terminal, the
//! login and the apply. A unit of systemd continues its work after a reboot.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kilter_history::EventId;
use rustix::fs::{FlockOperation, OFlags};
use serde_json::{Value as Json, json};

use crate::recorder::milliseconds;

/// Name of the file in the state directory.
const NAME: &str = "confirmation.json";

/// Name of the lock of the process that undoes the changes.
const UNDO_LOCK: &str = "confirmation.lock";

/// Size of the file in bytes. It never changes, so that a full disk does not prevent a change of the state.
const SIZE: usize = 1024;

/// State of a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfirmationStage {
    /// The changes are being made.
    Applying,
    /// The changes are made, and wait for the confirmation.
    Waiting,
    /// The changes stay.
    Confirmed,
    /// The changes are being undone.
    Undoing,
    /// The changes are undone.
    Undone,
    /// Some changes could not be undone.
    Failed,
}

impl ConfirmationStage {
    const ALL: [ConfirmationStage; 6] = [
        ConfirmationStage::Applying,
        ConfirmationStage::Waiting,
        ConfirmationStage::Confirmed,
        ConfirmationStage::Undoing,
        ConfirmationStage::Undone,
        ConfirmationStage::Failed,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            ConfirmationStage::Applying => "applying",
            ConfirmationStage::Waiting => "waiting",
            ConfirmationStage::Confirmed => "confirmed",
            ConfirmationStage::Undoing => "undoing",
            ConfirmationStage::Undone => "undone",
            ConfirmationStage::Failed => "failed",
        }
    }

    /// Returns true if a confirmation can still change the result.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, ConfirmationStage::Applying | ConfirmationStage::Waiting)
    }

    /// Returns true until the changes stay or are undone.
    fn is_pending(self) -> bool {
        self.is_open() || self == ConfirmationStage::Undoing
    }
}

/// Confirmation in its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Confirmation {
    pub(crate) stage: ConfirmationStage,
    /// Process of the apply.
    pub(crate) pid: u32,
    /// Start time of this process in ticks since the boot.
    started: u64,
    /// Boot of the machine.
    boot: String,
    /// Time for the confirmation, after the apply has ended.
    pub(crate) within: Duration,
    /// Last event of the history before the apply.
    pub(crate) after: EventId,
    /// Time of the last change of the state in milliseconds since 1970.
    pub(crate) at: i64,
}

/// Returns the id of this boot.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Returns the start time of a process in ticks since the boot (field 22 of `/proc/PID/stat`); 0 if it has ended.
fn started(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = rest.split_whitespace();
    // A zombie has ended.
    if fields.next() == Some("Z") {
        return 0;
    }
    fields.nth(18).and_then(|field| field.parse().ok()).unwrap_or_default()
}

impl Confirmation {
    /// Returns true if the apply has not ended.
    pub(crate) fn is_applying(&self) -> bool {
        self.started != 0 && started(self.pid) == self.started && !self.is_of_earlier_boot()
    }

    /// Returns true if the machine was rebooted since.
    pub(crate) fn is_of_earlier_boot(&self) -> bool {
        self.boot != boot()
    }

    fn to_json(&self) -> Json {
        json!({
            "stage": self.stage.word(),
            "pid": self.pid,
            "started": self.started,
            "boot": self.boot,
            "within_ms": self.within.as_millis() as u64,
            "after": self.after.0,
            "at": self.at,
        })
    }

    fn of_json(json: &Json) -> Option<Confirmation> {
        let word = json["stage"].as_str()?;
        Some(Confirmation {
            stage: ConfirmationStage::ALL.into_iter().find(|stage| stage.word() == word)?,
            pid: u32::try_from(json["pid"].as_u64()?).ok()?,
            started: json["started"].as_u64()?,
            boot: json["boot"].as_str()?.to_owned(),
            within: Duration::from_millis(json["within_ms"].as_u64()?),
            after: EventId(json["after"].as_i64()?),
            at: json["at"].as_i64()?,
        })
    }
}

/// File with the confirmation of a state directory.
pub(crate) struct ConfirmationFile {
    file: File,
}

impl ConfirmationFile {
    /// Returns the path in a state directory.
    pub(crate) fn path(state_dir: &Path) -> PathBuf {
        state_dir.join(NAME)
    }

    /// Opens the file; none if there was never a confirmation.
    pub(crate) fn open(state_dir: &Path) -> io::Result<Option<ConfirmationFile>> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let path = ConfirmationFile::path(state_dir);
        match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
            Ok(file) => Ok(Some(ConfirmationFile { file })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Begins a confirmation of this process; none if another one is pending.
    pub(crate) fn begin(state_dir: &Path, within: Duration, after: EventId) -> io::Result<Option<ConfirmationFile>> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let file = ConfirmationFile { file: options.open(ConfirmationFile::path(state_dir))? };
        rustix::fs::flock(&file.file, FlockOperation::LockExclusive)?;
        if file.read().is_some_and(|state| state.stage.is_pending()) {
            return Ok(None);
        }
        let pid = std::process::id();
        let stage = ConfirmationStage::Applying;
        let at = milliseconds(SystemTime::now());
        file.write(&Confirmation { stage, pid, started: started(pid), boot: boot(), within, after, at })?;
        rustix::fs::flock(&file.file, FlockOperation::Unlock)?;
        File::open(state_dir)?.sync_all()?;
        Ok(Some(file))
    }

    /// Returns a lock that only one process at a time has: the one that undoes the changes. None if another process has
    /// it. The kernel releases the lock of a killed process.
    pub(crate) fn undo_lock(state_dir: &Path) -> io::Result<Option<File>> {
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let file = options.open(state_dir.join(UNDO_LOCK))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the current state; none if the file is damaged.
    pub(crate) fn read(&self) -> Option<Confirmation> {
        let mut bytes = [0; SIZE];
        let length = self.file.read_at(&mut bytes, 0).ok()?;
        Confirmation::of_json(&serde_json::from_slice(&bytes[..length]).ok()?)
    }

    fn write(&self, state: &Confirmation) -> io::Result<()> {
        let mut text = state.to_json().to_string().into_bytes();
        text.resize(SIZE - 1, b' ');
        text.push(b'\n');
        self.file.write_all_at(&text, 0)?;
        self.file.sync_data()
    }

    /// Changes the stage if it is one of `from`; returns the stage before. Other processes wait meanwhile.
    pub(crate) fn change(
        &self,
        from: &[ConfirmationStage],
        to: ConfirmationStage,
    ) -> io::Result<Option<ConfirmationStage>> {
        rustix::fs::flock(&self.file, FlockOperation::LockExclusive)?;
        let changed = match self.read() {
            None => Ok(None),
            Some(state) if !from.contains(&state.stage) => Ok(Some(state.stage)),
            Some(state) => {
                let (before, at) = (state.stage, milliseconds(SystemTime::now()));
                self.write(&Confirmation { stage: to, at, ..state }).map(|()| Some(before))
            }
        };
        let unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        changed.and_then(|stage| unlocked.map(|()| stage).map_err(io::Error::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_changes_only_from_the_expected_ones_and_the_size_stays() {
        let place = tempfile::tempdir().unwrap();
        assert!(ConfirmationFile::open(place.path()).unwrap().is_none());
        let file = ConfirmationFile::begin(place.path(), Duration::from_secs(60), EventId(7)).unwrap().unwrap();
        let path = ConfirmationFile::path(place.path());
        let state = file.read().unwrap();
        assert!(ConfirmationFile::begin(place.path(), Duration::from_secs(60), EventId(8)).unwrap().is_none());
        let lock = ConfirmationFile::undo_lock(place.path()).unwrap();
        assert!(lock.is_some() && ConfirmationFile::undo_lock(place.path()).unwrap().is_none());
        assert_eq!(
            (state.stage, state.after, state.within),
            (ConfirmationStage::Applying, EventId(7), Duration::from_secs(60))
        );
        assert!(state.is_applying() && !state.is_of_earlier_boot());
        let open = [ConfirmationStage::Applying, ConfirmationStage::Waiting];
        assert_eq!(file.change(&open, ConfirmationStage::Confirmed).unwrap(), Some(ConfirmationStage::Applying));
        assert_eq!(file.change(&open, ConfirmationStage::Undoing).unwrap(), Some(ConfirmationStage::Confirmed));
        assert_eq!(file.read().unwrap().stage, ConfirmationStage::Confirmed);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), SIZE as u64);
        std::fs::write(&path, "garbage").unwrap();
        assert_eq!((file.read(), file.change(&open, ConfirmationStage::Confirmed).unwrap()), (None, None));
    }

    #[test]
    fn ended_process_and_earlier_boot_are_noticed() {
        let place = tempfile::tempdir().unwrap();
        let file = ConfirmationFile::begin(place.path(), Duration::from_secs(60), EventId(0)).unwrap().unwrap();
        let state = file.read().unwrap();
        assert!(!Confirmation { started: state.started + 1, ..state.clone() }.is_applying());
        let earlier = Confirmation { boot: "another".to_owned(), ..state };
        assert!(earlier.is_of_earlier_boot() && !earlier.is_applying());
    }
}
