//! Landlock rules of a confined child: limits on its use of files, devices and signals.

use std::error::Error;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::MissingFeature;

/// Newest Landlock version that this file has been reviewed for. Later versions restrict more. Version 9 restricts
/// connections to Unix sockets, for example, which a child that only reads may need.
pub(super) const KNOWN: ABI = ABI::V7;

/// Devices that every user may write to without a lasting change, and terminals.
pub(super) const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"];

/// Restricts this thread with the features of one Landlock version.
///
/// Returns the changes that this version cannot prevent, or the reason why the thread cannot be restricted.
pub(super) fn restrict(scratch: Option<&Path>, known: ABI) -> Result<Vec<MissingFeature>, String> {
    let told = |error: RulesetError| format!("Landlock: {}", with_sources(&error));
    // Test for Landlock first, without any effect: a child that stays unconfined keeps the use of set-uid programs.
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let absent = |_| "this kernel has no Landlock, or it is switched off".to_owned();
    required.handle_access(AccessFs::WriteFile).map_err(absent)?;
    let status = rules(scratch, known).and_then(RulesetCreated::restrict_self).map_err(told)?;
    match status {
        RestrictionStatus { ruleset: RulesetStatus::NotEnforced, .. } => Err("Landlock is not enforced".into()),
        RestrictionStatus { landlock: LandlockStatus::Available { effective_abi, .. }, .. } => {
            Ok(gaps(effective_abi.min(known)))
        }
        RestrictionStatus { .. } => Err("the kernel does not report the version of Landlock".into()),
    }
}

/// Returns rules that control all kinds of writes and allow them below a few paths. Reads and executions stay
/// unrestricted.
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
        // A missing path needs no rule.
        if let Ok(place) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(place, access))?;
        }
    }
    Ok(rules)
}

/// Returns the changes that a version does not prevent (landlock(7)).
fn gaps(abi: ABI) -> Vec<MissingFeature> {
    let since =
        [(ABI::V3, MissingFeature::Truncation), (ABI::V5, MissingFeature::Devices), (ABI::V6, MissingFeature::Signals)];
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
    fn missing_features_of_older_kernels_are_listed() {
        assert_eq!(gaps(ABI::V1), [MissingFeature::Truncation, MissingFeature::Devices, MissingFeature::Signals]);
        assert_eq!(gaps(ABI::V4), [MissingFeature::Devices, MissingFeature::Signals]);
        assert_eq!(gaps(ABI::V6), []);
    }
}
