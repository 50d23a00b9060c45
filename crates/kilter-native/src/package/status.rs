//! dpkg's database of packages: `/var/lib/dpkg/status`, and the journal of a running dpkg.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ecow::EcoString;
use kilter_process::trust::{Distrust, TrustPolicy};
use kilter_provider::ProviderError;
use rustc_hash::FxHashMap;

/// Maximum size of the database in bytes. Debian's largest installations have some 100 MB.
const MAX_BYTES: u64 = 512 << 20;

/// Maximum kept length of a field in bytes. Longer values are truncated.
const MAX_FIELD_BYTES: usize = 64 << 10;

/// Maximum number of journal files. dpkg empties its journal after 250.
const MAX_JOURNAL_FILES: usize = 10_000;

/// Status of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DpkgStatus {
    /// Completely installed.
    Installed,
    /// Unpacked, half configured, or half installed.
    Broken,
    /// Removed, with configuration files left.
    ConfigFiles,
    /// Unknown or purged.
    NotInstalled,
}

/// A package in dpkg's database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Package {
    /// Name without the architecture.
    pub(super) name: EcoString,
    pub(super) architecture: EcoString,
    pub(super) version: EcoString,
    pub(super) status: DpkgStatus,
    /// True if the package is on hold.
    pub(super) is_held: bool,
    /// Virtual packages that it provides, with their versions.
    pub(super) provides: Vec<(EcoString, Option<EcoString>)>,
}

impl Package {
    /// Returns true if its files are there, at least in part.
    pub(super) fn is_there(&self) -> bool {
        matches!(self.status, DpkgStatus::Installed | DpkgStatus::Broken)
    }
}

/// The packages of a machine.
#[derive(Debug, Default)]
pub(super) struct Packages {
    rows: Vec<Package>,
    /// Architecture of dpkg.
    pub(super) native: EcoString,
    by_name: FxHashMap<EcoString, Vec<usize>>,
    providers: FxHashMap<EcoString, Vec<usize>>,
}

impl Packages {
    /// Returns all packages, in dpkg's order.
    pub(super) fn all(&self) -> &[Package] {
        &self.rows
    }

    /// Returns the package with a name: `libc6`, or `libc6:i386` for a foreign architecture.
    pub(super) fn find(&self, name: &str) -> Option<&Package> {
        let (plain, architecture) = name.split_once(':').unwrap_or((name, self.native.as_str()));
        let rows = self.by_name.get(plain)?.iter().map(|&at| &self.rows[at]);
        let is_native = architecture == self.native;
        let matching = rows.filter(|row| row.architecture == architecture || is_native && row.architecture == "all");
        // After a change of its architecture, a package may have rows of both.
        matching.max_by_key(|row| row.is_there())
    }

    /// Returns the installed packages that provide a virtual package, with the provided versions.
    pub(super) fn providers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Package, Option<&'a EcoString>)> {
        let (plain, architecture) = name.split_once(':').unwrap_or((name, self.native.as_str()));
        let rows = self.providers.get(plain).into_iter().flatten().map(|&at| &self.rows[at]);
        let is_native = architecture == self.native;
        rows.filter(move |row| row.status == DpkgStatus::Installed)
            .filter(move |row| row.architecture == architecture || is_native && row.architecture == "all")
            .filter_map(move |row| {
                let provided = row.provides.iter().find(|(name, _)| name == plain)?;
                Some((row, provided.1.as_ref()))
            })
    }

    /// Returns the name of a package in manifests: without an architecture, unless it is foreign.
    pub(super) fn title(&self, package: &Package) -> EcoString {
        match package.architecture == self.native || package.architecture == "all" {
            true => package.name.clone(),
            false => ecow::eco_format!("{}:{}", package.name, package.architecture),
        }
    }

    fn put(&mut self, row: Package) {
        let rows = self.by_name.entry(row.name.clone()).or_default();
        match rows.iter().find(|&&at| self.rows[at].architecture == row.architecture) {
            Some(&at) => self.rows[at] = row,
            None => {
                rows.push(self.rows.len());
                self.rows.push(row);
            }
        }
    }

    fn finish(&mut self) {
        for (at, row) in self.rows.iter().enumerate() {
            for (name, _) in &row.provides {
                self.providers.entry(name.clone()).or_default().push(at);
            }
        }
        // The program dpkg has the architecture of its package.
        let dpkg =
            self.by_name.get("dpkg").and_then(|rows| rows.iter().map(|&at| &self.rows[at]).find(|row| row.is_there()));
        self.native = dpkg.map(|dpkg| dpkg.architecture.clone()).unwrap_or_default();
    }
}

