//! Entry and mount of a name, and the step to a declared state.

use ecow::EcoString;
use kilter_model::{Attributes, State, Value};
use kilter_provider::ValidationError;

use super::fstab::{FstabEntry, SWAP};
use super::live::{LiveMount, missing_flags};
use crate::file::atomic_rewrite;

/// Entry and mount of a name.
pub(super) struct FoundMount<'a> {
    pub(super) entry: Option<&'a FstabEntry>,
    pub(super) live: Option<&'a LiveMount>,
}

/// Reaction of a mount to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountStep {
    Nothing,
    Mount,
    Remount,
    /// Unmounts before the entry is written, and mounts afterwards.
    MountAgain,
    /// Unmounts before the entry is written.
    Unmount,
}

impl FoundMount<'_> {
    pub(super) fn state(&self, name: &EcoString) -> State {
        let ensure = match (self.entry, self.live) {
            (None, None) => return State::absent(name.clone()),
            (None, Some(_)) => "ghost",
            (Some(_), None) => "unmounted",
            (Some(_), Some(_)) => "mounted",
        };
        let mut attributes = Attributes::from_iter([("ensure", ensure), ("name", name.as_str())]);
        if let Some(entry) = self.entry {
            attributes.push("device", entry.device.clone());
            attributes.push("fstype", entry.fstype.clone());
            attributes.push("options", entry.options.clone());
            attributes.push("dump", entry.dump);
            attributes.push("pass", entry.pass);
        } else if let Some(live) = self.live {
            attributes.push("device", live.device.clone());
            attributes.push("fstype", live.fstype.clone());
        }
        if let Some(live) = self.live.filter(|live| !live.options.is_empty()) {
            attributes.push("active_options", live.options.clone());
        }
        State::present(name.clone(), attributes)
    }

    /// Returns the entry with the declared attributes.
    pub(super) fn merged(&self, name: &str, should: &Attributes) -> FstabEntry {
        let new = FstabEntry { options: "defaults".into(), ..FstabEntry::default() };
        let mut entry = self.entry.cloned().unwrap_or(new);
        let fields = [("device", &mut entry.device), ("fstype", &mut entry.fstype), ("options", &mut entry.options)];
        for (attribute, field) in fields {
            if let Some(value) = should.text(attribute) {
                *field = value.into();
            }
        }
        for (attribute, field) in [("dump", &mut entry.dump), ("pass", &mut entry.pass)] {
            if let Some(value) = should.get(attribute).and_then(Value::as_integer) {
                *field = value;
            }
        }
        if entry.is_swap() {
            entry.device = name.into();
            entry.dir = "none".into();
        } else {
            entry.dir = name.into();
        }
        entry
    }

    /// Returns the reaction to a change of the entry to `new`.
    pub(super) fn step(&self, new: &FstabEntry, should: &Attributes) -> MountStep {
        let ensure = should.text("ensure").unwrap_or("mounted");
        let Some(live) = self.live else {
            return if ensure == "mounted" { MountStep::Mount } else { MountStep::Nothing };
        };
        if ensure == "unmounted" {
            return MountStep::Unmount;
        }
        let other = |old: &FstabEntry| old.device != new.device || old.fstype != new.fstype;
        let has_other_options = self.entry.is_none_or(|old| sorted(&old.options) != sorted(&new.options))
            || !missing_flags(&new.options, &live.options).is_empty();
        match () {
            () if self.entry.is_some_and(other) => MountStep::MountAgain,
            () if !has_other_options => MountStep::Nothing,
            () if new.is_swap() || should.get_bool("remounts") == Some(false) => MountStep::MountAgain,
            () => MountStep::Remount,
        }
    }
}

/// Returns the options in an order that does not depend on their notation.
pub(super) fn sorted(options: &str) -> Vec<&str> {
    let mut options: Vec<&str> = options.split(',').filter(|option| !option.is_empty()).collect();
    options.sort_unstable();
    options.dedup();
    options
}

/// Fails if a new entry lacks its device or its type.
pub(super) fn require_fields(device: Option<&str>, fstype: Option<&str>) -> Result<(), EcoString> {
    let is_missing = |value: Option<&str>| value.is_none_or(str::is_empty);
    if is_missing(device) && fstype != Some(SWAP) {
        return Err("a new entry needs a device: add `device`, such as /dev/sdb1 or tmpfs".into());
    }
    match is_missing(fstype) {
        true => Err("a new entry needs a type: add `fstype`, such as ext4, `auto`, or `none` for a bind mount".into()),
        false => Ok(()),
    }
}

/// Returns the problems of an entry. A value that is not known is none.
pub(super) fn problems(name: &str, device: Option<&str>, fstype: Option<&str>, options: &str) -> Vec<ValidationError> {
    let mut problems = Vec::new();
    if !atomic_rewrite::is_normal(name) {
        let problem =
            ValidationError::with("name", format!("`{name}` is not an absolute path without `.`, `..` and `//`"));
        problems.push(problem.hint("the name is the mount point, and of a swap area the device"));
    }
    for (attribute, value) in [("name", Some(name)), ("device", device), ("fstype", fstype), ("options", Some(options))]
    {
        let Some(value) = value else { continue };
        if value.contains(|c: char| c.is_control() && c != '\t') {
            problems.push(ValidationError::with(attribute, "a field of fstab(5) has one line"));
        } else if matches!(attribute, "fstype" | "options") && value.contains(char::is_whitespace) {
            problems.push(ValidationError::with(attribute, format!("`{value}` contains white space")));
        }
        if value.is_empty() {
            problems.push(ValidationError::with(attribute, "a field of fstab(5) cannot be empty"));
        }
    }
    problems
}
