//! Memberships that both a user and a group declare.
//!
//! A membership is a single relation. Contradictory declarations are problems before the run. If they agree, the
//! resource that runs last creates the membership, because the other account does not exist before.

use std::borrow::Cow;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, State, Value};
use kilter_provider::{Context, Declared, Insync, ReadOne, ValidationError, Wanted};

use crate::value_text::{sealed_like, texts, word};

/// Returns the members of a group that do not exist yet and that their own resources add to it. The run creates these
/// users.
pub(crate) fn left_to_users(
    cx: &Context<'_>,
    group: &str,
    should: &Attributes,
    exists: impl Fn(&str) -> bool,
) -> Vec<EcoString> {
    let joins = |name: &EcoString| {
        let user = cx.preview_context().enforced("user", name);
        let lists_group = |user| lists(user, "groups", group) || primary(name, user) == Some(group);
        user.is_some_and(|user| is_present(user) && lists_group(user))
    };
    left(should, "members", joins, exists)
}

/// Returns the groups of a user that do not exist yet and that take the user in when they are created. The run
/// creates them.
pub(crate) fn left_to_groups(
    cx: &Context<'_>,
    user: &str,
    should: &Attributes,
    exists: impl Fn(&str) -> bool,
) -> Vec<EcoString> {
    let takes = |group: &EcoString| {
        let group = cx.preview_context().enforced("group", group);
        group.is_some_and(|group| is_present(group) && lists(group, "members", user))
    };
    left(should, "groups", takes, exists)
}

/// Returns the declaration of a new user with its primary group among the groups, if that group lists the user. The
/// group was created first, and without the user.
pub(crate) fn with_primary<'a>(cx: &Context<'_>, user: &str, should: Cow<'a, Attributes>) -> Cow<'a, Attributes> {
    let Some(group) = primary(user, &should).map(EcoString::from) else { return should };
    let is_listed = |group: &Attributes| is_present(group) && lists(group, "members", user);
    if lists(&should, "groups", &group) || !cx.preview_context().enforced("group", &group).is_some_and(is_listed) {
        return should;
    }
    let mut with = should.into_owned();
    with.set("groups", Value::strings(texts(with.get("groups")).into_iter().chain([group])));
    Cow::Owned(with)
}

/// Returns the name of the primary group of a new user; none if it is declared by number.
fn primary<'a>(user: &'a str, should: &'a Attributes) -> Option<&'a str> {
    should.get("gid").map_or(Some(user), Value::as_str)
}

fn left(
    should: &Attributes,
    attribute: &str,
    agrees: impl Fn(&EcoString) -> bool,
    exists: impl Fn(&str) -> bool,
) -> Vec<EcoString> {
    let mut names = texts(should.get(attribute));
    names.retain(|name| agrees(name) && !exists(name));
    names
}

/// Compares memberships of which kilter removes none. The text of a difference has the memberships that stay.
pub(crate) fn at_least(is: &State, should: &Attributes, attribute: &str, has_all: bool) -> Insync {
    let found = texts(is.attributes.get(attribute));
    let declared = should.get(attribute);
    match has_all {
        true => Insync::Same,
        // Without present memberships, the default text is right. A secret must not be shown.
        false if found.is_empty() || declared.is_some_and(Value::holds_sensitive) => Insync::Differs(None),
        false => {
            let mut after: Vec<EcoString> = found.iter().cloned().chain(texts(declared)).collect();
            after.sort_unstable();
            after.dedup();
            Insync::Differs(Some(eco_format!("[{}] → [{}]", found.join(", "), after.join(", "))))
        }
    }
}

/// Reports memberships that another resource creates as present.
pub(crate) fn report(state: &mut State, attribute: &str, left: &[EcoString]) {
    if left.is_empty() || !state.exists {
        return;
    }
    let mut names = texts(state.attributes.get(attribute));
    names.extend(left.iter().cloned());
    names.sort_unstable();
    names.dedup();
    state.attributes.set(attribute, Value::strings(names));
}

