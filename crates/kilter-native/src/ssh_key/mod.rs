//! The type `ssh_authorized_key`: keys that permit a login.

mod key_file;
pub(crate) mod key_line;
mod schema;

use std::sync::{Arc, Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, Unknown};
use kilter_provider::{
    AutoEdge, Claim, Context, Direction, Effect, Footprint, Forecast, Level, Match, Mode, POLL, PathState, Predict,
    Provider, ProviderError, Query, Redactor, Relations, Scope, SideEffects, ValidationError, Wanted, Watch,
    WatchSource,
};
use rustc_hash::FxHashSet;

use crate::accounts::{Accounts, System, UserRow, no_user};
use crate::builtin::is_absent;
use crate::file::atomic_rewrite;
use crate::user_files::{EntryTitle, UserFiles, declared_entry, own_name, prefix, several};
use key_file::{KeyFile, merged, problems};
use schema::schema;

/// Provides the type `ssh_authorized_key`.
pub struct SshAuthorizedKeyProvider {
    accounts: Arc<Accounts>,
    /// Held from the read of the files to the last write.
    turn: Mutex<()>,
}

/// Declaration of an absent resource without attributes.
fn removal() -> Attributes {
    Attributes::from_iter([("ensure", "absent")])
}

/// A resource with its place in the files.
struct LocatedKey<'t, 'f> {
    title: EntryTitle<'t>,
    /// Users with the key, each with the number of the key in their file.
    places: Vec<(&'f EcoString, usize)>,
}

impl SshAuthorizedKeyProvider {
    /// Creates a provider for the keys of the users of a system. Homes are paths of this machine.
    pub fn new(system: System) -> SshAuthorizedKeyProvider {
        SshAuthorizedKeyProvider::sharing(Arc::new(Accounts::new(system)))
    }

    pub(crate) fn sharing(accounts: Arc<Accounts>) -> SshAuthorizedKeyProvider {
        SshAuthorizedKeyProvider { accounts, turn: Mutex::new(()) }
    }

    fn user(&self, cx: &Context<'_>, name: &str) -> Result<Option<UserRow>, EcoString> {
        self.accounts.user(cx, name).map_err(|error| error.message)
    }

    fn own(&self) -> Result<EcoString, EcoString> {
        own_name(&self.accounts).map_err(|error| error.message)
    }

    /// Reads the files of all users. Only root can read those of others. If several users share a home, the first one
    /// has the keys. Logs files that cannot be read with the given level.
    fn read_all(&self, cx: &Context<'_>, level: Level) -> Result<UserFiles<KeyFile>, EcoString> {
        let users = self.accounts.users().map_err(|error| error.message)?;
        let own = self.own()?;
        let is_root = rustix::process::geteuid().is_root();
        let mut homes = FxHashSet::default();
        let rows = users.rows.iter().filter(|row| (is_root || row.name == own) && homes.insert(row.home.clone()));
        let read = |row: &UserRow| {
            let file = KeyFile::read(row);
            if let Err(why) = &file {
                cx.log(level, "ssh_authorized_key", "", &format!("{}: {why}", row.name));
            }
            (row.name.clone(), file)
        };
        Ok(rows.map(read).collect())
    }

    /// Reads the file of a user that is not among those read, such as one of a directory service.
    fn add(&self, cx: &Context<'_>, files: &mut UserFiles<KeyFile>, user: &str) -> Result<(), EcoString> {
        if files.file(user).is_none()
            && let Some(row) = self.user(cx, user)?
        {
            files.insert(user.into(), KeyFile::read(&row));
        }
        Ok(())
    }

    fn title<'t>(&self, cx: &Context<'_>, title: &'t str, should: &Attributes) -> Result<EntryTitle<'t>, EcoString> {
        // A read without a declaration has no attributes.
        let is_new = !is_absent(should) && should.iter().next().is_some();
        EntryTitle::resolve::<KeyFile>(&self.accounts, cx, title, should.text("user"), is_new)
    }

    /// Finds a key. A user who does not exist has no keys.
    fn located<'t, 'f>(
        &self,
        cx: &Context<'_>,
        files: &'f mut UserFiles<KeyFile>,
        title: &'t str,
        should: &Attributes,
    ) -> Result<LocatedKey<'t, 'f>, EcoString> {
        let title = self.title(cx, title, should)?;
        if let Some(user) = &title.user {
            self.add(cx, files, user)?;
        }
        let files: &'f UserFiles<KeyFile> = files;
        let mut places = Vec::new();
        for (user, file) in files.of(&title)? {
            places.extend(file.places(title.name, should).into_iter().map(|place| (user, place)));
        }
        if places.is_empty() {
            files.refuse_whole(cx, &title, &self.own()?)?;
            files.not_found(&title)?;
        }
        if places.len() > 1 && !is_absent(should) {
            let mut users: Vec<&EcoString> = places.iter().map(|(user, _)| *user).collect();
            users.dedup();
            return Err(several::<KeyFile>(title.name, places.len(), &users));
        }
        Ok(LocatedKey { title, places })
    }

