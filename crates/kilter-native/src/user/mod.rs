//! The type `user`.

mod schema;
mod state;
mod tools;

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_provider::{
    Account, AutoEdge, Context, Declaration, Declared, Direction, Effect, Footprint, Forecast, Insync, Match, Mode,
    PathState, Placement, Predict, Provider, ProviderError, Query, ReadOne, Redactor, Relations, Revert, RevertTo,
    Scheduling, SideEffects, ValidationError, Wanted, Watch, WatchSource, redacted_outcome,
};

use crate::accounts::{
    Accounts, System, date, is_numeric, membership, name_problem, number, number_problem, predict, require_free_number,
};
use crate::value_text::{sealed_like, texts, word};

/// Provides the type `user` through the shadow tools.
pub struct UserProvider {
    accounts: Arc<Accounts>,
}

impl UserProvider {
    /// Creates a provider for the users of a system.
    pub fn new(system: System) -> UserProvider {
        UserProvider::sharing(Arc::new(Accounts::new(system)))
    }

    /// Creates a provider that shares accounts and the lock of the tools with other providers.
    pub(crate) fn sharing(accounts: Arc<Accounts>) -> UserProvider {
        UserProvider { accounts }
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let tools = match change.should {
            Some(should) if should.text("ensure") != Some("absent") => {
                // Values from other resources have not been validated before.
                if let Some(problem) = self.validate(change.name, should, &[]).first() {
                    return Err(problem.to_string().into());
                }
                let groups = self.accounts.groups().map_err(|error| error.message)?;
                let left = membership::left_to_groups(cx, change.name, should, |group| self.has_group(cx, group));
                let should = membership::without(should, "groups", &left);
                if change.is.exists {
                    tools::modify(change, &should)
                } else {
                    tools::create(change.name, &membership::with_primary(cx, change.name, should), &groups)
                }
            }
            should => tools::remove(change.name, should, self.has_home(change.is)),
        };
        self.accounts.change(cx, tools)
    }

