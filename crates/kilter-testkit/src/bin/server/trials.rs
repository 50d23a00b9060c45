//! Trials by hand of a host on which `examples/server` has been applied.

use crate::empty_host::{EmptyHost, Inputs};
use crate::undo;

/// A trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerTrial {
    /// 30 damages under `kilter run`, with the time of each repair.
    Damages,
    /// Applies while apt-get, editors of the same files and systemctl change the host.
    Writers,
    /// `kilter undo` of the first apply, compared with the empty host.
    Undo,
}

impl ServerTrial {
    pub(crate) fn named(name: &str) -> Result<ServerTrial, String> {
        match name {
            "damages" => Ok(ServerTrial::Damages),
            "writers" => Ok(ServerTrial::Writers),
            "undo" => Ok(ServerTrial::Undo),
            _ => Err(format!("there is no trial `{name}`; there are damages, writers and undo")),
        }
    }

    /// Returns the script that tries a host.
    fn script(self) -> Option<&'static str> {
        match self {
            ServerTrial::Damages => Some(include_str!("damages.py")),
            ServerTrial::Writers => Some(include_str!("writers.py")),
            ServerTrial::Undo => None,
        }
    }
}

/// Applies the manifests to a host, tries it, and prints the result.
pub(crate) fn run(inputs: &Inputs, trial: ServerTrial) -> Result<(), String> {
    let Some(script) = trial.script() else { return undo::run(inputs) };
    let host = EmptyHost::boot(inputs)?;
    host.converge(&inputs.texts)?;
    let tried = host.tried(script, &inputs.texts);
    host.down();
    print!("{}", tried?);
    Ok(())
}
