//! The type `resources`: removal of resources that are not declared.

mod limits;
mod local_units;
mod schema;

use std::net::IpAddr;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Because, Change, Difference, Outcome, ResourceRef, State, Unknown, Value};
use kilter_process::trust::TrustPolicy;
use kilter_provider::{
    AutoEdge, Context, Effect, Footprint, Forecast, Generate, Match, Mode, Predict, Provider, ProviderError, Query,
    ReadOne, Relations, SideEffects, Suitability, ValidationError, Wanted, Watch, WatchSink, WatchSource, check,
    get_each, redacted_outcome,
};
use rustc_hash::FxHashSet;

use crate::accounts::{Accounts, System};
use crate::builtin::{is_absent, present};
use crate::value_text::texts;
use crate::{
    CronProvider, GroupProvider, HostProvider, PackageProvider, ServiceProvider, SshAuthorizedKeyProvider, UserProvider,
};
use limits::PurgeLimits;
use local_units::LocalUnit;
use schema::schema;

/// Providers of the types that can be purged.
#[derive(Clone)]
pub(crate) struct PurgedProviders {
    pub(crate) cron: Arc<dyn Provider>,
    pub(crate) group: Arc<dyn Provider>,
    pub(crate) host: Arc<dyn Provider>,
    pub(crate) package: Arc<PackageProvider>,
    pub(crate) service: Arc<dyn Provider>,
    pub(crate) ssh_authorized_key: Arc<dyn Provider>,
    pub(crate) user: Arc<dyn Provider>,
}

/// Resources that belong to the system.
struct SystemLimits {
    accounts: PurgeLimits,
    /// Packages that stay. Names and numbers of users and groups that declared resources need.
    needed: FxHashSet<EcoString>,
    /// Services of the administrator, which may go.
    units: Vec<LocalUnit>,
    /// True if the manifest gives root a key, so that a purge cannot lock the administrator out.
    has_root_key: bool,
}

impl SystemLimits {
    fn of(system: &System) -> SystemLimits {
        SystemLimits {
            accounts: PurgeLimits::of(system),
            needed: FxHashSet::default(),
            units: Vec::new(),
            has_root_key: false,
        }
    }
}

/// Provides the type `resources`.
pub struct ResourcesProvider {
    system: System,
    accounts: Arc<Accounts>,
    providers: PurgedProviders,
}

impl ResourcesProvider {
    /// Creates a provider for a system, with providers of its own.
    pub fn new(system: System) -> ResourcesProvider {
        let accounts = Arc::new(Accounts::new(system.clone()));
        let providers = PurgedProviders {
            cron: Arc::new(CronProvider::sharing(system.clone(), accounts.clone())),
            group: Arc::new(GroupProvider::sharing(accounts.clone())),
            host: Arc::new(HostProvider::new(system.root())),
            package: Arc::new(PackageProvider::new(system.clone(), TrustPolicy::current())),
            service: Arc::new(ServiceProvider::new()),
            ssh_authorized_key: Arc::new(SshAuthorizedKeyProvider::sharing(accounts.clone())),
            user: Arc::new(UserProvider::sharing(accounts.clone())),
        };
        ResourcesProvider { system, accounts, providers }
    }

    /// Creates a provider that removes resources of other providers.
    pub(crate) fn sharing(system: System, accounts: Arc<Accounts>, providers: PurgedProviders) -> ResourcesProvider {
        ResourcesProvider { system, accounts, providers }
    }

    fn provider(&self, type_name: &str) -> Option<&dyn Provider> {
        let providers = &self.providers;
        Some(match type_name {
            "cron" => &*providers.cron,
            "group" => &*providers.group,
            "host" => &*providers.host,
            "package" => &*providers.package,
            "service" => &*providers.service,
            "ssh_authorized_key" => &*providers.ssh_authorized_key,
            "user" => &*providers.user,
            _ => return None,
        })
    }

