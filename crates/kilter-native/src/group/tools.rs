//! Tools and arguments that bring a group in sync.

use kilter_model::{Attributes, Change};
use kilter_process::Invocation;

use crate::value_text::{texts, word};

/// Returns the tools that create a group.
pub(super) fn create(name: &str, should: &Attributes) -> Vec<Invocation> {
    let mut tool = Invocation::new("groupadd");
    if should.get_bool("system") == Some(true) {
        tool = tool.arg("-r");
    }
    let mut tools = vec![with_gid(tool, should).args(["--", name])];
    if !texts(should.get("members")).is_empty() {
        tools.push(exactly(name, should));
    }
    tools
}

/// Returns the tools that change an existing group.
pub(super) fn modify(change: &Change<'_>, should: &Attributes) -> Vec<Invocation> {
    let mut tools = Vec::new();
    if change.differs("gid") {
        tools.push(with_gid(Invocation::new("groupmod"), should).args(["--", change.name]));
    }
    if change.differs("members") {
        if is_inclusive(should) {
            tools.push(exactly(change.name, should));
        } else {
            let has = texts(change.is.attributes.get("members"));
            let missing = texts(should.get("members")).into_iter().filter(|member| !has.contains(member));
            tools.extend(missing.map(|member| Invocation::new("gpasswd").args(["-a", &member, "--", change.name])));
        }
    }
    tools
}

/// Returns the tools that remove a group.
pub(super) fn remove(name: &str) -> Vec<Invocation> {
    vec![Invocation::new("groupdel").args(["--", name])]
}

fn with_gid(tool: Invocation, should: &Attributes) -> Invocation {
    let Some(gid) = should.get("gid") else { return tool };
    let tool = tool.args(["-g".to_owned(), word(gid)]);
    if should.get_bool("allowdupe") == Some(true) { tool.arg("-o") } else { tool }
}

fn exactly(name: &str, should: &Attributes) -> Invocation {
    Invocation::new("gpasswd").args(["-M", &texts(should.get("members")).join(","), "--", name])
}

/// Returns true if undeclared members are removed.
pub(super) fn is_inclusive(should: &Attributes) -> bool {
    should.get_bool("auth_membership") != Some(false)
}
