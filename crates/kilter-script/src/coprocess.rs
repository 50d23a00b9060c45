//! Transports that are programs: one process for each device, which answers requests until its input ends.
//!
//! A request is a JSON object on one line, with an `id` that the answer repeats. The requests `get`, `set` and
//! `refresh` are those of the convention `json`, with the type of the resources.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Hash, Value, from_json, to_json_clear};
use kilter_process::{
    Capture, Captured, Confinement, Coprocess, CoprocessEvent, Event, KillMode, Observer, Output, SpawnError, Status,
    Stream, Termination, WriteError,
};
use kilter_provider::{
    CONNECT_TIMEOUT, Context, Level, Redactor, Transport, TransportError, TransportSchema, TransportType,
};
use serde_json::{Map, Value as Json, json};

use crate::confined::{ConfinementPolicy, ConfinementReporter, Confining};
use crate::convention::size::MemoryBudget;
use crate::convention::{beginning, message_text};
use crate::exchange::{ScriptCall, cancel};
use crate::json::UNREACHABLE;
use crate::metadata::TransportMetadata;
use crate::script_environment::ScriptEnvironment;
use crate::secrets::written;
use crate::stderr_forwarder::StderrForwarder;

/// Interval of checks for an interrupt during a call.
const TICK: Duration = Duration::from_millis(50);

/// Timeout of `close`.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time in which the process ends after the end of its input.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A transport that is a program.
pub struct ScriptTransport {
    path: PathBuf,
    metadata: TransportMetadata,
    surroundings: Arc<ScriptEnvironment>,
}

impl ScriptTransport {
    /// Creates the transport of a program.
    pub fn new(path: &Path, metadata: TransportMetadata, surroundings: Arc<ScriptEnvironment>) -> ScriptTransport {
        ScriptTransport { path: path.to_owned(), metadata, surroundings }
    }

    /// Returns the path of the program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts the program.
    fn start(&self, cx: &Context<'_>, target: &str) -> std::io::Result<Coprocess> {
        let name = &self.metadata.schema.name;
        let mut invocation = self.surroundings.invocation(&self.path).arg("ral_action=connect");
        invocation.stderr = Capture::Last(self.surroundings.limits.error);
        let confinement = if self.metadata.confine { Confinement::ReadOnly } else { Confinement::None };
        let invocation = invocation.confined(confinement).leftovers(KillMode::Ended);
        let invocation = self.surroundings.introducing(invocation);
        let warn = |why: &str| cx.log(Level::Warning, name, target, why);
        Coprocess::start(self.surroundings.keeping(invocation, &eco_format!("transports/{name}"), warn))
    }
}

impl TransportType for ScriptTransport {
    fn schema(&self) -> &TransportSchema {
        &self.metadata.schema
    }

    fn connect(&self, cx: &Context<'_>, name: &str, info: &Attributes) -> Result<Box<dyn Transport>, TransportError> {
        let process = self
            .start(cx, name)
            .map_err(|error| TransportError::permanent(eco_format!("cannot start {}: {error}", self.path.display())))?;
        let connection = ScriptConnection {
            transport: self.metadata.schema.name.clone(),
            device: name.into(),
            path: self.path.clone(),
            seal: written(Redactor::of(info)),
            surroundings: Arc::clone(&self.surroundings),
            dialogue: Mutex::new(Dialogue { process, id: 0, received: Vec::new(), ended: None }),
        };
        let info = info.iter().filter(|(_, value)| !value.is_undef());
        let info: Map<String, Json> = info.map(|(key, value)| (key.to_string(), to_json_clear(value))).collect();
        connection.control(cx, "connect", json!({ "target": name, "connection_info": info }), CONNECT_TIMEOUT)?;
        Ok(Box::new(connection))
    }
}

/// A connection through a program.
pub struct ScriptConnection {
    transport: EcoString,
    device: EcoString,
    path: PathBuf,
    /// Secrets of the connection info, which the program may repeat.
    seal: Redactor,
    surroundings: Arc<ScriptEnvironment>,
    dialogue: Mutex<Dialogue>,
}

/// Requests to a process and its answers.
struct Dialogue {
    process: Coprocess,
    /// Number of the last request.
    id: u64,
    /// Output of the process that is not processed yet.
    received: Vec<u8>,
    /// Reason why there are no further answers.
    ended: Option<EcoString>,
}

