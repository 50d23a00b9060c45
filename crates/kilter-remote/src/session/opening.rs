//! Opening of a session: the login, the script, and the program.

use std::io;
use std::time::{Duration, Instant};

use kilter_process::{Capture, Coprocess, Environment, Invocation};
use serde_json::json;

use super::{LinkError, RemoteSession, TICK, random, random_word};
use crate::binary::{Binary, Programs};
use crate::destination::{Become, Destination, Via};
use crate::frame::{self, PROTOCOL};
use crate::scripts::ScriptTree;
use crate::stub::{self, Cached, HostReport};

/// Maximum number of bytes before the first line of the script: banners and messages of the day.
const MAX_BANNER: usize = 1 << 20;

/// Maximum time for the transfer of the program.
const TRANSFER: Duration = Duration::from_secs(600);

/// Variables of the user that `ssh` needs, and kilter on this machine.
const VARIABLES: [&str; 15] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SSH_AUTH_SOCK",
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "KRB5CCNAME",
    "SSH_SK_PROVIDER",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "KILTER_CACHE_DIR",
    "KILTER_STATE_DIR",
];

/// Reason why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The host does not answer, or refuses the login.
    #[error("{0}")]
    Unreachable(String),
    /// The program that changes the user refuses.
    #[error("{method} on the host: {why}")]
    Become {
        /// The program.
        method: &'static str,
        /// Its reason.
        why: String,
    },
    /// The host is no machine of Linux for which this program was built.
    #[error("the host runs {system} on {machine}: {why}")]
    Architecture {
        /// Name of the system.
        system: String,
        /// Kind of the machine.
        machine: String,
        /// Reason why there is no program, with the remedy.
        why: String,
    },
    /// The program cannot be stored or run on the host.
    #[error("cannot run kilter on the host: {0}")]
    Program(String),
    /// The scripts of providers cannot be stored on the host.
    #[error("cannot store the scripts on the host: {0}")]
    Scripts(String),
    /// The wait was interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl OpenError {
    /// Returns true if another attempt may succeed at once: the server had too many connections at that moment.
    fn is_transient(&self) -> bool {
        let Self::Unreachable(why) = self else { return false };
        let of_ssh = ["kex_exchange_identification", "Connection reset by", "Connection closed by", "Broken pipe"];
        // A machine of systemd has no bus while it boots. The words between differ by version.
        let has_no_bus = why.contains("Failed to connect to ")
            && why.contains(" bus")
            && why.ends_with(": No such file or directory");
        has_no_bus || of_ssh.iter().any(|text| why.contains(text))
    }
}

/// Settings of a session.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// The programs for hosts.
    pub programs: &'a Programs,
    /// Scripts of providers for all commands of the session.
    pub scripts: Option<&'a ScriptTree>,
    /// Maximum time until the host answers.
    pub timeout: Duration,
    /// True if the program may stay on the host for the next session.
    pub keeps_cache: bool,
    /// True for a connection of its own, even if `ssh` shares one.
    pub is_fresh: bool,
    /// Returns true if the opening is to end, without a session.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

impl RemoteSession {
    /// Opens a session. Repeats the attempt if the server refuses the connection because it has too many.
    ///
    /// # Errors
    /// If the host does not answer or cannot run the program.
    pub fn open(destination: &Destination, settings: &Settings<'_>) -> Result<RemoteSession, OpenError> {
        let until = Instant::now() + settings.timeout;
        let mut pause = Duration::from_millis(200);
        loop {
            match RemoteSession::attempt(destination, settings, until) {
                Err(error) if error.is_transient() && Instant::now() + pause < until => {
                    tracing::info!(host = destination.name, %error, "another attempt");
                    // Hosts that were refused together come back at different times.
                    std::thread::sleep(pause.mul_f64(0.5 + random_share()));
                    pause = (pause * 2).min(Duration::from_secs(5));
                }
                result => return result,
            }
        }
    }

    fn attempt(destination: &Destination, settings: &Settings<'_>, until: Instant) -> Result<RemoteSession, OpenError> {
        let unreachable = |error: io::Error| OpenError::Unreachable(error.to_string());
        // No frame starts as a marker does.
        let marker = format!("k{}", random_word().map_err(unreachable)?);
        let prompt = format!("{marker}:");
        let script = stub::script(&marker, settings.programs.own().digest());
        let (program, args) = destination.command(&script, &prompt, settings.is_fresh);
        let environment = Environment::new().allow(VARIABLES);
        let mut invocation = Invocation::new(program).args(args).environment(&environment);
        // Without a capture, there are no events of the error output.
        invocation.stderr = Capture::Last(1);
        let child = Coprocess::start(invocation).map_err(unreachable)?;
        let host = destination.name.clone();
        let mut connection = RemoteSession { host, child, received: Vec::new(), complaint: Vec::new(), ended: None };
        let found = connection.first_line(destination, &marker, settings, until)?;
        connection.bootstrap(destination, &found, &marker, settings, until)?;
        if let Some(scripts) = settings.scripts {
            connection.bring(scripts, settings)?;
        }
        Ok(connection)
    }