    /// Fails if the change is certain to fail.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        if !cx.preview_context().may_change_before(change.name)
            && let Ok(users) = self.accounts.users()
        {
            let owner = |uid| users.find_uid(uid).map(|user| user.name.clone());
            require_free_number(cx, change, ("user", "uid"), owner)?;
        }
        self.require_groups(cx, change)
    }

    /// Fails if a group does not exist and no earlier resource may create it.
    fn require_groups(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let preview_context = cx.preview_context();
        let Some(should) = change.should.filter(|should| should.text("ensure") != Some("absent")) else {
            return Ok(());
        };
        if preview_context.may_change_before(change.name) {
            return Ok(());
        }
        // A user may come with a group of the same name.
        let is_declared =
            |group: &str| ["group", "user"].iter().any(|kind| preview_context.declared(kind, group).is_some());
        let is_missing = |group: &str| {
            let is_unchanged = preview_context.account(change.name, "group", group) == Forecast::Unchanged;
            !is_declared(group) && is_unchanged && matches!(self.accounts.group(cx, group), Ok(None))
        };
        let gid = should.text("gid").filter(|gid| !is_numeric(gid)).map(|gid| ("gid", EcoString::from(gid)));
        let groups = texts(should.get("groups")).into_iter().map(|group| ("groups", group));
        if let Some((attribute, group)) = gid.into_iter().chain(groups).find(|(_, group)| is_missing(group)) {
            return Err(eco_format!("{attribute}: there is no group `{group}`"));
        }
        // Any other account of the run may come with the number.
        let is_alone = || {
            let is_other = |title: &str, _: &Attributes| title != change.name;
            !preview_context.declares("group", &|_, _| true) && !preview_context.declares("user", &is_other)
        };
        match should.get("gid").and_then(number) {
            Some(gid) if is_alone() && self.lacks_gid(gid) => Err(eco_format!(
                "gid: there is no group with the number {gid}; `group[{}]` with `gid: {gid}` creates it",
                change.name
            )),
            _ => Ok(()),
        }
    }

    /// Returns true if no group has this number. Only the files can tell.
    fn lacks_gid(&self, gid: u32) -> bool {
        let has_only_files = !self.accounts.may_wait("group");
        has_only_files && self.accounts.groups().is_ok_and(|groups| groups.find_gid(gid).is_none())
    }

    fn has_group(&self, cx: &Context<'_>, group: &str) -> bool {
        self.accounts.group(cx, group).is_ok_and(|group| group.is_some())
    }

    /// Returns the effects of a change on managed home directories.
    fn home(&self, cx: &Context<'_>, change: &Change<'_>) -> Vec<Effect> {
        let at = |path: &str| predict::below(self.accounts.root(), path.trim_end_matches('/'));
        let becomes = |path: EcoString, node| Effect::Path { path, node };
        let is = change.is.attributes.text("home").filter(|_| change.is.exists && self.has_home(change.is));
        let Some(should) = change.should.filter(|should| should.text("ensure") != Some("absent")) else {
            return is.map(|home| becomes(at(home), PathState::Absent)).into_iter().collect();
        };
        let defaults = self.useradd_defaults();
        let home = defaults.home_of(change.name, should);
        if home.trim_matches('/').is_empty() {
            return Vec::new();
        }
        let home = at(&home);
        if change.is.exists {
            let is_moved = change.differs("home");
            let moved = is
                .filter(|_| is_moved)
                .map(|is| [becomes(at(is), PathState::Absent), becomes(home, PathState::Unknown)]);
            return moved.into_iter().flatten().collect();
        }
        let preview_context = cx.preview_context();
        let is_default_known = preview_context.own(change.name, &at(USERADD)) == Forecast::Unchanged;
        // A change of the defaults may choose another home.
        let is_home_known = is_default_known || should.text("home").is_some();
        if is_home_known && std::fs::symlink_metadata(home.as_str()).is_ok() {
            return Vec::new();
        }
        let skel = at(&defaults.skel);
        if !is_default_known
            || preview_context.own(change.name, &skel) != Forecast::Unchanged
            || preview_context.below(change.name, &skel, &|_| true).is_some()
        {
            return vec![becomes(home, PathState::Unknown)];
        }
        let entries = std::fs::read_dir(skel.as_str()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let copies: Vec<_> = names.map(|name| becomes(eco_format!("{home}/{name}"), PathState::Unknown)).collect();
        [becomes(home, PathState::Directory)].into_iter().chain(copies).collect()
    }

    /// Reads the defaults of useradd(8). A missing or unreadable file has the built-in defaults.
    fn useradd_defaults(&self) -> UseraddDefaults {
        let path = predict::below(self.accounts.root(), USERADD);
        let mut text = String::new();
        let read = File::open(path.as_str()).and_then(|file| file.take(USERADD_MAX).read_to_string(&mut text));
        UseraddDefaults::parse(if read.is_ok() { &text } else { "" })
    }

    fn has_home(&self, is: &State) -> bool {
        let home = is.attributes.text("home").unwrap_or_default().trim_start_matches('/');
        !home.is_empty() && self.accounts.root().join(home).is_dir()
    }

    fn gid_is(&self, is: &State, wanted: &Value) -> bool {
        let Some(gid) = is.attributes.get("gid").and_then(Value::as_integer) else { return false };
        match wanted.unwrap_sensitive() {
            Value::String(name) => self
                .accounts
                .groups()
                .is_ok_and(|groups| groups.find(name).is_some_and(|group| i64::from(group.gid) == gid)),
            number => number.as_integer() == Some(gid),
        }
    }

    /// Returns true if the groups are in sync. The primary group may be among the declared groups.
    fn groups_are(&self, is: &State, should: &Attributes) -> bool {
        let is_in = texts(is.attributes.get("groups"));
        let wanted = texts(should.get("groups"));
        let primary = self.primary(is);
        let has = |group: &EcoString| is_in.contains(group) || primary.as_ref() == Some(group);
        let is_meant = |group: &EcoString| wanted.contains(group);
        wanted.iter().all(has) && (should.text("membership") != Some("inclusive") || is_in.iter().all(is_meant))
    }

    fn primary(&self, is: &State) -> Option<EcoString> {
        let gid = u32::try_from(is.attributes.get("gid")?.as_integer()?).ok()?;
        Some(self.accounts.groups().ok()?.find_gid(gid)?.name.clone())
    }
}

