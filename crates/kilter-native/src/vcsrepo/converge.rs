//! Brings a checkout to its declared state.

use std::path::Path;

use ecow::{EcoString, eco_format};
use kilter_model::State;

use super::found::{
    DEPLOYED, RemoteTarget, Revision, Target, WorkTree, changed_submodules, local_target, remote_target,
};
use super::git::{Git, GitSource, RepositoryGit};
use super::listed;
use super::place::{CheckoutPlace, check_trust, intruder};
use super::schema::{DeclaredCheckout, Ensure, is_whole_commit, short};
use crate::file::directory;

/// Arguments of rev-list(1) that exclude all commits known from the source.
const FROM_SOURCE: [&str; 4] = ["--not", "--remotes", "--tags", "--glob=refs/kilter/*"];

/// The remedy that each refusal names.
const REMEDY: &str = "save them, or declare `force: true` to discard them";

/// A change of a checkout.
pub(super) struct Convergence<'a> {
    pub(super) git: &'a Git<'a>,
    pub(super) declared: DeclaredCheckout<'a>,
    /// Numbers of the declared or default owner; none if kilter creates files as itself.
    pub(super) owner: Option<(u32, u32)>,
    pub(super) is: &'a State,
}

/// Removes a checkout without local changes.
pub(super) fn remove(git: &Git<'_>, declared: &DeclaredCheckout<'_>) -> Result<(), EcoString> {
    match needs_removal(git, declared)? {
        true => directory::remove(declared.path),
        false => Ok(()),
    }
}

/// Returns true if there is a checkout to remove.
///
/// # Errors
/// If local changes would be lost, or git fails.
pub(super) fn needs_removal(git: &Git<'_>, declared: &DeclaredCheckout<'_>) -> Result<bool, EcoString> {
    let CheckoutPlace::Repository { uid, is_bare, .. } = CheckoutPlace::find(declared.path)? else { return Ok(false) };
    if !declared.force {
        check_trust(declared.path, git.uid())?;
        let git = RepositoryGit { git, path: declared.path, is_bare, is_of_root: uid == 0, more_objects: None };
        refuse_loss(&git, is_bare, declared)?;
    }
    Ok(true)
}

/// Returns `1 commit`, `2 commits`.
fn commits(count: u64) -> EcoString {
    eco_format!("{count} commit{}", if count == 1 { "" } else { "s" })
}

/// Refuses to remove changes and commits that exist nowhere else.
fn refuse_loss(git: &RepositoryGit<'_>, is_bare: bool, declared: &DeclaredCheckout<'_>) -> Result<(), EcoString> {
    let path = declared.path;
    if is_bare {
        // Other users push to a bare repository, so its branches may exist nowhere else.
        return match git.count(&["--all"])? {
            0 => Ok(()),
            count => Err(eco_format!("{path} is a bare repository with {}; {REMEDY}", commits(count))),
        };
    }
    let tree = WorkTree::read(git, true)?;
    let files = tree.changed.len() + tree.untracked;
    if files > 0 {
        return Err(eco_format!("{path} has {files} changed or untracked files; {REMEDY}"));
    }
    match git.count(&[&["--all"], &FROM_SOURCE[..]].concat())? {
        0 => Ok(()),
        count => Err(eco_format!("{path} has {} that its source does not have; {REMEDY}", commits(count))),
    }
}

/// Returns the reason why a path cannot become the declared checkout.
pub(super) fn obstacle(place: &CheckoutPlace, declared: &DeclaredCheckout<'_>, git: &Git<'_>) -> Option<EcoString> {
    let path = declared.path;
    match place {
        CheckoutPlace::Free { directory: None } => None,
        CheckoutPlace::Free { directory: Some(_) } => intruder(path, git.uid()),
        _ if declared.force => None,
        CheckoutPlace::Occupied { kind } => Some(eco_format!(
            "{path} is a {kind}: remove it, or declare `force: true` to replace it and everything below it"
        )),
        CheckoutPlace::Repository { is_bare, .. } if *is_bare != (declared.ensure == Ensure::Bare) => {
            let (is, should) = if *is_bare { ("bare", "not bare") } else { ("not bare", "bare") };
            Some(eco_format!(
                "{path} is a repository that is {is}, and the declared one is {should}: remove it, or declare \
                 `force: true` to replace it"
            ))
        }
        CheckoutPlace::Repository { uid: owner, .. } => foreign(path, *owner, git),
    }
}