    fn state(
        &self,
        cx: &Context<'_>,
        files: &mut UserFiles<KeyFile>,
        title: &EcoString,
        should: Option<&Attributes>,
    ) -> Result<State, EcoString> {
        let none = Attributes::new();
        let located = self.located(cx, files, title, should.unwrap_or(&none))?;
        let Some((user, place)) = located.places.first().map(|(user, place)| ((*user).clone(), *place)) else {
            let user = located.title.user.as_deref();
            let unknown = user.and_then(|user| self.left_keys(cx, title, user)).into_iter().collect();
            return Ok(State { name: title.clone(), attributes: removal(), unknown, ..State::default() });
        };
        let key = files.file(&user).and_then(|file| file.as_ref().ok()).map(|file| file.key(place));
        let (Some(key), Some(row)) = (key, self.user(cx, &user)?) else {
            return Err(eco_format!("the user {user} has gone"));
        };
        Ok(State::present(title.clone(), key_file::attributes(key, &row)))
    }

    /// Returns the reason why a plan does not know a key: an earlier resource creates its user, whose home already has
    /// keys.
    fn left_keys(&self, cx: &Context<'_>, title: &str, user: &str) -> Option<Unknown> {
        if !cx.is_noop() || self.user(cx, user).ok()?.is_some() {
            return None;
        }
        let Forecast::Changed(_, because) = cx.preview_context().account(title, "user", user) else { return None };
        let declared = cx.preview_context().declared("user", user).and_then(|declared| declared.text("home"));
        let home = declared.map_or_else(|| eco_format!("/home/{user}"), EcoString::from);
        let is_there = std::fs::symlink_metadata(key_file::path_in(&home)).is_ok();
        is_there.then(|| Unknown { attribute: "ensure".into(), because: because.into() })
    }

    /// Returns the users whose files a change affects.
    fn users(
        &self,
        cx: &Context<'_>,
        files: &mut UserFiles<KeyFile>,
        change: &Change<'_>,
    ) -> Result<Vec<EcoString>, EcoString> {
        let removal = removal();
        let should = change.should.unwrap_or(&removal);
        let LocatedKey { title, places } = self.located(cx, files, change.name, should)?;
        let mut users: Vec<EcoString> = places.into_iter().map(|(user, _)| user.clone()).collect();
        users.dedup();
        if users.is_empty() && !is_absent(should) {
            users.push(title.user.ok_or("a new key needs `user`, `type` and `key`")?);
        }
        Ok(users)
    }

    /// Makes the changes of the file of a user.
    fn change(&self, cx: &Context<'_>, user: &str, changes: &[&Change<'_>]) -> Result<Vec<Outcome>, EcoString> {
        let row = self.user(cx, user)?.ok_or_else(|| no_user(user))?;
        let removal = removal();
        let names = changes.iter().map(|change| {
            let should = change.should.unwrap_or(&removal);
            Ok((self.title(cx, change.name, should)?.name, should))
        });
        let declared: Vec<(&str, &Attributes)> = names.collect::<Result<_, EcoString>>()?;
        let (mut outcomes, lost) = atomic_rewrite::rewritten(|| {
            KeyFile::rewrite(&row, cx, |file| {
                let changed = declared.iter().map(|(name, should)| change_key(file, user, name, should));
                changed.map(|made| made.map_or_else(Outcome::failed, |()| Outcome::done())).collect::<Vec<_>>()
            })
        })?;
        if let Some(first) = outcomes.first_mut().filter(|_| !lost.is_empty()) {
            first.notes.push(eco_format!("{}: could not keep {}", key_file::path(&row), lost.join(", ")));
        }
        Ok(outcomes)
    }

    /// Fails if a new key lacks an attribute, or if its user does not exist and no earlier resource creates it.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let Some(should) = change.should.filter(|should| !is_absent(should)) else { return Ok(()) };
        let title = self.title(cx, change.name, should)?;
        if !change.is.exists {
            merged(title.name, None, should)?;
        }
        let user = title.user.as_deref();
        let preview_context = cx.preview_context();
        let may_come = |user| preview_context.account(change.name, "user", user) != Forecast::Unchanged;
        match user {
            Some(user) if may_come(user) || preview_context.may_change_before(change.name) => Ok(()),
            Some(user) if self.user(cx, user)?.is_none() => Err(no_user(user)),
            None if !change.is.exists => Err("a new key needs `user`, `type` and `key`".into()),
            _ => Ok(()),
        }
    }

    /// Returns the path of the file of the declared user.
    fn path(&self, name: &str, should: &Attributes) -> Option<EcoString> {
        let user = should.text("user").or_else(|| prefix(name).map(|(user, _)| user))?;
        let users = self.accounts.users().ok();
        match users.as_ref().and_then(|users| users.find(user)) {
            Some(row) => Some(key_file::path(row)),
            None if user.contains('/') => None,
            // The manifest may create the user.
            None => Some(key_file::path_in(&eco_format!("/home/{user}"))),
        }
    }
}

