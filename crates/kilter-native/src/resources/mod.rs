//! The type `resources`: removal of resources that are not declared.

mod limits;
mod schema;

use std::net::IpAddr;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Because, Change, Outcome, ResourceRef, State, Unknown, Value};
use kilter_provider::{
    AutoEdge, Context, Effect, Footprint, Forecast, Generate, Mode, Predict, Provider, ProviderError, Query, ReadOne,
    Relations, SideEffects, ValidationError, Wanted, Watch, WatchSource, check, get_each, redacted_outcome,
};

use crate::accounts::{Accounts, System};
use crate::builtin::present;
use crate::value_text::texts;
use crate::{CronProvider, GroupProvider, HostProvider, UserProvider};
use limits::PurgeLimits;
use schema::schema;

/// Provides the type `resources`.
pub struct ResourcesProvider {
    system: System,
    accounts: Arc<Accounts>,
    /// Providers of the types that can be purged.
    providers: [Arc<dyn Provider>; 4],
}

impl ResourcesProvider {
    /// Creates a provider for a system, with providers of its own.
    pub fn new(system: System) -> ResourcesProvider {
        let accounts = Arc::new(Accounts::new(system.clone()));
        let providers: [Arc<dyn Provider>; 4] = [
            Arc::new(CronProvider::sharing(system.clone(), accounts.clone())),
            Arc::new(GroupProvider::sharing(accounts.clone())),
            Arc::new(HostProvider::new(system.root())),
            Arc::new(UserProvider::sharing(accounts.clone())),
        ];
        ResourcesProvider { system, accounts, providers }
    }

    /// Creates a provider that removes resources of other providers.
    pub(crate) fn sharing(
        system: System,
        accounts: Arc<Accounts>,
        providers: [Arc<dyn Provider>; 4],
    ) -> ResourcesProvider {
        ResourcesProvider { system, accounts, providers }
    }

    fn provider(&self, type_name: &str) -> Option<&dyn Provider> {
        self.providers.iter().map(|provider| &**provider).find(|provider| provider.type_name() == type_name)
    }

    /// Returns the resources that are to be removed.
    fn strays(
        &self,
        cx: &Context<'_>,
        type_name: &str,
        should: &Attributes,
    ) -> Result<Vec<ResourceRef>, ProviderError> {
        if should.get_bool("purge") != Some(true) {
            return Ok(Vec::new());
        }
        // Without crontab(1) there are no crontabs.
        let Some(provider) = self.provider(type_name).filter(|provider| provider.suitable().is_suitable()) else {
            return Ok(Vec::new());
        };
        let (limits, except) = (PurgeLimits::of(&self.system), texts(should.get("except")));
        let mut strays = Vec::new();
        for state in provider.get(cx, Query::All)? {
            let title = title(&state);
            let is_kept = except.contains(&title) || except.contains(&state.name);
            if state.exists
                && state.unreadable.is_none()
                && !is_kept
                && self.may_go(&state, type_name, should, limits)?
                && !is_declared(cx, type_name, &state)
            {
                strays.push(ResourceRef::new(type_name, title));
            }
        }
        Ok(strays)
    }

    /// Returns true if a resource does not belong to the system.
    fn may_go(
        &self,
        state: &State,
        type_name: &str,
        should: &Attributes,
        limits: PurgeLimits,
    ) -> Result<bool, ProviderError> {
        let number = |attribute: &str| state.attributes.get(attribute).and_then(Value::as_integer);
        let is_within = |number: Option<i64>, (least, most): (i64, i64)| {
            number.is_some_and(|number| (least..=most).contains(&number))
        };
        Ok(match type_name {
            "user" => {
                let uid = number("uid");
                let kept = should.get("unless_uid").map(Value::as_list).unwrap_or_default();
                let largest = should.get("unless_system_user").and_then(Value::as_integer);
                is_within(uid, limits.users)
                    && !kept.iter().any(|kept| kept.as_integer() == uid)
                    && largest.is_none_or(|largest| uid > Some(largest))
                    && uid != Some(i64::from(rustix::process::getuid().as_raw()))
            }
            "group" => {
                let gid = number("gid");
                is_within(gid, limits.groups)
                    && !self.accounts.users()?.rows.iter().any(|user| Some(i64::from(user.gid)) == gid)
            }
            "host" => state.attributes.text("ip").is_some_and(|ip| !is_local(ip)),
            _ => true,
        })
    }

