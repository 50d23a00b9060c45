//! The type `vcsrepo`: checkouts of git repositories.

mod converge;
mod found;
mod git;
mod place;
mod schema;
mod undo;

use std::sync::{Arc, Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_provider::{
    AutoEdge, Batch, Context, Direction, Durability, Effect, Footprint, Found, Insync, Match, Mode, POLL, PathState,
    Predict, Provider, ProviderError, Query, ReadOne, Redactor, Relations, Scheduling, Scope, SideEffects, Suitability,
    ValidationError, Wanted, Watch, WatchSource, get_each, redacted_outcome,
};
use rustc_hash::FxHashSet;

use crate::accounts::{Accounts, System, number};
use crate::file::directory;
use crate::tool;
use crate::value_text::sealed_like;
use converge::Convergence;
use found::{RemoteTarget, Target, WorkTree, changed_submodules, local_target, remote_target};
use git::{Git, GitSource, RepositoryGit};
use place::{CheckoutPlace, check_trust};
pub use schema::is_git_reference;
use schema::{DeclaredCheckout, Ensure, schema, short};

/// Maximum number of file names that a difference lists.
const MAX_LISTED: usize = 3;

/// Provides the type `vcsrepo` through git.
pub struct VcsrepoProvider {
    system: System,
    accounts: Arc<Accounts>,
    /// Paths whose `latest` commit was fetched by the last change. The check after it does not ask the source again.
    fetched: Mutex<FxHashSet<EcoString>>,
}

/// Returns the source of a checkout for git that runs as a user.
fn source_of<'a>(declared: &DeclaredCheckout<'a>, uid: u32) -> Option<GitSource<'a>> {
    let address = declared.source?;
    let is_trusted_directory = declared.local_source().is_some_and(|path| place::is_trusted_source(path, uid));
    Some(GitSource { address, is_trusted_directory })
}

impl VcsrepoProvider {
    /// Creates a provider with the accounts of a system.
    pub fn new(system: System) -> VcsrepoProvider {
        let accounts = Arc::new(Accounts::new(system.clone()));
        VcsrepoProvider::sharing(accounts, system)
    }

    pub(crate) fn sharing(accounts: Arc<Accounts>, system: System) -> VcsrepoProvider {
        VcsrepoProvider { system, accounts, fetched: Mutex::default() }
    }