/// Answer to a request.
enum CoprocessAnswer {
    /// The line with the answer.
    Line(Vec<u8>),
    /// The process ended.
    Exited(Box<Output>),
    /// kilter ended the process.
    Ended(Termination),
    /// There is no valid answer: the reason.
    Failed(EcoString),
}

/// Limits of a request.
struct RequestLimits<'a> {
    /// Maximum duration.
    timeout: Option<Duration>,
    /// Maximum length of the answer, in bytes.
    bytes: usize,
    /// Returns true if the request is cancelled.
    is_cancelled: &'a dyn Fn() -> bool,
}

impl Transport for ScriptConnection {
    fn verify(&self, cx: &Context<'_>) -> Result<(), TransportError> {
        self.control(cx, "verify", json!({}), CONNECT_TIMEOUT).map(drop)
    }

    fn facts(&self, cx: &Context<'_>) -> Result<Hash, TransportError> {
        let answer = self.control(cx, "facts", json!({}), self.surroundings.limits.read)?;
        let mut facts = answer.get("facts").map(from_json).unwrap_or_default();
        self.seal.redact_value(&mut facts);
        match facts {
            Value::Hash(facts) => Ok((*facts).clone()),
            _ => Err(TransportError::permanent(self.of("facts", "its answer has no object `facts`"))),
        }
    }

