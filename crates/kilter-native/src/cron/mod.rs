//! The type `cron`: named entries in the crontabs of users.

mod crontab;
mod schedule;
mod schema;
mod spool;

use std::sync::{Arc, Mutex, PoisonError};

use ecow::EcoString;
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_provider::{
    AutoEdge, Claim, Context, Declaration, Direction, Effect, Footprint, Forecast, Mode, PathState, Predict, Provider,
    ProviderError, Query, Redactor, Relations, Scope, SideEffects, Suitability, ValidationError, Wanted, Watch,
    WatchSource,
};

use crate::accounts::{Accounts, System, no_user};
use crate::builtin::is_absent;
use crate::file::atomic_rewrite;
use crate::tool;
use crate::user_files::{EntryTitle, UserFiles, declared_entry, own_name, prefix};
use crate::value_text::sealed_like;
use crontab::{Crontab, merged, problems};
use schedule::TIMES;
use schema::schema;
use spool::Spool;

const PROGRAM: &str = "crontab";

/// Provides the type `cron`.
pub struct CronProvider {
    system: System,
    accounts: Arc<Accounts>,
    /// Held from the read of the crontabs to the last write.
    turn: Mutex<()>,
}

/// Returns the declared user.
fn user_of(should: &Attributes) -> Option<&str> {
    should.text("user").or_else(|| should.text("target"))
}

impl CronProvider {
    /// Creates a provider for the crontabs of a system.
    pub fn new(system: System) -> CronProvider {
        CronProvider::sharing(system.clone(), Arc::new(Accounts::new(system)))
    }

    pub(crate) fn sharing(system: System, accounts: Arc<Accounts>) -> CronProvider {
        CronProvider { system, accounts, turn: Mutex::new(()) }
    }

    fn spool(&self) -> Spool<'_> {
        Spool::new(&self.system, &self.accounts)
    }

    fn title<'t>(
        &self,
        cx: &Context<'_>,
        title: &'t str,
        should: Option<&Attributes>,
    ) -> Result<EntryTitle<'t>, EcoString> {
        let is_new = should.is_some_and(|should| !is_absent(should));
        EntryTitle::resolve::<Crontab>(&self.accounts, cx, title, should.and_then(user_of), is_new)
    }

    /// Returns the title, and the user whose crontab has the entry.
    fn located<'t, 'f>(
        &self,
        cx: &Context<'_>,
        tabs: &'f UserFiles<Crontab>,
        title: &'t str,
        should: Option<&Attributes>,
    ) -> Result<(EntryTitle<'t>, Option<&'f EcoString>), EcoString> {
        let title = self.title(cx, title, should)?;
        let owner = tabs.owner(&title, should.is_none_or(is_absent))?;
        if owner.is_none() {
            tabs.refuse_whole(cx, &title, &self.own()?)?;
        }
        Ok((title, owner))
    }

    fn own(&self) -> Result<EcoString, EcoString> {
        own_name(&self.accounts).map_err(|error| error.message)
    }

    fn state(&self, cx: &Context<'_>, tabs: &UserFiles<Crontab>, wanted: &Wanted<'_>) -> Result<State, EcoString> {
        let (title, owner) = self.located(cx, tabs, wanted.name, wanted.should)?;
        Ok(owner.and_then(|user| state(tabs, wanted.name, user, title.name)).unwrap_or_else(|| {
            let mut absent = State::absent(wanted.name.clone());
            absent.attributes.push("ensure", "absent");
            absent
        }))
    }

    /// Returns the user whose crontab a change affects; none if there is nothing to remove.
    fn user(
        &self,
        cx: &Context<'_>,
        tabs: &UserFiles<Crontab>,
        change: &Change<'_>,
    ) -> Result<Option<EcoString>, EcoString> {
        let (title, owner) = self.located(cx, tabs, change.name, change.should)?;
        match owner {
            Some(owner) => Ok(Some(owner.clone())),
            None if change.should.is_none_or(is_absent) => Ok(None),
            None => title.user.map_or_else(|| self.own(), Ok).map(Some),
        }
    }

    /// Makes the changes of a crontab.
    fn change(&self, cx: &Context<'_>, user: &str, changes: &[&Change<'_>]) -> Result<Vec<Outcome>, EcoString> {
        if self.accounts.user(cx, user).map_err(|error| error.message)?.is_none() {
            return Err(no_user(user));
        }
        let mut tab = self.spool().read(cx, user)?;
        let before = tab.bytes();
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            let name = self.title(cx, change.name, change.should)?.name;
            let changed = match change.should.filter(|should| !is_absent(should)) {
                Some(should) => merged(name, tab.find(name), should).map(|entry| tab.put(&entry)),
                None => {
                    tab.remove(name);
                    Ok(())
                }
            };
            outcomes.push(changed.map_or_else(Outcome::failed, |()| Outcome::done()));
        }
        if tab.bytes() != before {
            self.spool().write(cx, user, &tab)?;
        }
        Ok(outcomes)
    }

    /// Fails if a new entry lacks its command, or if its user does not exist and no earlier resource creates it.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let Some(should) = change.should.filter(|should| !is_absent(should)) else { return Ok(()) };
        let title = self.title(cx, change.name, Some(should))?;
        if !change.is.exists {
            merged(title.name, None, should)?;
        }
        let Some(user) = &title.user else { return Ok(()) };
        let is_unchanged = cx.preview_context().account(change.name, "user", user) == Forecast::Unchanged;
        let is_missing = || Ok::<_, EcoString>(self.accounts.user(cx, user).map_err(|error| error.message)?.is_none());
        match is_unchanged && !cx.preview_context().may_change_before(change.name) && is_missing()? {
            true => Err(no_user(user)),
            false => Ok(()),
        }
    }

    /// Returns the path of the crontab of a user, or of their directory.
    fn path(&self, name: &str, should: &Attributes) -> String {
        let directory = self.spool().directory();
        // The crontab of an entry without a user is not known.
        let user = declared_entry(name, user_of(should)).0.filter(|user| !user.contains('/'));
        let path = user.map_or(directory.clone(), |user| directory.join(user));
        path.to_string_lossy().into_owned()
    }
}