    /// Returns git as the user of a checkout.
    fn git<'a>(
        &'a self,
        cx: &'a Context<'a>,
        declared: &DeclaredCheckout<'a>,
        place: &CheckoutPlace,
    ) -> Result<Git<'a>, EcoString> {
        let is_root = rustix::process::geteuid().is_root();
        let (user, group) = match (declared.user, place) {
            (Some(user), _) => (Some(user.clone()), declared.group.cloned()),
            (None, CheckoutPlace::Repository { uid, gid, .. }) => {
                (Some(Value::from(i64::from(*uid))), Some(Value::from(i64::from(*gid))))
            }
            (None, _) => (Some(Value::from(i64::from(rustix::process::geteuid().as_raw()))), declared.group.cloned()),
        };
        // Only root can be another user. Others get the error of the system.
        let identity = match is_root || declared.user.is_some() {
            true => self.accounts.identity(cx, user.as_ref(), group.as_ref())?,
            false => None,
        };
        Ok(Git { runner: self.system.runner(), accounts: &self.accounts, cx, identity, key: declared.identity })
    }

    fn read(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, EcoString> {
        let declared = DeclaredCheckout::of(wanted.name, wanted.should);
        let place = CheckoutPlace::find(declared.path)?;
        let CheckoutPlace::Repository { uid, gid, is_bare, has_submodules } = place else {
            let mut state = State::absent(wanted.name.clone());
            if wanted.noop && declared.ensure != Ensure::Absent {
                self.announce(cx, &declared, &place, &mut state);
            }
            return Ok(state);
        };
        let mut attributes = Attributes::with_capacity(8);
        attributes.push("ensure", if is_bare { "bare" } else { "present" });
        attributes.push("path", wanted.name.clone());
        self.push_owner(&declared, (uid, gid), &mut attributes)?;
        // The state of a checkout that is removed or replaced does not matter.
        let is_replaced = wanted.should.is_some() && is_bare != (declared.ensure == Ensure::Bare);
        if wanted.should.is_some() && declared.ensure == Ensure::Absent || is_replaced {
            return Ok(State::present(wanted.name.clone(), attributes));
        }
        let git = self.git(cx, &declared, &place)?;
        if let Some(reason) = converge::foreign(declared.path, uid, &git) {
            return match declared.force {
                // The change replaces it.
                true => {
                    attributes.push("changed_files", Value::strings([".git"]));
                    Ok(State::present(wanted.name.clone(), attributes))
                }
                false => Err(reason),
            };
        }
        check_trust(declared.path, git.uid())?;
        let git = RepositoryGit { git: &git, path: declared.path, is_bare, is_of_root: uid == 0, more_objects: None };
        let recorded = git.address(declared.remote)?;
        if let Some(recorded) = &recorded {
            let source = Value::String(recorded.clone());
            attributes.push(
                "source",
                match wanted.should.and_then(|should| should.get("source")) {
                    Some(declared) => sealed_like(declared, source),
                    None => source,
                },
            );
        }
        if !is_bare {
            self.read_work_tree(&git, &declared, recorded.as_deref(), has_submodules, &mut attributes)?;
        }
        Ok(State::present(wanted.name.clone(), attributes))
    }

    fn read_work_tree(
        &self,
        git: &RepositoryGit<'_>,
        declared: &DeclaredCheckout<'_>,
        recorded: Option<&str>,
        has_submodules: bool,
        attributes: &mut Attributes,
    ) -> Result<(), EcoString> {
        let tree = WorkTree::read(git, false)?;
        if let Some(commit) = &tree.commit {
            attributes.push("revision", tree.branch.as_ref().unwrap_or(commit).clone());
            attributes.push("commit", commit.clone());
        }
        if let Some(commit) = self.declared_commit(git, declared, recorded, &tree)? {
            attributes.push("declared_commit", commit);
        }
        for (attribute, files) in [("deleted_files", tree.deleted), ("changed_files", tree.changed)] {
            if !files.is_empty() {
                attributes.push(attribute, Value::strings(files));
            }
        }
        if has_submodules && declared.submodules {
            let submodules = changed_submodules(git)?;
            if !submodules.is_empty() {
                attributes.push("changed_submodules", Value::strings(submodules));
            }
        }
        Ok(())
    }

    /// Returns the commit that the declaration asks for, and none under the conditions of [`VcsrepoProvider::target`].
    fn declared_commit(
        &self,
        git: &RepositoryGit<'_>,
        declared: &DeclaredCheckout<'_>,
        recorded: Option<&str>,
        tree: &WorkTree,
    ) -> Result<Option<EcoString>, EcoString> {
        let Some(target) = self.target(git, declared, recorded, tree)? else { return Ok(None) };
        if !declared.force
            && let Some(commit) = &tree.commit
            && git.commit(&target.commit)?.is_some()
            && converge::is_ahead(git, tree, &target)?
        {
            return Ok(Some(commit.clone()));
        }
        Ok(Some(target.commit))
    }

    /// Returns the declared revision and its commit. None if every commit is in sync, or only a fetch finds it.
    fn target(
        &self,
        git: &RepositoryGit<'_>,
        declared: &DeclaredCheckout<'_>,
        recorded: Option<&str>,
        tree: &WorkTree,
    ) -> Result<Option<Target>, EcoString> {
        let source = source_of(declared, git.git.uid());
        let remote = source.map(|_| declared.remote);
        let is_recorded = source.is_none_or(|source| Some(source.address) == recorded);
        let was_fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner).remove(declared.path);
        let is_local = is_recorded && (declared.ensure == Ensure::Present || was_fetched);
        let target = match (declared.revision, is_local) {
            (Some(revision), true) => local_target(git, remote, revision)?,
            (None, true) if tree.commit.is_some() && (declared.ensure == Ensure::Present || was_fetched) => {
                return Ok(None);
            }
            _ => None,
        };
        match (target, source) {
            (Some(target), _) => Ok(Some(target)),
            (None, None) => Ok(None),
            (None, Some(source)) => match remote_target(git.git, &source, declared.revision)? {
                RemoteTarget::At(target) => Ok(Some(target)),
                RemoteTarget::Digits | RemoteTarget::Empty => Ok(None),
            },
        }
    }

    /// Adds the commit that a new checkout gets, if the source tells it.
    fn announce(&self, cx: &Context<'_>, declared: &DeclaredCheckout<'_>, place: &CheckoutPlace, state: &mut State) {
        let git = self.git(cx, declared, place);
        let target = git.and_then(|git| match source_of(declared, git.uid()) {
            Some(source) if declared.ensure != Ensure::Bare => remote_target(&git, &source, declared.revision),
            _ => Ok(RemoteTarget::Empty),
        });
        // An earlier resource may supply the user, the key or the source.
        if let Ok(RemoteTarget::At(Target { commit, .. })) = target {
            state.attributes.push("ensure", "absent");
            state.attributes.push("declared_commit", commit);
        }
    }

    /// Adds owner and group, in the notation of the declaration if they are as declared.
    fn push_owner(
        &self,
        declared: &DeclaredCheckout<'_>,
        (uid, gid): (u32, u32),
        attributes: &mut Attributes,
    ) -> Result<(), EcoString> {
        let users = self.accounts.users().map_err(|error| error.message)?;
        let groups = self.accounts.groups().map_err(|error| error.message)?;
        let declared_uid = |user: &Value| {
            number(user).or_else(|| Some(users.find(&user.to_text()?)?.uid)).filter(|found| *found == uid)
        };
        let declared_gid = |group: &Value| {
            number(group).or_else(|| Some(groups.find(&group.to_text()?)?.gid)).filter(|found| *found == gid)
        };
        let user = users.find_uid(uid).map_or_else(|| Value::from(i64::from(uid)), |row| row.name.clone().into());
        let group = groups.find_gid(gid).map_or_else(|| Value::from(i64::from(gid)), |row| row.name.clone().into());
        let owner = declared.owner.filter(|owner| declared_uid(owner).is_some()).cloned().unwrap_or(user);
        let group = declared.group.filter(|group| declared_gid(group).is_some()).cloned().unwrap_or(group);
        attributes.push("owner", owner);
        attributes.push("group", group);
        Ok(())
    }

    fn apply(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let declared = DeclaredCheckout::of(change.name, change.should);
        // Values from other resources have not been validated before.
        if let Some(problem) = declared.problems(&[]).pop() {
            return Err(problem.to_string().into());
        }
        let place = CheckoutPlace::find(declared.path)?;
        let git = self.git(cx, &declared, &place)?;
        if change.should.is_none() || declared.ensure == Ensure::Absent {
            return converge::remove(&git, &declared);
        }
        let owner = git.identity.as_ref().map(|identity| (identity.uid, identity.gid));
        Convergence { git: &git, declared, owner, is: change.is }.run()?;
        if declared.ensure == Ensure::Latest {
            self.fetched.lock().unwrap_or_else(PoisonError::into_inner).insert(declared.path.into());
        }
        if cx.durability() == Durability::Flushed { directory::flush(declared.path) } else { Ok(()) }
    }

    /// Fails if other files are in the way, or if local changes would be lost, and no earlier resource may change that.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let declared = DeclaredCheckout::of(change.name, change.should);
        let earlier = cx.preview_context();
        if earlier.may_change_before(change.name) {
            return Ok(());
        }
        let place = CheckoutPlace::find(declared.path)?;
        let Ok(git) = self.git(cx, &declared, &place) else { return Ok(()) };
        let is_removed = change.should.is_none() || declared.ensure == Ensure::Absent;
        if !is_removed && let Some(obstacle) = converge::obstacle(&place, &declared, &git) {
            return Err(obstacle);
        }
        let CheckoutPlace::Repository { uid, is_bare, .. } = place else { return Ok(()) };
        if declared.force || earlier.is_written(declared.path) {
            return Ok(());
        }
        if is_removed {
            return converge::needs_removal(&git, &declared).map(drop);
        }
        if is_bare {
            return Ok(());
        }
        let git = RepositoryGit { git: &git, path: declared.path, is_bare, is_of_root: uid == 0, more_objects: None };
        let tree = WorkTree::read(&git, false)?;
        let recorded = git.address(declared.remote)?;
        let Some(target) = self.target(&git, &declared, recorded.as_deref(), &tree)? else { return Ok(()) };
        if git.commit(&target.commit)?.is_some() {
            return converge::needs_checkout(&git, &tree, &target).map(drop);
        }
        // Without a fetch, kilter knows the files of a new commit only if the source is on this machine.
        let uid = git.git.uid();
        let more_objects = declared.local_source().and_then(|path| place::trusted_objects(path, uid));
        let git = RepositoryGit { more_objects, ..git };
        match git.commit(&target.commit)? {
            Some(_) => converge::refuse_overwritten_files(&git, &tree, &target),
            None => Ok(()),
        }
    }
}

