//! Start of a child.

use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use crate::channel::Writer;
use crate::confine::{Confined, Confinement, NotifyListener, SeccompSupervisor, TempDir, confine_this_thread};
use crate::environment::is_name;
use crate::finished::SpawnError;
use crate::invocation::{Group, Invocation};
use crate::memory_script::MemoryScript;
use crate::pre_exec::{ChildSetup, apply_pre_exec, is_channel_moved, no_entry};
use crate::streams::{ChildEnds, OwnEnds, streams};
use crate::trust::Distrust;
use crate::which::which;

/// Maximum number of attempts to start a child if other threads open and close descriptor 3 meanwhile.
const TRIES: u32 = 1000;

/// Number of bytes that the kernel reads of a script's first line.
const LONGEST_LINE: usize = 256;

/// Maximum number of retries for a program that is open for writing.
const MAX_BUSY_RETRIES: u32 = 20;

/// Delay between these retries.
const BRIEFLY: Duration = Duration::from_millis(10);

fn is_busy(source: &io::Error) -> bool {
    source.raw_os_error() == Some(Errno::TXTBSY.raw_os_error())
}

/// Stack size, in bytes, of a thread that only starts a child.
const STACK: usize = 256 * 1024;

/// Number of children between fork and exec.
static EXEC_RACE: AtomicU32 = AtomicU32::new(0);

/// Returns true if a child is between fork and exec. Until its exec it holds all descriptors of kilter, also those
/// meant for another child.
pub(crate) fn is_any_starting() -> bool {
    EXEC_RACE.load(Ordering::Acquire) > 0
}

/// Counts one start while it lives.
struct Starting;

impl Starting {
    fn begin() -> Starting {
        EXEC_RACE.fetch_add(1, Ordering::AcqRel);
        Starting
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        EXEC_RACE.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A child that has been started.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) ends: OwnEnds,
    pub(crate) confined: Confined,
    /// Answers the questions of the kernel before a confined child makes a change. Code that waits for the child
    /// must serve it.
    pub(crate) witness: SeccompSupervisor,
    /// Temporary directory of the child. It must exist until the child has ended.
    pub(crate) scratch: Option<TempDir>,
}

pub(crate) fn start(invocation: &Invocation) -> Result<Started, SpawnError> {
    let start = Start::new(invocation)?;
    let (ends, child_ends) = streams(invocation).map_err(|source| start.failed(source))?;
    if invocation.confinement == Confinement::None {
        let child = start.spawn(&child_ends, None)?;
        return Ok(Started {
            child,
            ends,
            confined: Confined::NotAsked,
            witness: SeccompSupervisor::absent(),
            scratch: None,
        });
    }
    let scratch = TempDir::new(invocation.identity.as_ref())
        .map_err(|source| SpawnError::Scratch { program: invocation.program.clone(), source })?;
    let (child, confined, listener) = start.spawn_confined(&child_ends, scratch.path())?;
    let witness = SeccompSupervisor::new(listener, scratch.path());
    Ok(Started { child: child?, ends, confined, witness, scratch: Some(scratch) })
}

/// Settings that are resolved before the start.
struct Start<'a> {
    invocation: &'a Invocation,
    program: PathBuf,
    script: Option<MemoryScript>,
}

type Spawned = Result<Child, SpawnError>;
type SpawnedConfined = (Spawned, Confined, Option<NotifyListener>);