fn state(tabs: &UserFiles<Crontab>, title: &EcoString, user: &EcoString, name: &str) -> Option<State> {
    let entry = tabs.file(user)?.as_ref().ok()?.find(name)?;
    Some(State::present(title.clone(), crontab::attributes(entry, user)))
}

impl Provider for CronProvider {
    crate::builtin::describe!("cron", "cron", schema, [relations, predict, watch]);

    fn suitable(&self) -> Suitability {
        tool::installed(&[PROGRAM], None)
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let tabs = self.spool().read_all(cx).map_err(ProviderError::new)?;
        let unreadable = |name: &EcoString, why| State { unreadable: Some(why), ..State::absent(name.clone()) };
        match query {
            Query::All => {
                let titles = tabs.titles(&self.accounts, cx).map_err(ProviderError::new)?;
                let found = |(title, user): &(EcoString, EcoString)| {
                    let name = title.strip_prefix(&**user).and_then(|rest| rest.strip_prefix(':')).unwrap_or(title);
                    state(&tabs, title, user, name).or_else(|| state(&tabs, title, user, title))
                };
                Ok(titles.iter().filter_map(found).collect())
            }
            Query::Named(wanted) => {
                let found = |one: &Wanted<'_>| {
                    self.state(cx, &tabs, one).unwrap_or_else(|why| {
                        let why = one.should.map_or(why.clone(), |should| Redactor::of(should).redact(why));
                        unreadable(one.name, why)
                    })
                };
                Ok(wanted.iter().map(found).collect())
            }
        }
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            for (_, value) in should.iter_mut().filter(|(name, _)| TIMES.contains(&name.as_str())) {
                if let Some(text) = time_text(value) {
                    *value = sealed_like(value, text);
                }
            }
        }
        vec![Vec::new(); resources.len()]
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return crate::builtin::previews(changes, |change| self.preview(cx, change));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let users = match self.spool().read_all(cx) {
            Ok(tabs) => {
                let user = |change| self.user(cx, &tabs, change).map(|user| user.into_iter().collect());
                changes.iter().map(user).collect()
            }
            Err(why) => changes.iter().map(|_| Err(why.clone())).collect(),
        };
        atomic_rewrite::change_all(cx, changes, users, |user: &EcoString, changes| self.change(cx, user, changes))
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let mut canonical = should.clone();
        for (name, value) in canonical.iter_mut() {
            if TIMES.contains(&name.as_str())
                && let Some(text) = time_text(value)
            {
                *value = text.into();
            }
        }
        let mut found = problems(name, &canonical);
        if let (Some(user), Some(target)) = (should.text("user"), should.text("target"))
            && user != target
        {
            let problem = ValidationError::with("target", "`target` and `user` name different users");
            found.push(problem.hint("remove `target`"));
        }
        let seal = Redactor::of(should);
        found.into_iter().map(|problem| seal.problem(problem)).collect()
    }
}

/// Returns a time as text: a number, or a list of numbers and texts.
fn time_text(value: &Value) -> Option<EcoString> {
    match value.unwrap_sensitive() {
        Value::Array(parts) => {
            let parts: Option<Vec<EcoString>> = parts.iter().map(Value::to_text).collect();
            Some(parts?.join(",").into())
        }
        value => value.to_text(),
    }
}

impl Relations for CronProvider {
    fn claims(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        let (user, name) = declared_entry(name, user_of(should));
        if let Some(user) = user {
            say(Claim::whole(&format!("{user}:{name}")));
        }
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        for user in user_of(should).into_iter().chain(prefix(name).map(|(user, _)| user)) {
            add(AutoEdge { direction: Direction::BeforeUnlessRemoved, ..AutoEdge::require("user", user) });
        }
    }
}

impl Predict for CronProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let none = Attributes::new();
        let path = self.path(change.name, change.should.unwrap_or(&none)).into();
        Some(vec![Effect::Path { path, node: PathState::Unknown }])
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        say(Footprint::Writes { path: &self.path(name, should), is_whole: false });
    }
}

impl Watch for CronProvider {
    /// Returns the watch for the crontab of the user, or for all crontabs.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        let path = self.path(name, should);
        let scope = if self.spool().directory().as_os_str() == path.as_str() { Scope::Entries } else { Scope::This };
        vec![WatchSource::Path { path: path.into(), scope }]
    }
}

#[cfg(test)]
mod tests;
