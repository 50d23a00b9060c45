//! Stored outputs of resources that did not run in this run.
//!
//! A command that ran once (`creates`) is in sync from then on, and its output must stay available. Therefore the
//! state directory keeps the outputs that others use, in files of mode 0600. They are readable, except secrets,
//! which are encrypted with the key of the state directory. No checksum of a secret is stored, because guesses
//! could be tested against it. For a declaration with secrets, only the encryption identifies the declaration.
//!
//! A record is a line as in the journal: the CRC-32 of the JSON that follows, in hexadecimal, a blank, the JSON, a
//! newline. Records of earlier versions are JSON alone.

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};

use kilter_model::{
    AttributeName, Attributes, ResourceRef, Value, from_canonical_json, to_canonical_json, to_canonical_json_clear,
};
use serde_json::{Map, Value as Json, json};

use crate::records;
use crate::sealing::{SealingKey, SealingKeyError, bound};
use crate::state_dir::{StateDir, StateDirError};

/// Domain of the encryption, which separates outputs from other uses of the key.
const PURPOSE: &str = "kilter outputs 1";

/// Reason why outputs cannot be stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error(transparent)]
    Key(#[from] SealingKeyError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    StateDir(#[from] StateDirError),
}

/// Reason why stored outputs cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeptError {
    #[error("{path} cannot be read: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} is damaged")]
    Damaged { path: PathBuf },
    #[error("it is encrypted in {path}, and {source}")]
    Key { path: PathBuf, source: SealingKeyError },
    #[error(
        "{path} cannot be opened with the key {key}: the key, what the resource is declared as, or the file is not \
         the one of then"
    )]
    Sealed { path: PathBuf, key: PathBuf },
    #[error("{path} holds secrets in clear, and they cannot be sealed: {source}")]
    Clear { path: PathBuf, source: KeepError },
}

/// Declaration of a sender.
///
/// Stored outputs are valid only for the declaration that produced them. Another manifest or a later version may
/// declare another resource under the same reference.
pub(crate) struct OutputDeclaration<'a> {
    pub(crate) reference: &'a ResourceRef,
    pub(crate) attributes: &'a Attributes,
    /// True if its receivers use all its outputs as secrets.
    pub(crate) confidential: bool,
    /// Attributes that do not influence the outputs: changing them keeps stored outputs valid.
    pub(crate) apart: &'a [&'a str],
}

/// Outputs in a state directory.
pub(crate) struct Outputs<'a> {
    state: &'a Path,
    /// Key, read at the first use.
    key: OnceCell<SealingKey>,
}

impl<'a> Outputs<'a> {
    pub(crate) fn new(state: &'a Path) -> Outputs<'a> {
        Outputs { state, key: OnceCell::new() }
    }

    /// Stores the outputs of a resource.
    pub(crate) fn keep(&self, declared: &OutputDeclaration<'_>, sent: &Attributes) -> Result<(), KeepError> {
        // The directory at the path may have become that of another run. This run holds the same lock until it ends.
        let _lock = StateDir::new(self.state).hold()?;
        let record = self.record(declared, sent)?;
        Ok(records::write(&self.path(declared.reference), &line(&record))?)
    }

    /// Removes the stored outputs of a resource, and the unfinished file of a killed run.
    pub(crate) fn forget(&self, reference: &ResourceRef) {
        // If the removal fails, storing fails as well, and that is reported.
        records::remove(&self.path(reference));
    }

    fn record(&self, declared: &OutputDeclaration<'_>, sent: &Attributes) -> Result<Json, KeepError> {
        let (mut clear, mut sealed) = (Map::new(), Map::new());
        for (name, value) in sent.iter() {
            if declared.has_secret(value) {
                let text = to_canonical_json_clear(value).to_string();
                let text = self.made_key()?.seal(&text, &declared.bound("sent", name.as_str()))?;
                sealed.insert(name.to_string(), text.into());
            } else {
                clear.insert(name.to_string(), to_canonical_json(value));
            }
        }
        let as_what = match declared.is_secret() {
            true => json!({ "sealed": self.made_key()?.seal("", &declared.bound("declared", ""))? }),
            false => declared.checksum().into(),
        };
        let mut record = json!({ "resource": declared.reference.to_string(), "declared": as_what, "sent": clear });
        if !sealed.is_empty() {
            record["sealed"] = sealed.into();
        }
        Ok(record)
    }

    /// Returns the stored outputs of a resource; none if there are none, or only those of another declaration.
    ///
    /// If `may_write` is true, this encrypts secrets that are stored in clear: they were no secrets before, or an
    /// earlier version wrote them.
    pub(crate) fn kept(
        &self,
        declared: &OutputDeclaration<'_>,
        may_write: bool,
    ) -> Result<Option<Attributes>, KeptError> {
        let path = self.path(declared.reference);
        let bytes = match records::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(KeptError::Io { path, source }),
        };
        let record = json_of(&bytes).as_ref().and_then(OutputRecord::of);
        let record = record.ok_or_else(|| KeptError::Damaged { path: path.clone() })?;
        if record.resource != declared.reference.to_string() {
            return Ok(None);
        }
        match (&record.declared, declared.is_secret()) {
            (DeclarationSeal::Checksum(checksum), _) if *checksum == declared.checksum() => {}
            (DeclarationSeal::Sealed(sealed), true) => {
                self.opened(sealed, &declared.bound("declared", ""), &path)?;
            }
            _ => return Ok(None),
        }
        let mut sent = record.sent;
        for (name, sealed) in record.sealed {
            let json = self.opened(&sealed, &declared.bound("sent", &name), &path)?;
            let value = serde_json::from_slice(&json).ok().and_then(|json: Json| from_canonical_json(&json).ok());
            sent.push(AttributeName::from(&*name), value.ok_or_else(|| KeptError::Damaged { path: path.clone() })?);
        }
        let is_clear = declared.is_secret() && matches!(record.declared, DeclarationSeal::Checksum(_))
            || sent.iter().take(record.clear).any(|(_, value)| declared.has_secret(value));
        if is_clear && may_write {
            self.keep(declared, &sent).map_err(|source| KeptError::Clear { path, source })?;
        }
        Ok(Some(sent))
    }