impl Start<'_> {
    fn new(invocation: &Invocation) -> Result<Start<'_>, SpawnError> {
        if invocation.identity.as_ref().is_some_and(|identity| !identity.is_sound()) {
            return Err(SpawnError::NoSuchIdentity { program: invocation.program.clone() });
        }
        if let Some((name, _)) = invocation.env.iter().find(|(name, _)| !is_name(name)) {
            return Err(SpawnError::NoSuchVariable { program: invocation.program.clone(), name: name.clone() });
        }
        if let Some(text) = invocation.script {
            let program = invocation.program.clone();
            let script = MemoryScript::new(text).map_err(|source| SpawnError::Start { program, source })?;
            return Ok(Start { invocation, program: script.interpreter.clone(), script: Some(script) });
        }
        let path = invocation.search_path();
        let not_found = || SpawnError::NotFound { program: invocation.program.clone(), path: path.to_owned() };
        let program = which(&invocation.program, path).ok_or_else(not_found)?;
        // If the program cannot be examined, the start fails too, and reports the cause.
        if let Some(Err(source @ Distrust::Changeable { .. })) =
            invocation.trust.as_ref().map(|policy| policy.open(&program))
        {
            return Err(SpawnError::Untrusted { program: invocation.program.clone(), source: Box::new(source) });
        }
        Ok(Start { invocation, program, script: None })
    }

    /// Starts the child from a thread that confines itself first and then ends. No thread answers its seccomp
    /// notifications, so it must not open files for writing.
    fn spawn_confined(&self, ends: &ChildEnds, scratch: &Path) -> Result<SpawnedConfined, SpawnError> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("confined start".into()).stack_size(STACK);
            let thread = thread.spawn_scoped(scope, || {
                let (confined, listener) = confine_this_thread(self.invocation.confinement, Some(scratch));
                (self.spawn(ends, Some(scratch)), confined, listener)
            });
            let started = thread.map_err(|source| self.failed(source))?.join();
            started.map_err(|_| self.failed(io::Error::other("the thread that starts it failed")))
        })
    }

    /// Starts the child, with some retries on `ETXTBSY`. A writer may have the program open, or another child of
    /// kilter between fork and exec.
    fn spawn(&self, ends: &ChildEnds, scratch: Option<&Path>) -> Spawned {
        for _ in 0..MAX_BUSY_RETRIES {
            match self.spawn_once(ends, scratch) {
                Err(SpawnError::Start { source, .. }) if is_busy(&source) => std::thread::sleep(BRIEFLY),
                spawned => return spawned,
            }
        }
        self.spawn_once(ends, scratch)
    }

    fn spawn_once(&self, ends: &ChildEnds, scratch: Option<&Path>) -> Spawned {
        let _starting = Starting::begin();
        let Some(channel) = &ends.channel else {
            return self.command(ends, scratch, None)?.spawn().map_err(|source| self.not_started(source));
        };
        for _ in 0..TRIES {
            if let Some(writer) = Writer::new(channel).map_err(|source| self.failed(source))? {
                match self.command(ends, scratch, Some(writer))?.spawn() {
                    Err(source) if is_channel_moved(&source) => {}
                    spawned => return spawned.map_err(|source| self.not_started(source)),
                }
            }
            std::thread::yield_now();
        }
        Err(self.failed(Errno::BUSY.into()))
    }

    fn command(
        &self,
        ends: &ChildEnds,
        scratch: Option<&Path>,
        channel: Option<Writer>,
    ) -> Result<Command, SpawnError> {
        let invocation = self.invocation;
        let mut command = Command::new(&self.program);
        command.args(self.script.iter().flat_map(MemoryScript::args)).args(&invocation.args);
        command.env_clear().envs(invocation.env.iter().map(|(name, value)| (name, value)));
        if let Some(scratch) = scratch {
            command.env("TMPDIR", scratch);
        }
        let [stdin, stdout, stderr] = ends.stdio().map_err(|source| self.failed(source))?;
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let (umask, max_file_bytes) = (invocation.umask, invocation.max_file_bytes);
        let mut before = ChildSetup { umask, max_file_bytes, channel, ..ChildSetup::default() };
        before.identity = invocation.identity.as_ref();
        before.inherited = self.script.as_ref().map(|script| Arc::clone(&script.fd));
        match (&invocation.cwd, &invocation.identity) {
            (Some(cwd), Some(_)) => {
                let entered = CString::new(cwd.as_os_str().as_bytes());
                before.cwd = Some(entered.map_err(|error| SpawnError::Cwd { cwd: cwd.clone(), source: error.into() })?);
            }
            (Some(cwd), None) => {
                command.current_dir(cwd);
            }
            (None, _) => {}
        }
        // A group leader cannot create a session. The new session comes with a new group.
        if invocation.group == Group::Own && invocation.identity.is_none() {
            command.process_group(0);
        }
        apply_pre_exec(&mut command, before);
        Ok(command)
    }

    /// Translates an error of the start. The system uses the same errno for a missing program and a missing
    /// directory. Users need to know which of both is missing.
    fn not_started(&self, source: io::Error) -> SpawnError {
        if let Some(cwd) = &self.invocation.cwd {
            if let Some(source) = no_entry(&source) {
                return SpawnError::Cwd { cwd: cwd.clone(), source };
            }
            let problem = match std::fs::metadata(cwd) {
                Ok(found) if found.is_dir() => None,
                Ok(_) => Some(Errno::NOTDIR.into()),
                Err(error) => Some(error),
            };
            if let Some(source) = problem {
                return SpawnError::Cwd { cwd: cwd.clone(), source };
            }
        }
        match interpreter_trouble(&self.program, &source) {
            Some(why) => self.failed(io::Error::new(source.kind(), why)),
            None => self.failed(source),
        }
    }

    fn failed(&self, source: io::Error) -> SpawnError {
        SpawnError::Start { program: OsString::from(&self.program), source }
    }
}

/// Explains why an existing script does not start. The system reports it as missing.
fn interpreter_trouble(program: &Path, source: &io::Error) -> Option<String> {
    let is_missing = source.kind() == io::ErrorKind::NotFound;
    if !is_missing && source.raw_os_error() != Some(Errno::NOEXEC.raw_os_error()) {
        return None;
    }
    let mut first = Vec::with_capacity(LONGEST_LINE);
    std::fs::File::open(program).ok()?.take(LONGEST_LINE as u64).read_to_end(&mut first).ok()?;
    let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(named) = line.strip_prefix(b"#!") else {
        return (!is_missing)
            .then(|| "it is neither a program nor a script with a first line such as #!/bin/sh".to_owned());
    };
    let named = String::from_utf8_lossy(named);
    let interpreter = named.trim_start().split([' ', '\t', '\r']).next().unwrap_or_default();
    let crlf = if named.ends_with('\r') { " followed by a carriage return" } else { "" };
    is_missing.then(|| format!("its first line names the interpreter `{interpreter}`{crlf}, which does not exist"))
}
