//! Static findings about a script, before any law is tried.

use std::fmt::Display;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kilter_process::trust::TrustPolicy;
use kilter_process::{DEFAULT_PATH, which};
use kilter_provider::Level;
use kilter_script::recorded::RecordedExchange;
use kilter_script::{Metadata, Note, Script, ScriptEnvironment, Scripts, script};
use serde_json::{Value as Json, json};

use super::recorder::Trials;

/// Duration of a metadata call from which it counts as slow: it delays every use of the type.
const SLOW: Duration = Duration::from_secs(1);

/// Problem or oddity.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The file, or the directory.
    pub file: PathBuf,
    /// Severity.
    pub weight: Weight,
    /// Message.
    pub message: String,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The provider cannot be used.
    Fault,
    /// The provider can be used, and the finding may be a mistake.
    Warning,
}

impl Finding {
    pub(super) fn fault(file: &Path, message: impl Display) -> Finding {
        Finding { file: file.to_owned(), weight: Weight::Fault, message: message.to_string() }
    }

    pub(super) fn warning(file: &Path, message: impl Display) -> Finding {
        Finding { file: file.to_owned(), weight: Weight::Warning, message: message.to_string() }
    }

    /// Converts the notes about a file to findings: the reasons why it cannot be used, or oddities.
    pub(super) fn of<'n>(notes: impl IntoIterator<Item = &'n Note>, is_used: bool) -> Vec<Finding> {
        let of = |note: &Note| match note.level {
            Level::Warning | Level::Err if !is_used => Finding::fault(&note.file, &note.message),
            _ => Finding::warning(&note.file, &note.message),
        };
        notes.into_iter().map(of).collect()
    }

    /// Returns true if the provider cannot be used.
    pub fn is_fatal(&self) -> bool {
        self.weight == Weight::Fault
    }

    /// Returns an object for programs.
    pub fn json(&self) -> Json {
        let weight = if self.is_fatal() { "fault" } else { "warning" };
        json!({"file": self.file.display().to_string(), "weight": weight, "message": self.message})
    }
}

/// Returns findings about the file alone. `rule` is the trust rule under which root would run the script.
pub(super) fn of_file(path: &Path, rule: Option<&TrustPolicy>) -> Vec<Finding> {
    let metadata = match path.metadata() {
        Ok(metadata) if metadata.is_file() => metadata,
        Ok(_) => return vec![Finding::fault(path, "it is not a file")],
        Err(error) => return vec![Finding::fault(path, error)],
    };
    let mut findings = Vec::new();
    if metadata.permissions().mode() & 0o111 == 0 {
        findings.push(Finding::fault(path, "it is not executable (correct it with chmod +x)"));
    }
    match fs::read(path) {
        Err(error) => findings.push(Finding::fault(path, format!("it cannot be read: {error}"))),
        Ok(bytes) => findings.extend(of_bytes(path, &bytes)),
    }
    findings.extend(rule.and_then(|rule| distrust(path, rule)));
    findings
}

fn of_bytes(path: &Path, bytes: &[u8]) -> Vec<Finding> {
    if bytes.starts_with(b"\x7fELF") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if bytes.starts_with(b"\xef\xbb\xbf") {
        findings.push(Finding::fault(
            path,
            "1:1: it begins with a byte order mark, so the kernel does not find the interpreter",
        ));
    }
    let carriage = bytes.split(|byte| *byte == b'\n').position(|line| line.ends_with(b"\r"));
    match carriage {
        // The kernel would include it in the path of the interpreter.
        Some(0) => findings
            .push(Finding::fault(path, "1: the line ends with a carriage return (correct it with sed -i 's/\\r$//')")),
        Some(line) => findings.push(Finding::warning(
            path,
            format!("{}: the line ends with a carriage return (correct it with sed -i 's/\\r$//')", line + 1),
        )),
        None => {}
    }
    findings.extend(interpreter(path, bytes));
    findings
}

/// Returns a problem of the line with the interpreter.
fn interpreter(path: &Path, bytes: &[u8]) -> Option<Finding> {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let Some(line) = first.strip_prefix("#!") else {
        return Some(Finding::fault(path, "1:1: it does not begin with `#!` and its interpreter, such as #!/bin/bash"));
    };
    let mut words = line.split_whitespace();
    let Some(program) = words.next() else {
        return Some(Finding::fault(path, "1:3: the interpreter after `#!` is missing"));
    };
    if !program.starts_with('/') {
        return Some(Finding::fault(path, format!("1:3: the interpreter `{program}` is not an absolute path")));
    }
    if !Path::new(program).exists() {
        return Some(Finding::fault(path, format!("1:3: there is no interpreter {program}")));
    }
    let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
    let is_env = Path::new(program).file_name().is_some_and(|name| name == "env");
    match named.filter(|_| is_env) {
        Some(name) if which(name.as_ref(), DEFAULT_PATH.as_ref()).is_none() => {
            Some(Finding::fault(path, format!("1: env finds no `{name}` in {DEFAULT_PATH}")))
        }
        _ => None,
    }
}

