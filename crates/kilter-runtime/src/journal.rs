//! Journal of pending refreshes. Because of it, a crash loses no refresh.
//!
//! The first line is `kilter journal 2 LENGTH`: the length of the file in 16 hexadecimal digits when it was last
//! complete. Each following line is a record: the CRC-32 of the JSON that follows, in hexadecimal, a blank, the
//! JSON, a newline.
//!
//! A crash can only truncate the last line, before the length covers it. Such a line is ignored. A file that is
//! shorter than its length has lost records, and kilter refuses it. A file without the first line has version 1,
//! which earlier versions of kilter wrote.
//!
//! The length covers only data that is on disk, and a journal never shrinks: kilter replaces it by a new file instead.
//! So a power failure cannot leave a length beyond the end of the file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kilter_model::ResourceRef;
use kilter_provider::Durability;
use serde_json::{Value as Json, json};

use crate::records;

/// Reason why the journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused an operation.
    #[error("cannot {attempt} the journal {path}")]
    Io {
        /// Attempted operation.
        attempt: &'static str,
        /// Path of the journal.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A line before the last one is damaged.
    #[error(
        "the journal {path} is damaged at line {line}; pending refreshes may be lost: move it away and refresh by \
         hand the resources that it names"
    )]
    Damaged {
        /// Path of the journal.
        path: PathBuf,
        /// Number of the first damaged line, from 1.
        line: usize,
    },
    /// The file is shorter than it was when it was last complete.
    #[error(
        "the journal {path} was cut: {left} of its {complete} bytes are left, and pending refreshes are lost{}; move \
         it away \
         and refresh by hand what depends on the last changes",
        still_known(known)
    )]
    Cut {
        /// Path of the journal.
        path: PathBuf,
        /// Number of bytes that are left.
        left: u64,
        /// Number of bytes when it was complete.
        complete: u64,
        /// Refreshes that the rest of the file contains.
        known: Vec<String>,
    },
}

fn still_known(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(" (still named: {})", known.join(", ")) }
}

/// The first line without its length.
const HEADER: &str = "kilter journal 2 ";

/// Length of the first line, in bytes.
const HEADER_BYTES: u64 = HEADER.len() as u64 + 17;

/// Maximum number of appended bytes before the journal is rewritten.
const MAX_APPENDED_BYTES: u64 = 1 << 20;

/// Resource that changed, and resource to refresh.
pub(crate) type OwedRefresh = (ResourceRef, ResourceRef);

/// Journal of pending refreshes. It writes no file before a refresh is pending.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Option<File>,
    owed: BTreeSet<OwedRefresh>,
    durability: Durability,
    /// Bytes that were appended since the file was created.
    appended: u64,
    /// Length of the open file in bytes.
    length: u64,
}

impl Journal {
    /// Reads the journal in `directory`. A missing file is a journal without pending refreshes.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged by more than a crash during a write.
    pub fn open(directory: &Path, durability: Durability) -> Result<Journal, JournalError> {
        let path = directory.join("journal");
        let owed = match records::read(&path) {
            Ok(bytes) => parsed(&path, &bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(source) => return Err(JournalError::Io { attempt: "read", path, source }),
        };
        Ok(Journal { path, file: None, owed, durability, appended: 0, length: 0 })
    }

    /// Returns the pending refreshes.
    pub fn owed(&self) -> impl Iterator<Item = &OwedRefresh> {
        self.owed.iter()
    }

    /// Records new pending refreshes. They are on disk when this returns.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn add(&mut self, owed_refreshes: Vec<OwedRefresh>) -> Result<(), JournalError> {
        self.refuse_if_removed()?;
        let new: Vec<&OwedRefresh> =
            owed_refreshes.iter().filter(|owed_refresh| self.owed.insert((*owed_refresh).clone())).collect();
        let written = self.append("owe", &owed_refreshes);
        if written.is_err() {
            for owed_refresh in new {
                self.owed.remove(owed_refresh);
            }
        }
        written
    }

    /// Returns true if the next record creates a file in the state directory.
    pub(crate) fn creates_file(&self) -> bool {
        self.file.is_none() || self.appended > MAX_APPENDED_BYTES
    }

    /// Closes the file. The next record creates a new one.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }

    /// Forgets delivered refreshes that could not be recorded: the next successful rewrite omits them.
    pub(crate) fn forget(&mut self, owed_refreshes: &[OwedRefresh]) {
        for owed_refresh in owed_refreshes {
            self.owed.remove(owed_refresh);
        }
    }

