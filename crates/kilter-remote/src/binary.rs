//! This program as it is sent to hosts.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest::{Context, SHA256};

/// Program for the hosts of one architecture.
#[derive(Debug)]
pub struct Binary {
    path: PathBuf,
    /// Name of the machines on which it runs, as `uname -m` prints it.
    machine: String,
    digest: String,
    compressed: OnceLock<Vec<u8>>,
    compression: Mutex<()>,
}

impl Binary {
    /// Reads the program of this process.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn own() -> io::Result<Binary> {
        // The link names this program even if its file was replaced meanwhile.
        Binary::at(PathBuf::from("/proc/self/exe"), crate::stub::own_machine())
    }

    /// Reads a program that runs on `machine`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn at(path: PathBuf, machine: &str) -> io::Result<Binary> {
        let mut file = File::open(&path)?;
        let mut context = Context::new(&SHA256);
        let mut chunk = vec![0; 256 << 10];
        loop {
            match file.read(&mut chunk)? {
                0 => break,
                count => context.update(&chunk[..count]),
            }
        }
        let digest = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Binary {
            path,
            machine: machine.to_owned(),
            digest,
            compressed: OnceLock::new(),
            compression: Mutex::new(()),
        })
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
        std::fs::read(&self.path)
    }

    /// Returns the content, compressed with gzip.
    pub(crate) fn compressed(&self) -> io::Result<&[u8]> {
        // Other sessions need the same bytes: they wait instead of a second compression.
        let _one = self.compression.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compressed) = self.compressed.get() {
            return Ok(compressed);
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(&self.content()?)?;
        let compressed = encoder.finish()?;
        Ok(self.compressed.get_or_init(|| compressed))
    }
}
