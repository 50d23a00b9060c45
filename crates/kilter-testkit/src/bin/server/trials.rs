//! Trials by hand of a host on which `examples/server` has been applied.

use crate::empty_host::{EmptyHost, Inputs};
use crate::{fleet, undo};

/// A trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerTrial {
    /// 30 damages under `kilter run`, with the time of each repair.
    Damages,
    /// Applies while apt-get, editors of the same files and systemctl change the host.
    Writers,
    /// `kilter undo` of the first apply, compared with the empty host.
    Undo,
    /// One plan and one apply for eight empty hosts over ssh.
    Fleet,
}

impl ServerTrial {
    pub(crate) fn named(name: &str) -> Result<ServerTrial, String> {
        match name {
            "damages" => Ok(ServerTrial::Damages),
            "writers" => Ok(ServerTrial::Writers),
            "undo" => Ok(ServerTrial::Undo),
            "fleet" => Ok(ServerTrial::Fleet),
            _ => Err(format!("there is no trial `{name}`; there are damages, writers, undo and fleet")),
        }
    }
}

/// Runs a trial and prints the result.
pub(crate) fn run(inputs: &Inputs, trial: ServerTrial) -> Result<(), String> {
    match trial {
        ServerTrial::Damages => scripted(inputs, include_str!("damages.py")),
        ServerTrial::Writers => scripted(inputs, include_str!("writers.py")),
        ServerTrial::Undo => undo::run(inputs),
        ServerTrial::Fleet => fleet::run(inputs),
    }
}

/// Applies the manifests to a host, tries it by a script, and prints the output.
fn scripted(inputs: &Inputs, script: &str) -> Result<(), String> {
    let host = EmptyHost::boot(inputs)?;
    host.converge(&inputs.texts)?;
    let tried = host.tried(script, &inputs.texts);
    host.down();
    print!("{}", tried?);
    Ok(())
}