    /// Remembers pending refreshes that could not be recorded: the next successful rewrite contains them.
    pub(crate) fn owe_later(&mut self, owed_refreshes: Vec<OwedRefresh>) {
        self.owed.extend(owed_refreshes);
    }

    /// Records delivered refreshes.
    ///
    /// It does not wait for the disk, because the loss of such a record causes one refresh too many and not one too
    /// few.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn paid(&mut self, owed_refreshes: &[OwedRefresh]) -> Result<(), JournalError> {
        self.forget(owed_refreshes);
        self.append("paid", owed_refreshes)
    }

    /// Refuses to write to a file without a name, which would be lost at the end of the run.
    fn refuse_if_removed(&mut self) -> Result<(), JournalError> {
        let links = self.file.as_ref().and_then(|file| file.metadata().ok()).map(|file| file.nlink());
        if links != Some(0) {
            return Ok(());
        }
        // The next record creates a new file.
        self.file = None;
        let source = io::Error::other("it was removed during the run");
        Err(JournalError::Io { attempt: "append to", path: self.path.clone(), source })
    }

    fn append(&mut self, word: &str, owed_refreshes: &[OwedRefresh]) -> Result<(), JournalError> {
        let line = line(word, owed_refreshes);
        // While a state is held, a refresh may be pending forever: the file is rewritten before it grows.
        if self.appended > MAX_APPENDED_BYTES {
            self.file = None;
        }
        self.appended += line.len() as u64;
        let is_owed = word == "owe";
        let wait = is_owed && self.durability == Durability::Flushed;
        self.written("append to", |file, length| {
            // In this order, a kill in between leaves a valid line beyond the length.
            file.write_all_at(line.as_bytes(), *length)?;
            *length += line.len() as u64;
            if wait {
                file.sync_data()?;
            }
            // A record without a sync must not extend the length: the disk may write the length before the line. A
            // lost line of this kind loses no pending refresh.
            if is_owed { file.write_all_at(header(*length).as_bytes(), 0) } else { Ok(()) }
        })
    }

    fn written(
        &mut self,
        attempt: &'static str,
        write: impl FnOnce(&File, &mut u64) -> io::Result<()>,
    ) -> Result<(), JournalError> {
        let io = |source| JournalError::Io { attempt, path: self.path.clone(), source };
        if self.file.is_none() {
            let (file, length) = self.begin().map_err(io)?;
            self.file = Some(file);
            self.length = length;
            self.appended = 0;
        }
        let file = self.file.as_ref().expect("the journal was opened above");
        let written = write(file, &mut self.length).map_err(io);
        if written.is_err() {
            // The last line may be truncated, and no record may follow it: the next record creates a new file.
            self.file = None;
        }
        written
    }

    /// Writes the pending refreshes to a new journal, which replaces a missing or unwritable one.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn restore(&mut self) -> Result<(), JournalError> {
        self.file = None;
        let owed: Vec<OwedRefresh> = self.owed.iter().cloned().collect();
        // It always writes a record, because an empty file may fit on a full disk.
        self.append("owe", &owed)
    }

    /// Returns true if the journal was removed and has to be restored.
    pub(crate) fn is_removed(&self) -> bool {
        self.file.as_ref().and_then(|file| file.metadata().ok()).is_some_and(|file| file.nlink() == 0)
    }

    /// Replaces the journal by a new one with the pending refreshes only. The next record may repeat some of them,
    /// which is harmless.
    fn begin(&self) -> io::Result<(File, u64)> {
        let new = self.path.with_extension("new");
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let owed: Vec<OwedRefresh> = self.owed.iter().cloned().collect();
        let record = if owed.is_empty() { String::new() } else { line("owe", &owed) };
        let length = HEADER_BYTES + record.len() as u64;
        file.write_all((header(length) + &record).as_bytes())?;
        let flushed = self.durability == Durability::Flushed;
        if flushed {
            file.sync_all()?;
        }
        std::fs::rename(&new, &self.path)?;
        if let (true, Some(directory)) = (flushed, self.path.parent()) {
            File::open(directory)?.sync_all()?;
        }
        Ok((file, length))
    }
}

/// Returns the first line of a file of this length.
fn header(length: u64) -> String {
    format!("{HEADER}{length:016x}\n")
}