    /// Returns the reason why a plan does not know the groups to remove: the removal of a user may free one.
    fn unknown_groups(&self, cx: &Context<'_>, should: &Attributes) -> Result<Option<Because>, ProviderError> {
        if should.get_bool("purge") != Some(true) || !cx.is_noop() {
            return Ok(None);
        }
        let (limits, groups) = (PurgeLimits::of(&self.system), self.accounts.groups()?);
        let is_held = |gid: u32| {
            let name = groups.find_gid(gid).map(|group| &group.name);
            let is_own = (limits.groups.0..=limits.groups.1).contains(&i64::from(gid));
            name.is_some_and(|name| is_own && cx.outlook().declared("group", name).is_none())
        };
        let users = self.accounts.users()?;
        Ok(users.rows.iter().filter(|user| is_held(user.gid)).find_map(|user| {
            match cx.outlook().account("group", "user", &user.name) {
                Forecast::Unchanged => None,
                Forecast::Changed(_, because) | Forecast::Unknown(because) => Some(because),
            }
        }))
    }

    /// Removes the resources among the differences of a change, or previews that.
    fn remove(&self, cx: &Context<'_>, change: &Change<'_>, mode: Mode) -> Result<(), EcoString> {
        let provider = self.provider(change.name).filter(|_| change.should.is_some());
        let provider = provider.ok_or("a purge is changed only by its declaration")?;
        let (removal, names) = (removal(), names(change));
        let wanted: Vec<Wanted<'_>> = names.iter().map(|name| Wanted::new(name, Some(&removal))).collect();
        let mut failures = Vec::new();
        let mut found = Vec::new();
        for (name, one) in names.iter().zip(check(provider, cx, &wanted)) {
            match one {
                Ok(one) => found.push((name, one)),
                Err(error) => failures.push((name, error.message)),
            }
        }
        let pending = found.iter().filter(|(_, one)| !one.differences.is_empty());
        let changes: Vec<Change<'_>> =
            pending.map(|(name, one)| Change::new(name, &one.state, Some(&removal), &one.differences)).collect();
        let outcomes = provider.set(cx, &changes, mode);
        let failed = outcomes.into_iter().zip(&changes);
        failures.extend(failed.filter_map(|(outcome, change)| Some((change.name, outcome.failure?))));
        let more = failures.len().saturating_sub(1);
        match failures.into_iter().next() {
            None => Ok(()),
            Some((name, why)) if more == 0 => Err(eco_format!("{}[{name}]: {why}", change.name)),
            Some((name, why)) => Err(eco_format!("{}[{name}]: {why} (and {more} more)", change.name)),
        }
    }
}

/// Returns the names of the resources that a change removes.
fn names(change: &Change<'_>) -> Vec<EcoString> {
    let entries = change.differences.iter().filter_map(|one| one.entry.as_ref()?.parse::<ResourceRef>().ok());
    entries.map(|entry| entry.title.as_str().into()).collect()
}

fn removal() -> Attributes {
    Attributes::from_iter([("ensure", "absent")])
}

/// Returns the unambiguous name of a resource. A cron entry has its user before its name.
fn title(state: &State) -> EcoString {
    match user_and_name(state) {
        Some((user, name)) => eco_format!("{user}:{name}"),
        None => state.name.clone(),
    }
}

