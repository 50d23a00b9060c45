//! Lines of a recording.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use kilter_model::{base64, from_base64};
use kilter_script::recorded::{RecordedExchange, SecretMasker};
use serde_json::{Value as Json, json};

/// Version of the format.
pub const VERSION: u64 = 2;

/// Line of a recording.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordLine {
    /// The first line, which identifies a recording.
    Header {
        /// Version of kilter that made it.
        kilter_version: String,
    },
    /// Words of the command line.
    Command(Vec<Vec<u8>>),
    /// External query and its answer.
    Query {
        /// Kind of the query.
        what: String,
        /// Subject of the query.
        of: Json,
        /// The answer.
        answer: Json,
    },
    /// Call of a script.
    Exchange {
        /// Number of the call, from 1.
        number: usize,
        /// The call.
        exchange: Box<RecordedExchange>,
    },
    /// The last line: the end of the command, by an exit code or by a panic.
    Ended {
        /// Exit code; none for a panic.
        exit: Option<u8>,
    },
}

impl RecordLine {
    /// Returns the line with placeholders for secrets.
    pub(crate) fn masked(&self, masker: &SecretMasker) -> RecordLine {
        match self {
            RecordLine::Command(words) => {
                RecordLine::Command(words.iter().map(|word| masker.mask_bytes(word)).collect())
            }
            RecordLine::Query { what, of, answer } => RecordLine::Query {
                what: what.clone(),
                of: masker.mask_json(of.clone()),
                answer: if is_metadata(what) {
                    masked_metadata(answer, masker)
                } else {
                    masker.mask_json(answer.clone())
                },
            },
            RecordLine::Exchange { number, exchange } => {
                RecordLine::Exchange { number: *number, exchange: Box::new(exchange.masked(masker)) }
            }
            other => other.clone(),
        }
    }

    fn to_json(&self) -> Json {
        match self {
            RecordLine::Header { kilter_version } => {
                json!({ "kilter_recording": VERSION, "kilter_version": kilter_version })
            }
            RecordLine::Command(words) => json!({ "command": words.iter().map(|word| text(word)).collect::<Vec<_>>() }),
            RecordLine::Query { what, of, answer } => json!({ "asked": what, "of": of, "answer": answer }),
            RecordLine::Exchange { number, exchange } => {
                let mut json = json!({ "exchange": number });
                if let (Some(json), Json::Object(exchange)) = (json.as_object_mut(), exchange.to_json()) {
                    json.extend(exchange);
                }
                json
            }
            RecordLine::Ended { exit } => json!({ "ended": { "exit": exit } }),
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// A description of the damage.
    pub(crate) fn parse(line: &str) -> Result<RecordLine, String> {
        let json: Json = serde_json::from_str(line)
            .map_err(|error| if error.is_eof() { "it is cut off".to_owned() } else { "it is not JSON".to_owned() })?;
        RecordLine::from_json(&json).ok_or_else(|| "it is not a line of a recording".to_owned())
    }

    fn from_json(json: &Json) -> Option<RecordLine> {
        if let Some(version) = json.get("kilter_recording") {
            let kilter_version = json.get("kilter_version")?.as_str()?.to_owned();
            return (version.as_u64() == Some(VERSION)).then_some(RecordLine::Header { kilter_version });
        }
        if let Some(words) = json.get("command") {
            return words.as_array()?.iter().map(bytes).collect::<Option<_>>().map(RecordLine::Command);
        }
        if let Some(what) = json.get("asked") {
            let (of, answer) = (json.get("of")?.clone(), json.get("answer")?.clone());
            return Some(RecordLine::Query { what: what.as_str()?.to_owned(), of, answer });
        }
        if let Some(number) = json.get("exchange") {
            let number = usize::try_from(number.as_u64()?).ok()?;
            return Some(RecordLine::Exchange { number, exchange: Box::new(RecordedExchange::from_json(json)?) });
        }
        let exit = json.get("ended")?.get("exit")?;
        let code = exit.as_u64().and_then(|code| u8::try_from(code).ok());
        (exit.is_null() || code.is_some()).then_some(RecordLine::Ended { exit: code })
    }
}

/// Returns true if an answer contains metadata of scripts.
fn is_metadata(what: &str) -> bool {
    matches!(what, "scripts" | "metadata of mold")
}

/// Replaces secrets in metadata of scripts, their paths and notes. Keys and numbers stay, because the replay must
/// be able to read the metadata.
fn masked_metadata(answer: &Json, masker: &SecretMasker) -> Json {
    match answer {
        Json::String(text) => Json::String(masker.mask(text)),
        Json::Array(values) => values.iter().map(|value| masked_metadata(value, masker)).collect(),
        Json::Object(entries) => {
            // A level is a keyword.
            let hide =
                |key: &String, value| if key == "level" { Json::clone(value) } else { masked_metadata(value, masker) };
            Json::Object(entries.iter().map(|(key, value)| (key.clone(), hide(key, value))).collect())
        }
        other => other.clone(),
    }
}

fn text(word: &[u8]) -> Json {
    match std::str::from_utf8(word) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": base64(word) }),
    }
}

fn bytes(json: &Json) -> Option<Vec<u8>> {
    match json {
        Json::String(text) => Some(text.as_bytes().to_vec()),
        other => from_base64(other.get("base64")?.as_str()?),
    }
}

/// Writes a complete line with one call.
pub(crate) fn write(file: &mut File, line: &RecordLine) -> io::Result<()> {
    file.write_all(format!("{}\n", line.to_json()).as_bytes())
}

/// Reason why a file cannot be read as a recording.
#[derive(Debug)]
pub struct Unreadable(pub String);

/// Query with its answer.
#[derive(Debug)]
pub(crate) enum Entry {
    /// External query: see [`RecordLine::Query`].
    Query { what: String, of: Json, answer: Json },
    /// Call of a script, by its number.
    Exchange { number: usize, exchange: Box<RecordedExchange> },
}

/// Recording that was read.
#[derive(Debug)]
pub struct Recording {
    /// Version of kilter that made it.
    pub kilter_version: String,
    /// Words of the command line.
    pub words: Vec<Vec<u8>>,
    /// Queries and answers, in order.
    pub(crate) entries: Vec<Entry>,
    /// Exit code of the command; none for a panic.
    pub exit: Option<u8>,
    /// Reason why it is incomplete, if it is: kilter was killed, or the file was truncated.
    pub cut: Option<String>,
}

impl Recording {
    /// Reads a recording, which may be truncated after its first line.
    ///
    /// # Errors
    /// If it is no recording.
    pub fn read(path: &Path) -> Result<Recording, Unreadable> {
        let shown = path.display();
        let cannot = |error: io::Error| Unreadable(format!("cannot read {shown}: {error}"));
        let mut reader = BufReader::new(File::open(path).map_err(cannot)?);
        let mut recording = Recording {
            kilter_version: header(&mut reader, path)?,
            words: Vec::new(),
            entries: Vec::new(),
            exit: None,
            cut: None,
        };
        let mut ended = false;
        for number in 2_usize.. {
            let mut line = Vec::new();
            if reader.read_until(b'\n', &mut line).map_err(cannot)? == 0 {
                break;
            }
            let whole = line.last() == Some(&b'\n');
            let parsed =
                std::str::from_utf8(&line).map_err(|_| "it is not UTF-8".to_owned()).and_then(RecordLine::parse);
            match parsed {
                Ok(_) if ended => {
                    return Err(Unreadable(format!("{shown}:{number}: there is text after the end of the recording")));
                }
                Ok(line) if whole => ended = recording.take(line),
                Err(why) if whole => return Err(Unreadable(format!("{shown}:{number}: {why}"))),
                _ => {
                    recording.cut = Some(format!("line {number} is cut off"));
                    return Ok(recording);
                }
            }
        }
        if !ended {
            recording.cut = Some("its end is missing".to_owned());
        }
        Ok(recording)
    }

