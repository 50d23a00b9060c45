//! The type `group`.

mod tools;

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    AutoEdge, Context, Declaration, Declared, Effect, Footprint, Forecast, Insync, Match, Mode, Placement, Predict,
    Provider, ProviderError, Query, ReadOne, Redactor, Relations, Revert, RevertTo, Scheduling, SideEffects,
    ValidationError, Wanted, Watch, WatchSource, redacted_outcome,
};

use crate::accounts::{
    Accounts, GroupRow, System, UserRow, membership, name_problem, number_problem, predict, require_free_number,
};
use crate::value_text::{sealed_like, texts, word};
use tools::is_inclusive;

const DESC: &str = "\
Groups of the system, through the shadow tools (`groupadd`, `groupmod`, `groupdel`, `gpasswd`).

```yaml
resources:
  group[deploy]:
    gid: 1500
  group[ops]:
    members: [alice, bob]
  group[guests]:
    ensure: absent
```

**Automatic edges.** A group runs after its declared members. A user that names the group in `groups` or `gid` runs \
after the group instead, and makes the membership itself. kilter reports contradictory declarations, and members that \
neither exist nor are declared, before it changes the machine.

A removed group runs after the users whose primary group it is. A plan fails if such a user keeps the group, because \
`groupdel` refuses its removal.";

/// Provides the type `group` through the shadow tools.
pub struct GroupProvider {
    accounts: Arc<Accounts>,
}

fn schema() -> TypeSchema {
    let (property, parameter) = (Behaviour::Property, Behaviour::Parameter);
    TypeSchema::new("group", DESC)
        .attribute("ensure", "Enum[present, absent]", property, "State of the group: `present`, `absent`.")
        .default("present")
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "Name of the group, such as `deploy`: up to 32 bytes without white space, `:`, `,` and `/`. Debian 13 \
             only allows letters, digits, `_`, `.`, `-` and a final `$`.",
        )
        .attribute(
            "gid",
            "Integer[0, 4294967294]",
            property,
            "Number of the group: `1500`. After a change, files of the old number keep that number.",
        )
        .attribute(
            "members",
            "Array[String[1]]",
            property,
            "Users that the group lists: `[alice, bob]`, `[]` for none. They must exist. The list does not contain \
             users whose primary \
             group it is, unless they were added to it.",
        )
        .attribute(
            "auth_membership",
            "Boolean",
            parameter,
            "`true`: the group has exactly the declared members. `false`: it has at least these; kilter removes no \
             others.",
        )
        .default(Value::Boolean(true))
        .attribute(
            "system",
            "Boolean",
            parameter,
            "Create a group without `gid` with a number from the range for system groups: `true`.",
        )
        .default(Value::Boolean(false))
        .attribute("allowdupe", "Boolean", parameter, "Permit a `gid` that another group already has: `true`.")
        .default(Value::Boolean(false))
        .features(&[Feature::Canonicalize, Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

impl GroupProvider {
    /// Creates a provider for the groups of a system.
    pub fn new(system: System) -> GroupProvider {
        GroupProvider::sharing(Arc::new(Accounts::new(system)))
    }

    /// Creates a provider that shares accounts and the lock of the tools with other providers.
    pub(crate) fn sharing(accounts: Arc<Accounts>) -> GroupProvider {
        GroupProvider { accounts }
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let tools = match change.should {
            Some(should) if should.text("ensure") != Some("absent") => {
                // Values from other resources have not been validated before.
                if let Some(problem) = self.validate(change.name, should, &[]).first() {
                    return Err(problem.to_string().into());
                }
                let left = membership::left_to_users(cx, change.name, should, |user| self.has_user(cx, user));
                let should = &*membership::without(should, "members", &left);
                self.have_members(cx, &texts(should.get("members")))?;
                if change.is.exists { tools::modify(change, should) } else { tools::create(change.name, should) }
            }
            _ => tools::remove(change.name),
        };
        self.accounts.change(cx, tools)
    }

    fn has_user(&self, cx: &Context<'_>, user: &str) -> bool {
        self.accounts.user(cx, user).is_ok_and(|user| user.is_some())
    }

    /// Fails if a member does not exist and no earlier resource may create it, or if the group cannot be removed.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let preview_context = cx.preview_context();
        let Some(should) = change.should.filter(|should| should.text("ensure") != Some("absent")) else {
            return self.require_no_primary_user(cx, change.name);
        };
        if preview_context.may_change_before(change.name) {
            return Ok(());
        }
        if let Ok(groups) = self.accounts.groups() {
            let owner = |gid| groups.find_gid(gid).map(|group| group.name.clone());
            require_free_number(cx, change, ("group", "gid"), owner)?;
        }
        let may_come = |user: &str| {
            let is_declared = preview_context.declared("user", user).is_some();
            is_declared || preview_context.account(change.name, "user", user) != Forecast::Unchanged
        };
        let members = texts(should.get("members"));
        let known: Vec<EcoString> = members.into_iter().filter(|user| !may_come(user)).collect();
        self.have_members(cx, &known)
    }

    /// Returns the users on the machine whose primary group this is. groupdel refuses to remove it then.
    fn primary_users(&self, group: &str) -> Result<Vec<UserRow>, EcoString> {
        let groups = self.accounts.groups().map_err(|error| error.message)?;
        let users = self.accounts.users().map_err(|error| error.message)?;
        let Some(group) = groups.find(group) else { return Ok(Vec::new()) };
        Ok(users.rows.iter().filter(|user| user.gid == group.gid).cloned().collect())
    }

    /// Fails if a removed group is the primary group of a user that no earlier resource may change.
    fn require_no_primary_user(&self, cx: &Context<'_>, group: &str) -> Result<(), EcoString> {
        let preview_context = cx.preview_context();
        let leaves = |user: &UserRow| {
            let is_other = |gid: &Value| ![group, &*user.gid.to_string()].contains(&&*word(gid));
            let declared = preview_context.enforced("user", &user.name);
            declared.is_some_and(|user| user.text("ensure") == Some("absent") || user.get("gid").is_some_and(is_other))
        };
        if preview_context.may_change_before(group) {
            return Ok(());
        }
        match self.primary_users(group)?.iter().find(|user| !leaves(user)) {
            Some(UserRow { name, .. }) => Err(eco_format!(
                "it is the primary group of the user {name}: declare `user[{name}]` with another `gid`, or as absent"
            )),
            None => Ok(()),
        }
    }

    /// Checks the members before any change. gpasswd would refuse too, but leave a partly changed group.
    fn have_members(&self, cx: &Context<'_>, members: &[EcoString]) -> Result<(), EcoString> {
        for member in members {
            if self.accounts.user(cx, member).map_err(|error| error.message)?.is_none() {
                return Err(eco_format!("members: there is no user `{member}`"));
            }
        }
        Ok(())
    }
}

fn state(row: &GroupRow) -> State {
    let mut attributes = Attributes::with_capacity(4);
    attributes.push("ensure", "present");
    attributes.push("name", row.name.clone());
    attributes.push("gid", i64::from(row.gid));
    attributes.push("members", Value::strings(row.members.iter().cloned()));
    State::present(row.name.clone(), attributes)
}

impl Provider for GroupProvider {
    crate::builtin::describe!("group", "shadow", schema, [read_one, scheduling, relations, predict, watch, revert]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => Ok(self.accounts.groups()?.rows.iter().map(state).collect()),
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
        let members = texts(should.get("members"));
        let of_members = members.iter().filter_map(|member| name_problem("members", member));
        let of_gid = should.get("gid").and_then(|gid| number_problem("gid", gid));
        let seal = Redactor::of(should);
        let problems = name_problem("name", name).into_iter().chain(of_gid).chain(of_members);
        problems.map(|problem| seal.problem(problem)).collect()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            if let Some(members) = should.get("members") {
                let mut names = texts(Some(members));
                names.sort_unstable();
                names.dedup();
                let names = sealed_like(members, Value::strings(names));
                should.set("members", names);
            }
        }
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        if attribute != "members" || is_inclusive(should) {
            return Insync::Default;
        }
        let has = texts(is.attributes.get("members"));
        let has_all = texts(should.get("members")).iter().all(|member| has.contains(member));
        membership::at_least(is, should, "members", has_all)
    }
}

