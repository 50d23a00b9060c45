//! Reads the state of a path.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Because, Difference, State, Unknown, Value};
use kilter_provider::{Content, Context, Forecast, PathState};
use rustix::fd::AsFd;
use rustix::fs::{CWD, readlinkat, readlinkat_raw};
use rustix::io::Errno;

use super::acl_entry;
use super::acl_policy::{self, AclPolicy, Xattrs};
use super::content::{self, MAX_DIFF_BYTES, MAX_HASHED_BYTES};
use super::copy::Source;
use super::error::FileError;
use super::kind::Kind;
use super::opened_path::{OpenedPath, examine};
use super::preflight::may_come;
use super::spec::{Checksum, Ensure, Spec};
use super::{mode, predict, time, tree_diff, tree_removals};
use crate::accounts::{Ids, number_of as number};

/// Maximum size in bytes of content that a `get` without a declaration returns.
const READ: u64 = 64 * 1024;

/// Maximum size in bytes of content that such a `get` returns if it requests the content by name.
const MAX_REQUESTED_BYTES: u64 = 16 << 20;

/// Returns the state of a path, as far as the declaration needs it.
pub(super) fn declared(
    cx: &Context<'_>,
    accounts: &Ids,
    name: &EcoString,
    path: &str,
    should: &Attributes,
) -> Result<State, FileError> {
    let spec = Spec::of(should);
    if cx.is_noop() {
        match cx.preview_context().own(name, path) {
            Forecast::Unchanged => {}
            Forecast::Changed(PathState::Absent, _) => return absent(cx, accounts, name, path, &spec),
            // What stays of it can be compared.
            Forecast::Changed(PathState::File { content: Content::Unknown, mode: None }, because) => {
                if spec.content.is_some() || spec.reads_source() {
                    return Ok(unknown(name, "content", because));
                }
            }
            Forecast::Changed(_, because) | Forecast::Unknown(because) => {
                let drift = tree_removals::possible(cx, accounts, name, path, &spec)?;
                return Ok(State { drift, ..unknown(name, "ensure", because) });
            }
        }
    }
    let to_read =
        spec.ensure == Ensure::Is(Kind::File) && spec.replace && (spec.content.is_some() || spec.reads_source());
    let Some(looked) = examine(path, to_read)? else { return absent(cx, accounts, name, path, &spec) };
    let mut attributes = Attributes::with_capacity(6);
    attributes.push("ensure", looked.kind.ensure());
    if looked.kind.ensure() == "present" {
        attributes.push("kind", looked.kind.word());
    }
    let mut state = State { name: name.clone(), exists: true, ..State::default() };
    let settled = match spec.ensure {
        Ensure::Absent => false,
        Ensure::Present => true,
        Ensure::Is(kind) => kind == looked.kind,
    };
    let is_removed_tree = !settled && looked.kind == Kind::Directory && (spec.ensure == Ensure::Absent || spec.force);
    let mut replaced = Vec::new();
    if settled {
        state.unknown.extend(ownership(cx, accounts, name, &spec, &looked, &mut attributes));
        if let Some(target) = spec.target.filter(|_| looked.kind == Kind::Link) {
            attributes.push("target", target_of(path, &looked, Some(target))?);
        }
        if let Some(wanted) = spec.content.filter(|_| to_read) {
            compare_content(cx, path, &spec, &looked, wanted, &mut attributes)?;
        }
        let foreign = access(accounts, path, &spec, &looked, &mut attributes)?;
        let (drift, unknown) = drift(cx, accounts, name, path, &spec, looked)?;
        state.drift = drift;
        if let Some(unknown) = unknown {
            // The source also gives the mode, if none is declared. A tree is compared as a whole.
            state.unknown.push(Unknown { attribute: "mode".into(), because: unknown.because.clone() });
            state.unknown.push(unknown);
        }
        state.drift.extend(foreign);
    } else if let Ensure::Is(_) = spec.ensure {
        replaced = ownership(cx, accounts, name, &spec, &looked, &mut attributes);
        // A symbolic mode applies to the mode of the new file.
        if !matches!(spec.mode(), Some(mode::DeclaredMode::Exact(_))) {
            attributes.remove("mode");
        }
    }
    if is_removed_tree
        && cx.is_noop()
        && let Some(because) = predict::own_tree_changed_by(cx, name, path)
    {
        state.unknown.push(Unknown { attribute: "ensure".into(), because: because.into() });
    }
    if !settled && cx.is_noop() && state.unknown.is_empty() {
        state.unknown.extend(unknown_new(cx, name, path, &spec));
    }
    state.unknown.extend(replaced);
    state.attributes = attributes;
    Ok(state)
}

