//! Sessions on several hosts at the same time.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};

use kilter_model::{Hash, Value, from_json};
use kilter_process::Stream;
use kilter_process::trust::TrustPolicy;
use kilter_remote::{
    Destination, Finished, LinkError, OpenError, Programs, RemoteCall, RemoteSession, ScriptTree, Settings, Via,
};
use serde_json::Value as Json;

use super::device_calls::DeviceCalls;
use crate::cli::RemoteArgs;
use crate::exit::Exit;
use crate::signals;
use crate::target_results::on_each;

/// Maximum number of connections that begin at the same time over one jump host. Servers refuse more.
const MAX_OPENING: usize = 8;

/// Maximum number of bytes of the output of a host that are kept.
const MAX_OUTPUT: usize = 64 << 20;

/// Result of a command on a host.
#[derive(Debug)]
pub(crate) enum HostAnswer {
    /// The command ended.
    Finished { finished: Finished, stdout: Vec<u8>, stderr: Vec<u8> },
    /// There is no session on the host.
    Unreachable(OpenError),
    /// The connection was lost during the command.
    Lost { error: LinkError, stderr: Vec<u8> },
}

/// A target of a command.
pub(super) enum HostTarget {
    /// A host that executes the command in a session.
    Host(HostSession),
    /// A device, for which kilter executes the command here.
    Device(DeviceCalls),
}

/// A host, and the session on it.
pub(super) struct HostSession {
    destination: Destination,
    session: Mutex<Option<RemoteSession>>,
}

impl HostTarget {
    /// Returns a host without a session.
    pub(super) fn host(destination: Destination) -> HostTarget {
        HostTarget::Host(HostSession { destination, session: Mutex::default() })
    }

    fn name(&self) -> &str {
        match self {
            HostTarget::Host(host) => &host.destination.name,
            HostTarget::Device(device) => device.name(),
        }
    }
}

/// Targets of a command, and the sessions on them.
pub(crate) struct Hosts {
    targets: Vec<HostTarget>,
    /// Programs for the hosts. None if all targets are devices.
    programs: Option<Programs>,
    /// Scripts of providers for the hosts.
    scripts: Option<ScriptTree>,
    args: RemoteArgs,
    opening: Opening,
}

impl Hosts {
    /// Creates the targets, without sessions.
    ///
    /// # Errors
    /// If this program cannot be read, which hosts receive.
    pub(super) fn new(
        targets: Vec<HostTarget>,
        args: &RemoteArgs,
        trust: TrustPolicy,
        scripts: Option<ScriptTree>,
    ) -> std::io::Result<Hosts> {
        let has_hosts = targets.iter().any(|target| matches!(target, HostTarget::Host(_)));
        let programs = has_hosts.then(|| super::programs(args, trust)).transpose()?;
        Ok(Hosts { targets, programs, scripts, args: args.clone(), opening: Opening::default() })
    }

    /// Returns the number of hosts.
    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Returns the name of a host.
    pub(super) fn name(&self, at: usize) -> &str {
        self.targets[at].name()
    }

    /// Returns the address of a host.
    pub(super) fn address(&self, at: usize) -> &str {
        match &self.targets[at] {
            HostTarget::Host(host) => match &host.destination.via {
                Via::Ssh(ssh) => &ssh.host,
                Via::Local => "localhost",
                _ => self.name(at),
            },
            HostTarget::Device(device) => &device.address,
        }
    }

    /// Returns true if a target is a device.
    pub(super) fn is_device(&self, at: usize) -> bool {
        matches!(self.targets[at], HostTarget::Device(_))
    }

