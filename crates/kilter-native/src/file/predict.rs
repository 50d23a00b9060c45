//! Predictions of a plan: files as earlier resources will leave them, and the effects of a change on its paths.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Because, Change, Difference, Value};
use kilter_provider::{Account, Content, Context, Effect, Footprint, Forecast, PathState};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use super::acl_policy::with_mask;
use super::content::MAX_DIFF_BYTES;
use super::copy::Source;
use super::error::FileError;
use super::fragments;
use super::kind::Kind;
use super::open;
use super::opened_path::examine;
use super::spec::{Ensure, Spec, source_path};
use super::{entry, mode, tree_diff};
use crate::accounts::{Ids, number_of as number};
use crate::value_text::texts;

/// Mode of a new file, if none is declared.
const NEW_FILE: u32 = 0o644;
/// Mode of a new file with a sensitive content, if none is declared.
const NEW_SECRET_FILE: u32 = 0o600;

/// A known value in a plan, or the resource that makes it unknown.
pub(super) type Known<T> = Result<T, Because>;

/// Opens a file that the resource `name` copies, in its predicted state.
///
/// # Errors
/// If it will not be readable then.
pub(super) fn open_source(cx: &Context<'_>, name: &str, path: &str) -> Result<Known<Source>, FileError> {
    match cx.preview_context().node(name, path) {
        Forecast::Unchanged => open_now(cx, name, path),
        Forecast::Unknown(because) | Forecast::Changed(PathState::File { content: Content::Unknown, .. }, because) => {
            Ok(Err(because))
        }
        Forecast::Changed(PathState::File { content, mode }, because) => {
            let source = predicted(path, &content, mode)?;
            // A stored plan identifies large files by times, which will be those of the change.
            Ok(if source.size() > MAX_DIFF_BYTES { Err(because) } else { Ok(source) })
        }
        Forecast::Changed(PathState::Kept, _) => Source::open_file(path).map(Ok),
        Forecast::Changed(PathState::Directory, _) => {
            let hint = "`recurse: true` copies it with everything below";
            Err(FileError::Source { path: path.to_owned(), is: Kind::Directory, hint })
        }
        Forecast::Changed(PathState::Absent, _) => brought(cx, name, missing(path)),
        Forecast::Changed(PathState::Link(_) | PathState::Unknown, because) => Ok(Err(because)),
    }
}

/// Opens a file that no resource changes. A command or a package may still bring a missing file.
fn open_now(cx: &Context<'_>, name: &str, path: &str) -> Result<Known<Source>, FileError> {
    match Source::open_file(path) {
        Err(error) if error.is_missing() => brought(cx, name, error),
        opened => opened.map(Ok),
    }
}

/// Handles a missing source: unknown if a resource may still bring it, otherwise an error.
pub(super) fn brought<T>(cx: &Context<'_>, name: &str, error: FileError) -> Result<Known<T>, FileError> {
    cx.preview_context().bringer(name).map_or(Err(error), |because| Ok(Err(because)))
}

/// Creates the error of a source that will be missing.
pub(super) fn missing(path: &str) -> FileError {
    FileError::io("read the source", path, Errno::NOENT)
}

/// Returns a source with its predicted content and mode.
fn predicted(path: &str, content: &Content, mode: Option<u32>) -> Result<Source, FileError> {
    let mut source = match content {
        Content::Kept | Content::Unknown => Source::open_file(path)?,
        Content::Of(other) => Source::open_file(other)?,
        Content::Bytes(value) => {
            let fd = in_memory(value.as_bytes().unwrap_or_default())
                .map_err(|errno| FileError::io("predict the content of", path, errno))?;
            let source = Source::of(fd, path.to_owned())?;
            if value.holds_sensitive() { source.secret() } else { source }
        }
    };
    if let Some(mode) = mode {
        source.stat.st_mode = source.stat.st_mode & !mode::ALL | mode;
    }
    Ok(if matches!(content, Content::Kept) { source } else { source.into_new() })
}