/// Returns the declaration without memberships that another resource creates.
pub(crate) fn without<'a>(should: &'a Attributes, attribute: &str, left: &[EcoString]) -> Cow<'a, Attributes> {
    if left.is_empty() {
        return Cow::Borrowed(should);
    }
    let mut names = texts(should.get(attribute));
    names.retain(|name| !left.contains(name));
    let mut rest = should.clone();
    rest.set(attribute, Value::strings(names));
    Cow::Owned(rest)
}

/// Makes the declaration that restores memberships exact: the account `name` loses all others. It reads the account
/// again, because a state for a declaration has the memberships that other resources of the run create.
pub(crate) fn make_exact(
    provider: &dyn ReadOne,
    name: &EcoString,
    before: &mut Attributes,
    attribute: &str,
    exact: (&str, Value),
) -> Result<(), EcoString> {
    let Some(old) = before.get(attribute).cloned() else { return Ok(()) };
    let whole = provider.get_one(&Context::empty(), Wanted::new(name, None)).map_err(|error| error.message)?;
    if let Some(names) = whole.attributes.get(attribute) {
        before.set(attribute, sealed_like(&old, names.clone()));
        before.set(exact.0, exact.1);
    }
    Ok(())
}

fn lists(should: &Attributes, attribute: &str, name: &str) -> bool {
    texts(should.get(attribute)).iter().any(|listed| listed == name)
}

/// Returns the groups of a user that are declared without the user, or as absent, also as the primary group.
pub(crate) fn of_user(name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
    if !is_present(should) {
        return Vec::new();
    }
    let primary = should.get("gid").map(word).filter(|gid| declared("group", gid).is_some_and(|gid| !is_present(gid)));
    let primary = primary.map(|gid| {
        let message = eco_format!("user[{name}] has the primary group `{gid}`, which is declared to be absent");
        ValidationError::with("gid", message).hint("declare another `gid`, or keep the group")
    });
    let groups = texts(should.get("groups"));
    let is_absent = |group: &&EcoString| declared("group", group).is_some_and(|other| !is_present(other));
    let gone = groups.iter().filter(is_absent).map(|group| {
        let message = eco_format!("user[{name}] is declared to be in `{group}`, and group[{group}] to be absent");
        ValidationError::with("groups", message)
            .hint(eco_format!("take `{group}` out of the groups of user[{name}], or keep group[{group}]"))
    });
    let without = |group: &&ecow::EcoString| declared("group", group).is_some_and(|other| excludes_user(other, name));
    let problem = |group| {
        let message =
            eco_format!("user[{name}] is declared to be in `{group}`, and group[{group}] to be without `{name}`");
        ValidationError::with("groups", message)
            .hint(eco_format!("add `{name}` to the members of group[{group}], or give that `auth_membership: false`"))
    };
    groups.iter().filter(without).map(problem).chain(gone).chain(primary).collect()
}

/// Returns the members of a group that are declared to be in other groups only, or as absent.
pub(crate) fn of_group(name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
    if !is_present(should) {
        return Vec::new();
    }
    let members = texts(should.get("members"));
    let is_absent = |user: &&EcoString| declared("user", user).is_some_and(|other| !is_present(other));
    let gone = members.iter().filter(is_absent).map(|user| {
        let message = eco_format!("group[{name}] is declared with `{user}`, and user[{user}] to be absent");
        ValidationError::with("members", message)
            .hint(eco_format!("take `{user}` out of the members of group[{name}], or keep user[{user}]"))
    });
    let without = |user: &&ecow::EcoString| declared("user", user).is_some_and(|other| excludes_group(other, name));
    let problem = |user| {
        let message =
            eco_format!("group[{name}] is declared with `{user}`, and user[{user}] to be in other groups only");
        ValidationError::with("members", message)
            .hint(eco_format!("add `{name}` to the groups of user[{user}], or give that `membership: minimum`"))
    };
    members.iter().filter(without).map(problem).chain(gone).collect()
}

fn is_present(should: &Attributes) -> bool {
    should.text("ensure") != Some("absent")
}