    fn close(&self, cx: &Context<'_>) {
        if self.dialogue().ended.is_none() {
            // The process ends in any case.
            let _ = self.control(cx, "close", json!({}), CLOSE_TIMEOUT);
        }
        let mut dialogue = self.dialogue();
        dialogue.process.close_input();
        let until = Instant::now() + EXIT_TIMEOUT;
        let ended = loop {
            match dialogue.process.next(until.saturating_duration_since(Instant::now())) {
                Some(CoprocessEvent::Ended(ended)) => break (*ended).ok(),
                Some(_) => {}
                None => break None,
            }
        };
        dialogue.process.end();
        dialogue.ended = Some("the connection is closed".into());
        drop(dialogue);
        if let Some(output) = ended {
            self.warn_about_writes(cx, &output);
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl ScriptConnection {
    /// Name of the transport.
    pub fn transport(&self) -> &str {
        &self.transport
    }

    /// Secrets of the connection info.
    pub(crate) fn seal(&self) -> &Redactor {
        &self.seal
    }

    fn dialogue(&self) -> MutexGuard<'_, Dialogue> {
        self.dialogue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the call of a provider to the process, and returns its answer as that of a process of its own.
    ///
    /// # Errors
    /// If there is no valid answer.
    pub(crate) fn run(
        &self,
        cx: &Context<'_>,
        call: &ScriptCall<'_>,
        observer: Observer<'_>,
    ) -> Result<Output, SpawnError> {
        let input = call.invocation.stdin.as_deref().unwrap_or(b"{}");
        let head = json!({ "action": call.action, "type": call.type_name });
        let Capture::AtMost(bytes) = call.invocation.stdout else {
            return Err(SpawnError::Reported { text: "a call of a transport has an answer".into() });
        };
        let cancel = cancel(cx);
        let limits = RequestLimits {
            timeout: call.invocation.deadline,
            bytes,
            is_cancelled: &|| cancel.flag.load(std::sync::atomic::Ordering::Acquire),
        };
        let mut stderr = |bytes: &[u8]| observer(Event::Chunk { stream: Stream::Stderr, bytes });
        let answer = self.dialogue().ask(&head, input, &limits, &mut stderr);
        observer(Event::Closed { stream: Stream::Stderr });
        match answer {
            CoprocessAnswer::Line(bytes) => {
                let stdout = Captured { bytes, dropped: 0 };
                Ok(Output { stdout, ..Output::of(Status::Code(0)) })
            }
            CoprocessAnswer::Exited(output) => Ok(Output { stdout: Captured::default(), ..*output }),
            CoprocessAnswer::Ended(ending) => Ok(Output { ending, ..Output::of(Status::Signal(15)) }),
            CoprocessAnswer::Failed(why) => Err(SpawnError::Reported { text: self.seal.redact(why).into() }),
        }
    }

    /// Sends a request of the transport itself, logs the lines of standard error, and returns the answer.
    fn control(
        &self,
        cx: &Context<'_>,
        action: &'static str,
        body: Json,
        timeout: Duration,
    ) -> Result<Map<String, Json>, TransportError> {
        let log = |level: Level, message: &str| cx.log(level, &self.transport, &self.device, message);
        let mut spoken = StderrForwarder::new(self.surroundings.limits.error, Level::Warning, &self.seal, &log);
        let interrupt = cx.interrupt();
        let limits = RequestLimits {
            timeout: Some(timeout),
            bytes: self.surroundings.limits.output,
            is_cancelled: &|| interrupt.is_raised(),
        };
        let mut stderr = |bytes: &[u8]| spoken.observe(&Event::Chunk { stream: Stream::Stderr, bytes });
        let answer =
            self.dialogue().ask(&json!({ "action": action }), body.to_string().as_bytes(), &limits, &mut stderr);
        spoken.observe(&Event::Closed { stream: Stream::Stderr });
        let permanent = |why: &str| TransportError::permanent(self.of(action, why));
        match answer {
            CoprocessAnswer::Line(line) => self.parsed(action, &line),
            CoprocessAnswer::Exited(output) => Err(permanent(&ending(&output))),
            CoprocessAnswer::Ended(Termination::Deadline) => {
                let why = eco_format!("it did not answer within {} s", timeout.as_secs());
                Err(TransportError::transient(self.of(action, &why)))
            }
            CoprocessAnswer::Ended(_) => Err(permanent("it was ended because the run was interrupted")),
            CoprocessAnswer::Failed(why) => Err(permanent(&why)),
        }
    }

    /// Parses the answer to a request of the transport itself.
    fn parsed(&self, action: &str, line: &[u8]) -> Result<Map<String, Json>, TransportError> {
        let permanent = |why: &str| TransportError::permanent(self.of(action, why));
        let text = std::str::from_utf8(line).map_err(|_| permanent("its answer is not UTF-8"))?;
        let room = MemoryBudget::of(self.surroundings.limits.output);
        room.holds_tree(text).map_err(|error| permanent(&error.without_advice()))?;
        let Ok(Json::Object(mut answer)) = serde_json::from_str(text) else {
            return Err(permanent("its answer is not a JSON object"));
        };
        let Some(error) = answer.remove("error") else { return Ok(answer) };
        // This message is for the user of the device, so it does not name the program.
        let message = error.get("message").and_then(Json::as_str).unwrap_or("it failed without a reason");
        let message = self.seal.redact(message_text(message.trim()));
        let is_transient = error.get("kind").and_then(Json::as_str) == Some(UNREACHABLE);
        Err(TransportError { message, is_transient })
    }

    /// Returns the message of an error with its place.
    fn of(&self, action: &str, why: &str) -> EcoString {
        let why = self.seal.redact(why.into());
        eco_format!("{action} by the transport `{}` ({}): {why}", self.transport, self.path.display())
    }

    /// Warns about attempts to change this machine.
    fn warn_about_writes(&self, cx: &Context<'_>, output: &Output) {
        let who = format!("the transport `{}`", self.transport);
        let call = Confining { who: &who, action: "", is_preview: false, lifted: ConfinementPolicy::ByMetadata };
        for note in ConfinementReporter::default().notes(call, output) {
            cx.log(Level::Warning, &self.transport, &self.device, &self.seal.redact(note.into()));
        }
    }
}

impl Dialogue {
    /// Sends a request and waits for its answer. `body` is a JSON object.
    fn ask(
        &mut self,
        head: &Json,
        body: &[u8],
        limits: &RequestLimits<'_>,
        stderr: &mut dyn FnMut(&[u8]),
    ) -> CoprocessAnswer {
        if let Some(why) = &self.ended {
            return CoprocessAnswer::Failed(why.clone());
        }
        self.id += 1;
        let until = limits.timeout.map(|timeout| Instant::now() + timeout);
        let line = self.line(head, body);
        match self.process.write(&line, until, limits.is_cancelled) {
            // A process that no longer reads may have answered before it ended.
            Ok(()) | Err(WriteError::Closed) => {}
            Err(WriteError::Cancelled) => return self.end(Termination::Cancelled),
            Err(WriteError::TimedOut) => return self.end(Termination::Deadline),
            Err(error @ WriteError::Io(_)) => return self.fail(eco_format!("{error}")),
        }
        self.answer(until, limits, stderr)
    }

    /// Joins a request to one line.
    fn line(&self, head: &Json, body: &[u8]) -> Vec<u8> {
        let head = head.to_string();
        let mut line = format!("{{\"id\":{},", self.id).into_bytes();
        line.extend_from_slice(head.trim_start_matches('{').trim_end_matches('}').as_bytes());
        let inner = body.strip_prefix(b"{").and_then(|body| body.strip_suffix(b"}")).unwrap_or_default();
        if !inner.is_empty() {
            line.push(b',');
        }
        line.extend_from_slice(inner);
        line.extend_from_slice(b"}\n");
        line
    }

    /// Waits for the answer to the last request.
    fn answer(
        &mut self,
        until: Option<Instant>,
        limits: &RequestLimits<'_>,
        stderr: &mut dyn FnMut(&[u8]),
    ) -> CoprocessAnswer {
        let mut searched = 0;
        loop {
            while let Some(end) = self.received[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.received.split_off(searched + end + 1);
                let line = std::mem::replace(&mut self.received, rest);
                searched = 0;
                match id_of(&line) {
                    Ok(Some(id)) if id == self.id => return CoprocessAnswer::Line(line),
                    // A late answer to a request that failed.
                    Ok(Some(id)) if id < self.id => {}
                    Ok(_) => return self.fail(eco_format!("its answer does not repeat the `id` {}", self.id)),
                    Err(error) => {
                        let quoted = beginning(String::from_utf8_lossy(&line).trim(), 80);
                        return self.fail(eco_format!("its answer `{quoted}` is not a JSON object: {error}"));
                    }
                }
            }
            searched = self.received.len();
            if searched > limits.bytes {
                return self.fail(eco_format!("its answer is longer than {} bytes", limits.bytes));
            }
            if (limits.is_cancelled)() {
                return self.end(Termination::Cancelled);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return self.end(Termination::Deadline);
            }
            match self.process.next(left.unwrap_or(TICK).min(TICK)) {
                None => {}
                Some(CoprocessEvent::Stdout(bytes)) => self.received.extend_from_slice(&bytes),
                Some(CoprocessEvent::Stderr(bytes)) => stderr(&bytes),
                Some(CoprocessEvent::Ended(ended)) => match *ended {
                    Ok(output) => {
                        self.ended = Some(ending(&output));
                        return CoprocessAnswer::Exited(Box::new(output));
                    }
                    Err(error) => return self.fail(error.with_sources().into()),
                },
            }
        }
    }

    /// Ends the process, because its next answer could belong to an earlier request.
    fn end(&mut self, ending: Termination) -> CoprocessAnswer {
        let why = match ending {
            Termination::Deadline => "the connection was ended, because an earlier request had no answer in time",
            _ => "the connection was ended by an interrupt",
        };
        self.ended = Some(why.into());
        self.process.end();
        CoprocessAnswer::Ended(ending)
    }

    /// Ends the process after an invalid answer.
    fn fail(&mut self, why: EcoString) -> CoprocessAnswer {
        self.ended = Some(eco_format!("the connection was ended after an error: {why}"));
        self.process.end();
        CoprocessAnswer::Failed(why)
    }
}

/// Describes the end of a process.
fn ending(output: &Output) -> EcoString {
    let text = output.stderr.text();
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.map(|line| eco_format!("; last on its standard error: {}", beginning(line, 400)));
    eco_format!("its program has ended ({}{})", output.status, last.unwrap_or_default())
}

/// Returns the `id` of an answer.
fn id_of(line: &[u8]) -> Result<Option<u64>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let id = serde_core::de::Deserializer::deserialize_map(&mut deserializer, IdVisitor)?;
    deserializer.end()?;
    Ok(id)
}

struct IdVisitor;

impl<'de> serde_core::de::Visitor<'de> for IdVisitor {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde_core::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut id = None;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match &*key {
                "id" => id = Some(map.next_value::<u64>()?),
                _ => drop(map.next_value::<serde_core::de::IgnoredAny>()?),
            }
        }
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use kilter_provider::{Device, Interrupt, Log, Mode, Query, Wanted};

    use super::*;
    use crate::discovery::Found;
    use crate::script::Script;
    use crate::scripts::Scripts;

    /// Program whose `get` does what the name of the resource says.
    const PROGRAM: &str = r#"#!/bin/bash
if [ "$1" = ral_action=describe ]; then
  cat <<'END'
transport:
  name: box
  desc: Connects to a box.
  timeout: 1
  connection_info:
    password: {type: String, sensitive: true}
    mode: {type: String, default: good}
providers:
- type: thing
  attributes: {name: {}, value: {type: String}}
END
  exit
fi
count=0
while read -r line; do
  id=${line#*:} id=${id%%,*}
  count=$((count + 1))
  case $line in
  *'"action":"connect"'*'"mode":"refused"'*) echo '{"error":{"message":"login with hunter2secret refused"},"id":'$id'}';;
  *'"action":"connect"'*'"mode":"away"'*) echo '{"error":{"message":"away","kind":"unreachable"},"id":'$id'}';;
  *'"action":"connect"'*'"mode":"broken"'*) echo "broken with hunter2secret" >&2; exit 3;;
  *'"action":"facts"'*) echo '{"id":'$id',"facts":{"motto":"it is hunter2secret"}}';;
  *'"names":["late"]'*) read -r -t 60;;
  *'"names":["dies"]'*) echo 'info: last words, hunter2secret' >&2; exit 4;;
  *'"names":["stale"]'*) echo '{"id":0,"resources":[]}'; echo '{"id":'$id',"resources":[{"name":"stale","value":"new"}]}';;
  *'"names":["other"]'*) echo '{"id":999}';;
  *'"names":["noise"]'*) echo 'connected to hunter2secret';;
  *'"names":["flood"]'*) head -c 5000000 /dev/zero | tr '\0' x; read -r -t 60;;
  *'"names":["logs"]'*) echo 'notice: key hunter2secret used' >&2; echo '{"id":'$id',"resources":[]}';;
  *'"action":"get"'*) echo '{"id":'$id',"resources":[{"name":"a","value":"'$count'"}]}';;
  *'"action":"set"'*) echo '{"id":'$id',"changes":[{"name":"a","error":{"message":"full"}}]}';;
  *) echo '{"id":'$id'}';;
  esac