/// Path of the defaults of useradd(8).
const USERADD: &str = "/etc/default/useradd";
/// Maximum number of bytes that are read of the defaults.
const USERADD_MAX: u64 = 64 * 1024;

/// Defaults of useradd(8).
struct UseraddDefaults {
    /// Directory of the home directories.
    home: EcoString,
    /// Directory whose entries are copied to a new home.
    skel: EcoString,
}

impl UseraddDefaults {
    fn parse(text: &str) -> UseraddDefaults {
        let value = |key: &str, otherwise: &str| {
            let values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            values.map(str::trim_end).rfind(|value| value.starts_with('/')).unwrap_or(otherwise).into()
        };
        UseraddDefaults { home: value("HOME", "/home"), skel: value("SKEL", "/etc/skel") }
    }

    /// Returns the home directory of a user: the declared one, or the default.
    fn home_of(&self, name: &str, should: &Attributes) -> EcoString {
        let default = || eco_format!("{}/{name}", self.home.trim_end_matches('/'));
        should.text("home").map_or_else(default, EcoString::from)
    }
}

/// Returns a path without trailing slashes, except for the root.
fn bare(home: Option<&Value>) -> Option<&str> {
    let home = home?.unwrap_sensitive().as_str()?;
    Some(if home.trim_end_matches('/').is_empty() { home } else { home.trim_end_matches('/') })
}

impl Provider for UserProvider {
    crate::builtin::describe!(
        "user",
        "shadow",
        schema::schema,
        [read_one, scheduling, relations, predict, watch, revert]
    );

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => state::all(&self.accounts),
            Query::Named(wanted) => wanted.iter().map(|&wanted| self.get_one(cx, wanted)).collect(),
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let change = |change: &Change<'_>| match mode {
            Mode::Preview => self.preview(cx, change).map_or_else(Outcome::failed, |()| Outcome::done()),
            Mode::Apply => {
                self.change(&cx.about(change.name), change).map_or_else(Outcome::failed, |()| Outcome::done())
            }
        };
        changes.iter().map(|each| redacted_outcome(each, change(each))).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let mut problems: Vec<ValidationError> = name_problem("name", name).into_iter().collect();
        problems.extend(texts(should.get("groups")).iter().filter_map(|group| name_problem("groups", group)));
        problems.extend(["uid", "gid"].iter().filter_map(|id| number_problem(id, should.get(id)?)));
        if let Some(gid) = should.text("gid")
            && !is_numeric(gid)
        {
            problems.extend(name_problem("gid", gid));
        }
        for attribute in ["home", "shell", "comment", "password"] {
            if should.text(attribute).is_some_and(|text| text.contains(|c: char| c == ':' || c.is_control())) {
                problems.push(ValidationError::with(
                    attribute,
                    "it contains `:` or a control character, which the file cannot store",
                ));
            }
        }
        for attribute in ["home", "shell"] {
            if should.text(attribute).is_some_and(|path| !path.is_empty() && !path.starts_with('/')) {
                problems.push(ValidationError::with(attribute, "it needs an absolute path"));
            }
        }
        if should.text("password").is_some_and(|password| !is_hash(password)) {
            let problem =
                ValidationError::with("password", "it is not a hash: a password in clear text would lock the user out");
            problems.push(problem.hint("make one with `mkpasswd`, or write \"*\" for no password"));
        }
        if should.text("expiry").is_some_and(|day| day != "absent" && date::days(day).is_none()) {
            problems
                .push(ValidationError::with("expiry", "there is no such day").hint("write 2030-12-31, or `absent`"));
        }
        let seal = Redactor::of(should);
        problems.into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        resources.iter_mut().for_each(|resource| canonicalize(resource.should));
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let same = match (attribute, should.get(attribute)) {
            ("gid", Some(gid)) => self.gid_is(is, gid),
            ("groups", Some(_)) if should.text("membership") != Some("inclusive") => {
                return membership::at_least(is, should, "groups", self.groups_are(is, should));
            }
            ("groups", Some(_)) => self.groups_are(is, should),
            // The tools remove a trailing slash, but not all at the same time.
            ("home", Some(home)) => bare(is.attributes.get("home")) == bare(Some(home)),
            _ => return Insync::Default,
        };
        if same { Insync::Same } else { Insync::Differs(None) }
    }
}

