//! Test hosts: builds their root file system while cargo builds. `cargo xtask host` opens a shell in a host.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::JoinHandle;

use crate::requirements::is_root;
use crate::step::{built_kilter, output};

/// Releases of Debian that hosts have.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];

/// Directory of the programs for hosts.
const PROGRAMS: &str = "crates/kilter-testkit/hosts";

/// Root file systems that are being built.
pub(crate) struct Bases(Option<JoinHandle<Result<(), String>>>);

/// Starts the build of the hosts' root file systems that do not exist. Early tests wait for it. If it fails, they
/// try again themselves and report the reason. The build requires root.
pub(crate) fn begin(root: &Path) -> Bases {
    if !is_root() {
        return Bases(None);
    }
    let base = root.join(PROGRAMS).join("base");
    let build = move |release| output(Command::new("nice").arg(&base).env("KILTER_HOSTS_RELEASE", release));
    Bases(Some(std::thread::spawn(move || RELEASES.into_iter().try_for_each(|release| build(release).map(drop)))))
}

impl Bases {
    /// Waits for the end, and reports a failure.
    pub(crate) fn end(self) {
        if let Some(Ok(Err(why))) = self.0.map(JoinHandle::join) {
            eprintln!("error: the root file systems of the test hosts: {why}");
        }
    }
}

/// Script in the sandbox: boots a host with kilter and the tests of its scripts, and runs a shell or a command in it.
const SHELL: &str = r#"
    host=$0 kilter=$1 providers=$2
    shift 2
    "$host" up host "$kilter:/usr/local/bin/kilter" "$providers:/srv/providers"
    if [ $# -gt 0 ]; then "$host" run host "$@"; else "$host" shell host; fi"#;

/// Boots a host, and runs a command or a shell in it.
pub(crate) fn run(root: &Path, command: &[&str]) -> ExitCode {
    let kilter = match built_kilter(root) {
        Ok(kilter) => kilter,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    let programs = root.join(PROGRAMS);
    let mut sandbox = Command::new(programs.join("sandbox"));
    sandbox.args(["bash", "-euc", SHELL]).arg(programs.join("host")).arg(kilter).arg(root.join("providers"));
    match sandbox.args(command).status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("error: {}: {error}", programs.display());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_image_build_runs_in_parallel_if_allowed() {
        let root = std::env::temp_dir().join(format!("xtask-hosts-{}", std::process::id()));
        let programs = root.join(PROGRAMS);
        std::fs::create_dir_all(&programs).unwrap();
        let script = "printf '#!/bin/sh\\ntouch \"$0.made\"\\n' >\"$0/base\" && chmod 755 \"$0/base\"";
        assert!(Command::new("sh").arg("-c").arg(script).arg(&programs).status().unwrap().success());
        begin(&root).end();
        let is_made = programs.join("base.made").exists();
        std::fs::remove_dir_all(root).unwrap();
        assert_eq!(is_made, is_root());
    }
}