/// Returns a text about files: `deleted files: a, b, c and 2 more`.
fn listed<'a>(names: impl Iterator<Item = &'a str>, what: &str) -> EcoString {
    let names: Vec<&str> = names.collect();
    let shown = names.iter().take(MAX_LISTED).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    eco_format!("{what}: {shown}{more}")
}

fn listed_value(value: &Value, what: &str) -> EcoString {
    listed(value.as_list().iter().filter_map(Value::as_str), what)
}

/// Returns the change of the commit, with changed files that it may overwrite: `1a2b3c4d5e → 5d6e7f8a9b (main)`. None
/// if the commit is as declared.
fn commit_change(is: &State, declared_checkout: &DeclaredCheckout<'_>) -> Option<EcoString> {
    let declared = is.attributes.text("declared_commit")?;
    let found = is.attributes.text("commit");
    if found == Some(declared) {
        return None;
    }
    let named = declared_checkout.revision.filter(|revision| !declared.starts_with(revision));
    let mut more = named.map(|revision| format!(" ({revision})")).unwrap_or_default();
    if let Some(files) = is.attributes.get("changed_files").filter(|_| !declared_checkout.force) {
        more += &format!(", with {}", listed_value(files, "changed files"));
    }
    Some(eco_format!("{} → {}{more}", found.map_or_else(|| "nothing".into(), short), short(declared)))
}