/// Reports a script that root would not run at its place.
fn distrust(path: &Path, rule: &TrustPolicy) -> Option<Finding> {
    let directory = || rule.directory(path.parent()?).err();
    let distrust = rule.open(path).err().or_else(directory)?;
    Some(Finding::warning(path, format!("its location: {distrust}")))
}

/// Provider of a script, if it can be used, and the findings.
type Described = (Option<Arc<dyn Script>>, Vec<Finding>);

/// Returns the metadata of the script, and its problems.
pub(super) fn described(path: &Path, surroundings: &ScriptEnvironment) -> Described {
    let beside = path.with_extension("yaml");
    if beside.exists() {
        return of_metadata(path, &beside, surroundings);
    }
    let ((provider, mut findings), first) = asked(path, surroundings);
    if provider.is_some() {
        let (_, second) = asked(path, surroundings);
        findings.extend(unsteady(path, first.as_deref(), second.as_deref()));
    }
    (provider, findings)
}

fn of_metadata(path: &Path, beside: &Path, surroundings: &ScriptEnvironment) -> Described {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let text = fs::read(beside).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let faults = match text.map(|text| Metadata::parse(&text, &stem)) {
        Ok(Err(faults)) => faults,
        // The reader reports an unreadable file.
        _ => Vec::new(),
    };
    if !faults.is_empty() {
        return (None, faults.iter().map(|fault| Finding::fault(beside, fault)).collect());
    }
    let (provider, scripts) = script_at(path, surroundings.clone());
    let findings = Finding::of(&scripts.notes, provider.is_some());
    (provider, findings)
}

/// Returns the script of a path, and the notes about it.
fn script_at(path: &Path, surroundings: ScriptEnvironment) -> (Option<Arc<dyn Script>>, Scripts) {
    let scripts = Scripts::at(path, &Arc::new(surroundings));
    (scripts.providers.first().cloned(), scripts)
}

/// Asks the script for its metadata.
fn asked(path: &Path, surroundings: &ScriptEnvironment) -> (Described, Option<Box<RecordedExchange>>) {
    // Only the call matters here: no command of the author runs.
    let trials = Trials::new(Duration::MAX, surroundings.cancelled);
    let exchanges = trials.recorder();
    let (provider, scripts) = script_at(path, ScriptEnvironment { exchanges, ..surroundings.clone() });
    // The recorder was only for this call; later calls run as usual.
    let provider =
        provider.map(|known| script(known.path(), known.metadata().clone(), &Arc::new(surroundings.clone())));
    let findings = Finding::of(&scripts.notes, provider.is_some());
    ((provider, findings), trials.last().map(Box::new))
}

fn unsteady(path: &Path, first: Option<&RecordedExchange>, second: Option<&RecordedExchange>) -> Vec<Finding> {
    let (Some(first), Some(second)) = (first, second) else { return Vec::new() };
    let mut findings = Vec::new();
    if printed(first) != printed(second) {
        findings.push(Finding::fault(
            path,
            "two calls of describe return different descriptions, but kilter stores \
                                            the first",
        ));
    }
    let took = first.duration.max(second.duration);
    if took > SLOW {
        let why = "a file NAME.yaml with the same text saves the call";
        findings
            .push(Finding::warning(path, format!("it takes {:.1} s to describe itself: {why}", took.as_secs_f32())));
    }
    findings
}

/// Returns the output of a script, if it was started.
fn printed(exchange: &RecordedExchange) -> Option<&[u8]> {
    exchange.answer.as_ref().ok().map(|finished| finished.stdout.bytes.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8]) -> Vec<String> {
        of_bytes(Path::new("x.prov"), bytes).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn missing_interpreter_is_a_finding() {
        assert_eq!(told(b"#!/bin/sh\nexit 0\n"), Vec::<String>::new());
        assert_eq!(told(b"#!/usr/bin/env -S sh -e\n"), Vec::<String>::new());
        assert!(told(b"echo\n")[0].contains("does not begin with `#!`"));
        assert_eq!(told(b"#!/no/such/shell\n"), ["1:3: there is no interpreter /no/such/shell"]);
        assert!(
            told(b"#!sh\n")[0].contains("not an absolute path")
                && told(b"#!\n")[0].contains("the interpreter after `#!` is missing")
        );
        assert!(told(b"#!/usr/bin/env nosuchshell\n")[0].contains("env finds no `nosuchshell`"));
    }

    #[test]
    fn byte_order_mark_and_carriage_returns_are_findings() {
        assert!(told(b"#!/bin/sh\r\nexit\r\n")[0].starts_with("1: the line ends with a carriage return"));
        assert!(told(b"#!/bin/sh\nexit\r\n")[0].starts_with("2: the line ends"));
        assert!(told(b"\xef\xbb\xbf#!/bin/sh\n")[0].contains("byte order mark"));
    }
}