    /// Returns the positions of all hosts.
    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.len()).collect()
    }

    /// Calls `work` for these hosts, for several at the same time, and returns the results in the same order.
    pub(super) fn each<T: Send>(&self, hosts: &[usize], work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        on_each(hosts, self.args.parallel, |host| work(*host))
    }

    /// Executes a command on a host, in its session.
    pub(super) fn call(&self, host: usize, call: &RemoteCall) -> HostAnswer {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let answer = self.call_streaming(host, call, &mut |stream, bytes| {
            keep(if stream == Stream::Stdout { &mut stdout } else { &mut stderr }, bytes);
        });
        match answer {
            Ok(finished) => HostAnswer::Finished { finished, stdout, stderr },
            Err(HostAnswer::Lost { error, .. }) => HostAnswer::Lost { error, stderr },
            Err(other) => other,
        }
    }

    /// Executes a command on a host, in its session. `output` gets the output as it arrives.
    ///
    /// # Errors
    /// The answer without a result.
    pub(super) fn call_streaming(
        &self,
        host: usize,
        call: &RemoteCall,
        output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Finished, HostAnswer> {
        self.call_until(host, call, &signals::is_raised, output)
    }

    /// Executes a command on a host as [`Hosts::call_streaming`] does, until `is_cancelled` returns true. A command on a
    /// device ends only by a signal.
    ///
    /// # Errors
    /// The answer without a result.
    pub(super) fn call_until(
        &self,
        host: usize,
        call: &RemoteCall,
        is_cancelled: &dyn Fn() -> bool,
        output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Finished, HostAnswer> {
        let host = match &self.targets[host] {
            HostTarget::Host(host) => host,
            HostTarget::Device(device) => return device.call(call, output),
        };
        let mut session = host.session.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = match session.take() {
            Some(connection) => connection,
            None => self.open(&host.destination, false).map_err(HostAnswer::Unreachable)?,
        };
        let finished = connection.call(call, is_cancelled, output);
        match finished {
            Ok(finished) => {
                // A cancelled session takes no further command.
                match is_cancelled() {
                    true => connection.close(),
                    false => *session = Some(connection),
                }
                Ok(finished)
            }
            Err(error) => Err(HostAnswer::Lost { error, stderr: Vec::new() }),
        }
    }

    /// Returns the facts of a host.
    ///
    /// # Errors
    /// The answer without facts.
    pub(super) fn facts(&self, host: usize) -> Result<Hash, HostAnswer> {
        let call =
            RemoteCall { args: ["facts", "--format", "json"].map(str::to_owned).to_vec(), ..RemoteCall::default() };
        let answer = self.call(host, &call);
        let HostAnswer::Finished { finished, stdout, .. } = &answer else { return Err(answer) };
        let facts = serde_json::from_slice::<Json>(stdout).ok().filter(|_| finished.code == 0);
        facts.as_ref().map(from_json).as_ref().and_then(Value::as_hash).cloned().ok_or(answer)
    }

    /// Keeps the hosts with `true`, in their order.
    pub(super) fn retain(&mut self, kept: &[bool]) {
        let mut keep = kept.iter();
        self.targets.retain(|_| keep.next().copied().unwrap_or_default());
    }

    /// Opens another session on a host, over a new connection. None for a device.
    pub(super) fn open_fresh(&self, host: usize) -> Option<Result<RemoteSession, OpenError>> {
        match &self.targets[host] {
            HostTarget::Host(host) => Some(self.open(&host.destination, true)),
            HostTarget::Device(_) => None,
        }
    }

    /// Closes the connection to a device until the next command. Each open connection needs a transport, which may be a
    /// process on this machine. The sessions of hosts stay open.
    pub(super) fn rest(&self, host: usize) {
        if let HostTarget::Device(device) = &self.targets[host] {
            device.close();
        }
    }

    fn open(&self, destination: &Destination, is_fresh: bool) -> Result<RemoteSession, OpenError> {
        let _permit = self.opening.permit(destination);
        let settings = Settings {
            programs: self.programs.as_ref().ok_or_else(|| OpenError::Program("it was not read".to_owned()))?,
            scripts: self.scripts.as_ref(),
            timeout: self.args.connect_timeout,
            keeps_cache: !self.args.no_cache,
            is_fresh,
            is_cancelled: &signals::is_raised,
        };
        RemoteSession::open(destination, &settings)
    }

    /// Ends all sessions.
    pub(super) fn close(self) {
        self.each(&self.all(), |host| match &self.targets[host] {
            HostTarget::Host(host) => {
                let session = host.session.lock().unwrap_or_else(PoisonError::into_inner).take();
                session.into_iter().for_each(RemoteSession::close);
            }
            HostTarget::Device(device) => device.close(),
        });
    }
}

/// Adds output of a host, up to [`MAX_OUTPUT`]. The rest is dropped.
pub(super) fn keep(output: &mut Vec<u8>, bytes: &[u8]) {
    let room = MAX_OUTPUT.saturating_sub(output.len());
    output.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

/// Limit of the connections that begin at the same time, for each jump host.
#[derive(Default)]
struct Opening {
    counts: Mutex<HashMap<String, usize>>,
    ended: Condvar,
}

/// Permission to begin a connection, until it is dropped.
struct Permit<'a> {
    opening: &'a Opening,
    jump: Option<String>,
}

impl Opening {
    fn permit(&self, destination: &Destination) -> Permit<'_> {
        let jump = match &destination.via {
            Via::Ssh(ssh) => ssh.jump.clone(),
            _ => None,
        };
        if let Some(jump) = &jump {
            let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let is_full = |counts: &mut HashMap<String, usize>| counts.get(jump).is_some_and(|n| *n >= MAX_OPENING);
            let mut counts = self.ended.wait_while(counts, is_full).unwrap_or_else(PoisonError::into_inner);
            *counts.entry(jump.clone()).or_default() += 1;
        }
        Permit { opening: self, jump }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(jump) = &self.jump {
            let mut counts = self.opening.counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.entry(jump.clone()).and_modify(|count| *count = count.saturating_sub(1));
            self.opening.ended.notify_all();
        }
    }
}

impl HostAnswer {
    /// Returns the reason why there is no result.
    pub(super) fn reason(&self) -> String {
        match self {
            HostAnswer::Finished { finished, .. } => format!("the command ended with {}", finished.code),
            HostAnswer::Unreachable(error) => error.to_string(),
            HostAnswer::Lost { error, .. } => error.to_string(),
        }
    }

    /// Returns the exit code that this answer stands for. A host without an answer is a failure.
    pub(super) fn code(&self) -> u8 {
        match self {
            HostAnswer::Finished { finished, .. } => finished.code,
            _ => Exit::Failed.code(),
        }
    }
}