/// Returns the state of a missing path, with the entries of a tree that is copied to it. In a plan, the future content
/// may be unknown.
fn absent(cx: &Context<'_>, accounts: &Ids, name: &EcoString, path: &str, spec: &Spec<'_>) -> Result<State, FileError> {
    let mut state = State::absent(name.clone());
    if cx.is_noop() {
        // A plan records that the path was missing.
        state.attributes.push("ensure", "absent");
        state.unknown.extend(unknown_new(cx, name, path, spec));
    }
    if spec.has_tree() && state.unknown.is_empty() {
        // The preview or the change reports an unreadable source.
        state.drift = tree_diff::new_entries(cx, accounts, path, spec).unwrap_or_default();
    }
    Ok(state)
}

/// Returns the reason why a plan does not know the content of a new file, or of one that replaces another kind.
fn unknown_new(cx: &Context<'_>, name: &EcoString, path: &str, spec: &Spec<'_>) -> Option<Unknown> {
    match (spec.ensure, spec.source) {
        (Ensure::Is(Kind::File), Some(source)) => match predict::open_source(cx, name, source) {
            Ok(Err(because)) => Some(Unknown { attribute: "content".into(), because: because.into() }),
            // The preview reports a missing source.
            Ok(Ok(_)) | Err(_) => None,
        },
        // The entries get their owner when they are created.
        _ if spec.has_tree() => unknown_content_of_tree(cx, name, path, spec),
        _ => None,
    }
}

/// Returns a state with an attribute that a plan does not know.
fn unknown(name: &EcoString, attribute: &str, because: Because) -> State {
    let unknown = vec![Unknown { attribute: attribute.into(), because: because.into() }];
    State { unknown, ..State::absent(name.clone()) }
}

/// Adds owner, group and mode. Returns the attributes that a plan cannot predict.
fn ownership(
    cx: &Context<'_>,
    accounts: &Ids,
    name: &str,
    spec: &Spec<'_>,
    looked: &OpenedPath,
    attributes: &mut Attributes,
) -> Vec<Unknown> {
    let mut unknown = Vec::new();
    let (uid, gid) = (looked.stat.st_uid, looked.stat.st_gid);
    if let Some(owner) = spec.owner {
        match predict::account(cx, name, ("user", owner), uid, &|| owner_value(accounts, owner, uid)) {
            Ok(value) => attributes.push("owner", value),
            Err(because) => unknown.push(Unknown { attribute: "owner".into(), because: because.into() }),
        }
    }
    if let Some(group) = spec.group {
        match predict::account(cx, name, ("group", group), gid, &|| group_value(accounts, group, gid)) {
            Ok(value) => attributes.push("group", value),
            Err(because) => unknown.push(Unknown { attribute: "group".into(), because: because.into() }),
        }
    }
    if spec.mode.is_some() && looked.kind != Kind::Link {
        attributes.push("mode", mode::text(looked.stat.st_mode));
    }
    unknown
}