/// Returns the reason why git does not run in the repository of another user.
pub(super) fn foreign(path: &str, owner: u32, git: &Git<'_>) -> Option<EcoString> {
    let uid = git.uid();
    (owner != 0 && owner != uid).then(|| {
        let (owner, user) = (git.user_name(owner), git.user_name(uid));
        eco_format!(
            "{path} belongs to {owner}, and git runs as {user}: declare `user: {owner}`, remove it, or declare \
             `force: true` to replace it"
        )
    })
}

impl Convergence<'_> {
    /// Makes the change.
    ///
    /// # Errors
    /// If local changes would be lost, or git fails.
    pub(super) fn run(&self) -> Result<(), EcoString> {
        let declared = &self.declared;
        let uid = self.git.uid();
        check_trust(declared.path, uid)?;
        let place = CheckoutPlace::find(declared.path)?;
        if let Some(obstacle) = obstacle(&place, declared, self.git) {
            return Err(obstacle);
        }
        let is_bare = declared.ensure == Ensure::Bare;
        let is_kept = match &place {
            CheckoutPlace::Repository { uid: owner, is_bare: found, .. } => {
                *found == is_bare && foreign(declared.path, *owner, self.git).is_none()
            }
            CheckoutPlace::Free { .. } | CheckoutPlace::Occupied { .. } => false,
        };
        if !is_kept {
            self.make_room(place)?;
        }
        self.give()?;
        let git = RepositoryGit { git: self.git, path: declared.path, is_bare, is_of_root: false, more_objects: None };
        if !is_kept {
            let kind: &[&str] = if is_bare { &["--bare"] } else { &[] };
            git.run(&[&["init", "--quiet", "--template="], kind].concat())?;
        }
        match is_bare {
            true => self.fill_bare(&git)?,
            false => self.check_out(&git)?,
        }
        self.give()
    }

    /// Creates the directory of the checkout, in place of others.
    fn make_room(&self, place: CheckoutPlace) -> Result<(), EcoString> {
        let path = self.declared.path;
        match place {
            CheckoutPlace::Free { directory: Some(_) } => return Ok(()),
            CheckoutPlace::Free { directory: None } => {}
            CheckoutPlace::Repository { .. } | CheckoutPlace::Occupied { .. } => directory::remove(path)?,
        }
        directory::create(path, self.owner)
    }

    /// Gives the files to their owner.
    fn give(&self) -> Result<(), EcoString> {
        match self.owner {
            Some((uid, gid)) => {
                let gid = self.declared.group.or(self.declared.owner).map(|_| gid);
                let uid = self.declared.owner.or(self.declared.user).map(|_| uid);
                let found = directory::find(self.declared.path)?;
                let is_given = found.is_some_and(|found| {
                    uid.is_none_or(|uid| uid == found.uid) && gid.is_none_or(|gid| gid == found.gid)
                });
                if is_given { Ok(()) } else { directory::give(self.declared.path, uid, gid) }
            }
            None => Ok(()),
        }
    }

    fn source(&self) -> Option<GitSource<'_>> {
        super::source_of(&self.declared, self.git.uid())
    }

    /// Records the source after its content has arrived, so that an interrupted fetch is repeated.
    fn record(&self, git: &RepositoryGit<'_>, source: &GitSource<'_>, refspec: &str) -> Result<(), EcoString> {
        let remote = self.declared.remote;
        git.run(&["config", &format!("remote.{remote}.fetch"), refspec])?;
        git.run(&["config", &format!("remote.{remote}.url"), source.address])
    }

    fn depth(&self) -> Vec<String> {
        self.declared.depth.map(|depth| format!("--depth={depth}")).into_iter().collect()
    }

    fn fill_bare(&self, git: &RepositoryGit<'_>) -> Result<(), EcoString> {
        let Some(source) = self.source() else { return Ok(()) };
        if git.address(self.declared.remote)?.as_deref() == Some(source.address) {
            return Ok(());
        }
        if let RemoteTarget::At(Target { revision: Revision::Branch(branch), .. }) =
            remote_target(self.git, &source, None)?
        {
            git.run(&["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")])?;
        }
        let depth = self.depth();
        let options: Vec<&str> = depth.iter().map(String::as_str).chain(["--update-head-ok"]).collect();
        git.fetch(&source, &options, &["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"])?;
        self.record(git, &source, "+refs/heads/*:refs/heads/*")
    }

    fn check_out(&self, git: &RepositoryGit<'_>) -> Result<(), EcoString> {
        let declared = &self.declared;
        let tree = WorkTree::read(git, false)?;
        let target = match self.source() {
            Some(source) => self.fetched(git, &source, &tree)?,
            None => match declared.revision {
                Some(revision) => Some(
                    local_target(git, None, revision)?
                        .ok_or_else(|| eco_format!("the repository has no revision `{revision}`; declare `source`"))?,
                ),
                None => None,
            },
        };
        match &target {
            Some(target) => self.checkout(git, &tree, target)?,
            None if declared.force && !tree.changed.is_empty() => git.run(&["reset", "--quiet", "--hard"])?,
            None => {}
        }
        restore(git)?;
        if declared.submodules
            && matches!(CheckoutPlace::find(declared.path)?, CheckoutPlace::Repository { has_submodules: true, .. })
        {
            self.check_out_submodules(git)?;
        }
        Ok(())
    }

    /// Returns the commit to check out, after a fetch if the repository does not have it. None keeps the present one.
    fn fetched(
        &self,
        git: &RepositoryGit<'_>,
        source: &GitSource<'_>,
        tree: &WorkTree,
    ) -> Result<Option<Target>, EcoString> {
        let declared = &self.declared;
        let is_recorded = git.address(self.declared.remote)?.as_deref() == Some(source.address);
        if is_recorded && declared.ensure == Ensure::Present {
            match declared.revision {
                Some(revision) => {
                    if let Some(target) = local_target(git, Some(declared.remote), revision)? {
                        return Ok(Some(target));
                    }
                }
                None if tree.commit.is_some() => return Ok(None),
                None => {}
            }
        }
        let wanted = remote_target(self.git, source, declared.revision)?;
        let heads = format!("+refs/heads/*:refs/remotes/{}/*", declared.remote);
        let revision = match &wanted {
            RemoteTarget::Empty => {
                self.record(git, source, &heads)?;
                return Ok(None);
            }
            RemoteTarget::At(Target { revision: Revision::Branch(branch), .. }) => branch.clone(),
            RemoteTarget::At(Target { revision: Revision::Tag(tag), .. }) => eco_format!("refs/tags/{tag}"),
            RemoteTarget::At(Target { revision: Revision::Commit, commit }) => commit.clone(),
            RemoteTarget::Digits => declared.revision.unwrap_or_default().into(),
        };
        self.fetch(git, source, &wanted, &heads, !is_recorded)?;
        let target = local_target(git, Some(declared.remote), &revision)?;
        let target = target.ok_or_else(|| eco_format!("the source has no commit `{revision}`"))?;
        self.record(git, source, &heads)?;
        Ok(Some(target))
    }

    fn fetch(
        &self,
        git: &RepositoryGit<'_>,
        source: &GitSource<'_>,
        wanted: &RemoteTarget,
        heads: &str,
        is_new: bool,
    ) -> Result<(), EcoString> {
        let remote = self.declared.remote;
        let single = match wanted {
            RemoteTarget::At(Target { revision: Revision::Branch(branch), .. }) => {
                Some(format!("+refs/heads/{branch}:refs/remotes/{remote}/{branch}"))
            }
            RemoteTarget::At(Target { revision: Revision::Tag(tag), .. }) => {
                Some(format!("+refs/tags/{tag}:refs/tags/{tag}"))
            }
            RemoteTarget::At(Target { revision: Revision::Commit, commit }) => Some(commit.to_string()),
            RemoteTarget::Digits | RemoteTarget::Empty => None,
        };
        let is_shallow =
            || git.line(&["rev-parse", "--is-shallow-repository"]).map(|line| line.as_deref() == Some("true"));
        let is_empty = self.is.attributes.text("commit").is_none();
        if let (Some(depth), Some(single)) = (self.depth().first(), &single)
            && (is_empty || is_shallow()?)
        {
            return git.fetch(source, &[depth], &[single]);
        }
        // References of another source would be taken for those of this one.
        let options: &[&str] = if is_new { &["--prune"] } else { &[] };
        git.fetch(source, options, &[heads])?;
        match wanted {
            RemoteTarget::At(Target { revision: Revision::Tag(_), .. }) => {
                git.fetch(source, &[], &[single.as_deref().unwrap_or_default()])
            }
            RemoteTarget::At(Target { revision: Revision::Commit, commit }) if git.commit(commit)?.is_none() => {
                git.fetch(source, &[], &[commit])
            }
            _ => Ok(()),
        }
    }

    /// Checks out a commit. Without `force`, git keeps changed files, or refuses.
    fn checkout(&self, git: &RepositoryGit<'_>, tree: &WorkTree, target: &Target) -> Result<(), EcoString> {
        let declared = &self.declared;
        let force: &[&str] = if declared.force { &["--force"] } else { &[] };
        let commit = target.commit.as_str();
        if !declared.force && !needs_checkout(git, tree, target)? {
            return Ok(());
        }
        match &target.revision {
            Revision::Branch(branch) => {
                let is_new = git.commit(&format!("refs/heads/{branch}"))?.is_none();
                git.run(&[&["checkout", "--quiet"], force, &["-B", branch, commit, "--"]].concat())?;
                let upstream = format!("refs/remotes/{}/{branch}", declared.remote);
                if is_new && git.commit(&upstream)?.is_some() {
                    git.run(&["config", &format!("branch.{branch}.remote"), declared.remote])?;
                    git.run(&["config", &format!("branch.{branch}.merge"), &format!("refs/heads/{branch}")])?;
                }
            }
            Revision::Tag(_) | Revision::Commit => {
                git.run(&[&["checkout", "--quiet"], force, &["--detach", commit, "--"]].concat())?;
            }
        }
        match declared.source {
            Some(_) => git.run(&["update-ref", DEPLOYED, commit]),
            None => Ok(()),
        }
    }

    fn check_out_submodules(&self, git: &RepositoryGit<'_>) -> Result<(), EcoString> {
        if changed_submodules(git)?.is_empty() && !self.declared.force {
            return Ok(());
        }
        if !self.declared.force {
            let list =
                ["git rev-list", "--max-count=1", "HEAD", "--not", "--branches", "--remotes", "--tags"].join(" ");
            let lost = git.ask(&["submodule", "--quiet", "foreach", "--recursive", &list])?.unwrap_or_default();
            if String::from_utf8_lossy(&lost).lines().any(is_whole_commit) {
                return Err(eco_format!("a submodule has commits without a branch; {REMEDY}"));
            }
        }
        let depth = self.depth();
        let mut options: Vec<&str> = depth.iter().map(String::as_str).collect();
        options.extend(self.declared.force.then_some("--force"));
        git.run(&["submodule", "--quiet", "sync", "--recursive"])?;
        git.run(&[&["submodule", "--quiet", "update", "--init", "--recursive"], &options[..]].concat())
    }
}