    /// Sends scripts, unless the host has them.
    fn bring(&mut self, scripts: &ScriptTree, settings: &Settings<'_>) -> Result<(), OpenError> {
        let until = Instant::now() + TRANSFER;
        let lost = |error: LinkError| OpenError::Scripts(error.to_string());
        let search = json!({ "scripts": scripts.digest, "directories": scripts.directories });
        self.message(&search, settings.is_cancelled).map_err(lost)?;
        if self.has_scripts(settings, until)? {
            return Ok(());
        }
        for file in &scripts.files {
            let message = json!({ "script": file.path, "executable": file.is_executable, "size": file.content.len() });
            self.announce(&message, &file.content, settings.is_cancelled).map_err(lost)?;
        }
        self.message(&json!({ "scripts": scripts.digest }), settings.is_cancelled).map_err(lost)?;
        self.has_scripts(settings, until).map(drop)
    }

    /// Waits until the host says if it has the scripts.
    fn has_scripts(&mut self, settings: &Settings<'_>, until: Instant) -> Result<bool, OpenError> {
        let refuse = |error: io::Error| OpenError::Scripts(error.to_string());
        loop {
            if let Some(frame) = frame::take(&mut self.received).map_err(refuse)? {
                let message = frame.message().map_err(refuse)?;
                let why = message["error"].as_str().unwrap_or("an unknown message");
                return message["scripts"].as_bool().ok_or_else(|| OpenError::Scripts(why.to_owned()));
            }
            if self.ended.is_some() {
                return Err(OpenError::Scripts(self.end_reason_or("the host closed the connection")));
            }
            self.receive_until(until, settings)?;
        }
    }

    /// Waits for the first line of the script, and answers the request for a password before.
    fn first_line(
        &mut self,
        destination: &Destination,
        marker: &str,
        settings: &Settings<'_>,
        until: Instant,
    ) -> Result<HostReport, OpenError> {
        let mut asked = 0;
        loop {
            if let Some(line) = self.marked_line(marker) {
                return HostReport::parse(&line)
                    .ok_or_else(|| OpenError::Program(format!("its shell answered `{line}`")));
            }
            if let Some(by) = &destination.become_user
                && self.is_prompt(by, marker)
            {
                asked += 1;
                self.answer(by, asked, settings, until)?;
            }
            if self.received.len() > MAX_BANNER {
                return Err(OpenError::Program("its login prints more than 1 MiB".to_owned()));
            }
            if self.ended.is_some() {
                return Err(self.refusal(destination));
            }
            self.receive_until(until, settings)?;
        }
    }

    /// Returns true if the program that changes the user asks for a password, and removes the request.
    fn is_prompt(&mut self, by: &Become, marker: &str) -> bool {
        let text = String::from_utf8_lossy(&self.complaint).into_owned();
        let is_prompt = match by.method {
            crate::BecomeMethod::Sudo => text.contains(&format!("{marker}:")),
            crate::BecomeMethod::Su => text.ends_with(": ") || text.ends_with("Password:"),
            _ => false,
        };
        if is_prompt {
            self.complaint = text.replace(&format!("{marker}:"), "").into_bytes();
            if by.method == crate::BecomeMethod::Su {
                self.complaint.clear();
            }
        }
        is_prompt
    }

    fn answer(&mut self, by: &Become, asked: u32, settings: &Settings<'_>, until: Instant) -> Result<(), OpenError> {
        let refuse = |why: &str| OpenError::Become { method: by.method.name(), why: why.to_owned() };
        let Some(password) = &by.password else {
            return Err(refuse("it asks for a password, and none is given"));
        };
        if asked > 1 {
            return Err(refuse("the password is wrong"));
        }
        let line = format!("{}\n", password.text());
        self.send(line.as_bytes(), Some(until), settings.is_cancelled).map_err(|error| refuse(&error.to_string()))
    }

    /// Brings the program to the host if it is missing, and waits for its greeting.
    fn bootstrap(
        &mut self,
        destination: &Destination,
        found: &HostReport,
        marker: &str,
        settings: &Settings<'_>,
        until: Instant,
    ) -> Result<(), OpenError> {
        self.complaint.clear();
        let own = settings.programs.own();
        if found.system == "Linux" && found.machine == own.machine() {
            return self.start(own, found, marker, settings, until);
        }
        let refuse =
            |why| OpenError::Architecture { system: found.system.clone(), machine: found.machine.clone(), why };
        if found.system != "Linux" {
            return Err(refuse("kilter is for Linux".to_owned()));
        }
        let other = settings.programs.of(&found.machine).map_err(refuse)?;
        let _ = self.send(stub::choose(other.digest()).as_bytes(), Some(until), settings.is_cancelled);
        // The script becomes a cached program, which greets, or prints its first line again.
        let mut found = HostReport { cached: Cached::Yes, ..found.clone() };
        while self.received.is_empty() && self.ended.is_none() {
            self.receive_until(until, settings)?;
        }
        // No frame starts as a marker does.
        if self.received.first() == marker.as_bytes().first() {
            found = self.first_line(destination, marker, settings, until)?;
        }
        self.start(&other, &found, marker, settings, until)
    }