impl ReadOne for GroupProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let row = self.accounts.group(cx, wanted.name)?;
        let mut state = row.as_ref().map_or_else(|| State::absent(wanted.name.clone()), state);
        if let Some(should) = wanted.should.filter(|_| state.exists) {
            let left = membership::left_to_users(cx, wanted.name, should, |user| self.has_user(cx, user));
            membership::report(&mut state, "members", &left);
        }
        Ok(state)
    }
}

impl Scheduling for GroupProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        if self.accounts.may_wait("group") { Placement::Worker } else { Placement::Inline }
    }

    fn set_placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }
}

impl Relations for GroupProvider {
    fn conflicts(&self, name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
        membership::of_group(name, should, declared)
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let users = match should.text("ensure") {
            // They are removed, or get another primary group.
            Some("absent") => {
                let users = self.primary_users(name).unwrap_or_default();
                users.into_iter().map(|user| user.name).collect()
            }
            _ => texts(should.get("members")),
        };
        users.iter().for_each(|name| add(AutoEdge { by: Match::Member, ..AutoEdge::require("user", name) }));
    }

    fn identities(&self, _: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        if let Some(gid) = should.get("gid") {
            say(&word(gid));
        }
    }
}

impl Predict for GroupProvider {
    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let number = predict::account("group", "gid", change);
        Some([number].into_iter().chain(predict::written(self.accounts.root(), predict::GROUP_FILES)).collect())
    }

    fn footprint(&self, _: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        predict::footprint(self.accounts.root(), predict::GROUP_FILES, say);
    }

    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }
}

impl Revert for GroupProvider {
    fn revert_to(&self) -> RevertTo {
        RevertTo::Values
    }

    fn revert_values(&self, _: &Attributes, is: &State, before: &mut Attributes) -> Result<(), EcoString> {
        membership::make_exact(self, &is.name, before, "members", ("auth_membership", Value::from(true)))
    }
}

impl Watch for GroupProvider {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        self.accounts.watches(&["group", "passwd"])
    }
}

#[cfg(test)]
mod tests;
