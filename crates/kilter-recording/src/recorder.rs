//! Writing a recording.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kilter_model::AttributeSchema;
use kilter_provider::Registry;
use kilter_script::recorded::{RecordedExchange, SecretMasker};
use serde_json::Value as Json;

use crate::file::{self, RecordLine};

/// Writes a recording line by line.
pub struct Recorder {
    path: PathBuf,
    state: Mutex<RecorderState>,
}

struct RecorderState {
    file: File,
    masker: SecretMasker,
    /// Lines that are held back until their secrets are known.
    held: Option<Vec<RecordLine>>,
    /// Number of known secrets when the first line was written.
    known: usize,
    /// Number of exchanges so far.
    exchanges: usize,
    /// Names of the sensitive attributes of each type.
    sensitive: BTreeMap<String, Vec<String>>,
    failure: Option<io::Error>,
}

/// Statistics of a recording.
pub struct RecordingSummary {
    /// Number of recorded calls of scripts.
    pub exchanges: usize,
    /// Number of replaced secrets.
    pub secrets: usize,
    /// Number of secrets that were too short to replace.
    pub short: usize,
}

impl Recorder {
    /// Starts a recording of the command with these words.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn begin(path: &Path, words: &[Vec<u8>], replaced: &[String]) -> io::Result<Recorder> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let mut masker = SecretMasker::default();
        replaced.iter().for_each(|text| masker.register_secrets(text));
        file::write(&mut file, &RecordLine::Header { kilter_version: env!("CARGO_PKG_VERSION").to_owned() })?;
        let held = Some(vec![RecordLine::Command(words.to_vec())]);
        let state =
            RecorderState { file, masker, held, known: 0, exchanges: 0, sensitive: BTreeMap::new(), failure: None };
        Ok(Recorder { path: path.to_owned(), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the sensitive attributes of all types.
    pub(crate) fn know(&self, registry: &Registry) {
        let mut state = self.state();
        for provider in registry.iter() {
            let names = state.sensitive.entry(provider.schema().name.to_string()).or_default();
            let sealed = provider.schema().attributes.iter().filter(|attribute| is_sealed(attribute));
            names.extend(sealed.map(|attribute| attribute.name.to_string()));
            names.sort_unstable();
            names.dedup();
        }
    }

    /// Registers secrets.
    pub(crate) fn register_secrets(&self, teach: impl FnOnce(&mut SecretMasker)) {
        teach(&mut self.state().masker);
    }

    /// Writes a query and its answer.
    pub(crate) fn asked(&self, what: &str, of: Json, answer: Json) {
        self.state().line(RecordLine::Query { what: what.to_owned(), of, answer });
    }

    /// Writes an exchange with a script.
    pub(crate) fn exchanged(&self, exchange: RecordedExchange) {
        let mut state = self.state();
        state.exchanges += 1;
        let number = state.exchanges;
        state.learn_written(&exchange);
        state.line(RecordLine::Exchange { number, exchange: Box::new(exchange) });
    }

    /// Marks the point at which all secrets of the earlier lines are known.
    pub(crate) fn settle(&self) {
        self.state().settle();
    }

    /// Ends the recording, which is then durable.
    ///
    /// # Errors
    /// If a write failed, now or before.
    pub fn end(&self, exit: Option<u8>) -> io::Result<RecordingSummary> {
        let mut state = self.state();
        state.settle();
        state.line(RecordLine::Ended { exit });
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        if state.masker.count() > state.known {
            rewrite(&self.path, &state.masker)?;
        } else {
            state.file.sync_all()?;
        }
        sync_directory(&self.path)?;
        Ok(RecordingSummary {
            exchanges: state.exchanges,
            secrets: state.masker.count(),
            short: state.masker.too_short(),
        })
    }
}

fn outputs(exchange: &RecordedExchange) -> Vec<&[u8]> {
    let mut outputs: Vec<&[u8]> = exchange.stdin.iter().map(Vec::as_slice).collect();
    if let Ok(finished) = &exchange.answer {
        outputs
            .extend([&finished.stdout, &finished.stderr, &finished.channel].map(|captured| captured.bytes.as_slice()));
    }
    outputs
}

impl RecorderState {
    fn line(&mut self, line: RecordLine) {
        match &mut self.held {
            Some(held) => held.push(line),
            None => self.write(&line),
        }
    }

    /// Registers the secrets in the input and output of a script. Actors of mold concern resources of all types.
    fn learn_written(&mut self, exchange: &RecordedExchange) {
        // Metadata of a script contains names of attributes and no values.
        if exchange.action == "describe" {
            return;
        }
        let names = match self.sensitive.get(exchange.type_name.as_str()) {
            Some(names) => names.clone(),
            None => self.sensitive.values().flatten().cloned().collect(),
        };
        outputs(exchange).into_iter().for_each(|bytes| self.masker.learn_written(bytes, &names));
    }

    fn settle(&mut self) {
        let held = self.held.take().unwrap_or_default();
        // Some scripts ran before the sensitive attributes were known.
        for line in &held {
            if let RecordLine::Exchange { exchange, .. } = line {
                self.learn_written(exchange);
            }
        }
        if !held.is_empty() {
            self.known = self.masker.count();
        }
        held.iter().for_each(|line| self.write(line));
    }

    fn write(&mut self, line: &RecordLine) {
        if self.failure.is_none() {
            self.failure = file::write(&mut self.file, &line.masked(&self.masker)).err();
        }
    }
}

/// Returns true if the values of an attribute are secrets.
fn is_sealed(attribute: &AttributeSchema) -> bool {
    attribute.data_type.may_hold_secrets()
}

/// Rewrites a recording with placeholders for secrets that became known after the lines containing them.
fn rewrite(path: &Path, masker: &SecretMasker) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = rewritten(path, &new, masker).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // The first error is reported.
        let _ = std::fs::remove_file(&new);
    }
    written
}

fn rewritten(path: &Path, new: &Path, masker: &SecretMasker) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        let parsed = RecordLine::parse(&line).map_err(io::Error::other)?;
        file::write(&mut file, &parsed.masked(masker))?;
    }
    file.sync_all()
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
