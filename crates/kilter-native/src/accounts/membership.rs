//! Users and groups that are declared with different ideas of who is in which group.

use ecow::eco_format;
use kilter_model::Attributes;
use kilter_provider::{Declared, Problem};

use crate::words::texts;

/// Groups of a user that are declared without them.
pub(crate) fn of_user(name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<Problem> {
    let without = |group: &&ecow::EcoString| {
        is_present(should) && declared("group", group).is_some_and(|other| excludes_user(other, name))
    };
    let groups = texts(should.get("groups"));
    let problem = |group| {
        let message =
            eco_format!("user[{name}] is declared to be in `{group}`, and group[{group}] to be without `{name}`");
        Problem::with("groups", message)
            .hint(eco_format!("add `{name}` to the members of group[{group}], or give that `auth_membership: false`"))
    };
    groups.iter().filter(without).map(problem).collect()
}

/// Members of a group that are declared to be in other groups only.
pub(crate) fn of_group(name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<Problem> {
    let without = |user: &&ecow::EcoString| {
        is_present(should) && declared("user", user).is_some_and(|other| excludes_group(other, name))
    };
    let members = texts(should.get("members"));
    let problem = |user| {
        let message =
            eco_format!("group[{name}] is declared with `{user}`, and user[{user}] to be in other groups only");
        Problem::with("members", message)
            .hint(eco_format!("add `{name}` to the groups of user[{user}], or give that `membership: minimum`"))
    };
    members.iter().filter(without).map(problem).collect()
}

fn is_present(should: &Attributes) -> bool {
    should.text("ensure") != Some("absent")
}

fn excludes_user(group: &Attributes, user: &str) -> bool {
    let lists = |members| texts(Some(members)).iter().any(|member| member == user);
    is_present(group)
        && group.truth("auth_membership") != Some(false)
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
    use kilter_model::Value;
    use kilter_provider::Provider;

    use crate::accounts::fake::Fake;
    use crate::{GroupProvider, UserProvider};

    use super::*;

    fn attributes(attributes: &[(&str, Value)]) -> Attributes {
        attributes.iter().map(|(name, value)| (*name, value.clone())).collect()
    }

    fn list(texts: &[&str]) -> Value {
        Value::strings(texts.iter().copied())
    }

    /// What both providers say of the user `adam` and the group `wheel`.
    fn said(user: &[(&str, Value)], group: &[(&str, Value)]) -> Vec<String> {
        let system = Fake::new("", "", "").system();
        let (user, group) = (attributes(user), attributes(group));
        let declared = |type_name: &str, name: &str| match (type_name, name) {
            ("user", "adam") => Some(&user),
            ("group", "wheel") => Some(&group),
            _ => None,
        };
        let mut problems = UserProvider::new(system.clone()).contradictions("adam", &user, &declared);
        problems.extend(GroupProvider::new(system).contradictions("wheel", &group, &declared));
        problems.into_iter().map(|problem| problem.message.into()).collect()
    }

    #[test]
    fn a_user_in_a_group_that_is_declared_without_them_is_a_contradiction() {
        let inside = [("groups", list(&["adm", "wheel"]))];
        assert_eq!(
            said(&inside, &[("members", list(&["zoe"]))]),
            ["user[adam] is declared to be in `wheel`, and group[wheel] to be without `adam`"]
        );
        assert_eq!(said(&inside, &[("members", list(&[]))]).len(), 1);
        assert_eq!(said(&inside, &[("members", list(&["adam", "zoe"]))]), [""; 0]);
        assert_eq!(said(&inside, &[]), [""; 0]);
        assert_eq!(said(&inside, &[("members", list(&["zoe"])), ("auth_membership", false.into())]), [""; 0]);
        assert_eq!(said(&inside, &[("members", list(&["zoe"])), ("ensure", "absent".into())]), [""; 0]);
    }

    #[test]
    fn a_member_who_is_declared_to_be_in_other_groups_only_is_a_contradiction() {
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
