//! The dependencies that `cargo metadata` tells of.

use serde_json::Value;

/// The crates of the workspace and their direct dependencies.
pub(super) struct Workspace {
    pub(super) crates: Vec<String>,
    pub(super) edges: Vec<Edge>,
}

/// One crate depends on another.
pub(super) struct Edge {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) purpose: Purpose,
}

/// What a dependency is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The program, or its build.
    Program,
    /// Tests, benches and examples.
    Tests,
}

/// Reads the output of `cargo metadata --no-deps`.
pub(super) fn read(metadata: &Value) -> Option<Workspace> {
    let packages = metadata["packages"].as_array()?;
    let mut workspace = Workspace { crates: Vec::new(), edges: Vec::new() };
    for package in packages {
        let from = package["name"].as_str()?;
        workspace.crates.push(from.to_owned());
        for dependency in package["dependencies"].as_array()? {
            let purpose = match dependency["kind"].as_str() {
                Some("dev") => Purpose::Tests,
                _ => Purpose::Program,
            };
            // `name` is the crate's own, whatever it is renamed to.
            let to = dependency["name"].as_str()?.to_owned();
            workspace.edges.push(Edge { from: from.to_owned(), to, purpose });
        }
    }
    Some(workspace)
}