impl Provider for VcsrepoProvider {
    crate::builtin::describe!("vcsrepo", "git", schema, [read_one, scheduling, relations, predict, watch, revert]);

    fn suitable(&self) -> Suitability {
        tool::installed(&["git"], None)
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let unlisted = || Err(ProviderError::new("checkouts cannot be listed: name the path of one"));
        get_each(self, cx, query, unlisted)
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let one = |change: &Change<'_>| {
            let done = match mode {
                Mode::Preview => self.preview(cx, change),
                Mode::Apply => self.apply(cx, change),
            };
            let outcome = done.map_or_else(Outcome::failed, |()| Outcome::done());
            redacted_outcome(change, outcome)
        };
        changes.iter().map(one).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        let problems = DeclaredCheckout::of(name, Some(should)).problems(deferred);
        problems.into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let declared = DeclaredCheckout::of("", Some(should));
        match (attribute, declared.ensure) {
            ("ensure", Ensure::Absent) => Insync::Default,
            ("ensure", _) if !is.exists => {
                let named = declared.revision.map(|revision| format!(" ({revision})")).unwrap_or_default();
                let word = should.text("ensure").unwrap_or("present");
                let text = is.attributes.text("declared_commit");
                Insync::Differs(text.map(|commit| eco_format!("absent → {word} at {}{named}", short(commit))))
            }
            ("ensure", Ensure::Bare) => Insync::Default,
            ("ensure", Ensure::Present | Ensure::Latest) => {
                if is.attributes.text("ensure") == Some("bare") {
                    return Insync::Differs(None);
                }
                let listed = |attribute, what| is.attributes.get(attribute).map(|files| listed_value(files, what));
                let mut texts = Vec::new();
                texts.extend(listed("deleted_files", "deleted files"));
                texts.extend(listed("changed_files", "changed files").filter(|_| declared.force));
                texts.extend(listed("changed_submodules", "submodules at another commit"));
                if declared.revision.is_none() {
                    texts.extend(commit_change(is, &declared));
                }
                if texts.is_empty() { Insync::Same } else { Insync::Differs(Some(texts.join("; ").into())) }
            }
            ("revision", _) => match commit_change(is, &declared) {
                Some(text) => Insync::Differs(Some(text)),
                None if is.attributes.text("declared_commit").is_some() => Insync::Same,
                // Only a fetch finds the commit of these digits.
                None => Insync::Differs(None),
            },
            _ => Insync::Default,
        }
    }
}