fn excludes_user(group: &Attributes, user: &str) -> bool {
    let lists = |members| texts(Some(members)).iter().any(|member| member == user);
    is_present(group)
        && group.get_bool("auth_membership") != Some(false)
        && group.get("members").is_some_and(|members| !members.is_undef() && !lists(members))
}

fn excludes_group(user: &Attributes, group: &str) -> bool {
    let lists = |groups| texts(Some(groups)).iter().any(|other| other == group);
    is_present(user)
        && user.text("membership") == Some("inclusive")
        && user.get("groups").is_some_and(|groups| !groups.is_undef() && !lists(groups))
}

#[cfg(test)]
mod tests {
    use kilter_model::Change;
    use kilter_provider::{Mode, PreviewContext, Provider, Relations, Wanted, check};

    use crate::accounts::fake::Fake;
    use crate::{GroupProvider, UserProvider};

    use super::*;

    fn attributes(attributes: &[(&str, Value)]) -> Attributes {
        attributes.iter().map(|(name, value)| (*name, value.clone())).collect()
    }

    fn list(texts: &[&str]) -> Value {
        Value::strings(texts.iter().copied())
    }

    /// Returns the contradictions that both providers report for the user `adam` and the group `wheel`.
    fn said(user: &[(&str, Value)], group: &[(&str, Value)]) -> Vec<String> {
        let system = Fake::new("", "", "").system();
        let (user, group) = (attributes(user), attributes(group));
        let declared = |type_name: &str, name: &str| match (type_name, name) {
            ("user", "adam") => Some(&user),
            ("group", "wheel") => Some(&group),
            _ => None,
        };
        let mut problems = UserProvider::new(system.clone()).conflicts("adam", &user, &declared);
        problems.extend(GroupProvider::new(system).conflicts("wheel", &group, &declared));
        problems.into_iter().map(|problem| problem.message.into()).collect()
    }

    #[test]
    fn member_missing_in_exact_group_is_a_conflict() {
        let inside = [("groups", list(&["adm", "wheel"]))];
        assert_eq!(
            said(&inside, &[("members", list(&["zoe"]))]),
            ["user[adam] is declared to be in `wheel`, and group[wheel] to be without `adam`"]
        );
        assert_eq!(said(&inside, &[("members", list(&[]))]).len(), 1);
        assert_eq!(said(&inside, &[("members", list(&["adam", "zoe"]))]), [""; 0]);
        assert_eq!(said(&inside, &[]), [""; 0]);
        assert_eq!(said(&inside, &[("members", list(&["zoe"])), ("auth_membership", false.into())]), [""; 0]);
        assert_eq!(
            said(&inside, &[("ensure", "absent".into())]),
            ["user[adam] is declared to be in `wheel`, and group[wheel] to be absent"]
        );
        assert_eq!(
            said(&[("gid", "wheel".into())], &[("ensure", "absent".into())]),
            ["user[adam] has the primary group `wheel`, which is declared to be absent"]
        );
        assert_eq!(said(&[("gid", "adm".into())], &[("ensure", "absent".into())]), [""; 0]);
        assert_eq!(
            said(&[("gid", "wheel".into()), ("ensure", "absent".into())], &[("ensure", "absent".into())]),
            [""; 0]
        );
        assert_eq!(
            said(&[("ensure", "absent".into())], &[("members", list(&["adam"]))]),
            ["group[wheel] is declared with `adam`, and user[adam] to be absent"]
        );
    }

    /// Catalog with the user `adam` and the group `wheel`.
    struct Catalog {
        user: Attributes,
        group: Attributes,
    }

    impl PreviewContext for Catalog {
        fn may_change_before(&self, _: &str) -> bool {
            false
        }

        fn declared(&self, type_name: &str, name: &str) -> Option<&Attributes> {
            match (type_name, name) {
                ("user", "adam") => Some(&self.user),
                ("group", "wheel") => Some(&self.group),
                _ => None,
            }
        }
    }