/// Returns true if the declared branch is checked out with further commits on top.
pub(super) fn is_ahead(git: &RepositoryGit<'_>, tree: &WorkTree, target: &Target) -> Result<bool, EcoString> {
    let is_on = match &target.revision {
        Revision::Branch(branch) => tree.branch.as_ref() == Some(branch),
        Revision::Tag(_) | Revision::Commit => false,
    };
    match &tree.commit {
        Some(commit) if is_on && *commit != target.commit => git.is_ancestor(&target.commit, commit),
        _ => Ok(false),
    }
}

/// Returns true if a commit has to be checked out; false if the checkout is ahead of it.
///
/// # Errors
/// If local changes or commits would be lost, or git fails.
pub(super) fn needs_checkout(git: &RepositoryGit<'_>, tree: &WorkTree, target: &Target) -> Result<bool, EcoString> {
    if is_ahead(git, tree, target)? {
        return Ok(false);
    }
    refuse_lost_commits(git, tree, target)?;
    refuse_overwritten_files(git, tree, target)?;
    Ok(true)
}

/// Refuses to overwrite changed files and untracked files with those of a commit, as git-checkout(1) does.
pub(super) fn refuse_overwritten_files(
    git: &RepositoryGit<'_>,
    tree: &WorkTree,
    target: &Target,
) -> Result<(), EcoString> {
    let (Some(head), commit) = (&tree.commit, target.commit.as_str()) else { return Ok(()) };
    let differences = |verb: &[&str], commits: &[&str]| {
        git.paths(&[verb, &["-z", "--no-renames", "--ignore-submodules=all", "--name-only"], commits].concat())
    };
    let mut lost = Vec::new();
    if !tree.changed.is_empty() {
        let moved = differences(&["diff-tree", "-r"], &[head, commit])?;
        // git keeps a change that the commit contains too.
        let staged = differences(&["diff-index", "--cached"], &[commit])?;
        lost.extend(tree.changed.iter().filter(|file| moved.contains(*file) && staged.contains(*file)).cloned());
    }
    let added = differences(&["diff-tree", "-r", "--diff-filter=A"], &[head, commit])?;
    let exists = |file: &&EcoString| std::fs::symlink_metadata(Path::new(git.path).join(file.as_str())).is_ok();
    let existing: Vec<&str> = added.iter().filter(exists).map(EcoString::as_str).collect();
    if !existing.is_empty() {
        let list = ["--literal-pathspecs", "ls-files", "-z", "--others", "--exclude-standard", "--"];
        lost.extend(git.paths(&[&list[..], &existing].concat())?);
    }
    match lost.is_empty() {
        true => Ok(()),
        false => {
            let files = listed(lost.iter().map(EcoString::as_str), "changed or untracked files");
            Err(eco_format!("the checkout of {} would overwrite {files}; {REMEDY}", short(commit)))
        }
    }
}