    /// Returns the resources that are to be removed, or services that are to be stopped and disabled.
    fn strays(&self, cx: &Context<'_>, type_name: &str, should: &Attributes) -> Result<Vec<State>, ProviderError> {
        if should.get_bool("purge") != Some(true) {
            return Ok(Vec::new());
        }
        let Some(provider) = self.provider(type_name) else { return Ok(Vec::new()) };
        match (provider.suitable(), type_name) {
            (Suitability::Suitable, _) => {}
            // Without crontab(1) there are no crontabs.
            (Suitability::Unsuitable(_), "cron") => return Ok(Vec::new()),
            (Suitability::Unsuitable(why), _) => return Err(ProviderError::new(why)),
        }
        let mut limits = SystemLimits::of(&self.system);
        let except = texts(should.get("except"));
        let is_excepted = |name: &str| except.iter().any(|except| except == name);
        match type_name {
            "package" => {
                limits.needed = self.providers.package.needed(
                    &|name| is_excepted(name) || is_kept_present(cx, "package", name) || is_tool(cx, name),
                    &|unit| is_declared_unit(cx, unit.strip_suffix(".service").unwrap_or(unit)),
                )?
            }
            "service" => limits.units = local_units::find(&self.system),
            "ssh_authorized_key" => limits.has_root_key = declares_root_key(cx),
            "user" | "group" => limits.needed = needed_accounts(cx, type_name),
            _ => {}
        }
        let mut strays = Vec::new();
        for state in provider.get(cx, Query::All)? {
            let title = title(&state);
            if state.exists
                && state.unreadable.is_none()
                && !is_excepted(&title)
                && !is_excepted(&state.name)
                && self.may_go(cx, &state, type_name, should, &limits)?
                && !is_declared(cx, type_name, &state)
            {
                strays.push(State { name: title, ..state });
            }
        }
        Ok(strays)
    }

    /// Returns true if a resource does not belong to the system.
    fn may_go(
        &self,
        cx: &Context<'_>,
        state: &State,
        type_name: &str,
        should: &Attributes,
        limits: &SystemLimits,
    ) -> Result<bool, ProviderError> {
        let number = |attribute: &str| state.attributes.get(attribute).and_then(Value::as_integer);
        let is_within = |number: Option<i64>, (least, most): (i64, i64)| {
            number.is_some_and(|number| (least..=most).contains(&number))
        };
        let is_needed = |number: Option<i64>| {
            limits.needed.contains(&state.name)
                || number.is_some_and(|number| limits.needed.contains(&*eco_format!("{number}")))
        };
        Ok(match type_name {
            "user" => {
                let uid = number("uid");
                let kept = should.get("unless_uid").map(Value::as_list).unwrap_or_default();
                let largest = should.get("unless_system_user").and_then(Value::as_integer);
                is_within(uid, limits.accounts.users)
                    && !is_needed(uid)
                    && !kept.iter().any(|kept| kept.as_integer() == uid)
                    && largest.is_none_or(|largest| uid > Some(largest))
                    && uid != Some(i64::from(rustix::process::getuid().as_raw()))
            }
            "group" => {
                let gid = number("gid");
                is_within(gid, limits.accounts.groups)
                    && !is_needed(gid)
                    && !self.accounts.users()?.rows.iter().any(|user| Some(i64::from(user.gid)) == gid)
            }
            "host" => state.attributes.text("ip").is_some_and(|ip| !is_local(ip)),
            "package" => !limits.needed.contains(state.name.split(':').next().unwrap_or_default()),
            "service" => {
                let is = |attribute: &str, value: &str| state.attributes.text(attribute) == Some(value);
                let unit = limits.units.iter().find(|unit| unit.name == state.name);
                (is("ensure", "running") || is("enable", "true"))
                    && unit.is_some_and(|unit| !unit.aliases.iter().any(|alias| is_declared_unit(cx, alias)))
                    && !is_declared_unit(cx, &state.name)
            }
            "ssh_authorized_key" => {
                let users = self.accounts.users()?;
                let user = state.attributes.text("user").and_then(|user| users.find(user));
                user.is_some_and(|user| match user.uid {
                    0 => limits.has_root_key,
                    uid => is_within(Some(uid.into()), limits.accounts.users),
                })
            }
            _ => true,
        })
    }

