//! Programs that are sent to hosts.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flate2::Compression;
use flate2::write::GzEncoder;
use kilter_process::trust::TrustPolicy;

use crate::compressed::{CompressedCache, sha256};

/// Programs for hosts: this one, and those for other kinds of machines.
#[derive(Debug)]
pub struct Programs {
    own: Binary,
    /// Directory of the others: `kilter-MACHINE`.
    directory: PathBuf,
    trust: TrustPolicy,
    others: Mutex<HashMap<String, Arc<Binary>>>,
    cache: Option<CompressedCache>,
}

impl Programs {
    /// Reads the program of this process. Those for other kinds of machines are read at their first use from
    /// `directory`, as `kilter-MACHINE`. `cache` is a directory that only this user can change, for the compressed
    /// programs.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn new(directory: &Path, trust: TrustPolicy, cache: Option<&Path>) -> io::Result<Programs> {
        let cache = cache.map(CompressedCache::new);
        let own = Binary::own(cache.clone())?;
        Ok(Programs { own, directory: directory.to_owned(), trust, others: Mutex::default(), cache })
    }

    /// Returns the program of this process.
    pub fn own(&self) -> &Binary {
        &self.own
    }

    /// Returns the program for another kind of machine.
    ///
    /// # Errors
    /// The reason why there is none, with the remedy.
    pub(crate) fn of(&self, machine: &str) -> Result<Arc<Binary>, String> {
        if !machine.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err("that is no kind of machine".to_owned());
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = others.get(machine) {
            return Ok(Arc::clone(known));
        }
        let path = self.directory.join(format!("kilter-{machine}"));
        let opened = self.trust.open(&path).map_err(|distrust| match distrust.is_missing() {
            true => {
                format!("store kilter for such machines at {}, or name its directory by --programs", path.display())
            }
            false => format!("{}: {distrust}", path.display()),
        })?;
        let binary = opened.open().and_then(|file| Binary::of(file, machine, self.cache.clone()));
        let binary = binary.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(Arc::clone(others.entry(machine.to_owned()).or_insert_with(|| Arc::new(binary))))
    }
}

/// Program for the hosts of one kind of machine.
#[derive(Debug)]
pub struct Binary {
    file: File,
    /// Name of the machines on which it runs, as `uname -m` prints it.
    machine: String,
    digest: String,
    compressed: OnceLock<Vec<u8>>,
    compression: Mutex<()>,
    cache: Option<CompressedCache>,
}

impl Binary {
    /// Reads the program of this process.
    fn own(cache: Option<CompressedCache>) -> io::Result<Binary> {
        // The link names this program even if its file was replaced meanwhile.
        Binary::of(File::open("/proc/self/exe")?, crate::stub::own_machine(), cache)
    }

    /// Reads a program that runs on `machine`.
    fn of(file: File, machine: &str, cache: Option<CompressedCache>) -> io::Result<Binary> {
        let digest = sha256(&content(&file)?);
        let machine = machine.to_owned();
        Ok(Binary { file, machine, digest, compressed: OnceLock::new(), compression: Mutex::new(()), cache })
    }

    /// Returns the SHA-256 in hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the name of the machines on which it runs.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// Returns the content.
    pub(crate) fn content(&self) -> io::Result<Vec<u8>> {
        content(&self.file)
    }

    /// Returns the content, compressed with gzip.
    pub(crate) fn compressed(&self) -> io::Result<&[u8]> {
        // Other sessions need the same bytes: they wait instead of a second compression.
        let _one = self.compression.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compressed) = self.compressed.get() {
            return Ok(compressed);
        }
        if let Some(stored) = self.cache.as_ref().and_then(|cache| cache.read(&self.machine, &self.digest)) {
            return Ok(self.compressed.get_or_init(|| stored));
        }
        // Level 6 takes twice the time, and saves 4 % of the bytes.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(3));
        encoder.write_all(&self.content()?)?;
        let compressed = encoder.finish()?;
        if let Some(Err(error)) = self.cache.as_ref().map(|cache| cache.write(&self.machine, &self.digest, &compressed))
        {
            tracing::debug!("cannot store the compressed program: {error}");
        }
        Ok(self.compressed.get_or_init(|| compressed))
    }
}

fn content(file: &File) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