/// Refuses to leave commits that no branch has, and to reset a branch with commits that the source does not have.
fn refuse_lost_commits(git: &RepositoryGit<'_>, tree: &WorkTree, target: &Target) -> Result<(), EcoString> {
    let target_commit = format!("^{}", target.commit);
    let from_source = || [&[&*target_commit], &FROM_SOURCE[..]].concat();
    if let Revision::Branch(branch) = &target.revision {
        let name = format!("refs/heads/{branch}");
        if git.commit(&name)?.is_some() {
            let lost = git.count(&[&[&*name], &from_source()[..]].concat())?;
            if lost > 0 {
                return Err(eco_format!(
                    "the branch {branch} has {} that its source does not have; {REMEDY}",
                    commits(lost)
                ));
            }
        }
    }
    if tree.commit.is_some() && tree.branch.is_none() {
        let lost = git.count(&[&["HEAD"], &from_source()[..], &["--branches"]].concat())?;
        if lost > 0 {
            return Err(eco_format!("the checkout has {} without a branch; {REMEDY}", commits(lost)));
        }
    }
    Ok(())
}

/// Restores deleted files.
fn restore(git: &RepositoryGit<'_>) -> Result<(), EcoString> {
    let deleted = git.ask(&["ls-files", "-z", "--deleted"])?.unwrap_or_default();
    match deleted.is_empty() {
        true => Ok(()),
        false => git.run_with(&["checkout-index", "--quiet", "-u", "-z", "--stdin"], Some(deleted)),
    }
}
