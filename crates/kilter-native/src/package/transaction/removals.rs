//! Packages that a removal takes along or leaves.

use ecow::{EcoString, eco_format};
use kilter_model::Outcome;
use kilter_provider::Level;

use super::super::is_removal;
use super::{PackageAction, Run, TransactionStep};

impl Run<'_> {
    /// Adds notes about the packages that removals take along, because they depend on a removed package. A removal
    /// fails if it would take along a package that the manifest declares present. Beside installations it only warns,
    /// because one of these may replace the removed package. Returns the packages that nothing needs afterwards.
    pub(super) fn judge_removals(&self, steps: &[TransactionStep<'_>], outcomes: &mut [Outcome]) -> Vec<EcoString> {
        let removals: Vec<&TransactionStep<'_>> = steps.iter().filter(|step| step.is_removal()).collect();
        if removals.is_empty() {
            return Vec::new();
        }
        let names: Vec<&str> = removals.iter().map(|step| step.name.as_str()).collect();
        let (all, unneeded) = self.apt.removal_effects(&names);
        if all.iter().all(|name| names.contains(&name.as_str())) {
            return unneeded;
        }
        let may_be_replaced = steps.iter().any(|step| matches!(step.goal, PackageAction::Install(_)));
        for step in &removals {
            let taken = match *removals {
                [_] => all.clone(),
                _ => self.apt.removal_effects(&[step.name]).0,
            };
            let declared = |name: &EcoString| self.cx.preview_context().declared("package", name);
            let is_absent = |name: &EcoString| declared(name).is_some_and(is_removal);
            let is_meant = |name: &EcoString| names.contains(&name.as_str()) || is_absent(name);
            let taken: Vec<EcoString> = taken.into_iter().filter(|name| !is_meant(name)).collect();
            if let Some(other) = taken.iter().find(|other| declared(other).is_some()) {
                let message = eco_format!(
                    "the removal also removes {other}, which depends on it, but `package[{other}]` is declared present"
                );
                if !may_be_replaced {
                    outcomes[step.at] = Outcome::failed(message);
                    continue;
                }
                self.cx.log(Level::Warning, "package", step.name, &message);
            }
            outcomes[step.at].notes.extend(taken_along_note(&taken));
        }
        unneeded
    }
}

/// Returns the note about packages that a removal takes along.
fn taken_along_note(names: &[EcoString]) -> Option<EcoString> {
    (!names.is_empty()).then(|| eco_format!("also removes the packages that depend on it: {}", names.join(" ")))
}

/// Returns the note about packages that a removal leaves.
pub(super) fn unneeded_note(names: &[EcoString]) -> Option<EcoString> {
    let note = || {
        eco_format!("stay as dependencies that nothing needs: {}; `apt-get autoremove` removes them", names.join(" "))
    };
    (!names.is_empty()).then(note)
}