    /// Returns the calls of scripts, by their numbers.
    pub fn exchanges(&self) -> impl Iterator<Item = (usize, &RecordedExchange)> + Clone {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Exchange { number, exchange } => Some((*number, &**exchange)),
            Entry::Query { .. } => None,
        })
    }

    /// Adds a line; returns true if it is the last line.
    fn take(&mut self, line: RecordLine) -> bool {
        match line {
            RecordLine::Header { .. } => {}
            RecordLine::Command(words) => self.words = words,
            RecordLine::Query { what, of, answer } => self.entries.push(Entry::Query { what, of, answer }),
            RecordLine::Exchange { number, exchange } => self.entries.push(Entry::Exchange { number, exchange }),
            RecordLine::Ended { exit } => {
                self.exit = exit;
                return true;
            }
        }
        false
    }
}

/// Reads the first line.
fn header(reader: &mut impl BufRead, path: &Path) -> Result<String, Unreadable> {
    const MAX_HEADER_BYTES: u64 = 4096;
    let shown = path.display();
    let no_recording = || Unreadable(format!("{shown} is not a recording"));
    let mut line = Vec::new();
    // Other files may have no line breaks.
    let read = io::Read::take(reader, MAX_HEADER_BYTES).read_until(b'\n', &mut line);
    read.map_err(|error| Unreadable(format!("cannot read {shown}: {error}")))?;
    let text = std::str::from_utf8(&line).map_err(|_| no_recording())?;
    let is_cut = || "{\"kilter_recording\":".starts_with(text) || text.starts_with("{\"kilter_recording\":");
    let json: Json = match serde_json::from_str(text) {
        Ok(json) if text.ends_with('\n') => json,
        Ok(_) | Err(_) if !text.is_empty() && is_cut() => {
            return Err(Unreadable(format!("the recording {shown} is cut off in its first line")));
        }
        Ok(_) | Err(_) => return Err(no_recording()),
    };
    match json.get("kilter_recording").and_then(Json::as_u64) {
        Some(VERSION) => {}
        Some(version) => {
            let reads = format!("this kilter ({}) reads version {VERSION}", env!("CARGO_PKG_VERSION"));
            return Err(Unreadable(format!("{shown} is a recording of version {version}: {reads}")));
        }
        None => return Err(no_recording()),
    }
    match RecordLine::from_json(&json) {
        Some(RecordLine::Header { kilter_version }) => Ok(kilter_version),
        _ => Err(Unreadable(format!("{shown}:1: it is not a line of a recording"))),
    }
}