    /// Sends a program that is missing, and waits for its greeting.
    fn start(
        &mut self,
        binary: &Binary,
        found: &HostReport,
        marker: &str,
        settings: &Settings<'_>,
        until: Instant,
    ) -> Result<(), OpenError> {
        let refuse = |error: io::Error| OpenError::Program(error.to_string());
        // The host has answered. The transfer over a slow link takes longer.
        let until = if found.cached == Cached::Yes { until } else { until.max(Instant::now() + TRANSFER) };
        let (line, content) = match found.cached {
            Cached::Yes => (String::new(), Vec::new()),
            Cached::No => {
                let content = binary.compressed().map_err(refuse)?;
                (stub::receive(content.len(), settings.keeps_cache), content.to_vec())
            }
            Cached::NoDirectory => {
                let content = binary.content().map_err(refuse)?;
                (stub::receive_in_memory(content.len(), binary.machine()), content)
            }
        };
        // A host that fails ends the transfer: its reason follows.
        let mut send = |bytes: &[u8]| self.send(bytes, Some(until), settings.is_cancelled);
        let _ = send(line.as_bytes()).and_then(|()| send(&content));
        let frame = loop {
            let is_failed = self.received.first() == Some(&b'k') && self.marked_line(marker).is_some();
            if is_failed || self.ended.is_some() && self.received.is_empty() {
                let why = self.end_reason_or("it was damaged on the way, or the disk is full");
                return Err(OpenError::Program(match found.cached {
                    Cached::NoDirectory => {
                        format!("no directory there allows the execution of programs, and perl failed: {why}")
                    }
                    _ => why,
                }));
            }
            if self.received.first() != Some(&b'k') {
                match frame::take(&mut self.received) {
                    Ok(Some(frame)) => break frame,
                    Ok(None) => {}
                    Err(error) => return Err(OpenError::Program(self.complaint_or(&error.to_string()))),
                }
            }
            if self.ended.is_some() {
                return Err(OpenError::Program(self.end_reason_or("it ended at once")));
            }
            self.receive_until(until, settings)?;
        };
        let greeting = frame.message().map_err(refuse)?;
        match greeting["protocol"].as_u64() {
            Some(PROTOCOL) => Ok(()),
            _ => Err(OpenError::Program("it speaks another version of the protocol".to_owned())),
        }
    }

    /// Waits for bytes, within the time of the attempt.
    fn receive_until(&mut self, until: Instant, settings: &Settings<'_>) -> Result<(), OpenError> {
        if (settings.is_cancelled)() {
            return Err(OpenError::Interrupted);
        }
        if Instant::now() >= until {
            let waited = format!("no answer within {} s", settings.timeout.as_secs());
            return Err(OpenError::Unreachable(self.complaint_or(&waited)));
        }
        self.receive(TICK);
        Ok(())
    }

    fn refusal(&self, destination: &Destination) -> OpenError {
        let why = match &self.ended {
            Some(Err(error)) => error.to_string(),
            _ => self.complaint_or("it ended without a reason"),
        };
        let code = self.ended.as_ref().and_then(|ended| ended.as_ref().ok()).and_then(|output| output.status.code());
        // `ssh` itself ends with 255.
        let by_ssh = matches!(destination.via, Via::Ssh(_)) && code == Some(255);
        match &destination.become_user {
            Some(by) if !by_ssh => OpenError::Become { method: by.method.name(), why },
            _ => OpenError::Unreachable(why),
        }
    }
}

fn random_share() -> f64 {
    let mut bytes = [0; 4];
    random(&mut bytes).map_or(0.5, |()| f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_servers_are_asked_again() {
        let error = |why: &str| OpenError::Unreachable(why.to_owned());
        assert!(error("kex_exchange_identification: read: Connection reset by peer").is_transient());
        assert!(error("Failed to connect to bus: No such file or directory").is_transient());
        let no_bus = "Failed to connect to system scope bus via machine transport: No such file or directory";
        assert!(error(no_bus).is_transient());
        assert!(!error("Failed to connect to bus: Host is down").is_transient());
        assert!(!error("ssh: Could not resolve hostname web9: Name or service not known").is_transient());
        assert!(!OpenError::Interrupted.is_transient());
    }
}
