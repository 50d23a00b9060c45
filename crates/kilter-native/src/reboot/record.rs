//! Records of reboots in the state directory, so that each happens at most once.

use ecow::{EcoString, eco_format};
use kilter_provider::Context;

use crate::state_files::StateFiles;

/// Name of the type in the state directory.
const KIND: &str = "reboot";

/// RebootProgress of a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RebootProgress {
    /// It follows at the end of the run.
    Due,
    /// systemd has been asked. The run has not recorded yet that the refresh is done.
    Requested,
    /// systemd has been asked, and the run has recorded that.
    Settled,
}

/// RebootRecord of a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RebootRecord {
    /// Id of the boot in which it was requested.
    pub(super) boot: EcoString,
    pub(super) progress: RebootProgress,
}

impl RebootRecord {
    fn parse(text: &str) -> Option<RebootRecord> {
        let (boot, progress) = text.trim_end().split_once(' ')?;
        let progress = match progress {
            "due" => RebootProgress::Due,
            "requested" => RebootProgress::Requested,
            "settled" => RebootProgress::Settled,
            _ => return None,
        };
        Some(RebootRecord { boot: boot.into(), progress })
    }

    /// Returns the record of a resource. A damaged record counts as none.
    pub(super) fn read(cx: &Context<'_>, name: &str) -> Result<Option<RebootRecord>, EcoString> {
        let bytes = StateFiles::of(cx, KIND).read(name)?;
        Ok(bytes.and_then(|bytes| RebootRecord::parse(std::str::from_utf8(&bytes).ok()?)))
    }

    /// Writes the record of a resource.
    pub(super) fn write(&self, cx: &Context<'_>, name: &str) -> Result<(), EcoString> {
        let progress = match self.progress {
            RebootProgress::Due => "due",
            RebootProgress::Requested => "requested",
            RebootProgress::Settled => "settled",
        };
        StateFiles::of(cx, KIND).write(name, eco_format!("{} {progress}\n", self.boot).as_bytes())
    }

    /// Removes the record of a resource.
    pub(super) fn remove(cx: &Context<'_>, name: &str) -> Result<(), EcoString> {
        StateFiles::of(cx, KIND).remove(name)
    }

    /// Returns the names of the resources with a record.
    pub(super) fn names(cx: &Context<'_>) -> Result<Vec<EcoString>, EcoString> {
        StateFiles::of(cx, KIND).names()
    }
}
