//! The programs of podman and docker, which have the same command line.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::{Capture, DEFAULT_PATH, Environment, Event, Invocation, Output, Stream};
use kilter_provider::{Context, ProviderError, Suitability, WatchSink};
use serde_json::Value as Json;

use crate::accounts::System;
use crate::tool::{self, RecordedPart};

/// Maximum size of an output in bytes.
const MAX_OUTPUT_BYTES: usize = 64 << 20;

/// Maximum duration of a read, and of a change, which may fetch an image.
const READ: Duration = Duration::from_secs(120);
const CHANGE: Duration = Duration::from_secs(3600);

/// Variables of kilter that the programs get: the proxy for the fetch of images, and the directory of the sockets of
/// an ordinary user.
const ALLOWED: [&str; 7] =
    ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "XDG_RUNTIME_DIR"];

/// A program that manages containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerProgram {
    Podman,
    Docker,
}

impl ContainerProgram {
    pub(super) fn name(self) -> &'static str {
        match self {
            ContainerProgram::Podman => "podman",
            ContainerProgram::Docker => "docker",
        }
    }

    /// Returns the names of Debian's package and of others that contain the program.
    pub(super) fn packages(self) -> &'static [&'static str] {
        match self {
            ContainerProgram::Podman => &["podman"],
            ContainerProgram::Docker => &["docker.io", "docker-ce"],
        }
    }
}

/// A program, and the system that it changes.
pub(super) struct ContainerEngine {
    pub(super) program: ContainerProgram,
    system: System,
}

impl ContainerEngine {
    pub(super) fn new(program: ContainerProgram, system: System) -> ContainerEngine {
        ContainerEngine { program, system }
    }

    pub(super) fn suitable(&self) -> Suitability {
        match kilter_process::which(self.program.name().as_ref(), DEFAULT_PATH.as_ref()) {
            Some(_) => Suitability::Suitable,
            None => Suitability::Unsuitable(eco_format!(
                "there is no command {}: install the package {}",
                self.program.name(),
                self.program.packages()[0]
            )),
        }
    }

    fn invocation(&self, words: &[EcoString], secrets: &[(EcoString, EcoString)]) -> Invocation {
        let uid = rustix::process::geteuid();
        let allowed = if uid.is_root() { &ALLOWED[..6] } else { &ALLOWED };
        let environment = Environment::new().user(uid.as_raw()).allow(allowed);
        let environment = secrets
            .iter()
            .fold(environment, |environment, (name, value)| environment.set(name.as_str(), value.as_str()));
        let words = words.iter().map(EcoString::as_str);
        Invocation::new(self.program.name()).args(words).environment(&environment)
    }

    fn finish(&self, cx: &Context<'_>, invocation: Invocation, deadline: Duration) -> Result<Output, EcoString> {
        let invocation = invocation.captured(MAX_OUTPUT_BYTES).deadline(deadline);
        let part = if deadline == CHANGE { RecordedPart::Outputs } else { RecordedPart::Errors };
        tool::start(self.system.runner(), cx, &invocation, part).map_err(|error| error.with_sources().into())
    }

    fn failure(&self, finished: &Output, deadline: Duration) -> EcoString {
        tool::failure(self.program.name(), finished, deadline, tool::ending_of(&finished.stderr.text()))
    }

    /// Runs the program for a change, with variables that no other user can see. Returns its output.
    pub(super) fn change(
        &self,
        cx: &Context<'_>,
        words: &[EcoString],
        secrets: &[(EcoString, EcoString)],
    ) -> Result<String, EcoString> {
        let finished = self.finish(cx, self.invocation(words, secrets), CHANGE)?;
        match finished.is_success() {
            true => Ok(finished.stdout.text().trim().to_owned()),
            false => Err(self.failure(&finished, CHANGE)),
        }
    }

    /// Runs the program for a read. Returns the lines of its output.
    pub(super) fn lines(&self, cx: &Context<'_>, words: &[&str]) -> Result<Vec<EcoString>, EcoString> {
        let words: Vec<EcoString> = words.iter().map(|&word| word.into()).collect();
        let finished = self.finish(cx, self.invocation(&words, &[]), READ)?;
        match finished.is_success() {
            true => Ok(finished.stdout.text().lines().map(EcoString::from).collect()),
            false => Err(self.failure(&finished, READ)),
        }
    }

    /// Returns the last lines that a container has written.
    pub(super) fn last_words(&self, cx: &Context<'_>, name: &str) -> Option<String> {
        let words = ["logs", "--tail=5", name].map(EcoString::from);
        let finished = self.finish(cx, self.invocation(&words, &[]), READ).ok()?;
        tool::ending_of(&format!("{}\n{}", finished.stdout.text(), finished.stderr.text()))
    }