    fn opened(&self, sealed: &str, bound: &[u8], path: &Path) -> Result<Vec<u8>, KeptError> {
        let key = self.key(SealingKey::of).map_err(|source| KeptError::Key { path: path.to_owned(), source })?;
        let other = || KeptError::Sealed { path: path.to_owned(), key: SealingKey::path(self.state) };
        key.open(sealed, bound).ok_or_else(other)
    }

    fn made_key(&self) -> Result<&SealingKey, SealingKeyError> {
        self.key(SealingKey::made)
    }

    fn key(&self, get: fn(&Path) -> Result<SealingKey, SealingKeyError>) -> Result<&SealingKey, SealingKeyError> {
        if self.key.get().is_none() {
            let key = get(self.state)?;
            return Ok(self.key.get_or_init(|| key));
        }
        Ok(self.key.get().expect("it is there, as was just seen"))
    }

    /// Returns true if outputs of a resource are stored, for any declaration.
    pub(crate) fn has(&self, reference: &ResourceRef) -> bool {
        self.path(reference).exists()
    }

    fn path(&self, reference: &ResourceRef) -> PathBuf {
        records::path(&self.state.join("outputs"), &reference.to_string())
    }
}

impl OutputDeclaration<'_> {
    fn is_secret(&self) -> bool {
        self.attributes.iter().any(|(_, value)| value.holds_sensitive())
    }

    fn has_secret(&self, output: &Value) -> bool {
        self.confidential || output.holds_sensitive()
    }

    fn text(&self) -> String {
        let line = |(name, value): (&AttributeName, &Value)| format!("{name}={}\0", to_canonical_json_clear(value));
        let is_meant = |(name, _): &(&AttributeName, &Value)| !self.apart.contains(&name.as_str());
        self.attributes.iter().filter(is_meant).map(line).collect()
    }

    /// Returns a checksum that identifies a declaration without secrets.
    fn checksum(&self) -> String {
        format!("{:08x}", crc32fast::hash(self.text().as_bytes()))
    }

    /// Returns the associated data of an encrypted part: it is valid only in this place of this record.
    fn bound(&self, part: &str, output: &str) -> Vec<u8> {
        bound([PURPOSE, &self.reference.to_string(), &self.text(), part, output])
    }
}

/// Returns the text of a record.
fn line(record: &Json) -> String {
    let text = record.to_string();
    format!("{:08x} {text}\n", crc32fast::hash(text.as_bytes()))
}

/// Returns the JSON of a record; none if it is damaged.
fn json_of(bytes: &[u8]) -> Option<Json> {
    if bytes.starts_with(b"{") {
        return serde_json::from_slice(bytes).ok();
    }
    let (crc, text) = (bytes.get(..8)?, bytes.get(9..)?.strip_suffix(b"\n")?);
    let crc = u32::from_str_radix(std::str::from_utf8(crc).ok()?, 16).ok()?;
    if bytes[8] != b' ' || crc32fast::hash(text) != crc {
        return None;
    }
    serde_json::from_slice(text).ok()
}

/// Record of a file.
struct OutputRecord {
    resource: String,
    declared: DeclarationSeal,
    sent: Attributes,
    /// Number of outputs in clear.
    clear: usize,
    sealed: Vec<(String, String)>,
}

/// Identification of the declaration in a record.
enum DeclarationSeal {
    /// A checksum. Earlier versions also used it for declarations with secrets.
    Checksum(String),
    /// An encrypted text that only the same declaration can decrypt.
    Sealed(String),
}

impl OutputRecord {
    fn of(json: &Json) -> Option<OutputRecord> {
        let declared = match json.get("declared")? {
            Json::String(checksum) => DeclarationSeal::Checksum(checksum.clone()),
            sealed => DeclarationSeal::Sealed(sealed.get("sealed")?.as_str()?.to_owned()),
        };
        let sent = json.get("sent")?.as_object()?.iter();
        let sent = sent.map(|(name, value)| Some((name.as_str(), from_canonical_json(value).ok()?)));
        let sent: Attributes = sent.collect::<Option<_>>()?;
        let sealed = json.get("sealed").map_or(Some(Vec::new()), |sealed| {
            let all = sealed.as_object()?.iter();
            all.map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned()))).collect()
        })?;
        let resource = json.get("resource")?.as_str()?.to_owned();
        Some(OutputRecord { resource, declared, clear: sent.len(), sent, sealed })
    }
}

#[cfg(test)]
mod tests;