fn in_memory(bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let fd = memfd_create(c"kilter-plan", MemfdFlags::CLOEXEC)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = rustix::io::write(&fd, rest)?;
        rest = &rest[count..];
    }
    Ok(fd)
}

/// Returns the resource that makes the content of a directory unknown to the resource `name`, which reads it.
pub(super) fn tree_changed_by(cx: &Context<'_>, name: &str, path: &str) -> Option<Because> {
    match cx.preview_context().node(name, path) {
        Forecast::Unchanged => cx.preview_context().below(name, path, &|_| true),
        Forecast::Changed(_, because) | Forecast::Unknown(because) => Some(because),
    }
}

/// Returns the resource that changes an undeclared entry of a managed directory.
pub(super) fn own_tree_changed_by(cx: &Context<'_>, name: &str, path: &str) -> Option<Because> {
    let is_managed = |path: &str| cx.manages(path) || cx.manages(&format!("{path}/"));
    cx.preview_context().below(name, path, &|path| !is_managed(path))
}

/// Returns an owner or group of a file in its declared form.
///
/// # Errors
/// The resource that makes it unknown.
pub(super) fn account(
    cx: &Context<'_>,
    name: &str,
    of: (&'static str, &Value),
    id: u32,
    now: &dyn Fn() -> Value,
) -> Known<Value> {
    let (type_name, declared) = of;
    let text = declared.to_text().unwrap_or_default();
    // A number does not depend on its account.
    if !cx.is_noop() || number(&text).is_some() {
        return Ok(now());
    }
    match cx.preview_context().account(name, type_name, &text) {
        Forecast::Unchanged => Ok(now()),
        Forecast::Changed(Account::Id(new), _) if new == id => Ok(declared.clone()),
        Forecast::Changed(Account::Id(_), _) => Ok(now()),
        // A number without a name may become the number of the new account.
        Forecast::Changed(Account::New, because) => match now() {
            value if value.as_str().is_some_and(|value| number(value).is_none()) => Ok(value),
            _ => Err(because),
        },
        Forecast::Changed(Account::Unknown, because) | Forecast::Unknown(because) => Err(because),
    }
}

/// Returns the resource that changes the owner or group of a tree's files.
pub(super) fn account_changed_by(cx: &Context<'_>, accounts: &Ids, name: &str, spec: &Spec<'_>) -> Option<Because> {
    let declared = [("user", spec.owner), ("group", spec.group)];
    let id_of = |type_name: &str, account: &str| match type_name {
        "user" => accounts.uid(account),
        _ => accounts.gid(account),
    };
    declared.into_iter().filter_map(|(type_name, value)| Some((type_name, value?.to_text()?))).find_map(
        |(type_name, account)| match cx.preview_context().account(name, type_name, &account) {
            Forecast::Unchanged => None,
            Forecast::Changed(Account::Id(id), _) if id_of(type_name, &account) == Some(id) => None,
            Forecast::Changed(_, because) | Forecast::Unknown(because) => Some(because),
        },
    )
}

/// Returns the effects of a change on the paths of a resource.
pub(super) fn effects(cx: &Context<'_>, accounts: &Ids, change: &Change<'_>) -> Vec<Effect> {
    let Some(should) = change.should else { return Vec::new() };
    let path = open::trim(change.name);
    let mut effects = Vec::new();
    let unknown = |path: &str| Effect::Path { path: path.into(), node: PathState::Unknown };
    let whole = match fragments::put_together(cx, change.name, should) {
        Ok(Ok(whole)) => whole,
        Ok(Err(_)) | Err(_) => return vec![unknown(path)],
    };
    let spec = Spec::of(&whole);
    if let Some(suffix) = spec.backup.and_then(Value::as_str).filter(|_| change.is.exists) {
        effects.push(unknown(&format!("{path}{suffix}")));
    }
    if should.get_bool("parents") == Some(true) && !change.is.exists {
        let is_made = |above: &&str| {
            let is_missing = fs::symlink_metadata(above).is_err();
            is_missing && cx.preview_context().own(change.name, above) == Forecast::Unchanged
        };
        effects.extend(
            above(path).filter(is_made).map(|above| Effect::Path { path: above.into(), node: PathState::Directory }),
        );
    }
    let node = root(cx, change, path, &spec).unwrap_or(PathState::Unknown);
    let is_new = !change.is.exists || differs(change, "ensure");
    let is_directory = spec.has_tree() && node != PathState::Unknown;
    effects.push(Effect::Path { path: path.into(), node });
    if is_directory {
        let source = spec.source.filter(|_| spec.recurse);
        if source.is_some_and(|source| tree_changed_by(cx, change.name, source).is_some()) {
            return vec![unknown(path)];
        }
        let fresh;
        let differences = match is_new {
            true => match tree_diff::differences(cx, accounts, change.name, path, &spec, None) {
                Ok(found) => {
                    fresh = found;
                    &fresh[..]
                }
                Err(_) => return vec![unknown(path)],
            },
            false => change.differences,
        };
        effects.extend(entries(path, &spec, differences));
    }
    effects
}

fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).filter(|path| !path.is_empty())
}