    /// Returns the reason why a plan does not know the groups to remove: the removal of a user may free one.
    fn unknown_groups(&self, cx: &Context<'_>, should: &Attributes) -> Result<Option<Because>, ProviderError> {
        if should.get_bool("purge") != Some(true) || !cx.is_noop() {
            return Ok(None);
        }
        let (limits, groups) = (PurgeLimits::of(&self.system), self.accounts.groups()?);
        let needed = needed_accounts(cx, "group");
        let is_held = |gid: u32| {
            let name = groups.find_gid(gid).map(|group| &group.name);
            let is_own = (limits.groups.0..=limits.groups.1).contains(&i64::from(gid));
            let is_needed = |name: &EcoString| needed.contains(name) || needed.contains(&*eco_format!("{gid}"));
            name.is_some_and(|name| {
                is_own && !is_needed(name) && cx.preview_context().declared("group", name).is_none()
            })
        };
        let users = self.accounts.users()?;
        Ok(users.rows.iter().filter(|user| is_held(user.gid)).find_map(|user| {
            match cx.preview_context().account("group", "user", &user.name) {
                Forecast::Unchanged => None,
                Forecast::Changed(_, because) | Forecast::Unknown(because) => Some(because),
            }
        }))
    }

    /// Removes the resources among the differences of a change, or previews that.
    fn remove(&self, cx: &Context<'_>, change: &Change<'_>, mode: Mode) -> Result<(), EcoString> {
        let provider = self.provider(change.name).filter(|_| change.should.is_some());
        let provider = provider.ok_or("a purge is changed only by its declaration")?;
        let (removal, names) = (removal(change.name), names(change));
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
    let mut names: Vec<EcoString> = entries.map(|entry| entry.title.as_str().into()).collect();
    // A service has an entry for each attribute.
    names.dedup();
    names
}

/// Returns the declaration that a purge applies to resources of a type. A service cannot be removed.
fn removal(type_name: &str) -> Attributes {
    match type_name {
        "service" => Attributes::from_iter([("ensure", "stopped"), ("enable", "false")]),
        _ => Attributes::from_iter([("ensure", "absent")]),
    }
}

/// Types that need programs, and the packages of these.
const TOOLS: &str = "cron:cron cron:cronie cron:bcron cron:systemd-cron vcsrepo:git firewall:nftables locale:locales \
                     ca_certificate:ca-certificates kernel_module:kmod";

/// Returns true if a declared resource needs a package to be managed.
fn is_tool(cx: &Context<'_>, package: &str) -> bool {
    let mut tools = TOOLS.split_ascii_whitespace().filter_map(|tool| tool.split_once(':'));
    tools.any(|(type_name, tool)| tool == package && cx.preview_context().declares(type_name, &|_, _| true))
}

/// Returns the names and numbers of users or groups that declared resources need.
fn needed_accounts(cx: &Context<'_>, type_name: &str) -> FxHashSet<EcoString> {
    let mut needed = FxHashSet::default();
    cx.preview_context().required(type_name, &mut |name| {
        needed.insert(name.into());
    });
    needed
}

/// Returns true if a resource is declared and not absent.
fn is_kept_present(cx: &Context<'_>, type_name: &str, name: &str) -> bool {
    cx.preview_context().declared(type_name, name).is_some_and(|should| !is_absent(should))
}

/// Returns true if a service is declared, or a unit that starts it.
fn is_declared_unit(cx: &Context<'_>, service: &str) -> bool {
    let is_declared = |name: &str| cx.preview_context().declared("service", name).is_some();
    is_declared(service)
        || ["socket", "timer", "path"].iter().any(|end| is_declared(&eco_format!("{service}.{end}")))
        || cx.preview_context().declared("systemd_timer", service).is_some()
}

/// Returns true if the manifest gives root a key.
fn declares_root_key(cx: &Context<'_>) -> bool {
    cx.preview_context().declares("ssh_authorized_key", &|name, should| {
        !is_absent(should) && (should.text("user") == Some("root") || name.starts_with("root:"))
    })
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
    let declared = |name: &str| cx.preview_context().declared(type_name, name);
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
        if let Some(should) = wanted.should.filter(|_| wanted.name == "service") {
            for stray in self.strays(cx, "service", should)? {
                let entry = eco_format!("{}", ResourceRef::new("service", stray.name.clone()));
                for (attribute, value) in removal("service").iter() {
                    let attribute = attribute.as_str();
                    let is = stray.attributes.get(attribute).cloned().unwrap_or_default();
                    // systemd cannot disable a static unit.
                    if is != *value && is.as_str() != Some("static") {
                        state.drift.push(Difference::new(attribute, is, value.clone()).of_entry(entry.clone()));
                    }
                }
            }
        }
        Ok(state)
    }
}

