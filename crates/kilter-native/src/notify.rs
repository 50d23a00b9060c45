//! The type `notify`: a log message.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use kilter_model::{Attributes, Behaviour, Change, Feature, Hash, Outcome, State, TypeSchema, Value};
use kilter_provider::{Context, Level, Mode, Provider, ProviderError, Query, ReadOne, Refresh, Wanted, get_each};

use crate::builtin::present;

const DESC: &str = "\
Log messages.

```yaml
resources:
  notify[greeting]:
    message: This is ${facts.networking.hostname}.
```

kilter logs the message at each check of the resource, also in a plan, and again at a refresh by another resource. \
The resource never counts as \
changed and sends no refreshes. (In Puppet it is a change in every run.)";

fn schema() -> TypeSchema {
    TypeSchema::new("notify", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource.")
        .attribute(
            "message",
            "Data",
            Behaviour::Parameter,
            "Message; by default the title. It may contain outputs of other resources, which then run first: \
             `message: ${exec[token].stdout}`. The log shows sensitive values as `[redacted]`.",
        )
        .attribute(
            "level",
            "Enum[debug, info, notice, warning, err, critical, alert, emerg]",
            Behaviour::Parameter,
            "Severity, in the terms of syslog: `warning`.",
        )
        .default("notice")
        .attribute(
            "refreshonly",
            "Boolean",
            Behaviour::Parameter,
            "Log the message only at a refresh by another resource.",
        )
        .default(Value::Boolean(false))
        .attribute("syslog", "Boolean", Behaviour::Parameter, "Send the message to syslog too (`/dev/log`).")
        .default(Value::Boolean(false))
        .attribute("journal", "Boolean", Behaviour::Parameter, "Send the message to the systemd journal too.")
        .default(Value::Boolean(false))
        .attribute(
            "fields",
            "Hash[Pattern[/\\A[A-Z][A-Z0-9_]{0,63}\\z/], String]",
            Behaviour::Parameter,
            "Further fields of the journal entry: `{ UNIT: app.service }`.",
        )
        .features(&[Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `notify`.
pub struct NotifyProvider {
    syslog: PathBuf,
    journal: PathBuf,
}

impl NotifyProvider {
    /// Creates the provider.
    pub fn new() -> NotifyProvider {
        NotifyProvider::at("/dev/log".into(), "/run/systemd/journal/socket".into())
    }

    fn send(&self, cx: &Context<'_>, wanted: Wanted<'_>) {
        let none = Attributes::new();
        let should = wanted.should.unwrap_or(&none);
        let message = match should.get("message") {
            Some(message) => message.to_string(),
            None => wanted.name.to_string(),
        };
        let level = should.text("level").and_then(level).unwrap_or(Level::Notice);
        cx.log(level, "notify", wanted.name, &message);
        // A noop run sends no messages to other logs.
        if cx.is_noop() {
            return;
        }
        // A completely sensitive value is not logged.
        let fields = should.get("fields").filter(|fields| !matches!(fields, Value::Sensitive(_)));
        let line = LogLine { level, message: &message, fields: fields.and_then(Value::as_hash) };
        for (attribute, socket) in [("syslog", &self.syslog), ("journal", &self.journal)] {
            if should.get_bool(attribute) != Some(true) {
                continue;
            }
            let said = if attribute == "syslog" { line.to_syslog(socket) } else { line.to_journal(socket) };
            if let Err(error) = said {
                let why = format!("cannot send the message to {}: {error}", socket.display());
                cx.log(Level::Warning, "notify", wanted.name, &why);
            }
        }
    }

    /// Creates a provider that uses these sockets.
    fn at(syslog: PathBuf, journal: PathBuf) -> NotifyProvider {
        NotifyProvider { syslog, journal }
    }
}

impl Default for NotifyProvider {
    fn default() -> NotifyProvider {
        NotifyProvider::new()
    }
}

/// Returns the level with this name.
fn level(word: &str) -> Option<Level> {
    let levels = [
        Level::Debug,
        Level::Info,
        Level::Notice,
        Level::Warning,
        Level::Err,
        Level::Critical,
        Level::Alert,
        Level::Emerg,
    ];
    levels.into_iter().find(|level| level.word() == word)
}

/// A message for the logs of the system.
struct LogLine<'a> {
    level: Level,
    message: &'a str,
    fields: Option<&'a Hash>,
}

impl LogLine<'_> {
    /// Sends the message in the format of RFC 3164, as local programs send it, with the facility `daemon`.
    fn to_syslog(&self, socket: &Path) -> std::io::Result<()> {
        const DAEMON: u8 = 3;
        let priority = DAEMON * 8 + self.level.severity();
        let line = self.message.replace('\n', " ");
        send(socket, format!("<{priority}>kilter[{}]: {line}", std::process::id()).as_bytes())
    }

    /// Sends the message in the native protocol of the journal (systemd, `JOURNAL_NATIVE_PROTOCOL`). A field with a
    /// multi-line value consists of its name, its length in eight bytes, and the value.
    fn to_journal(&self, socket: &Path) -> std::io::Result<()> {
        let severity = self.level.severity().to_string();
        let own = [("MESSAGE", self.message), ("PRIORITY", &severity), ("SYSLOG_IDENTIFIER", "kilter")];
        let is_own = |name: &str| own.iter().any(|(own, _)| *own == name);
        let given = self.fields.into_iter().flatten().filter(|(name, _)| !is_own(name));
        // `Display` redacts secrets.
        let given: Vec<(&str, String)> = given.map(|(name, value)| (name.as_str(), value.to_string())).collect();
        let given = given.iter().map(|(name, value)| (*name, value.as_str()));
        let mut datagram = Vec::new();
        for (name, value) in own.iter().copied().chain(given) {
            datagram.extend_from_slice(name.as_bytes());
            if value.contains('\n') {
                datagram.push(b'\n');
                datagram.extend_from_slice(&(value.len() as u64).to_le_bytes());
            } else {
                datagram.push(b'=');
            }
            datagram.extend_from_slice(value.as_bytes());
            datagram.push(b'\n');
        }
        send(socket, &datagram)
    }
}

/// Sends a datagram without blocking. A slow log must not delay the run, so the message is dropped.
fn send(socket: &Path, datagram: &[u8]) -> std::io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to(datagram, socket).map(drop)
}

impl Provider for NotifyProvider {
    crate::builtin::describe!("notify", "log", schema, [read_one, refresh], InProcess: [predict, scheduling, watch]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || Ok(Vec::new()))
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        let said = |change: &Change<'_>| match change.should {
            Some(_) => Outcome::done(),
            None => Outcome::failed("a logged message cannot be removed"),
        };
        changes.iter().map(said).collect()
    }
}

