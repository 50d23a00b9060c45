//! Trials by hand of a host on which `examples/server` has been applied.

use crate::empty_host::{EmptyHost, Inputs};

/// A trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerTrial {
    /// 30 damages under `kilter run`, with the time of each repair.
    Damages,
    /// Applies while apt-get, editors of the same files and systemctl change the host.
    Writers,
}

impl ServerTrial {
    pub(crate) fn named(name: &str) -> Result<ServerTrial, String> {
        match name {
            "damages" => Ok(ServerTrial::Damages),
            "writers" => Ok(ServerTrial::Writers),
            _ => Err(format!("there is no trial `{name}`; there are damages and writers")),
        }
    }

    fn script(self) -> &'static str {
        match self {
            ServerTrial::Damages => include_str!("damages.py"),
            ServerTrial::Writers => include_str!("writers.py"),
        }
    }
}

/// Applies the manifests to a host, tries it, and prints the result.
pub(crate) fn run(inputs: &Inputs, trial: ServerTrial) -> Result<(), String> {
    let host = EmptyHost::boot(inputs)?;
    host.converge(&inputs.texts)?;
    let tried = host.tried(trial.script(), &inputs.texts);
    host.down();
    print!("{}", tried?);
    Ok(())
}