done
touch "$(dirname "$0")/ended" 2>/dev/null
"#;

    struct InstalledTransport {
        directory: tempfile::TempDir,
        transport: Arc<ScriptTransport>,
        provider: Arc<dyn Script>,
    }

    impl InstalledTransport {
        fn new(confine: bool) -> InstalledTransport {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("box.prov");
            let program = match confine {
                true => PROGRAM.to_owned(),
                false => PROGRAM.replace("  timeout: 1", "  confine: false\n  timeout: 1"),
            };
            std::fs::write(&path, program).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            let surroundings = Arc::new(ScriptEnvironment::new());
            let mut found =
                Scripts::of(Found::search(&[directory.path().to_owned()], None, &surroundings), &surroundings);
            assert_eq!(found.notes, []);
            let (transport, provider) = (found.transports.remove(0), found.providers.remove(0));
            InstalledTransport { directory, transport, provider }
        }

        fn device(&self, mode: &str) -> Device {
            let info: Attributes = [("password", "hunter2secret"), ("mode", mode)].into_iter().collect();
            Device::new("edge1", Arc::clone(&self.transport) as Arc<dyn TransportType>, &info).unwrap()
        }

        fn get(&self, cx: &Context<'_>, name: &str) -> Result<Option<String>, String> {
            let name = EcoString::from(name);
            let found = self.provider.get(cx, Query::Named(&[Wanted::new(&name, None)]));
            let found = found.map_err(|error| error.to_string())?;
            Ok(found[0].attributes.text("value").map(str::to_owned))
        }
    }

    #[derive(Default)]
    struct LoggedLines(Mutex<Vec<String>>);

    impl Log for LoggedLines {
        fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
            self.0.lock().unwrap().push(format!("{} {type_name}[{name}]: {message}", level.word()));
        }
    }

    #[test]
    fn one_process_answers_all_requests_of_a_device() {
        let (place, lines) = (InstalledTransport::new(false), LoggedLines::default());
        let device = place.device("good");
        let cx = Context::empty().with_log(&lines).with_device(Some(&device));
        // Requests 1 and 2 are `connect` and `verify`.
        assert_eq!(place.get(&cx, "a"), Ok(Some("3".into())));
        assert_eq!(place.get(&cx, "a"), Ok(Some("4".into())));
        assert_eq!(place.get(&cx, "stale"), Ok(Some("new".into())));
        assert_eq!(place.get(&cx, "logs"), Ok(None));
        assert_eq!(*lines.0.lock().unwrap(), ["notice thing[logs]: key [redacted] used"]);
        let facts = cx.transport().unwrap().facts(&cx).unwrap();
        assert_eq!(facts["motto"], Value::from("it is [redacted]"));
        device.close(&cx);
        assert!(place.directory.path().join("ended").exists(), "the end of its input ended it");
        assert!(place.get(&cx, "a").unwrap_err().contains("the connection is closed"));
    }

    #[test]
    fn confined_program_cannot_write() {
        let (place, lines) = (InstalledTransport::new(true), LoggedLines::default());
        let device = place.device("good");
        let cx = Context::empty().with_log(&lines).with_device(Some(&device));
        assert!(cx.transport().is_ok());
        device.close(&cx);
        assert!(!place.directory.path().join("ended").exists());
        let lines = lines.0.lock().unwrap();
        assert!(lines.iter().any(|line| line.contains("the transport `box`") && line.contains("ended")), "{lines:?}");
    }

    #[test]
    fn change_is_sent_with_its_type_and_its_error_returns() {
        let place = InstalledTransport::new(true);
        let device = place.device("good");
        let cx = Context::empty().with_device(Some(&device));
        let (name, should) = (EcoString::from("a"), [("value", "x")].into_iter().collect());
        let is = kilter_model::State::absent(name.clone());
        let change = kilter_model::Change {
            name: &name,
            is: &is,
            should: Some(&should),
            differences: &[],
            received: &[],
            refresh: false,
        };
        let outcomes = place.provider.set(&cx, &[change], Mode::Apply);
        let failure = outcomes[0].failure.as_deref().unwrap();
        assert!(failure.starts_with("set of thing[a] by the provider `box`") && failure.ends_with("full"), "{failure}");
    }

    #[test]
    fn connection_errors_name_the_cause_without_secrets() {
        let place = InstalledTransport::new(true);
        let error = |mode: &str| place.device(mode).connect(&Context::empty()).err().unwrap();
        assert_eq!(error("refused"), TransportError::permanent("login with [redacted] refused"));
        let broken = error("broken");
        assert!(!broken.is_transient);
        let ending = "its program has ended (exit code 3; last on its standard error: broken with [redacted])";
        assert!(broken.message.starts_with("connect by the transport `box` ("), "{broken}");
        assert!(broken.message.ends_with(ending), "{broken}");
        let raised = AtomicBool::new(true);
        let cx = Context::empty().with_interrupt(Interrupt::new(&raised, None));
        assert!(place.device("good").connect(&cx).is_err());
        raised.store(false, Ordering::Relaxed);
        let lines = LoggedLines::default();
        let info: Attributes = [("mode", "away")].into_iter().collect();
        let once = place.transport.connect(&cx.with_log(&lines), "edge1", &info);
        assert_eq!(once.err().unwrap(), TransportError::transient("away"));
    }

    #[test]
    fn defective_answers_end_the_connection_with_a_clear_error() {
        for (name, why) in [
            ("late", "it did not reply in time and was ended (its limit is 1 s; signal 15)"),
            ("dies", "it failed with exit code 4 (last on its standard error: info: last words, [redacted])"),
            ("other", "its answer does not repeat the `id` 4"),
            ("noise", "its answer `connected to [redacted]` is not a JSON object"),
            ("flood", "its answer is longer than 4194304 bytes"),
        ] {
            let place = InstalledTransport::new(true);
            let device = place.device("good");
            let cx = Context::empty().with_device(Some(&device));
            assert_eq!(place.get(&cx, "a"), Ok(Some("3".into())));
            let error = place.get(&cx, name).unwrap_err();
            assert!(error.contains(why) && !error.contains("hunter2"), "{name}: {error}");
            let later = place.get(&cx, "a").unwrap_err();
            assert!(later.contains("ended") && !later.contains("hunter2"), "{name}: {later}");
            device.close(&cx);
        }
    }
}