/// Returns the pending refreshes of a file.
fn parsed(path: &Path, bytes: &[u8]) -> Result<BTreeSet<OwedRefresh>, JournalError> {
    let cut = |complete, known: BTreeSet<OwedRefresh>| JournalError::Cut {
        path: path.to_owned(),
        left: bytes.len() as u64,
        complete,
        known: known.iter().map(|(first, second)| format!("{second} because of {first}")).collect(),
    };
    // kilter always writes the complete first line.
    if bytes.len() < HEADER_BYTES as usize && HEADER.as_bytes().starts_with(&bytes[..bytes.len().min(HEADER.len())]) {
        return Err(cut(HEADER_BYTES, BTreeSet::new()));
    }
    let damaged = |line| JournalError::Damaged { path: path.to_owned(), line };
    let Some(rest) = bytes.strip_prefix(HEADER.as_bytes()) else { return replay(bytes).map_err(damaged) };
    let (length, records) = rest.split_at(17);
    let length = std::str::from_utf8(&length[..16]).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let length = length.filter(|_| rest[16] == b'\n').ok_or_else(|| damaged(1))?;
    let owed = replay(records).map_err(|line| damaged(line + 1))?;
    // The length covers complete lines only.
    match bytes.len() as u64 >= length {
        true => Ok(owed),
        false => Err(cut(length, owed)),
    }
}

/// Returns a record.
fn line(word: &str, owed_refreshes: &[OwedRefresh]) -> String {
    let pairs: Vec<Json> = owed_refreshes.iter().map(|(a, b)| json!([a.to_string(), b.to_string()])).collect();
    let text = json!({ word: pairs }).to_string();
    format!("{:08x} {text}\n", crc32fast::hash(text.as_bytes()))
}

/// Returns the refreshes that are pending after all records.
///
/// # Errors
/// The number of the first damaged line.
fn replay(bytes: &[u8]) -> Result<BTreeSet<OwedRefresh>, usize> {
    let mut owed = BTreeSet::new();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    for (at, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        record(&line[..line.len() - 1], &mut owed).ok_or(at + 1)?;
    }
    Ok(owed)
}

