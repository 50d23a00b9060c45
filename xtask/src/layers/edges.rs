//! Dependencies in the output of `cargo metadata`.

use serde_json::Value;

/// Crates of the workspace with their direct dependencies.
pub(super) struct Workspace {
    pub(super) crates: Vec<String>,
    pub(super) edges: Vec<CrateEdge>,
}

/// A dependency between two crates.
pub(super) struct CrateEdge {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) purpose: Purpose,
}

/// Purpose of a dependency.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The program or its build.
    Program,
    /// Tests, benches and examples.
    Tests,
}

/// Parses the output of `cargo metadata --no-deps`.
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
            // `name` is the crate's own name, also for a renamed dependency.
            let to = dependency["name"].as_str()?.to_owned();
            workspace.edges.push(CrateEdge { from: from.to_owned(), to, purpose });
        }
    }
    Some(workspace)
}
