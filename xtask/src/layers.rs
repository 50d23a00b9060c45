//! `cargo xtask layers`: checks the dependencies of the crates against `layers.toml`.

mod edges;
mod rules;

use std::path::Path;

use crate::step::{cargo, output};
use edges::{CrateEdge, Purpose};
use rules::Rules;

const FILE: &str = "layers.toml";

/// Checks all dependencies of all crates in the workspace.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    let text = std::fs::read_to_string(root.join(FILE)).map_err(|error| vec![format!("{FILE}: {error}")])?;
    let rules = Rules::read(&text).map_err(|problem| vec![format!("{FILE}: {problem}")])?;
    let metadata = output(cargo(root).args(["metadata", "--format-version", "1", "--no-deps", "--locked"]));
    let metadata = metadata.map_err(|problem| vec![problem])?;
    let metadata = serde_json::from_str(&metadata).map_err(|error| vec![format!("cargo metadata: {error}")])?;
    let workspace = edges::read(&metadata).ok_or_else(|| vec!["cargo metadata: not of the known form".to_owned()])?;
    let problems = check(&rules, &workspace);
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(format!("layers: {} crates, {} dependencies, all as listed", workspace.crates.len(), workspace.edges.len()))
}

/// Returns forbidden dependencies, and rules for crates that do not exist.
fn check(rules: &Rules, workspace: &edges::Workspace) -> Vec<String> {
    let is_ours = |name: &str| workspace.crates.iter().any(|own| own == name);
    let mut problems: Vec<String> = Vec::new();
    for name in &workspace.crates {
        if !rules.crates.contains_key(name) {
            problems.push(format!("{name} has no line in [crates] of {FILE}"));
        }
    }
    for name in rules.crate_names() {
        if !is_ours(name) {
            problems.push(format!("{FILE} speaks of {name}, which is no crate of this workspace"));
        }
    }
    let refused = workspace.edges.iter().filter(|edge| !allows(rules, edge, is_ours(&edge.to)));
    problems.extend(refused.map(|edge| refusal(edge, is_ours(&edge.to))));
    problems
}

fn allows(rules: &Rules, edge: &CrateEdge, is_ours: bool) -> bool {
    let listed = |table: &rules::CrateLists, key: &str, name: &str| {
        table.get(key).is_some_and(|names| names.iter().any(|listed| listed == name || listed == "*"))
    };
    let for_tests = edge.purpose == Purpose::Tests;
    if is_ours {
        return listed(&rules.crates, &edge.from, &edge.to)
            || for_tests && listed(&rules.dev_crates, &edge.from, &edge.to);
    }
    listed(&rules.external, &edge.to, &edge.from) || for_tests && listed(&rules.dev_external, &edge.to, &edge.from)
}

/// Describes a forbidden dependency, and the line that would allow it.
fn refusal(edge: &CrateEdge, is_ours: bool) -> String {
    let CrateEdge { from, to, purpose } = edge;
    let (section, key, name) = match (is_ours, purpose) {
        (true, Purpose::Program) => ("crates", from, to),
        (true, Purpose::Tests) => ("dev-crates", from, to),
        (false, Purpose::Program) => ("external", to, from),
        (false, Purpose::Tests) => ("dev-external", to, from),
    };
    let how = if *purpose == Purpose::Tests { "for its tests" } else { "" };
    let how = if how.is_empty() { String::new() } else { format!(" {how}") };
    format!(
        "{from} depends on {to}{how}, which is not allowed; if the design is to change, add \"{name}\" to the line \
         `{key}` of [{section}] in {FILE}, and the reason to ARCHITECTURE.md"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const RULES: &str = r#"
        [crates]
        model = []
        engine = ["model"]
        command = ["model", "engine"]
        [dev-crates]
        engine = ["command"]
        [external]
        clap = ["command"]
        thiserror = ["*"]
        [dev-external]
        tempfile = ["*"]
    "#;

    fn dependency(name: &str, kind: &Value) -> Value {
        json!({ "name": name, "kind": kind, "rename": null })
    }

    fn metadata(engine: &[Value]) -> Value {
        json!({ "packages": [
            { "name": "model", "dependencies": [dependency("thiserror", &Value::Null)] },
            { "name": "engine", "dependencies": engine },
            { "name": "command", "dependencies": [
                dependency("clap", &Value::Null),
                dependency("engine", &Value::Null),
                dependency("tempfile", &json!("dev")),
            ] },
        ] })
    }

    fn problems(engine: &[Value]) -> Vec<String> {
        check(&Rules::read(RULES).unwrap(), &edges::read(&metadata(engine)).unwrap())
    }

    #[test]
    fn listed_edge_is_allowed() {
        assert_eq!(problems(&[dependency("model", &Value::Null), dependency("command", &json!("dev"))]), [""; 0]);
    }

    #[test]
    fn unlisted_edge_is_reported_with_the_missing_line() {
        let problems = problems(&[dependency("command", &Value::Null)]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("engine depends on command, which is not allowed"), "{problems:?}");
        assert!(
            problems[0].contains("add \"command\" to the line `engine` of [crates] in layers.toml"),
            "{problems:?}"
        );
    }

    #[test]
    fn external_crate_is_limited_to_listed_users() {
        let problems = problems(&[dependency("clap", &Value::Null), dependency("anyhow", &json!("build"))]);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].contains("add \"engine\" to the line `clap` of [external]"), "{problems:?}");
        assert!(problems[1].starts_with("engine depends on anyhow,"), "{problems:?}");
    }

    #[test]
    fn dev_dependency_is_not_allowed_in_program() {
        let problems = problems(&[dependency("tempfile", &Value::Null)]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("`tempfile` of [external]"), "{problems:?}");
    }

    #[test]
    fn a_crate_without_a_line_and_a_line_without_a_crate_are_problems() {
        let rules = Rules::read(
            "[crates]\nmodel = []\nengine = []\nghost = [\"phantom\"]\n[external]\nclap = \
                                 [\"*\"]\nthiserror = [\"*\"]\ntempfile = [\"wraith\"]",
        )
        .unwrap();
        let problems = check(&rules, &edges::read(&metadata(&[])).unwrap());
        for expected in ["command has no line", "speaks of ghost", "speaks of phantom", "speaks of wraith"] {
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
        }
    }

    #[test]
    fn the_rules_of_this_repository_can_be_read() {
        let text = std::fs::read_to_string(crate::root().join(FILE)).unwrap();
        let rules = Rules::read(&text).unwrap();
        assert_eq!(rules.external["clap"], ["kilter"]);
        assert_eq!(rules.crates["kilter-model"], [""; 0]);
    }
}
