//! `kilter fmt`: gives manifests a uniform layout.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use kilter_manifest::{Source, Sources, format, render};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat, openat2, renameat, unlinkat};
use rustix::io::Errno;

use crate::cli::FmtArgs;
use crate::exit::Exit;
use crate::output;

/// Maximum size of a manifest in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Result for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Formatted {
    Same,
    Changed,
    /// It has an error; reported.
    Wrong,
}

/// Runs the command.
pub(crate) fn run(args: &FmtArgs) -> Exit {
    if args.paths.iter().all(|path| path.as_os_str() == "-") {
        return standard_input(args.check);
    }
    let mut files = Vec::new();
    for path in &args.paths {
        if let Err(exit) = collect(path, &mut files, true) {
            return exit;
        }
    }
    let results: Vec<Formatted> = files.iter().map(|path| file(path, args.check)).collect();
    let is_bad = |result: &Formatted| *result == Formatted::Wrong || args.check && *result == Formatted::Changed;
    if results.iter().any(is_bad) { Exit::NotStarted } else { Exit::Done }
}

/// Adds a file, or the files *.yaml and *.yml below a directory. Links in a directory are not followed.
fn collect(path: &Path, files: &mut Vec<PathBuf>, is_given: bool) -> Result<(), Exit> {
    let fail = |error: std::io::Error| output::fail(format_args!("cannot read {}: {error}", path.display()));
    let found = if is_given { path.metadata() } else { path.symlink_metadata() };
    let found = found.map_err(fail)?;
    let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    if found.is_dir() {
        let entries =
            std::fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>()).map_err(fail)?;
        let is_hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let mut entries: Vec<PathBuf> =
            entries.iter().map(std::fs::DirEntry::path).filter(|path| !is_hidden(path)).collect();
        entries.sort_unstable();
        return entries.iter().try_for_each(|entry| collect(entry, files, false));
    }
    if is_given || is_yaml && found.is_file() {
        files.push(path.to_owned());
    }
    Ok(())
}

fn standard_input(is_check: bool) -> Exit {
    let mut text = String::new();
    if std::io::stdin().is_terminal() {
        return output::fail_with(
            "there is no manifest to format",
            ["name a file or a directory: kilter fmt site.yaml"],
        );
    }
    if let Err(error) = std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text) {
        return output::fail(format_args!("cannot read the standard input: {error}"));
    }
    match formatted("(standard input)", &text) {
        Err(exit) => exit,
        Ok(formatted) if is_check => {
            if formatted == text {
                Exit::Done
            } else {
                Exit::NotStarted
            }
        }
        Ok(formatted) => output::data(&formatted),
    }
}

/// Formats a file in place.
fn file(path: &Path, is_check: bool) -> Formatted {
    let shown = path.display();
    let wrong = |why: &dyn std::fmt::Display| {
        output::error(format_args!("{shown}: {why}"));
        Formatted::Wrong
    };
    let (manifest, bytes) = match ManifestFile::read(path) {
        Ok(read) => read,
        Err(error) => return wrong(&error),
    };
    let Ok(text) = String::from_utf8(bytes) else { return wrong(&"it is not UTF-8") };
    if text.starts_with("#!") {
        return wrong(&"it is a program, and not a manifest in YAML");
    }
    let formatted = match formatted(&shown.to_string(), &text) {
        Ok(formatted) => formatted,
        Err(_) => return Formatted::Wrong,
    };
    if formatted == text {
        return Formatted::Same;
    }
    if !is_check && let Err(error) = manifest.replace(&formatted) {
        return wrong(&error);
    }
    output::data(&format!("{shown}\n"));
    Formatted::Changed
}

/// Returns the text with its new layout.
///
/// # Errors
/// If it is not valid; reported.
fn formatted(name: &str, text: &str) -> Result<String, Exit> {
    let mut sources = Sources::new();
    let id = sources.add(Source::new(name, text));
    format(id, &sources).map_err(|problems| {
        output::line(render(&problems, &sources, true).trim_end());
        Exit::NotStarted
    })
}

/// A manifest, and the directory that contains it. Another user may replace parts of its path by links meanwhile.
struct ManifestFile {
    directory: OwnedFd,
    name: OsString,
    found: Metadata,
}

impl ManifestFile {
    /// Opens and reads a manifest. If the path is a link, this is the file at its end.
    ///
    /// # Errors
    /// If it is not a regular file, is too large, or cannot be read.
    fn read(path: &Path) -> std::io::Result<(ManifestFile, Vec<u8>)> {
        let real = path.canonicalize()?;
        let (parent, name) = (real.parent().unwrap_or(Path::new("/")), real.file_name().unwrap_or_default());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            // Kernels before 5.6, and filters of containers, refuse the call.
            Err(Errno::NOSYS | Errno::PERM) => openat(CWD, parent, flags | OFlags::NOFOLLOW, Mode::empty())?,
            opened => opened?,
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&directory, name, flags, Mode::empty())?);
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(std::io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > MAX_BYTES {
            true => Err(std::io::Error::other(format!("it is larger than {} MiB", MAX_BYTES >> 20))),
            false => Ok((ManifestFile { directory, name: name.to_owned(), found }, bytes)),
        }
    }

    /// Replaces the file. The new one has its owner and permissions.
    fn replace(&self, text: &str) -> std::io::Result<()> {
        let ManifestFile { directory, name, found } = self;
        let mut new = OsString::from(".");
        new.push(name);
        new.push(format!(".{}", std::process::id()));
        let new: &OsStr = &new;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(openat(directory, new, flags, Mode::RUSR | Mode::WUSR)?);
        let written = (|| {
            file.write_all(text.as_bytes())?;
            // Only root can keep the owner of another user's file.
            let now = file.metadata()?;
            if (now.uid(), now.gid()) != (found.uid(), found.gid()) {
                std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()))?;
            }
            file.set_permissions(std::fs::Permissions::from_mode(found.mode() & 0o7777))?;
            file.sync_all()?;
            Ok(renameat(directory, new, directory, name)?)
        })();
        written.inspect_err(|_: &std::io::Error| {
            let _ = unlinkat(directory, new, AtFlags::empty());
        })
    }
}
