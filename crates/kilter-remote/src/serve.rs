//! A session on a host, as the host sees it: it executes the commands of the controller.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use kilter_process::{
    Cancel, Environment, Event, Group, Invocation, Output, Status, Stream, Termination, run_observed,
};
use serde_json::{Value as Json, json};

use crate::frame::{self, Frame, FrameKind, PROTOCOL};
use crate::scripts::{IncomingScripts, InstalledScripts};
use crate::session::random_word;

/// Maximum number of bytes of the files and the input of a command.
const MAX_CONTENT: usize = 256 << 20;

/// Maximum number of files of a command.
const MAX_FILES: usize = 1000;

/// Time that a command has for its step in flight after the connection is lost.
const GRACE: Duration = Duration::from_secs(3600);

/// Variables of the login that commands need.
const VARIABLES: [&str; 10] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SUDO_USER",
    "SSH_CONNECTION",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "KILTER_STATE_DIR",
    "KILTER_CONFIG",
];

/// Executes the commands of a controller with `program` until the end of the input. A command in flight ends after
/// its current step when the input ends, or when `cancelled` is set. Scripts that it receives stay for the next session
/// if `keeps_cache` is set.
///
/// # Errors
/// If the controller does not speak the protocol, or no longer reads.
pub fn serve(
    input: impl Read + Send + 'static,
    mut output: impl Write,
    program: &Path,
    keeps_cache: bool,
    cancelled: &'static AtomicBool,
) -> io::Result<()> {
    let (sender, frames) = channel();
    std::thread::Builder::new().name("controller".into()).spawn(move || receive(input, &sender, cancelled))?;
    frame::write_message(&mut output, &json!({ "protocol": PROTOCOL, "version": env!("CARGO_PKG_VERSION") }))?;
    let mut host =
        CommandServer { frames, program, keeps_cache, cancelled, directory: None, incoming: None, scripts: None };
    host.serve(&mut output)
}

/// Receives frames. Signs of life and requests to cancel have no place in the order of the others.
fn receive(mut input: impl Read, sender: &Sender<io::Result<Frame>>, cancelled: &AtomicBool) {
    loop {
        let frame = match frame::read(&mut input) {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(error) => {
                let _ = sender.send(Err(error));
                break;
            }
        };
        match frame.kind {
            FrameKind::Alive => {}
            FrameKind::Message if frame.message().is_ok_and(|message| message["cancel"] == true) => {
                cancelled.store(true, Ordering::Release);
            }
            _ if sender.send(Ok(frame)).is_err() => break,
            _ => {}
        }
    }
    // The controller is gone.
    cancelled.store(true, Ordering::Release);
}

struct CommandServer<'a> {
    frames: Receiver<io::Result<Frame>>,
    program: &'a Path,
    keeps_cache: bool,
    cancelled: &'static AtomicBool,
    directory: Option<WorkingDirectory>,
    incoming: Option<IncomingScripts>,
    scripts: Option<InstalledScripts>,
}

/// Receiver of the next content.
enum Incoming {
    File(File),
    Stdin,
}

