//! Peers for comparison, if they are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the CFEngine agent for a policy; none if it is not installed or the user is not root.
pub(crate) fn cfengine(policy: &Path) -> Option<Command> {
    let found = ["/usr/bin/cf-agent", "/usr/sbin/cf-agent", "/var/cfengine/bin/cf-agent"];
    let agent = found.iter().find(|path| Path::new(path).exists())?;
    let mut command = Command::new(agent);
    command.args(["--no-lock", "--file"]).arg(policy);
    Some(command)
}

/// Variable with the path of libral's own `ralsh`, for which no package exists (docs/performance.md describes its
/// build).
const RALSH: &str = "KILTER_MEASURE_RALSH";

/// Returns the path of libral's `ralsh`; none if the variable is not set.
pub(crate) fn ralsh() -> Option<PathBuf> {
    let found = std::env::var_os(RALSH).map(PathBuf::from);
    if found.is_none() {
        eprintln!("libral's `ralsh` is not compared with: {RALSH} does not say where it is");
    }
    found
}