impl ReadOne for NotifyProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        // A query without a declaration must not log the message.
        if wanted.should.is_some_and(|should| should.get_bool("refreshonly") != Some(true)) {
            self.send(cx, wanted);
        }
        Ok(present(wanted.name))
    }
}

impl Refresh for NotifyProvider {
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.send(cx, wanted);
        Outcome { refreshed: true, ..Outcome::done() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use ecow::EcoString;
    use kilter_provider::{Log, check};

    use super::*;

    #[derive(Default)]
    struct NotifyLog(Mutex<Vec<String>>);

    impl Log for NotifyLog {
        fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
            self.0.lock().unwrap().push(format!("{}: {type_name}[{name}]: {message}", level.word()));
        }
    }

    #[test]
    fn a_message_is_logged_at_each_check_and_refresh_and_is_never_a_change() {
        let (provider, lines) = (NotifyProvider::new(), NotifyLog::default());
        let cx = Context::empty().with_log(&lines);
        let should = Attributes::from_iter([("message", "hello")]);
        let (greeting, bare) = (EcoString::from("greeting"), EcoString::from("just this"));
        let none = Attributes::new();
        let wanted = [Wanted::new(&greeting, Some(&should)), Wanted::new(&bare, Some(&none))];
        let found = check(&provider, &cx, &wanted);
        assert!(found.iter().all(|found| found.as_ref().unwrap().differences.is_empty()));
        assert!(provider.refresh(&cx, wanted[0]).refreshed);
        let hello = "notice: notify[greeting]: hello";
        assert_eq!(*lines.0.lock().unwrap(), [hello, "notice: notify[just this]: just this", hello]);
    }