impl ReadOne for VcsrepoProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        self.read(cx, wanted).map_err(|reason| match wanted.should {
            Some(should) => Redactor::of(should).error(ProviderError::new(reason)),
            None => ProviderError::new(reason),
        })
    }
}

impl Scheduling for VcsrepoProvider {
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Relations for VcsrepoProvider {
    fn identities(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(&str)) {
        let path = name.trim_end_matches('/');
        if path != name {
            say(path);
        }
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let declared = DeclaredCheckout::of(name, Some(should));
        let path = declared.path;
        add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("mount", path) });
        if declared.ensure == Ensure::Absent {
            add(AutoEdge { by: Match::Ancestor, direction: Direction::After, ..AutoEdge::require("file", path) });
            return;
        }
        add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", path) });
        add(AutoEdge::require("package", "git"));
        for (account, type_name) in [(declared.user, "user"), (declared.owner, "user"), (declared.group, "group")] {
            let Some(account) = account else { continue };
            match number(account) {
                Some(number) => {
                    add(AutoEdge { by: Match::Number, ..AutoEdge::require(type_name, &number.to_string()) });
                }
                None => add(AutoEdge::require(type_name, account.as_str().unwrap_or_default())),
            }
        }
        for path in [declared.identity, declared.local_source()].into_iter().flatten() {
            let path = path.trim_end_matches('/');
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", path) });
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("vcsrepo", path) });
        }
    }

    fn names_are_paths(&self) -> bool {
        true
    }
}

impl Predict for VcsrepoProvider {
    fn basis(&self, _: &Context<'_>, _: Wanted<'_>, found: &Found) -> Option<Value> {
        found.state.attributes.get("declared_commit").cloned()
    }

    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let path = change.name.trim_end_matches('/').into();
        let is_absent = change.should.is_none_or(|should| should.text("ensure") == Some("absent"));
        let node = if is_absent { PathState::Absent } else { PathState::Unknown };
        Some(vec![Effect::Path { path, node }])
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        say(Footprint::Writes { path: name.trim_end_matches('/'), is_whole: false });
        if let Some(path) = DeclaredCheckout::of(name, Some(should)).local_source() {
            say(Footprint::Reads { path, below: true });
        }
    }
}

impl Watch for VcsrepoProvider {
    /// Returns the watches for the directory, its configuration and its references. Files below are polled.
    fn watches(&self, name: &str, _: &Attributes) -> Vec<WatchSource> {
        let path = name.trim_end_matches('/');
        let below = |leaf: &str, scope| WatchSource::Path { path: format!("{path}/.git/{leaf}").into(), scope };
        vec![
            WatchSource::Path { path: path.into(), scope: Scope::Entries },
            below("HEAD", Scope::This),
            below("config", Scope::This),
            below("packed-refs", Scope::This),
            below("refs", Scope::Tree),
            WatchSource::Poll(POLL),
        ]
    }
}

#[cfg(test)]
mod tests;
