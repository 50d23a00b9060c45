//! Restoration of earlier checkouts.

use ecow::EcoString;
use kilter_model::{Attributes, State};
use kilter_provider::{Context, Revert, RevertTo, Wanted};

use super::VcsrepoProvider;
use super::schema::{DeclaredCheckout, Ensure};
use crate::value_text::sealed_like;

impl Revert for VcsrepoProvider {
    fn revert_to(&self) -> RevertTo {
        RevertTo::Values
    }

    /// Restores the commit, because its branch may have moved. A checkout that was removed needs its source too.
    fn revert_values(&self, should: &Attributes, is: &State, before: &mut Attributes) -> Result<(), EcoString> {
        let declared = DeclaredCheckout::of("", Some(should));
        let is_bare = is.attributes.text("ensure") == Some("bare");
        let no_changes = |is: &State| match is.attributes.get("changed_files") {
            Some(_) if declared.force => Err("its changed files are not saved"),
            _ => Ok(()),
        };
        no_changes(is)?;
        if declared.ensure != Ensure::Absent && is_bare == (declared.ensure == Ensure::Bare) {
            let (commit, target) = (is.attributes.get("commit"), is.attributes.get("declared_commit"));
            let is_moved = target.is_some() || before.get("revision").is_some();
            if let Some(commit) = commit.filter(|commit| is_moved && target != Some(commit)) {
                before.set("revision", commit.clone());
            }
            return Ok(());
        }
        if is_bare {
            // Without `force`, only an empty bare repository is removed.
            return if declared.force { Err("the commits of a bare repository are not saved".into()) } else { Ok(()) };
        }
        let mut present: Attributes = should.clone();
        present.retain(|name, _| ["user", "owner", "group", "identity", "remote"].contains(&name.as_str()));
        let whole = self.read(&Context::empty(), Wanted::new(&is.name, Some(&present)))?;
        no_changes(&whole)?;
        let Some(commit) = whole.attributes.get("commit") else { return Ok(()) };
        let source = whole.attributes.get("source").ok_or("it has no source, and its commits are not saved")?;
        before.set("source", should.get("source").map_or(source.clone(), |one| sealed_like(one, source.clone())));
        before.set("revision", commit.clone());
        Ok(())
    }
}