fn differs(change: &Change<'_>, attribute: &str) -> bool {
    change.differences.iter().any(|difference| difference.entry.is_none() && difference.attribute == attribute)
}

/// Returns the state of the path itself after the change; none if it cannot be predicted.
fn root(cx: &Context<'_>, change: &Change<'_>, path: &str, spec: &Spec<'_>) -> Option<PathState> {
    let is_new = !change.is.exists || differs(change, "ensure");
    match spec.ensure {
        Ensure::Absent => Some(PathState::Absent),
        Ensure::Present | Ensure::Is(Kind::File) if is_new => file(cx, change, spec, None),
        Ensure::Present => present(cx, change, path, spec),
        Ensure::Is(Kind::File) => file(cx, change, spec, Some(examine(path, false).ok()??.stat.st_mode)),
        Ensure::Is(Kind::Directory) if is_new => Some(PathState::Directory),
        Ensure::Is(Kind::Directory) => Some(PathState::Kept),
        Ensure::Is(Kind::Link) if is_new || differs(change, "target") => {
            Some(PathState::Link(std::str::from_utf8(spec.target?.as_bytes()?).ok()?.into()))
        }
        Ensure::Is(_) => Some(PathState::Kept),
    }
}

/// Returns the state after a change with `ensure: present`, which keeps the kind of the file.
fn present(cx: &Context<'_>, change: &Change<'_>, path: &str, spec: &Spec<'_>) -> Option<PathState> {
    let found = examine(path, false).ok()??;
    match found.kind {
        Kind::File => file(cx, change, spec, Some(found.stat.st_mode)),
        _ => Some(PathState::Kept),
    }
}

/// Returns the state of a file after a change. `is` is its present mode; none for a new file.
fn file(cx: &Context<'_>, change: &Change<'_>, spec: &Spec<'_>, is: Option<u32>) -> Option<PathState> {
    let source = match spec.source {
        Some(source) => Some(open_source(cx, change.name, source).ok()?.ok()?),
        None => None,
    };
    // Without its access list a file may have other group bits.
    if is.is_some() && differs(change, "acl") {
        return None;
    }
    let is_written = is.is_none() || change.differences.iter().any(|one| one.attribute == "content");
    let content = match (&source, spec.content) {
        _ if !is_written => Content::Kept,
        (Some(_), _) => match cx.preview_context().node(change.name, spec.source?) {
            Forecast::Changed(PathState::File { content: content @ (Content::Of(_) | Content::Bytes(_)), .. }, _) => {
                content
            }
            _ => Content::Of(spec.source?.into()),
        },
        (None, _) if spec.download.is_some() => Content::Unknown,
        (None, Some(content)) => Content::Bytes(content.clone()),
        (None, None) => Content::Bytes("".into()),
    };
    let is_secret = spec.content.is_some_and(Value::holds_sensitive);
    let current = is.map_or(if is_secret { NEW_SECRET_FILE } else { NEW_FILE }, |is| is & mode::ALL);
    let moves = is.is_some() && ["owner", "group"].iter().any(|attribute| differs(change, attribute));
    let current = if moves { mode::disarmed(current, Kind::File) } else { current };
    let bits = tree_diff::wanted_bits(spec, Kind::File, current, source.as_ref().map(|source| &source.stat));
    Some(PathState::File { content, mode: Some(with_mask(spec, bits.unwrap_or(current), Kind::File)) })
}