/// Returns the user and the name of an entry in the file of a user.
fn user_and_name(state: &State) -> Option<(&str, &str)> {
    let user = state.attributes.text("user")?;
    let name = state.name.strip_prefix(user).and_then(|rest| rest.strip_prefix(':'));
    Some((user, name.unwrap_or(&state.name)))
}

/// Returns true if a resource is declared by one of its names.
fn is_declared(cx: &Context<'_>, type_name: &str, state: &State) -> bool {
    let declared = |name: &str| cx.outlook().declared(type_name, name);
    if declared(&title(state)).is_some() {
        return true;
    }
    let Some((user, name)) = user_and_name(state) else { return false };
    // An entry that is declared without a user may be in any crontab.
    let is_of_user = |should: &Attributes| {
        let declared = should.text("user").or_else(|| should.text("target"));
        declared.is_none_or(|declared| declared == user)
    };
    declared(name).is_some_and(is_of_user)
}

/// Returns true if an address is that of the machine itself, or of a group of machines.
fn is_local(ip: &str) -> bool {
    match ip.split('%').next().unwrap_or_default().parse() {
        Ok(ip @ (IpAddr::V4(_) | IpAddr::V6(_))) if ip.is_loopback() || ip.is_multicast() => true,
        // Debian's `fe00::0 ip6-localnet`.
        Ok(IpAddr::V6(ip)) => ip.is_unspecified() || ip.segments()[0] == 0xfe00,
        Ok(IpAddr::V4(ip)) => ip.is_unspecified() || ip.is_broadcast(),
        // kilter does not know the purpose of an entry without an address.
        Err(_) => true,
    }
}

impl Provider for ResourcesProvider {
    crate::builtin::describe!("resources", "purge", schema, [read_one, relations, generate, predict, watch]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || Err(ProviderError::new("name a type: kilter get resources user")))
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let one =
            |change: &Change<'_>| self.remove(cx, change, mode).map_or_else(Outcome::failed, |()| Outcome::done());
        changes.iter().map(|change| redacted_outcome(change, one(change))).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        schema::problems(name, should)
    }
}

impl ReadOne for ResourcesProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let mut state = present(wanted.name);
        if let Some(should) = wanted.should.filter(|_| wanted.name == "group") {
            let because = self.unknown_groups(cx, should)?;
            state.unknown.extend(because.map(|because| Unknown { attribute: "purge".into(), because: because.into() }));
        }
        Ok(state)
    }
}

impl Generate for ResourcesProvider {
    fn generate(&self, cx: &Context<'_>, wanted: Wanted<'_>, _: &State) -> Result<Vec<ResourceRef>, ProviderError> {
        match wanted.should {
            Some(should) => self.strays(cx, wanted.name, should),
            None => Ok(Vec::new()),
        }
    }
}

impl Relations for ResourcesProvider {
    fn auto_edges(&self, name: &str, _: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        match name {
            "user" => add(AutoEdge::require("resources", "cron")),
            "group" => add(AutoEdge::require("resources", "user")),
            _ => {}
        }
    }
}

impl Predict for ResourcesProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, cx: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let capabilities = self.provider(change.name)?.capabilities();
        let removal = removal();
        let effects = names(change).into_iter().flat_map(|name| {
            let is = State::present(name.clone(), Attributes::new());
            capabilities.effects(cx, &Change::new(&name, &is, Some(&removal), &[]))
        });
        Some(effects.collect())
    }

    fn footprint(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        if let Some(provider) = self.provider(name) {
            provider.capabilities().predict().footprint("", &removal(), say);
        }
    }
}

impl Watch for ResourcesProvider {
    /// Returns the watches for the files that list the resources.
    fn watches(&self, name: &str, _: &Attributes) -> Vec<WatchSource> {
        self.provider(name).map(|provider| provider.capabilities().watch().watches("", &removal())).unwrap_or_default()
    }

    fn depends_on_catalog(&self, _: &Attributes) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
