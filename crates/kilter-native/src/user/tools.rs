//! Tools and arguments that bring a user in sync.

use kilter_model::{Attributes, Change, Value};
use kilter_process::Invocation;

use crate::accounts::Groups;
use crate::value_text::{texts, word};

/// Returns the tools that create a user.
pub(super) fn create(name: &str, should: &Attributes, groups: &Groups) -> Vec<Invocation> {
    let mut tool = Invocation::new("useradd");
    tool = tool.arg(if should.get_bool("managehome") == Some(true) { "-m" } else { "-M" });
    if should.get_bool("system") == Some(true) {
        tool = tool.arg("-r");
    }
    match should.get("gid") {
        Some(gid) => tool = tool.args(["-g".to_owned(), word(gid)]),
        // useradd would try to create a group with that name, and fail.
        None if groups.find(name).is_some() => tool = tool.args(["-g", name]),
        None => {}
    }
    let wanted = texts(should.get("groups"));
    if !wanted.is_empty() {
        tool = tool.args(["-G", &wanted.join(",")]);
    }
    // useradd silently ignores the expiry of a system account.
    let is_late = |attribute: &str| attribute == "expiry" && should.get_bool("system") == Some(true);
    tool = plain(tool, should, |attribute| !is_late(attribute));
    let mut tools = vec![tool.args(["--", name])];
    let late = plain(Invocation::new("usermod"), should, is_late);
    if !late.args.is_empty() {
        tools.push(late.args(["--", name]));
    }
    tools.extend(in_shadow(name, should, |_| true));
    tools
}

/// Returns the tools that change an existing user.
pub(super) fn modify(change: &Change<'_>, should: &Attributes) -> Vec<Invocation> {
    let mut tool = Invocation::new("usermod");
    if change.differs("gid")
        && let Some(gid) = should.get("gid")
    {
        tool = tool.args(["-g".to_owned(), word(gid)]);
    }
    if change.differs("groups") {
        let wanted = texts(should.get("groups")).join(",");
        tool = if should.text("membership") == Some("inclusive") { tool } else { tool.arg("-a") };
        tool = tool.args(["-G", &wanted]);
    }
    if change.differs("home") && should.get_bool("managehome") == Some(true) {
        tool = tool.arg("-m");
    }
    tool = plain(tool, should, |attribute| change.differs(attribute));
    let mut tools = Vec::new();
    if !tool.args.is_empty() {
        tools.push(tool.args(["--", change.name]));
    }
    tools.extend(in_shadow(change.name, should, |attribute| change.differs(attribute)));
    tools
}

/// Returns the tools that remove a user. `home_exists` is true if there is a home directory to remove.
pub(super) fn remove(name: &str, should: Option<&Attributes>, home_exists: bool) -> Vec<Invocation> {
    let mut tool = Invocation::new("userdel");
    if home_exists && should.and_then(|should| should.get_bool("managehome")) == Some(true) {
        tool = tool.arg("-r");
    }
    vec![tool.args(["--", name])]
}

/// Adds the options that `useradd` and `usermod` share.
fn plain(mut tool: Invocation, should: &Attributes, wanted: impl Fn(&str) -> bool) -> Invocation {
    if wanted("uid")
        && let Some(uid) = should.get("uid")
    {
        tool = tool.args(["-u".to_owned(), word(uid)]);
        if should.get_bool("allowdupe") == Some(true) {
            tool = tool.arg("-o");
        }
    }
    for (attribute, option) in [("home", "-d"), ("shell", "-s"), ("comment", "-c"), ("expiry", "-e")] {
        if wanted(attribute)
            && let Some(value) = should.text(attribute)
        {
            let value = if (attribute, value) == ("expiry", "absent") { "" } else { value };
            tool = tool.args([option, value]);
        }
    }
    tool
}

/// Returns the tools for the password and its ages. The password goes through a pipe, so that no process list shows
/// it.
fn in_shadow(name: &str, should: &Attributes, wanted: impl Fn(&str) -> bool) -> Vec<Invocation> {
    let mut tools = Vec::new();
    if wanted("password")
        && let Some(hash) = should.text("password")
    {
        tools.push(Invocation::new("chpasswd").arg("-e").stdin(format!("{name}:{hash}\n")));
    }
    let mut ages = Invocation::new("chage");
    for (attribute, option) in [("password_min_age", "-m"), ("password_max_age", "-M"), ("password_warn_days", "-W")] {
        if wanted(attribute)
            && let Some(days) = should.get(attribute).and_then(Value::as_integer)
        {
            ages = ages.args([option.to_owned(), days.to_string()]);
        }
    }
    if !ages.args.is_empty() {
        tools.push(ages.args(["--", name]));
    }
    tools
}