impl ReadOne for UserProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let mut state = state::one(&self.accounts, cx, wanted)?;
        if let Some(should) = wanted.should.filter(|_| state.exists) {
            let left = membership::left_to_groups(cx, wanted.name, should, |group| self.has_group(cx, group));
            membership::report(&mut state, "groups", &left);
        }
        Ok(state)
    }
}

impl Scheduling for UserProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        if self.accounts.may_wait("passwd") { Placement::Worker } else { Placement::Inline }
    }

    fn set_placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }
}

impl Relations for UserProvider {
    fn conflicts(&self, name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
        membership::of_user(name, should, declared)
    }

    fn identities(&self, _: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        if let Some(uid) = should.get("uid") {
            say(&word(uid));
        }
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let is_present = should.text("ensure") != Some("absent");
        let direction = if is_present { Direction::Before } else { Direction::After };
        let mut group = |name: &str| add(AutoEdge { type_name: "group", name, by: Match::Name, direction });
        if let Some(gid) = should.get("gid") {
            group(&word(gid));
        } else {
            // The user's own group, which is used when the user is created, and removed with the user.
            group(name);
        }
        texts(should.get("groups")).iter().for_each(|name| group(name));
    }
}

impl Predict for UserProvider {
    /// Predicts the account. A new user may also create a group of the same name and a home directory.
    fn effects(&self, cx: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let mut effects = vec![predict::account("user", "uid", change)];
        let should = change.should.filter(|should| should.text("ensure") != Some("absent"));
        if should.is_some_and(|should| should.get("gid").is_none()) && !change.is.exists {
            let name = change.name.clone();
            effects.push(Effect::Account { type_name: "group", name, account: Account::New });
        }
        effects.extend(predict::written(self.accounts.root(), predict::USER_FILES));
        if change.should.is_some_and(|should| should.get_bool("managehome") == Some(true)) {
            effects.extend(self.home(cx, change));
        }
        Some(effects)
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        predict::footprint(self.accounts.root(), predict::USER_FILES, say);
        if should.get_bool("managehome") == Some(true) {
            let defaults = self.useradd_defaults();
            say(Footprint::Reads { path: &predict::below(self.accounts.root(), USERADD), below: false });
            let home = predict::below(self.accounts.root(), &defaults.home_of(name, should));
            let home = home.trim_end_matches('/');
            if !home.is_empty() {
                say(Footprint::Writes { path: home, is_whole: false });
            }
            // The entries of the skeleton directory are copied to a new home.
            say(Footprint::Reads { path: &predict::below(self.accounts.root(), &defaults.skel), below: true });
        }
    }

    fn side_effects(&self, should: &Attributes) -> SideEffects {
        if should.get_bool("managehome") == Some(true) { SideEffects::Anything } else { SideEffects::Own }
    }
}

impl Revert for UserProvider {
    fn revert_to(&self) -> RevertTo {
        RevertTo::Values
    }

    fn revert_values(&self, _: &Attributes, is: &State, before: &mut Attributes) -> Result<(), EcoString> {
        membership::make_exact(self, &is.name, before, "groups", ("membership", Value::from("inclusive")))
    }
}

impl Watch for UserProvider {
    /// Returns the watches for the account files. The home directory is not watched.
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        self.accounts.watches(&["passwd", "group", "shadow"])
    }
}

/// Converts the values of a user to the form that `get` returns.
fn canonicalize(should: &mut Attributes) {
    for (name, value) in should.iter_mut() {
        match name.as_str() {
            "gid" => {
                if let Some(gid) = number(value) {
                    *value = sealed_like(value, i64::from(gid));
                }
            }
            "groups" => {
                let mut groups = texts(Some(value));
                groups.sort_unstable();
                groups.dedup();
                *value = sealed_like(value, Value::strings(groups));
            }
            "password" if !value.is_undef() => *value = Value::sensitive(value.clone()),
            _ => {}
        }
    }
}

/// Returns true if a text is valid for the password field of shadow(5).
fn is_hash(text: &str) -> bool {
    let is_des = || text.len() == 13 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'/');
    text.is_empty() || text.starts_with(['$', '!', '*', '_']) || is_des()
}

#[cfg(test)]
mod tests;