    /// Brings a resource in sync. Returns the arguments of the tools, and the remaining differences afterwards.
    fn converge(
        fake: &Fake,
        provider: &dyn Provider,
        catalog: &Catalog,
        name: &str,
        after: (&str, &str),
    ) -> (Vec<String>, usize) {
        let should = if name == "adam" { &catalog.user } else { &catalog.group };
        let (cx, name) = (Context::empty().with_preview_context(catalog), EcoString::from(name));
        let wanted = || Wanted::new(&name, Some(should));
        let found = check(provider, &cx, &[wanted()]).remove(0).unwrap();
        let change = Change::new(&name, &found.state, Some(should), &found.differences);
        let outcome = provider.set(&cx, &[change], Mode::Apply).remove(0);
        assert_eq!(outcome.failure, None, "{name}");
        fake.write(after.0, after.1);
        (fake.argvs(), check(provider, &cx, &[wanted()]).remove(0).unwrap().differences.len())
    }

    #[test]
    fn membership_declared_twice_is_made_by_the_later_resource() {
        let present = |other: (&str, Value)| attributes(&[("ensure", "present".into()), other]);
        let catalog =
            Catalog { user: present(("groups", list(&["wheel"]))), group: present(("members", list(&["adam"]))) };
        let fake = Fake::new("", "", "");
        let (users, groups) = (UserProvider::new(fake.system()), GroupProvider::new(fake.system()));
        let made = converge(&fake, &groups, &catalog, "wheel", ("group", "wheel:x:10:\n"));
        assert_eq!(made, (vec!["groupadd -- wheel".to_owned()], 0), "the group first");
        fake.write("passwd", "adam:x:1000:1000::/:\n");
        let joined = converge(&fake, &users, &catalog, "adam", ("group", "wheel:x:10:adam\n"));
        assert_eq!(joined, (vec!["usermod -a -G wheel -- adam".to_owned()], 0));
        let fake = Fake::new("", "", "");
        let (users, groups) = (UserProvider::new(fake.system()), GroupProvider::new(fake.system()));
        let made = converge(&fake, &users, &catalog, "adam", ("passwd", "adam:x:1000:1000::/:\n"));
        assert_eq!(made, (vec!["useradd -M -- adam".to_owned()], 0), "the user first");
        let taken = converge(&fake, &groups, &catalog, "wheel", ("group", "wheel:x:10:adam\n"));
        assert_eq!(taken, (vec!["groupadd -- wheel".to_owned(), "gpasswd -M adam -- wheel".to_owned()], 0));
    }

    #[test]
    fn primary_group_that_lists_the_user_is_joined_when_the_user_is_created() {
        let present = |other: (&str, Value)| attributes(&[("ensure", "present".into()), other]);
        let catalog = Catalog { user: present(("gid", "wheel".into())), group: present(("members", list(&["adam"]))) };
        let fake = Fake::new("", "", "");
        let (users, groups) = (UserProvider::new(fake.system()), GroupProvider::new(fake.system()));
        let made = converge(&fake, &groups, &catalog, "wheel", ("group", "wheel:x:10:\n"));
        assert_eq!(made, (vec!["groupadd -- wheel".to_owned()], 0));
        let joined = converge(&fake, &users, &catalog, "adam", ("passwd", "adam:x:1000:10::/:\n"));
        assert_eq!(joined, (vec!["useradd -M -g wheel -G wheel -- adam".to_owned()], 0));
    }