impl CommandServer<'_> {
    fn serve(&mut self, output: &mut dyn Write) -> io::Result<()> {
        let mut stdin = Vec::new();
        let mut target = None;
        let (mut size, mut files) = (0, 0);
        while let Ok(frame) = self.frames.recv() {
            let frame = frame?;
            match frame.kind {
                FrameKind::Content => {
                    size += frame.payload.len();
                    if size > MAX_CONTENT {
                        return refuse(output, "the files of a command are larger than 256 MiB");
                    }
                    let written = match &mut target {
                        Some(Incoming::File(file)) => file.write_all(&frame.payload),
                        Some(Incoming::Stdin) => stdin.write_all(&frame.payload),
                        None => return Err(frame::damaged()),
                    };
                    if let Err(error) = written {
                        return refuse(output, &format!("cannot store the files of the command: {error}"));
                    }
                }
                FrameKind::Message => {
                    let message = frame.message()?;
                    if let Some(name) = message["file"].as_str() {
                        files += 1;
                        if files > MAX_FILES {
                            return refuse(output, "a command has more than 1000 files");
                        }
                        match self.create(name) {
                            Ok(file) => target = Some(Incoming::File(file)),
                            Err(error) => return refuse(output, &format!("cannot create {name}: {error}")),
                        }
                    } else if let Some(path) = message["script"].as_str() {
                        files += 1;
                        if files > MAX_FILES {
                            return refuse(output, "there are more than 1000 scripts");
                        }
                        match self.create_script(path, message["executable"] == true) {
                            Ok(file) => target = Some(Incoming::File(file)),
                            Err(error) => return refuse(output, &format!("cannot create {path}: {error}")),
                        }
                    } else if let Some(digest) = message["scripts"].as_str() {
                        let found = match message["directories"].as_array() {
                            Some(names) => self.find_scripts(digest, names),
                            None => self.end_scripts(digest).map(|()| true),
                        };
                        match found {
                            Ok(is_there) => frame::write_message(output, &json!({ "scripts": is_there }))?,
                            Err(error) => return refuse(output, &error.to_string()),
                        }
                        (target, size, files) = (None, 0, 0);
                    } else if message["stdin"] == true {
                        target = Some(Incoming::Stdin);
                    } else if let Some(args) = message["call"].as_array() {
                        let args = args.iter().filter_map(Json::as_str).map(OsString::from).collect();
                        let returns = message["returns"].as_array().into_iter().flatten().filter_map(Json::as_str);
                        self.call(args, std::mem::take(&mut stdin), &returns.collect::<Vec<_>>(), output)?;
                        (target, size, files) = (None, 0, 0);
                        self.directory = None;
                    } else {
                        return Err(frame::damaged());
                    }
                }
                _ => return Err(frame::damaged()),
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        args: Vec<OsString>,
        stdin: Vec<u8>,
        returns: &[&str],
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let mut environment = Environment::new().allow(VARIABLES);
        if let Some(scripts) = &self.scripts {
            environment = scripts.add_to(environment)?;
        }
        let mut invocation = Invocation::new(self.program).args(args).environment(&environment).stdin(stdin);
        // An interruption is for the command only. The programs that it has started finish the step in flight.
        invocation.group = Group::Inherited;
        invocation.grace = GRACE;
        if self.directory.is_none() && !returns.is_empty() {
            self.directory = Some(WorkingDirectory::create()?);
        }
        if let Some(directory) = &self.directory {
            invocation.cwd = Some(directory.0.clone());
        }
        let mut lost = None;
        let mut pass = |event: Event<'_>| {
            if let Event::Chunk { stream, bytes } = event {
                let kind = if stream == Stream::Stdout { FrameKind::Stdout } else { FrameKind::Stderr };
                // The command goes on without a reader, to the end of its current step.
                if let Err(error) = frame::write(output, kind, bytes)
                    && lost.is_none()
                {
                    lost = Some(error);
                    self.cancelled.store(true, Ordering::Release);
                }
            }
        };
        invocation.stdout = kilter_process::Capture::Last(1);
        invocation.stderr = kilter_process::Capture::Last(1);
        let finished = run_observed(&invocation, Some(Cancel::new(self.cancelled)), &mut pass);
        if let Some(error) = lost {
            return Err(error);
        }
        let end = match finished {
            Ok(finished) => end_message(&finished),
            Err(error) => return refuse(output, &error.to_string()),
        };
        for name in returns {
            self.send(name, output)?;
        }
        frame::write_message(output, &end)
    }

    /// Looks for scripts. Prepares to receive them and returns false if the host does not have them.
    fn find_scripts(&mut self, digest: &str, directories: &[Json]) -> io::Result<bool> {
        let directories: Vec<String> = directories.iter().filter_map(Json::as_str).map(str::to_owned).collect();
        self.scripts = InstalledScripts::find(digest, &directories)?;
        self.incoming = match self.scripts {
            Some(_) => None,
            None => Some(IncomingScripts::create(directories)?),
        };
        Ok(self.scripts.is_some())
    }

    fn create_script(&self, path: &str, is_executable: bool) -> io::Result<File> {
        self.incoming.as_ref().ok_or_else(frame::damaged)?.create_file(path, is_executable)
    }

    fn end_scripts(&mut self, digest: &str) -> io::Result<()> {
        let incoming = self.incoming.take().ok_or_else(frame::damaged)?;
        self.scripts = Some(incoming.end(digest, self.keeps_cache)?);
        Ok(())
    }

    /// Sends a file of the working directory, if it exists.
    fn send(&self, name: &str, output: &mut dyn Write) -> io::Result<()> {
        let Some(path) = self.directory.as_ref().and_then(|directory| directory.path(name)) else { return Ok(()) };
        let Ok(content) = fs::read(path) else { return Ok(()) };
        frame::write_message(output, &json!({ "file": name, "size": content.len() }))?;
        frame::write(output, FrameKind::Content, &content)
    }

    /// Creates a file in the working directory.
    fn create(&mut self, name: &str) -> io::Result<File> {
        let directory = match self.directory.take() {
            Some(directory) => directory,
            None => WorkingDirectory::create()?,
        };
        self.directory.insert(directory).create_file(name)
    }
}

/// Returns the message of the end of a command. A signal is named unless this session has cancelled the command.
fn end_message(finished: &Output) -> Json {
    match finished.status {
        Status::Code(code) => json!({ "exit": code }),
        Status::Signal(_) if finished.ending == Termination::Cancelled => json!({ "exit": 128 + 15 }),
        Status::Signal(signal) => json!({ "signal": signal }),
    }
}

/// Reports a failure to the controller and ends the session.
fn refuse(output: &mut dyn Write, why: &str) -> io::Result<()> {
    frame::write_message(output, &json!({ "error": why }))?;
    Err(io::Error::other(why.to_owned()))
}

/// Directory of a command, which only its user can enter. A drop removes it.
pub struct WorkingDirectory(PathBuf);

impl WorkingDirectory {
    /// Creates a directory.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn create() -> io::Result<WorkingDirectory> {
        let name = format!("kilter-{}", random_word()?);
        let is_root = rustix::process::geteuid().is_root();
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let candidates = if is_root { Some(PathBuf::from("/run")) } else { runtime };
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for parent in candidates.into_iter().chain(["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from)) {
            let path = parent.join(&name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(WorkingDirectory(path)),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Creates a file with a plain name, for its user only.
    ///
    /// # Errors
    /// If the name is not plain, or the file exists.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        let path = self.path(name).ok_or_else(|| io::Error::other("it is no plain name"))?;
        File::options().write(true).create_new(true).mode(0o600).open(path)
    }

    /// Returns the path of a file with a plain name.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let is_plain =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        is_plain.then(|| self.0.join(name))
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
