//! The peers, where they are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The agent over a policy; none where it is not installed or this is not root.
pub(crate) fn cfengine(policy: &Path) -> Option<Command> {
    let found = ["/usr/bin/cf-agent", "/usr/sbin/cf-agent", "/var/cfengine/bin/cf-agent"];
    let agent = found.iter().find(|path| Path::new(path).exists())?;
    let mut command = Command::new(agent);
    command.args(["--no-lock", "--file"]).arg(policy);
    Some(command)
}

/// Names libral's own `ralsh`, which nobody packages (docs/performance.md says how it was built).
const RALSH: &str = "KILTER_MEASURE_RALSH";

/// Libral's own `ralsh`; none where nobody says where it is.
pub(crate) fn ralsh() -> Option<PathBuf> {
    let found = std::env::var_os(RALSH).map(PathBuf::from);
    if found.is_none() {
        eprintln!("libral's `ralsh` is not compared with: {RALSH} does not say where it is");
    }
    found
}