impl Generate for ResourcesProvider {
    fn generate(&self, cx: &Context<'_>, wanted: Wanted<'_>, _: &State) -> Result<Vec<ResourceRef>, ProviderError> {
        match wanted.should {
            Some(should) if wanted.name != "service" => {
                let strays = self.strays(cx, wanted.name, should)?;
                Ok(strays.into_iter().map(|stray| ResourceRef::new(wanted.name, stray.name)).collect())
            }
            _ => Ok(Vec::new()),
        }
    }
}

impl Relations for ResourcesProvider {
    fn auto_edges(&self, name: &str, _: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        match name {
            "user" => {
                add(AutoEdge::require("resources", "cron"));
                add(AutoEdge::require("resources", "ssh_authorized_key"));
            }
            "group" => add(AutoEdge::require("resources", "user")),
            // A declared key is written first, so that no user loses all keys. A declared package is installed first,
            // so that the purge knows the packages that it needs.
            "package" | "ssh_authorized_key" => add(AutoEdge { by: Match::Every, ..AutoEdge::require(name, "") }),
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
        let removal = removal(change.name);
        let effects = names(change).into_iter().flat_map(|name| {
            let is = State::present(name.clone(), Attributes::new());
            capabilities.effects(cx, &Change::new(&name, &is, Some(&removal), &[]))
        });
        Some(effects.collect())
    }

    fn footprint(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        if let Some(provider) = self.provider(name) {
            provider.capabilities().predict().footprint("", &removal(name), say);
        }
    }
}

/// Receives the events of units, and passes on those that a purge may concern.
struct LocalUnitSink<'a> {
    system: &'a System,
    tell: &'a dyn WatchSink,
}

impl WatchSink for LocalUnitSink<'_> {
    fn watching(&self) {
        self.tell.watching();
    }

    fn changed(&self, unit: &str) {
        if local_units::is_local(self.system, unit) {
            self.tell.changed("service");
        }
    }

    fn all_changed(&self) {
        self.tell.changed("service");
    }
}

impl Watch for ResourcesProvider {
    /// Returns the watches for the files that list the resources.
    fn watches(&self, name: &str, _: &Attributes) -> Vec<WatchSource> {
        self.provider(name)
            .map(|provider| provider.capabilities().watch().watches("", &removal(name)))
            .unwrap_or_default()
    }

    /// Passes on the events of services of the administrator.
    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        let services = self.providers.service.capabilities();
        services.watch().watch(cx, None, &LocalUnitSink { system: &self.system, tell })
    }

    fn depends_on_catalog(&self, _: &Attributes) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