/// Reads a file of dpkg's database. Passes on each line; an empty line ends a paragraph.
fn read(file: File, add: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(64 << 10, file.take(MAX_BYTES));
    let mut line = Vec::with_capacity(1 << 10);
    loop {
        line.clear();
        let length = read_line(&mut reader, &mut line)?;
        add(&line);
        if length == 0 {
            break;
        }
    }
    match reader.into_inner().limit() {
        0 => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Ok(()),
    }
}

/// Reads a line without its newline, and keeps its first bytes. Returns the number of read bytes.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let mut length = 0;
    loop {
        let buffer = reader.fill_buf()?;
        let end = memchr::memchr(b'\n', buffer);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let kept = part.len().min(MAX_FIELD_BYTES.saturating_sub(line.len()));
        line.extend_from_slice(&part[..kept]);
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        length += used;
        if end.is_some() || used == 0 {
            return Ok(length);
        }
    }
}

/// The fields of a paragraph that kilter needs.
#[derive(Default)]
struct Paragraph {
    name: Option<EcoString>,
    status: EcoString,
    architecture: EcoString,
    version: EcoString,
    provides: EcoString,
}

impl Paragraph {
    fn add(&mut self, line: &[u8]) {
        // A continuation belongs to the description, to the configuration files, or to a folded relation, which dpkg
        // does not write.
        let field = match line.first() {
            Some(b'P') => {
                [(&b"Package: "[..], 0), (&b"Provides: "[..], 4)].into_iter().find(|(key, _)| line.starts_with(key))
            }
            Some(b'S') => line.starts_with(b"Status: ").then_some((&b"Status: "[..], 1)),
            Some(b'A') => line.starts_with(b"Architecture: ").then_some((&b"Architecture: "[..], 2)),
            Some(b'V') => line.starts_with(b"Version: ").then_some((&b"Version: "[..], 3)),
            _ => None,
        };
        let Some((key, field)) = field else { return };
        let value = EcoString::from(String::from_utf8_lossy(&line[key.len()..]).trim());
        match field {
            0 => self.name = Some(value),
            1 => self.status = value,
            2 => self.architecture = value,
            3 => self.version = value,
            _ => self.provides = value,
        }
    }

    fn row(self) -> Option<Package> {
        let mut words = self.status.split_ascii_whitespace();
        let (want, _, state) = (words.next()?, words.next(), words.next()?);
        let status = match state {
            "installed" | "triggers-awaited" | "triggers-pending" => DpkgStatus::Installed,
            "config-files" => DpkgStatus::ConfigFiles,
            "not-installed" => DpkgStatus::NotInstalled,
            _ => DpkgStatus::Broken,
        };
        Some(Package {
            name: self.name?,
            architecture: self.architecture,
            version: self.version,
            status,
            is_held: want == "hold",
            provides: provides(&self.provides),
        })
    }
}

/// Parses `mail-transport-agent, foo (= 1.0), bar:any`.
fn provides(text: &str) -> Vec<(EcoString, Option<EcoString>)> {
    let entry = |entry: &str| {
        let (name, version) = entry.split_once('(').unwrap_or((entry, ""));
        let name = name.trim().split(':').next().unwrap_or_default();
        let version = version.trim_end_matches([')', ' ']).trim_start_matches(['=', ' ']);
        (!name.is_empty()).then(|| (name.into(), (!version.is_empty()).then(|| version.into())))
    };
    text.split(',').filter_map(entry).collect()
}

