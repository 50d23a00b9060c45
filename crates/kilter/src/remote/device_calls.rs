//! Calls of a command on a device. kilter executes them in this process, because a device has no kilter.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use kilter_process::Stream;
use kilter_recording::RecordMode;
use kilter_remote::{Finished, LinkError, OpenError, RemoteCall, WorkingDirectory};

use super::hosts::HostAnswer;
use crate::cli::Global;
use crate::config::{self, ConfigRefusal};
use crate::devices::DeviceTarget;
use crate::exit::Exit;
use crate::{commands, streams};

/// A device as a target of a command.
pub(super) struct DeviceCalls {
    device: DeviceTarget,
    /// Address in the inventory, or the name.
    pub(super) address: String,
    /// Options of the command line. Providers and transports are on this machine.
    global: Global,
}

impl DeviceCalls {
    pub(super) fn new(device: DeviceTarget, address: String, global: &Global) -> DeviceCalls {
        DeviceCalls { device, address, global: global.clone() }
    }

    /// Returns the name of the device.
    pub(super) fn name(&self) -> &str {
        &self.device.name
    }

    /// Executes a command on the device. The connection stays open for the next command, unless this one fails.
    pub(super) fn call(
        &self,
        call: &RemoteCall,
        output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Finished, HostAnswer> {
        let lost = |error: io::Error| HostAnswer::Lost { error: error.into(), stderr: Vec::new() };
        let directory = directory(call).map_err(lost)?;
        let path = |name: &str| directory.as_ref().and_then(|directory| directory.path(name));
        let names = || call.files.iter().map(|(name, _)| name).chain(&call.returns);
        // The working directory of this process belongs to the command line.
        let word = |word: &String| match names().find(|name| *name == word).and_then(|name| path(name)) {
            Some(path) => path.into_os_string(),
            None => OsString::from(word),
        };
        let words: Vec<OsString> = ["kilter".into()].into_iter().chain(call.args.iter().map(word)).collect();
        let until = call.timeout.map(|timeout| Instant::now() + timeout);
        // A defect in the command of one device must not end those of the others. The panic has printed its own message.
        let run = || catch_unwind(AssertUnwindSafe(|| self.run(words))).unwrap_or(Exit::Failed);
        let (exit, streams) = streams::in_memory(call.stdin.clone(), until, run);
        output(Stream::Stderr, &streams.stderr);
        output(Stream::Stdout, &streams.stdout);
        if !matches!(exit, Exit::Done | Exit::Pending) {
            self.device.close();
        }
        if let Some(silence) = self.device.take_silence().filter(|silence| silence.is_transient) {
            return Err(HostAnswer::Unreachable(OpenError::Unreachable(silence.message.to_string())));
        }
        if let (Exit::Interrupted, Some(timeout), true) = (exit, call.timeout, until.is_some_and(is_over)) {
            return Err(HostAnswer::Lost { error: LinkError::timed_out(timeout), stderr: Vec::new() });
        }
        let returned = |name: &String| Some((name.clone(), std::fs::read(path(name)?).ok()?));
        Ok(Finished { code: exit.code(), files: call.returns.iter().filter_map(returned).collect() })
    }

    fn run(&self, words: Vec<OsString>) -> Exit {
        let mut cli = match config::command_line(words) {
            Ok(cli) => cli,
            Err(ConfigRefusal::Words(refused)) => return commands::refuse(&refused),
            Err(ConfigRefusal::Config(exit)) => return exit,
        };
        let Global { include, trust, verbose, .. } = &self.global;
        cli.global.include.clone_from(include);
        cli.global.trust.clone_from(trust);
        cli.global.verbose = *verbose;
        commands::run_on(Some(&self.device), &cli, &RecordMode::Live)
    }

    /// Closes the connection to the device.
    pub(super) fn close(&self) {
        self.device.close();
    }
}

fn is_over(until: Instant) -> bool {
    Instant::now() >= until
}

/// Returns the directory of a call with its files, if it has any.
fn directory(call: &RemoteCall) -> io::Result<Option<WorkingDirectory>> {
    if call.files.is_empty() && call.returns.is_empty() {
        return Ok(None);
    }
    let directory = WorkingDirectory::create()?;
    for (name, content) in &call.files {
        directory.create_file(name)?.write_all(content)?;
    }
    Ok(Some(directory))
}