    /// Returns the descriptions of the objects that exist among `names`, by one call. `kind` is `container` or
    /// `image`.
    pub(super) fn inspect(&self, cx: &Context<'_>, kind: &str, names: &[EcoString]) -> Result<Vec<Json>, EcoString> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let words: Vec<EcoString> = [kind.into(), "inspect".into()].into_iter().chain(names.iter().cloned()).collect();
        let finished = self.finish(cx, self.invocation(&words, &[]), READ)?;
        // A missing object is an error, after the others have been printed.
        let errors = finished.stderr.text();
        let is_missing = |line: &str| {
            let line = line.to_ascii_lowercase();
            ["no such", "not known", "does not exist", "not found"].iter().any(|words| line.contains(words))
        };
        let is_only_missing = finished.status.code().is_some_and(|code| code != 0)
            && errors.lines().any(|line| !line.trim().is_empty())
            && errors.lines().filter(|line| !line.trim().is_empty()).all(is_missing);
        if !finished.is_success() && !is_only_missing {
            return Err(self.failure(&finished, READ));
        }
        if finished.stdout.is_truncated() {
            return Err(eco_format!("{} wrote too much", self.program.name()));
        }
        let output = finished.stdout.text();
        match serde_json::from_str(output.trim()) {
            Ok(Json::Array(objects)) => Ok(objects),
            _ if output.trim().is_empty() && is_only_missing => Ok(Vec::new()),
            Ok(_) => Err(eco_format!("{} {kind} inspect wrote no list", self.program.name())),
            Err(error) => Err(eco_format!("{} {kind} inspect wrote no JSON: {error}", self.program.name())),
        }
    }

    /// Reports the events of containers or images until the watch is interrupted.
    pub(super) fn follow(
        &self,
        cx: &Context<'_>,
        kind: &'static str,
        tell: &dyn WatchSink,
    ) -> Result<(), ProviderError> {
        let format = match self.program {
            ContainerProgram::Podman => "{{.Type}} {{.Status}} {{.Name}}",
            ContainerProgram::Docker => "{{.Type}} {{.Action}} {{.Actor.Attributes.name}}",
        };
        // The events since the start of the program count, because it does not report that it has begun to watch.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let words = ["events".into(), eco_format!("--since={}", now.as_secs()), eco_format!("--format={format}")];
        let mut invocation = self.invocation(&words, &[]);
        invocation.stdout = Capture::First(0);
        invocation.stderr = Capture::Last(4096);
        tell.watching();
        let mut line = Vec::new();
        let mut hear = |event: Event<'_>| {
            let Event::Chunk { stream: Stream::Stdout, bytes } = event else { return };
            for &byte in bytes {
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                match changed(&String::from_utf8_lossy(&line), kind) {
                    ChangedResources::Nothing => {}
                    ChangedResources::Every => tell.all_changed(),
                    ChangedResources::One(name) => tell.changed(name),
                }
                line.clear();
            }
        };
        let finished = kilter_process::run_observed(&invocation, Some(tool::cancel(cx)), &mut hear);
        if cx.interrupt().is_raised() {
            return Ok(());
        }
        let finished = finished.map_err(|error| ProviderError::new(error.with_sources()))?;
        Err(ProviderError::new(eco_format!("the watch has ended: {}", self.failure(&finished, READ))))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ChangedResources<'l> {
    Nothing,
    One(&'l str),
    Every,
}

/// Returns the resources of a type that an event may have changed. Health checks and commands in a container change
/// none.
fn changed<'l>(line: &'l str, kind: &str) -> ChangedResources<'l> {
    let mut words = line.splitn(3, ' ');
    let (Some(subject), Some(action)) = (words.next(), words.next()) else { return ChangedResources::Nothing };
    match (subject, kind) {
        _ if action.starts_with("exec") || action.starts_with("health") => ChangedResources::Nothing,
        ("container", "container") => match words.next() {
            Some(name) if !name.is_empty() && action != "rename" => ChangedResources::One(name),
            _ => ChangedResources::Every,
        },
        // A tag may now name another image.
        ("image", _) => ChangedResources::Every,
        _ => ChangedResources::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_name_their_resources() {
        assert_eq!(changed("container died web", "container"), ChangedResources::One("web"));
        assert_eq!(changed("container rename web", "container"), ChangedResources::Every);
        assert_eq!(changed("container exec_died web", "container"), ChangedResources::Nothing);
        assert_eq!(changed("container exec_create: sh -c true web", "container"), ChangedResources::Nothing);
        assert_eq!(changed("container died web", "image"), ChangedResources::Nothing);
        assert_eq!(changed("image tag sha256:12", "image"), ChangedResources::Every);
        assert_eq!(changed("image untag ", "container"), ChangedResources::Every);
        assert_eq!(changed("network create x", "container"), ChangedResources::Nothing);
        assert_eq!(changed("", "container"), ChangedResources::Nothing);
    }
}