    #[test]
    fn removal_of_message_fails() {
        let is = State::present("x", Attributes::new());
        let name = "x".into();
        let change = Change::new(&name, &is, None, &[]);
        assert!(!NotifyProvider::new().set(&Context::empty(), &[change], Mode::Apply)[0].is_done());
    }

    #[test]
    fn message_redacts_secrets() {
        let (provider, lines) = (NotifyProvider::new(), NotifyLog::default());
        let cx = Context::empty().with_log(&lines);
        let should = Attributes::from_iter([("message", Value::sensitive("hunter2".into()))]);
        provider.get_one(&cx, Wanted::new(&"x".into(), Some(&should))).unwrap();
        assert_eq!(*lines.0.lock().unwrap(), ["notice: notify[x]: [redacted]"]);
    }

    #[test]
    fn message_goes_to_syslog_and_journal_with_level() {
        let place = tempfile::tempdir().unwrap();
        let (syslog, journal) = (place.path().join("log"), place.path().join("journal"));
        let provider = NotifyProvider::at(syslog.clone(), journal.clone());
        let lines = NotifyLog::default();
        let cx = Context::empty().with_log(&lines);
        let mut should = Attributes::from_iter([("message", "two\nlines"), ("level", "critical")]);
        for attribute in ["syslog", "journal"] {
            should.push(attribute, true);
        }
        let secret = Value::sensitive("hunter2".into());
        let fields = [("UNIT", Value::from("app")), ("TOKEN", secret), ("PRIORITY", "0".into())];
        should.push("fields", Value::hash(fields));
        let name = EcoString::from("x");
        let wanted = Wanted::new(&name, Some(&should));
        // No process listens yet. This is logged, and is no failure.
        provider.get_one(&cx, wanted).unwrap();
        assert_eq!(
            lines.0.lock().unwrap().iter().filter(|line| line.contains("cannot send the message to")).count(),
            2
        );
        let [syslog, journal] = [syslog, journal].map(|path| UnixDatagram::bind(path).unwrap());
        provider.get_one(&cx, wanted).unwrap();
        let received = |socket: &UnixDatagram| {
            let mut buffer = [0; 512];
            let length = socket.recv(&mut buffer).unwrap();
            buffer[..length].to_vec()
        };
        let line = String::from_utf8(received(&syslog)).unwrap();
        assert_eq!(line, format!("<26>kilter[{}]: two lines", std::process::id()));
        let expected = b"MESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\nPRIORITY=2\nSYSLOG_IDENTIFIER=kilter\nUNIT=app\n\
                         TOKEN=[redacted]\n";
        assert_eq!(received(&journal), expected);
        assert!(lines.0.lock().unwrap().iter().any(|line| line.starts_with("critical: notify[x]: two")));
        // A plan sends no messages to other logs.
        provider.get_one(&cx.with_noop(true), wanted).unwrap();
        syslog.set_nonblocking(true).unwrap();
        assert!(syslog.recv(&mut [0; 8]).is_err());
    }

    #[test]
    fn refreshonly_message_is_logged_at_refresh_only() {
        let (provider, lines) = (NotifyProvider::new(), NotifyLog::default());
        let cx = Context::empty().with_log(&lines);
        let should = Attributes::from_iter([("refreshonly", true)]);
        let name = EcoString::from("x");
        provider.get_one(&cx, Wanted::new(&name, Some(&should))).unwrap();
        assert!(lines.0.lock().unwrap().is_empty());
        provider.refresh(&cx, Wanted::new(&name, Some(&should)));
        assert_eq!(lines.0.lock().unwrap().len(), 1);
    }
}