/// Compares the access list with `acl` if it is declared. Otherwise a foreign list is a difference.
fn access(
    accounts: &Ids,
    path: &str,
    spec: &Spec<'_>,
    looked: &OpenedPath,
    attributes: &mut Attributes,
) -> Result<Vec<Difference>, FileError> {
    let policy = match AclPolicy::of(spec, accounts) {
        Ok(policy) => policy,
        // An earlier resource may create the account.
        Err(FileError::NoAccount { .. }) => {
            let entries = acl_policy::shown(accounts, &Xattrs::of(looked), looked.kind, true);
            let entries = entries.map_err(|errno| FileError::io("read the access list of", path, errno))?;
            attributes.push("acl", acl_entry::value_of(&acl_entry::declarable(entries)));
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    // The mask can hide that the owning group has more than that of the source.
    let source = match acl_policy::manages_access(spec, looked.kind) {
        true => spec.source.filter(|_| !spec.recurse).and_then(|source| Source::open_file(source).ok()),
        false => None,
    };
    let after = tree_diff::final_ownership(accounts, spec, looked, source.as_ref().map(|source| &source.stat))
        .map_err(|errno| FileError::io("read the access list of", path, errno))?;
    let mut compared = policy.compare(accounts, path, looked, after)?;
    // The difference of the mode shows this mask.
    if spec.source.is_some() || matches!(spec.mode(), Some(mode::DeclaredMode::Exact(_))) {
        compared.mask = None;
    }
    if let Some(declared) = spec.acl {
        let found = compared.acl.as_ref().map(|found| acl_entry::value_of(&acl_entry::declarable(found.clone())));
        let found = found.unwrap_or_else(|| declared.clone());
        // The attribute already shows the difference, unless only an entry differs that belongs to the mode.
        if found != *declared {
            compared.acl = None;
        }
        attributes.push("acl", found);
    }
    Ok(compared.differences(spec.acl).collect())
}

/// Returns the owner in its declared form: as a name or as a number.
pub(super) fn owner_value(accounts: &Ids, declared: &Value, uid: u32) -> Value {
    let text = declared.to_text().unwrap_or_default();
    if accounts.uid(&text) == Some(uid) {
        return declared.clone();
    }
    if number(&text).is_some() { eco_format!("{uid}").into() } else { accounts.user(uid).into() }
}

/// Returns the group in its declared form.
pub(super) fn group_value(accounts: &Ids, declared: &Value, gid: u32) -> Value {
    let text = declared.to_text().unwrap_or_default();
    if accounts.gid(&text) == Some(gid) {
        return declared.clone();
    }
    if number(&text).is_some() { eco_format!("{gid}").into() } else { accounts.group(gid).into() }
}

fn target_of(path: &str, looked: &OpenedPath, wanted: Option<&Value>) -> Result<Value, FileError> {
    let failed = |errno| FileError::io("read the link", path, errno);
    let mut buffer = [0; 512];
    let length = readlinkat_raw(&looked.fd, c"", &mut buffer[..]).map_err(failed)?;
    let target = &buffer[..length];
    if let Some(wanted) = wanted
        && wanted.as_bytes() == Some(target)
    {
        return Ok(wanted.clone());
    }
    if target.len() < 512 {
        return Ok(text_or_bytes(target));
    }
    let target = readlinkat(&looked.fd, c"", Vec::new()).map_err(failed)?;
    Ok(text_or_bytes(target.to_bytes()))
}

/// Returns the target of a link without loss.
pub(super) fn text_or_bytes(target: &[u8]) -> Value {
    match std::str::from_utf8(target) {
        Ok(text) => Value::from(text),
        Err(_) => Value::Binary(target.into()),
    }
}

/// Compares content without keeping it. Loads the content only if it differs and is short. Reads at most the size of
/// the declared content, because another user may have made the file as large as the file system allows.
fn compare_content(
    cx: &Context<'_>,
    path: &str,
    spec: &Spec<'_>,
    looked: &OpenedPath,
    wanted: &Value,
    attributes: &mut Attributes,
) -> Result<(), FileError> {
    let failed = |errno| FileError::io("read", path, errno);
    let bytes = wanted.as_bytes().unwrap_or_default();
    if !looked.readable {
        return Err(failed(Errno::ACCESS));
    }
    if looked.size() == bytes.len() as u64 && content::holds(looked.fd.as_fd(), bytes).map_err(failed)? {
        attributes.push("content", wanted.clone());
        return Ok(());
    }
    // No details of a secret are shown, not even of the content in its place.
    if wanted.holds_sensitive() {
        return Ok(());
    }
    if looked.size() > MAX_DIFF_BYTES && looked.size() != bytes.len() as u64 {
        attributes.push("size", looked.stat.st_size);
        return Ok(());
    }
    let checksum = if looked.size() <= MAX_DIFF_BYTES && spec.show_diff {
        let found = content::load(looked.fd.as_fd(), MAX_DIFF_BYTES).map_err(failed)?;
        let checksum = content::checksum_of(spec.checksum, &found);
        attributes.push("content", Value::from_bytes(&found));
        checksum
    } else {
        content::checksum_of_file(spec.checksum, looked.fd.as_fd(), cx.interrupt()).map_err(failed)?
    };
    attributes.push("checksum_value", checksum);
    Ok(())
}

/// Returns the differences beyond the attributes, from a source and below a directory, and the reason why a plan cannot
/// know all of them.
fn drift(
    cx: &Context<'_>,
    accounts: &Ids,
    name: &str,
    path: &str,
    spec: &Spec<'_>,
    looked: OpenedPath,
) -> Result<(Vec<Difference>, Option<Unknown>), FileError> {
    match (spec.ensure, spec.source) {
        (Ensure::Is(Kind::Directory), _) if spec.has_tree() => {
            let unknown = unknown_tree(cx, accounts, name, path, spec);
            let differences = match &unknown {
                None => tree_diff::differences(cx, accounts, name, path, spec, Some(looked))?,
                Some(unknown) if unknown.attribute == "owner" => {
                    tree_diff::differences_of_content(cx, accounts, name, path, spec, looked)?
                }
                Some(_) => tree_removals::possible(cx, accounts, name, path, spec)?,
            };
            Ok((differences, unknown))
        }
        (Ensure::Is(Kind::File), Some(source)) => match copied(cx, name, path, spec, source, &looked)? {
            Ok(differences) => Ok((differences, None)),
            Err(unknown) => Ok((Vec::new(), Some(unknown))),
        },
        (Ensure::Is(Kind::File), None) if spec.replace => match &spec.download {
            Some(download) => Ok((download.compare(cx, spec, path, &looked)?.into_iter().collect(), None)),
            None => Ok((Vec::new(), None)),
        },
        _ => Ok((Vec::new(), None)),
    }
}

/// Returns the reason why a plan cannot compare a tree.
fn unknown_tree(cx: &Context<'_>, accounts: &Ids, name: &str, path: &str, spec: &Spec<'_>) -> Option<Unknown> {
    if !cx.is_noop() {
        return None;
    }
    let owner = || {
        let because = predict::account_changed_by(cx, accounts, name, spec)?;
        Some(Unknown { attribute: "owner".into(), because: because.into() })
    };
    unknown_content_of_tree(cx, name, path, spec).or_else(owner)
}

/// Returns the reason why a plan does not know the entries of a tree.
fn unknown_content_of_tree(cx: &Context<'_>, name: &str, path: &str, spec: &Spec<'_>) -> Option<Unknown> {
    let source = spec.source.filter(|_| spec.recurse);
    let of_source = source.and_then(|source| predict::tree_changed_by(cx, name, source));
    let missing = || {
        let is_missing = source.is_some_and(|source| std::fs::metadata(source).is_err());
        is_missing.then(|| cx.preview_context().bringer(name)).flatten()
    };
    let because = of_source.or_else(|| predict::own_tree_changed_by(cx, name, path)).or_else(missing)?;
    Some(Unknown { attribute: "content".into(), because: because.into() })
}

fn copied(
    cx: &Context<'_>,
    name: &str,
    path: &str,
    spec: &Spec<'_>,
    source: &str,
    looked: &OpenedPath,
) -> Result<Result<Vec<Difference>, Unknown>, FileError> {
    let source = match predict::open_source(cx, name, source) {
        Ok(Ok(source)) => source,
        Ok(Err(because)) => return Ok(Err(Unknown { attribute: "content".into(), because: because.into() })),
        // In a plan, an earlier resource may create the source.
        Err(error) if error.is_missing() && is_later(cx, name, source) => {
            let later = Difference::new("content", Value::Undef, Value::Undef);
            return Ok(Ok(vec![later.saying(eco_format!("changes to that of {source}, which does not exist yet"))]));
        }
        Err(error) => return Err(error),
    };
    let mut differences = Vec::new();
    if spec.replace && spec.checksum == Checksum::Mtime && source.is_new() {
        let later = Difference::new("content", Value::Undef, Value::Undef);
        differences.push(later.saying(eco_format!("changes to that of {}, which is written before", source.path())));
    } else if spec.replace {
        if !looked.readable {
            return Err(FileError::io("read", path, Errno::ACCESS));
        }
        differences.extend(source.compare(cx, spec, path, looked)?);
    }
    differences.extend(tree_diff::mode_difference(spec, &looked.stat, looked.stat.st_mode, Some(&source.stat)));
    Ok(Ok(differences))
}

/// Returns true if an earlier resource may create a missing source before the resource `name` runs.
pub(super) fn is_later(cx: &Context<'_>, name: &str, source: &str) -> bool {
    cx.manages(source) || cx.is_noop() && (may_come(cx, source) || cx.preview_context().may_change_before(name))
}

/// Returns the complete state of an undeclared path.
pub(super) fn whole(cx: &Context<'_>, accounts: &Ids, name: &EcoString, path: &str) -> Result<State, FileError> {
    let Some(looked) = examine(path, false)? else { return Ok(State::absent(name.clone())) };
    let mut attributes = Attributes::with_capacity(9);
    attributes.push("ensure", looked.kind.ensure());
    attributes.push("owner", accounts.user(looked.stat.st_uid));
    attributes.push("group", accounts.group(looked.stat.st_gid));
    match looked.kind {
        Kind::Link => attributes.push("target", target_of(path, &looked, None)?),
        _ => attributes.push("mode", mode::text(looked.stat.st_mode)),
    }
    if matches!(looked.kind, Kind::File | Kind::Directory) {
        let entries = acl_policy::shown(accounts, &Xattrs::of(&looked), looked.kind, true);
        let entries = entries.map_err(|errno| FileError::io("read the access list of", path, errno))?;
        let entries = acl_entry::declarable(entries);
        if !entries.is_empty() {
            attributes.push("acl", acl_entry::value_of(&entries));
        }
    }
    if looked.kind == Kind::File {
        whole_content(cx, path, &looked, &mut attributes)?;
        attributes.push("size", looked.stat.st_size);
    }
    attributes.push("kind", looked.kind.word());
    attributes.push("mtime", time::utc(looked.stat.st_mtime));
    Ok(State::present(name.clone(), attributes))
}

fn whole_content(
    cx: &Context<'_>,
    path: &str,
    looked: &OpenedPath,
    attributes: &mut Attributes,
) -> Result<(), FileError> {
    let failed = |errno| FileError::io("read", path, errno);
    // The descriptor identifies the examined file. Devices are never opened.
    let again = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&looked.fd));
    let flags = super::open::READ.difference(rustix::fs::OFlags::NOFOLLOW);
    let fd = match rustix::fs::openat(CWD, again, flags, rustix::fs::Mode::empty()) {
        Ok(fd) => fd,
        // A user without read permission gets the other attributes.
        Err(Errno::ACCESS | Errno::PERM) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    let limit = if cx.must_read(None, "content") { MAX_REQUESTED_BYTES } else { READ };
    if looked.size() > limit {
        if looked.size() <= MAX_HASHED_BYTES {
            let checksum = content::checksum_of_file(Checksum::Sha256, fd.as_fd(), cx.interrupt());
            attributes.push("checksum_value", checksum.map_err(failed)?);
        }
        return Ok(());
    }
    let found = content::load(fd.as_fd(), limit).map_err(failed)?;
    attributes.push("content", Value::from_bytes(&found));
    attributes.push("checksum_value", content::checksum_of(Checksum::Sha256, &found));
    Ok(())
}