/// Returns the states of the entries of a directory after the change.
fn entries(path: &str, spec: &Spec<'_>, differences: &[Difference]) -> Vec<Effect> {
    let mut effects: Vec<Effect> = Vec::new();
    for difference in differences {
        let Some(entry) = &difference.entry else { continue };
        let Some(below) = entry::bytes(entry).and_then(|bytes| String::from_utf8(bytes).ok()) else { continue };
        let entry = eco_format!("{}/{below}", path.trim_end_matches('/'));
        let source = spec.source.map(|source| eco_format!("{source}/{below}"));
        let node = match (difference.attribute.as_str(), difference.should.as_str()) {
            ("ensure", Some("absent")) => PathState::Absent,
            ("ensure", Some("directory")) => PathState::Directory,
            ("ensure" | "content" | "target", _) => copied(spec, source.as_ref()),
            ("mode", Some(bits)) => match fs::symlink_metadata(Path::new(&*entry)) {
                Ok(found) if found.is_file() => PathState::File { content: Content::Kept, mode: mode::octal(bits) },
                _ => PathState::Kept,
            },
            _ => continue,
        };
        // The mode of a copy is listed in addition to its content.
        let is_known = |effect: &Effect| matches!(effect, Effect::Path { path, .. } if *path == entry);
        if !effects.last().is_some_and(is_known) {
            effects.push(Effect::Path { path: entry, node });
        }
    }
    effects
}

/// Returns the state of a copied entry.
fn copied(spec: &Spec<'_>, source: Option<&EcoString>) -> PathState {
    let copied = || {
        let source = source?;
        let found = fs::symlink_metadata(Path::new(&**source)).ok()?;
        if found.is_symlink() {
            return Some(PathState::Link(fs::read_link(Path::new(&**source)).ok()?.to_str()?.into()));
        }
        let bits = found.mode() & 0o777;
        let bits = with_mask(spec, spec.bits(bits, Kind::File).unwrap_or(bits), Kind::File);
        Some(PathState::File { content: Content::Of(source.clone()), mode: Some(bits) })
    };
    copied().unwrap_or(PathState::Unknown)
}

/// Reports the paths that a resource writes and reads.
pub(super) fn footprint(name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
    let given = |attribute: &str| should.get(attribute).is_some_and(|value| !value.is_undef());
    let is_whole = ["content", "source", "fragments", "target"].into_iter().any(given) && !given("recurse")
        || should.text("ensure") == Some("absent");
    let is_whole = is_whole && should.get_bool("replace") != Some(false);
    say(Footprint::Writes { path: open::trim(name), is_whole });
    if let Some(target) = should.text("target") {
        say(Footprint::Links { path: open::trim(name), target });
    }
    if let Some(suffix) = should.text("backup") {
        say(Footprint::Creates { path: &format!("{}{suffix}", open::trim(name)) });
    }
    if should.get_bool("parents") == Some(true) && should.text("ensure") != Some("absent") {
        above(open::trim(name)).for_each(|path| say(Footprint::Makes { path }));
    }
    let below = should.get_bool("recurse") == Some(true);
    if let Some(source) = source_path(should) {
        say(Footprint::Reads { path: open::trim(source), below });
    }
    for fragment in texts(should.get("fragments")) {
        say(Footprint::Reads { path: open::trim(&fragment), below: true });
    }
}
