//! Files from which nftables.service loads the tables at the boot.

use std::path::Path;

use ecow::{EcoString, eco_format};
use kilter_provider::Context;

use super::text;
use crate::accounts::System;
use crate::file::atomic_rewrite::{self, AtomicRewrite};
use crate::file::lone;

/// Files that the unit loads: of Debian and others, and of Fedora.
pub(super) const CONFIGURATIONS: [&str; 2] = ["/etc/nftables.conf", "/etc/sysconfig/nftables.conf"];
/// Directory of the files of the tables.
const DIRECTORY: &str = "/etc/nftables.d";
/// Line that includes the files, and an older one with the same effect.
const INCLUDE: &str = "include \"/etc/nftables.d/kilter-*.nft\"";
const INCLUDE_ALL: &str = "include \"/etc/nftables.d/*.nft\"";
/// First lines of a new file.
const HEADER: &str = "#!/usr/sbin/nft -f\n\nflush ruleset\n\n";

fn real(system: &System, path: &str) -> String {
    system.root().join(path.trim_start_matches('/')).to_string_lossy().into_owned()
}

fn read(system: &System, path: &str) -> Result<Option<Vec<u8>>, EcoString> {
    atomic_rewrite::read(&real(system, path)).map_err(|error| eco_format!("{error}"))
}

/// Returns the file of a table.
pub(super) fn file_of(name: &str) -> String {
    format!("{DIRECTORY}/kilter-{}.nft", name.replace([' ', '/'], "-"))
}

fn configuration(system: &System) -> &'static str {
    let exists = |path: &&&str| Path::new(&real(system, path)).exists();
    CONFIGURATIONS.iter().find(exists).unwrap_or(&CONFIGURATIONS[0])
}

fn includes(configuration: &[u8]) -> bool {
    let text = String::from_utf8_lossy(configuration);
    text.lines().any(|line| matches!(line.trim(), INCLUDE | INCLUDE_ALL))
}

/// State of a table at the next boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtBoot {
    /// It does not exist.
    Absent,
    /// It exists with this content.
    Loaded,
    /// It exists with another content, or its file is not included.
    Other,
}

/// Returns the state of a table at the next boot. Without a content, any content is the declared one.
pub(super) fn state(system: &System, name: &str, content: Option<&str>) -> Result<AtBoot, EcoString> {
    let Some(bytes) = read(system, &file_of(name))? else { return Ok(AtBoot::Absent) };
    let is_included = includes(&read(system, configuration(system))?.unwrap_or_default());
    let is_same = content.is_none_or(|content| bytes == text::replacement(name, content).into_bytes());
    Ok(if is_included && is_same { AtBoot::Loaded } else { AtBoot::Other })
}

/// Writes the file of a table, and includes the files.
pub(super) fn keep(system: &System, cx: &Context<'_>, name: &str, content: &str) -> Result<(), EcoString> {
    let directory = real(system, DIRECTORY);
    std::fs::create_dir_all(&directory).map_err(|error| eco_format!("cannot create {directory}: {error}"))?;
    rewrite(cx, &real(system, &file_of(name)), |_| text::replacement(name, content).into_bytes())?;
    rewrite(cx, &real(system, configuration(system)), |old| {
        let mut new = if old.is_empty() { HEADER.as_bytes().to_vec() } else { old.to_vec() };
        if !includes(old) {
            if !new.ends_with(b"\n") {
                new.push(b'\n');
            }
            new.extend_from_slice(INCLUDE.as_bytes());
            new.push(b'\n');
        }
        new
    })
}

/// Removes the file of a table. After the last one, the directory and the line that includes it go too.
pub(super) fn forget(system: &System, cx: &Context<'_>, name: &str) -> Result<(), EcoString> {
    lone::remove(&real(system, &file_of(name)), cx).map_err(|error| eco_format!("{error}"))?;
    let directory = real(system, DIRECTORY);
    let is_own = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("kilter-"))
    };
    if std::fs::read_dir(&directory).is_ok_and(|mut entries| entries.any(is_own)) {
        return Ok(());
    }
    // It stays if other files are in it.
    let _ = std::fs::remove_dir(&directory);
    let path = real(system, configuration(system));
    if !Path::new(&path).exists() {
        return Ok(());
    }
    rewrite(cx, &path, |old| {
        let lines = old.split_inclusive(|byte| *byte == b'\n');
        lines.filter(|line| line.trim_ascii() != INCLUDE.as_bytes()).collect::<Vec<_>>().concat()
    })
}

/// Replaces a file if its content changes.
fn rewrite(cx: &Context<'_>, path: &str, new: impl Fn(&[u8]) -> Vec<u8>) -> Result<(), EcoString> {
    atomic_rewrite::rewritten(|| {
        let file = AtomicRewrite::open(path)?;
        let bytes = new(file.bytes());
        if bytes != file.bytes() {
            file.replace(&bytes, 0o644, cx)?;
        }
        Ok(())
    })
}
