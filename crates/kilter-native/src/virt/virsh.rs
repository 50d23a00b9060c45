//! Calls of virsh.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::{Capture, Environment, Event, Invocation, Output, Stream};
use kilter_provider::{Context, ProviderError, WatchSink};

use crate::accounts::System;
use crate::tool::{self, RecordedPart};

/// Maximum size of an output in bytes.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Maximum duration of a call.
const DEADLINE: Duration = Duration::from_secs(120);

/// Line between two lists.
const SEPARATOR: &str = "//";

/// Commands of one call that list machines: all, the active, the paused ones, and those that start with the host.
/// `echo` writes no line break of its own.
const LISTS: &str = "list --all --name; echo '//\n'; list --name; echo '//\n'; \
                     list --name --state-paused; echo '//\n'; list --all --name --autostart";

/// A connection to a hypervisor. Each call is a process of its own.
pub(super) struct Virsh<'v> {
    pub(super) system: &'v System,
    /// Hypervisor; none for the default of virsh.
    pub(super) uri: Option<&'v str>,
}

/// Names of the machines of a hypervisor.
#[derive(Default)]
pub(super) struct MachineLists {
    pub(super) all: Vec<EcoString>,
    active: Vec<EcoString>,
    paused: Vec<EcoString>,
    autostart: Vec<EcoString>,
}

impl MachineLists {
    fn parse(output: &str) -> MachineLists {
        let mut lists = [const { Vec::new() }; 4];
        let mut at = 0;
        for line in output.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            match line {
                SEPARATOR => at += 1,
                name if at < lists.len() => lists[at].push(name.into()),
                _ => {}
            }
        }
        let [all, active, paused, autostart] = lists;
        MachineLists { all, active, paused, autostart }
    }

    /// Returns the value of `ensure` of a machine that exists.
    pub(super) fn activity(&self, name: &EcoString) -> &'static str {
        match (self.active.contains(name), self.paused.contains(name)) {
            (_, true) => "paused",
            (true, false) => "running",
            (false, false) => "stopped",
        }
    }

    pub(super) fn starts_with_host(&self, name: &EcoString) -> bool {
        self.autostart.contains(name)
    }
}

impl Virsh<'_> {
    fn invocation(&self, words: &[&str]) -> Invocation {
        let variables = ["XDG_RUNTIME_DIR", "LIBVIRT_DEFAULT_URI"];
        let environment = Environment::new().user(rustix::process::geteuid().as_raw()).allow(variables);
        let connect = self.uri.map(|uri| ["--connect", uri]);
        let words = connect.iter().flatten().chain(words).copied();
        // The type reads English messages.
        Invocation::new("virsh").args(["--quiet"]).args(words).environment(&environment).env("LC_ALL", "C")
    }

    fn finish(&self, cx: &Context<'_>, invocation: Invocation, part: RecordedPart) -> Result<Output, EcoString> {
        let invocation = invocation.captured(MAX_OUTPUT_BYTES).deadline(DEADLINE);
        tool::start(self.system.runner(), cx, &invocation, part).map_err(|error| error.with_sources().into())
    }

    fn output(&self, finished: &Output) -> Result<String, EcoString> {
        match finished.is_success() {
            true => Ok(finished.stdout.text().to_string()),
            false => {
                // A call with several commands repeats the error of the connection.
                let stderr = finished.stderr.text();
                let mut lines: Vec<&str> = Vec::new();
                for line in stderr.lines() {
                    if !lines.contains(&line) {
                        lines.push(line);
                    }
                }
                Err(tool::failure("virsh", finished, DEADLINE, tool::ending_of(&lines.join("\n"))))
            }
        }
    }

    pub(super) fn lists(&self, cx: &Context<'_>) -> Result<MachineLists, EcoString> {
        let finished = self.finish(cx, self.invocation(&[LISTS]), RecordedPart::Errors)?;
        // The exit code is that of the last command only.
        let stderr = finished.stderr.text();
        if finished.is_success() && stderr.lines().any(|line| line.starts_with("error:")) {
            return Err(eco_format!("virsh failed: {}", tool::ending_of(&stderr).unwrap_or_default()));
        }
        self.output(&finished).map(|output| MachineLists::parse(&output))
    }

    /// Returns the definition of a machine for its next start, with its passwords.
    pub(super) fn definition(&self, cx: &Context<'_>, name: &str) -> Result<String, EcoString> {
        let words = ["dumpxml", "--inactive", "--security-info", "--domain", name];
        let finished = self.finish(cx, self.invocation(&words), RecordedPart::Errors)?;
        self.output(&finished)
    }

    /// Returns the URI of the hypervisor.
    pub(super) fn hypervisor(&self, cx: &Context<'_>) -> Result<EcoString, EcoString> {
        if let Some(uri) = self.uri {
            return Ok(uri.into());
        }
        let finished = self.finish(cx, self.invocation(&["uri"]), RecordedPart::Errors)?;
        self.output(&finished).map(|output| output.trim().into())
    }

    /// Defines a machine.
    pub(super) fn define(&self, cx: &Context<'_>, xml: Vec<u8>) -> Result<(), EcoString> {
        let invocation = self.invocation(&["define", "/dev/stdin"]).stdin(xml);
        let finished = self.finish(cx, invocation, RecordedPart::Outputs)?;
        self.output(&finished).map(drop)
    }

    /// Runs a command for a machine.
    pub(super) fn command(&self, cx: &Context<'_>, words: &[&str], name: &str) -> Result<(), EcoString> {
        let words: Vec<&str> = words.iter().copied().chain(["--domain", name]).collect();
        let finished = self.finish(cx, self.invocation(&words), RecordedPart::Outputs)?;
        self.output(&finished).map(drop)
    }

    /// Reports the events of machines until the watch is interrupted.
    pub(super) fn follow(&self, cx: &Context<'_>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        let mut invocation = self.invocation(&["event", "--loop", "--all"]);
        invocation.stdout = Capture::First(0);
        invocation.stderr = Capture::Last(4096);
        tell.watching();
        let mut hear = |event: Event<'_>| {
            if matches!(event, Event::Chunk { stream: Stream::Stdout, .. }) {
                tell.all_changed();
            }
        };
        let finished = kilter_process::run_observed(&invocation, Some(tool::cancel(cx)), &mut hear);
        if cx.interrupt().is_raised() {
            return Ok(());
        }
        let finished = finished.map_err(|error| ProviderError::new(error.with_sources()))?;
        let why = tool::ending_of(&finished.stderr.text()).unwrap_or_else(|| "it wrote no reason".to_owned());
        Err(ProviderError::new(eco_format!("`virsh event` has ended: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_told_apart() {
        let lists = MachineLists::parse("a\nb\nc\n//\na\nb\n//\nb\n\n//\nc\n");
        assert_eq!(lists.all, ["a", "b", "c"]);
        let activities = lists.all.iter().map(|name| lists.activity(name)).collect::<Vec<_>>();
        assert_eq!(activities, ["running", "paused", "stopped"]);
        assert!(lists.starts_with_host(&"c".into()) && !lists.starts_with_host(&"a".into()));
    }
}