/// Identifies a version of the database.
type Stamp = Vec<(u64, u64, i64, i64)>;

/// The database of a machine, read once per version.
pub(super) struct Database {
    directory: PathBuf,
    trust: TrustPolicy,
    slot: Mutex<Option<(Stamp, Arc<Packages>)>>,
}

impl Database {
    /// The database in a directory such as `/var/lib/dpkg`.
    pub(super) fn new(directory: impl Into<PathBuf>, trust: TrustPolicy) -> Database {
        Database { directory: directory.into(), trust, slot: Mutex::new(None) }
    }

    /// Returns the path of the main file.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join("status")
    }

    /// Returns the directory with the lists of files.
    pub(super) fn info(&self) -> PathBuf {
        self.directory.join("info")
    }

    /// Returns true if the machine has a database.
    pub(super) fn exists(&self) -> bool {
        self.path().exists()
    }

    /// Returns the packages.
    ///
    /// # Errors
    /// If the database cannot be read, or another user can change it.
    pub(super) fn packages(&self) -> Result<Arc<Packages>, ProviderError> {
        // A panic cannot leave a partial value in the slot.
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.stamp();
        if let Some((known, packages)) = &*slot
            && *known == stamp
        {
            return Ok(Arc::clone(packages));
        }
        let packages = Arc::new(self.read()?);
        *slot = Some((stamp, Arc::clone(&packages)));
        Ok(packages)
    }

    fn stamp(&self) -> Stamp {
        let files = [self.path(), self.directory.join("updates")];
        let of = |found: Metadata| (found.ino(), found.size(), found.mtime(), found.mtime_nsec());
        files.iter().map(|path| std::fs::metadata(path).map_or((0, 0, 0, 0), of)).collect()
    }

    fn read(&self) -> Result<Packages, ProviderError> {
        let (mut packages, mut paragraph) = (Packages::default(), Paragraph::default());
        self.lines(&mut |line| match line.is_empty() {
            true => std::mem::take(&mut paragraph).row().into_iter().for_each(|row| packages.put(row)),
            false => paragraph.add(line),
        })?;
        packages.finish();
        Ok(packages)
    }

    /// Passes on each line of the database. An empty line ends a paragraph. A later paragraph of a package replaces an
    /// earlier one.
    ///
    /// # Errors
    /// If the database cannot be read, or another user can change it.
    pub(super) fn lines(&self, add: &mut dyn FnMut(&[u8])) -> Result<(), ProviderError> {
        self.add(&self.path(), add)?;
        // A running dpkg appends its changes here, and merges them into the main file later.
        for path in self.journal() {
            match self.add(&path, add) {
                Err(_) if !path.exists() => {}
                added => added?,
            }
        }
        Ok(())
    }

    fn add(&self, path: &Path, add: &mut dyn FnMut(&[u8])) -> Result<(), ProviderError> {
        let failed =
            |error: &dyn std::fmt::Display| ProviderError::new(format!("cannot read {}: {error}", path.display()));
        let file = self.trust.open(path).map_err(|distrust| match distrust {
            Distrust::Io { source, .. } => failed(&source),
            distrust @ Distrust::Changeable { .. } => failed(&distrust),
        })?;
        file.open().and_then(|file| read(file, add)).map_err(|error| failed(&error))
    }

    /// Returns the files of the journal, the oldest first.
    fn journal(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.directory.join("updates")) else { return Vec::new() };
        let is_file =
            |name: &std::ffi::OsStr| !name.is_empty() && name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.file_name().is_some_and(is_file))
            .take(MAX_JOURNAL_FILES)
            .collect();
        paths.sort_unstable();
        paths
    }
}