fn record(line: &[u8], owed: &mut BTreeSet<OwedRefresh>) -> Option<()> {
    let (crc, text) = (line.get(..8)?, line.get(9..)?);
    let crc = u32::from_str_radix(std::str::from_utf8(crc).ok()?, 16).ok()?;
    if crc32fast::hash(text) != crc {
        return None;
    }
    let json: Json = serde_json::from_slice(text).ok()?;
    let (word, pairs) = json.as_object()?.iter().next()?;
    for pair in pairs.as_array()? {
        let owed_refresh = (pair.get(0)?.as_str()?.parse().ok()?, pair.get(1)?.as_str()?.parse().ok()?);
        match word.as_str() {
            "owe" => owed.insert(owed_refresh),
            "paid" => owed.remove(&owed_refresh),
            _ => return None,
        };
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owed_refresh(first: &str, second: &str) -> OwedRefresh {
        (first.parse().unwrap(), second.parse().unwrap())
    }

    fn owed(directory: &Path) -> Vec<OwedRefresh> {
        Journal::open(directory, Durability::Flushed).unwrap().owed().cloned().collect()
    }

    #[test]
    fn removed_journal_has_no_pending_refreshes() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path(), Durability::Flushed).unwrap();
        journal.add(vec![owed_refresh("a[x]", "b[y]")]).unwrap();
        std::fs::remove_file(directory.path().join("journal")).unwrap();
        let error = journal.add(vec![owed_refresh("a[x]", "c[z]")]).unwrap_err().to_string();
        assert!(error.contains("append to"), "{error}");
        assert_eq!(journal.owed().count(), 1);
    }

    #[test]
    fn pending_refreshes_are_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path(), Durability::Flushed).unwrap();
        journal.add(vec![owed_refresh("file[/a]", "exec[b]"), owed_refresh("file[/c]", "exec[b]")]).unwrap();
        journal.paid(&[owed_refresh("file[/a]", "exec[b]")]).unwrap();
        assert_eq!(owed(directory.path()), [owed_refresh("file[/c]", "exec[b]")]);
        journal.paid(&[owed_refresh("file[/c]", "exec[b]")]).unwrap();
        assert_eq!(owed(directory.path()), []);
    }

    #[test]
    fn truncated_journal_keeps_the_refreshes_of_complete_lines() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = ([owed_refresh("file[/a]", "exec[b]")], [owed_refresh("file[/c]", "exec[d]")]);
        let first = line("owe", &one).len();
        // Version 1 has no first line, so that a truncated line is not detected.
        std::fs::write(directory.path().join("journal"), line("owe", &one) + &line("owe", &two)).unwrap();
        let bytes = std::fs::read(directory.path().join("journal")).unwrap();
        for cut in 1..bytes.len() {
            std::fs::write(directory.path().join("journal"), &bytes[..cut]).unwrap();
            let expected = usize::from(cut >= first);
            assert_eq!(owed(directory.path()).len(), expected, "cut at {cut}");
            let mut again = Journal::open(directory.path(), Durability::Flushed).unwrap();
            again.add(vec![owed_refresh("file[/e]", "exec[f]")]).unwrap();
            assert_eq!(owed(directory.path()).len(), expected + 1, "appended after a cut at {cut}");
        }
    }

    #[test]
    fn truncated_journal_is_refused_with_its_readable_entries() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut journal = Journal::open(directory.path(), Durability::Flushed).unwrap();
        journal.add(vec![owed_refresh("file[/a]", "exec[b]")]).unwrap();
        let first = HEADER_BYTES as usize + line("owe", &[owed_refresh("file[/a]", "exec[b]")]).len();
        journal.add(vec![owed_refresh("file[/c]", "exec[d]")]).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let error = Journal::open(directory.path(), Durability::Flushed).unwrap_err();
            assert!(matches!(error, JournalError::Cut { .. }), "cut at {cut}: {error}");
            assert_eq!(error.to_string().contains("still named: exec[b] because of file[/a]"), cut >= first, "{error}");
        }
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(owed(directory.path()).len(), 2);
    }

    #[test]
    fn journal_length_excludes_unsynced_entries() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut journal = Journal::open(directory.path(), Durability::Flushed).unwrap();
        journal.add(vec![owed_refresh("file[/a]", "exec[b]"), owed_refresh("file[/c]", "exec[d]")]).unwrap();
        let flushed = std::fs::metadata(&path).unwrap().len() as usize;
        journal.paid(&[owed_refresh("file[/a]", "exec[b]")]).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for cut in flushed..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert_eq!(owed(directory.path()).len(), 2, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_that_a_crash_cut_off_before_it_counted_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut journal = Journal::open(directory.path(), Durability::Flushed).unwrap();
        journal.add(vec![owed_refresh("file[/a]", "exec[b]")]).unwrap();
        let before = std::fs::read(&path).unwrap();
        let next = line("owe", &[owed_refresh("file[/c]", "exec[d]")]);
        for cut in 0..=next.len() {
            std::fs::write(&path, [&before, &next.as_bytes()[..cut]].concat()).unwrap();
            assert_eq!(owed(directory.path()).len(), 1 + usize::from(cut == next.len()), "cut at {cut}");
        }
    }

    #[test]
    fn fifo_or_link_as_journal_is_refused_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = Journal::open(directory.path(), Durability::Flushed).unwrap_err();
        assert!(matches!(error, JournalError::Io { attempt: "read", .. }), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        let error = Journal::open(directory.path(), Durability::Flushed).unwrap_err();
        assert!(matches!(error, JournalError::Io { attempt: "read", .. }), "{error}");
    }

    #[test]
    fn journal_does_not_grow_while_a_refresh_is_pending() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path(), Durability::Unflushed).unwrap();
        journal.add(vec![owed_refresh("file[/stays]", "exec[owed]")]).unwrap();
        for round in 0..30_000 {
            let one = [owed_refresh(&format!("file[/{round}]"), "exec[b]")];
            journal.add(one.to_vec()).unwrap();
            journal.paid(&one).unwrap();
        }
        let size = std::fs::metadata(directory.path().join("journal")).unwrap().len();
        assert!(size < MAX_APPENDED_BYTES + 4096, "{size}");
        assert_eq!(owed(directory.path()), [owed_refresh("file[/stays]", "exec[owed]")]);
    }

    #[test]
    fn a_journal_damaged_in_the_middle_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("journal"), "00000000 {\"owe\":[]}\n").unwrap();
        let error = Journal::open(directory.path(), Durability::Flushed).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { line: 1, .. }), "{error}");
    }
}