    #[test]
    fn preview_foresees_accounts_that_nothing_creates() {
        let present = |other: (&str, Value)| attributes(&[("ensure", "present".into()), other]);
        let catalog =
            Catalog { user: present(("groups", list(&["wheel"]))), group: present(("members", list(&["adam"]))) };
        let fake = Fake::new("", "", "");
        let (users, groups) = (UserProvider::new(fake.system()), GroupProvider::new(fake.system()));
        let preview = |provider: &dyn Provider, cx: Context<'_>, name: &str, should: &Attributes| {
            let (name, is) = (EcoString::from(name), State::absent(name));
            provider.set(&cx, &[Change::new(&name, &is, Some(should), &[])], Mode::Preview).remove(0).failure
        };
        let alone = Context::empty;
        let group = preview(&groups, alone(), "wheel", &catalog.group);
        assert_eq!(group.as_deref(), Some("members: there is no user `adam`"));
        let user = preview(&users, alone(), "adam", &catalog.user);
        assert_eq!(user.as_deref(), Some("groups: there is no group `wheel`"));
        let of_gid = preview(&users, alone(), "adam", &present(("gid", "wheel".into())));
        assert_eq!(of_gid.as_deref(), Some("gid: there is no group `wheel`"));
        let declared = || Context::empty().with_preview_context(&catalog);
        assert_eq!(preview(&groups, declared(), "wheel", &catalog.group), None);
        assert_eq!(preview(&users, declared(), "adam", &catalog.user), None);
        let of_number = || preview(&users, alone(), "adam", &present(("gid", Value::Integer(100))));
        let expected = "gid: there is no group with the number 100; `group[adam]` with `gid: 100` creates it";
        assert_eq!(of_number().as_deref(), Some(expected));
        fake.write("group", "users:x:100:\n");
        assert_eq!(of_number(), None);
        assert_eq!(preview(&groups, alone(), "wheel", &attributes(&[("ensure", "absent".into())])), None);
        assert_eq!(fake.argvs(), [""; 0]);
    }

    /// Returns the declaration that restores memberships, and the differences that its check finds on another state.
    fn restored(
        fake: &Fake,
        provider: &dyn Provider,
        name: &str,
        should: &Attributes,
        changed: (&str, &str),
    ) -> (Attributes, usize) {
        let name = EcoString::from(name);
        let found = check(provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap();
        let is = |attribute: &str| Some((attribute.to_owned(), found.state.attributes.get(attribute)?.clone()));
        let mut before: Attributes = ["groups", "members"].into_iter().filter_map(is).collect();
        provider.capabilities().revert.unwrap().revert_values(should, &found.state, &mut before).unwrap();
        fake.write(changed.0, changed.1);
        let after = check(provider, &Context::empty(), &[Wanted::new(&name, Some(&before))]).remove(0).unwrap();
        (before, after.differences.len())
    }

    #[test]
    fn restoration_of_memberships_declares_exactly_the_earlier_ones() {
        let fake = Fake::new("adam:x:1000:1000::/:\n", "adm:x:4:adam\nwheel:x:10:\n", "");
        let (users, groups) = (UserProvider::new(fake.system()), GroupProvider::new(fake.system()));
        let after = ("group", "adm:x:4:adam\nwheel:x:10:adam\n");
        let should = attributes(&[("groups", list(&["wheel"]))]);
        let exact = attributes(&[("groups", list(&["adm"])), ("membership", "inclusive".into())]);
        assert_eq!(restored(&fake, &users, "adam", &should, after), (exact, 1));
        fake.write("group", "adm:x:4:adam\nwheel:x:10:\n");
        let should = attributes(&[("members", list(&["adam"])), ("auth_membership", false.into())]);
        let exact = attributes(&[("members", list(&[])), ("auth_membership", true.into())]);
        assert_eq!(restored(&fake, &groups, "wheel", &should, after), (exact, 1));
    }

    #[test]
    fn member_with_other_inclusive_groups_is_a_conflict() {
        let lists = [("members", list(&["adam"]))];
        let only = |groups| [("groups", list(groups)), ("membership", "inclusive".into())];
        assert_eq!(
            said(&only(&["adm"]), &lists),
            ["group[wheel] is declared with `adam`, and user[adam] to be in other groups only"]
        );
        assert_eq!(said(&only(&["adm", "wheel"]), &lists), [""; 0]);
        assert_eq!(said(&[("groups", list(&["adm"]))], &lists), [""; 0], "at least those");
        assert_eq!(said(&[("membership", "inclusive".into())], &lists), [""; 0], "no groups are declared");
    }
}
