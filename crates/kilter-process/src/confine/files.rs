//! Files, devices and signals: Landlock.

use std::error::Error;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::Gap;

/// The newest version that all of this file has been held against. Later ones restrict more: the ninth, for
/// one, which Unix sockets may be connected to, and a child that reads may well ask a service.
pub(super) const KNOWN: ABI = ABI::V7;

/// What may be written to by everybody without changing anything, and terminals.
pub(super) const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"];

/// Restricts this thread as a kernel does that knows no more than a version; says what that cannot keep it from, or why it cannot
/// be restricted at all.
pub(super) fn restrict(scratch: Option<&Path>, known: ABI) -> Result<Vec<Gap>, String> {
    let told = |error: RulesetError| format!("Landlock: {}", with_sources(&error));
    // Asked for first, with no effect: a child that is not confined is not to lose its set-uid programs.
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let absent = |_| "this kernel has no Landlock, or it is switched off".to_owned();
    required.handle_access(AccessFs::WriteFile).map_err(absent)?;
    let status = rules(scratch, known).and_then(RulesetCreated::restrict_self).map_err(told)?;
    match status {
        RestrictionStatus { ruleset: RulesetStatus::NotEnforced, .. } => Err("Landlock is not enforced".into()),
        RestrictionStatus { landlock: LandlockStatus::Available { effective_abi, .. }, .. } => {
            Ok(gaps(effective_abi.min(known)))
        }
        RestrictionStatus { .. } => Err("Landlock does not say what it enforces".into()),
    }
}

/// All kinds of writing are ruled, and allowed beneath a few places only. Reading and executing are not ruled.
fn rules(scratch: Option<&Path>, known: ABI) -> Result<RulesetCreated, RulesetError> {
    let writing = AccessFs::from_write(known);
    let rules = Ruleset::default().handle_access(writing)?;
    let scope = Scope::from_all(known);
    let mut rules = if scope.is_empty() { rules } else { rules.scope(scope)? }.create()?;
    let to_use: BitFlags<AccessFs> = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let to_use = to_use & writing;
    for (path, access) in
        DEVICES.iter().map(|path| (Path::new(path), to_use)).chain(scratch.map(|path| (path, writing)))
    {
        // What is not there cannot be written to.
        if let Ok(place) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(place, access))?;
        }
    }
    Ok(rules)
}

/// What a version leaves open (landlock(7)).
fn gaps(abi: ABI) -> Vec<Gap> {
    let since = [(ABI::V3, Gap::Truncation), (ABI::V5, Gap::Devices), (ABI::V6, Gap::Signals)];
    since.into_iter().filter(|(first, _)| abi < *first).map(|(_, gap)| gap).collect()
}

fn with_sources(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_sources(source)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gaps_of_older_kernels_are_known() {
        assert_eq!(gaps(ABI::V1), [Gap::Truncation, Gap::Devices, Gap::Signals]);
        assert_eq!(gaps(ABI::V4), [Gap::Devices, Gap::Signals]);
        assert_eq!(gaps(ABI::V6), []);
    }
}
