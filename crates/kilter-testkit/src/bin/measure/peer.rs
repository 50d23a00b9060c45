//! CFEngine, where it is installed.

use std::path::Path;
use std::process::Command;

/// The agent over a policy; none where it is not installed or this is not root.
pub(crate) fn cfengine(policy: &Path) -> Option<Command> {
    let found = ["/usr/bin/cf-agent", "/usr/sbin/cf-agent", "/var/cfengine/bin/cf-agent"];
    let agent = found.iter().find(|path| Path::new(path).exists())?;
    let mut command = Command::new(agent);
    command.args(["--no-lock", "--file"]).arg(policy);
    Some(command)
}
