//! Live values: files below `/proc/sys`.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use ecow::{EcoString, eco_format};

use super::parameter::{Parameter, normal};

/// Live value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LiveValue {
    /// The kernel has no such parameter.
    Missing,
    /// The parameter cannot be read. Some are write-only.
    Hidden,
    Text(EcoString),
}

impl LiveValue {
    pub(super) fn text(&self) -> Option<&EcoString> {
        match self {
            LiveValue::Text(text) => Some(text),
            LiveValue::Missing | LiveValue::Hidden => None,
        }
    }
}

fn file(root: &Path, parameter: &Parameter) -> PathBuf {
    root.join("proc/sys").join(parameter.path().as_str())
}

/// Reads a live value.
///
/// # Errors
/// If the name is that of a directory of parameters.
pub(super) fn read(root: &Path, parameter: &Parameter) -> Result<LiveValue, EcoString> {
    match std::fs::read(file(root, parameter)) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim_ascii().replace('\n', " ");
            Ok(LiveValue::Text(normal(&text).unwrap_or_else(|| text.into())))
        }
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(LiveValue::Missing),
            ErrorKind::IsADirectory => {
                Err(eco_format!("{} has parameters below it, and is none itself", parameter.dotted()))
            }
            _ => Ok(LiveValue::Hidden),
        },
    }
}

/// Sets a live value.
///
/// # Errors
/// If the kernel refuses it.
pub(super) fn write(root: &Path, parameter: &Parameter, value: &str) -> Result<(), EcoString> {
    let path = file(root, parameter);
    let opened = std::fs::OpenOptions::new().write(true).truncate(true).open(&path);
    let mut opened = opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(parameter),
        _ => eco_format!("cannot set {}: {}", parameter.dotted(), explained(&error)),
    })?;
    // The kernel takes a value from one call.
    opened
        .write_all(format!("{value}\n").as_bytes())
        .map_err(|error| eco_format!("the kernel does not take `{value}`: {}", explained(&error)))
}

/// Returns the message about a parameter that the kernel does not have.
pub(super) fn missing(parameter: &Parameter) -> EcoString {
    eco_format!(
        "this kernel has no parameter {} (its module may not be loaded; `kept` alone is for the next boot)",
        parameter.dotted()
    )
}

fn explained(error: &std::io::Error) -> EcoString {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem => eco_format!("{text} (a container may not set it)"),
        ErrorKind::PermissionDenied => eco_format!("{text} (run kilter as root)"),
        _ => text.into(),
    }
}