fn change_key(file: &mut KeyFile, user: &str, name: &str, should: &Attributes) -> Result<(), EcoString> {
    let places = file.places(name, should);
    if is_absent(should) {
        file.remove(&places);
        return Ok(());
    }
    if places.len() > 1 {
        return Err(several::<KeyFile>(name, places.len(), &[&user.into()]));
    }
    let place = places.first().copied();
    let key = merged(name, place.map(|place| file.key(place)), should)?;
    file.put(place, &key)
}

impl Provider for SshAuthorizedKeyProvider {
    crate::builtin::describe!("ssh_authorized_key", "ssh_authorized_key", schema, [relations, predict, watch]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        // A list without the keys of such a file looks complete.
        let level = if matches!(query, Query::All) { Level::Warning } else { Level::Info };
        let mut files = self.read_all(cx, level).map_err(ProviderError::new)?;
        match query {
            Query::All => {
                let titles = files.titles(&self.accounts, cx).map_err(ProviderError::new)?;
                let mut states = Vec::with_capacity(titles.len());
                for (title, user) in titles {
                    // The removal of a name applies to all keys with this name, so that several of them are one
                    // resource here. No user can hide the keys of others by them.
                    let should = Attributes::from_iter([("ensure", "absent".into()), ("user", user)]);
                    match self.state(cx, &mut files, &title, Some(&should)) {
                        Ok(state) => states.push(state),
                        Err(why) => states.push(State { unreadable: Some(why), ..State::absent(title) }),
                    }
                }
                Ok(states)
            }
            Query::Named(wanted) => {
                let mut found = |one: &Wanted<'_>| {
                    self.state(cx, &mut files, one.name, one.should).unwrap_or_else(|why| {
                        let why = one.should.map_or(why.clone(), |should| Redactor::of(should).redact(why));
                        State { unreadable: Some(why), ..State::absent(one.name.clone()) }
                    })
                };
                Ok(wanted.iter().map(&mut found).collect())
            }
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return crate::builtin::previews(changes, |change| self.preview(cx, change));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let users = match self.read_all(cx, Level::Info) {
            Ok(mut files) => changes.iter().map(|change| self.users(cx, &mut files, change)).collect(),
            Err(why) => changes.iter().map(|_| Err(why.clone())).collect(),
        };
        atomic_rewrite::change_all(cx, changes, users, |user: &EcoString, changes| self.change(cx, user, changes))
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        problems(name, should).into_iter().map(|problem| seal.problem(problem)).collect()
    }
}

impl Relations for SshAuthorizedKeyProvider {
    fn claims(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        let (user, name) = declared_entry(name, should.text("user"));
        let Some(user) = user else { return };
        let key = should.text("key").map(|key| format!("{user} {key}"));
        match (key, is_absent(should)) {
            // It removes the key under each comment.
            (Some(key), true) => say(Claim::whole(&key)),
            (key, _) => {
                say(Claim::whole(&format!("{user}:{name}")));
                key.into_iter().for_each(|key| say(Claim::part(&key)));
            }
        }
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        for user in should.text("user").into_iter().chain(prefix(name).map(|(user, _)| user)) {
            add(AutoEdge { direction: Direction::BeforeUnlessRemoved, ..AutoEdge::require("user", user) });
        }
        if let Some(path) = self.path(name, should) {
            add(AutoEdge { type_name: "file", name: &path, by: Match::PathOrAncestor, direction: Direction::Before });
        }
    }
}

impl Predict for SshAuthorizedKeyProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let none = Attributes::new();
        let path = self.path(change.name, change.should.unwrap_or(&none));
        Some(path.into_iter().map(|path| Effect::Path { path, node: PathState::Unknown }).collect())
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        if let Some(path) = self.path(name, should) {
            say(Footprint::Writes { path: &path, is_whole: false });
        }
    }
}

impl Watch for SshAuthorizedKeyProvider {
    /// Returns the watches for the file and for the home of its user. A key of any user is polled.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        match self.path(name, should) {
            Some(path) => {
                let file = WatchSource::Path { path: path.as_str().into(), scope: Scope::This };
                std::iter::once(file).chain(self.accounts.watches(&["passwd"])).collect()
            }
            None => vec![WatchSource::Poll(POLL)],
        }
    }
}

#[cfg(test)]
mod tests;
