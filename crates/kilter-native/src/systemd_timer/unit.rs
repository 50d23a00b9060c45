//! The unit files of a timer.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Value};

use super::schema::SPANS;
use crate::value_text::texts;

/// Settings of the durations, in the order of [`SPANS`].
const SETTINGS: [&str; 3] = ["OnBootSec", "OnUnitActiveSec", "RandomizedDelaySec"];

/// A timer, as its attributes declare it or its files have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TimerUnit {
    pub(super) description: EcoString,
    pub(super) on_calendar: Vec<EcoString>,
    /// Durations in the order of [`SPANS`].
    pub(super) spans: [EcoString; 3],
    pub(super) persistent: bool,
    pub(super) user: EcoString,
    /// Words of the command.
    pub(super) command: Vec<EcoString>,
}

/// Beginning of the files.
pub(crate) const HEADER: &str = "# systemd_timer[";

/// Returns the first line of the files of a timer.
fn header(name: &str) -> String {
    format!("{HEADER}{name}]: kilter writes this file and overwrites changes.\n")
}

impl TimerUnit {
    /// Reads declared attributes in canonical form, with the values of `old` for those that are not declared.
    pub(super) fn of(should: &Attributes, old: Option<&TimerUnit>) -> TimerUnit {
        let mut unit = old.cloned().unwrap_or_default();
        let given = |attribute: &str| should.get(attribute).filter(|value| !value.is_undef());
        let text = |attribute: &str| given(attribute).and_then(Value::as_str).map(EcoString::from);
        if let Some(description) = text("description") {
            unit.description = description;
        }
        if let Some(calendar) = given("on_calendar") {
            unit.on_calendar = texts(Some(calendar));
        }
        if let Some(persistent) = should.get_bool("persistent") {
            unit.persistent = persistent;
        }
        for (span, attribute) in unit.spans.iter_mut().zip(SPANS) {
            *span = text(attribute).unwrap_or_else(|| std::mem::take(span));
        }
        if let Some(user) = text("user") {
            unit.user = user;
        }
        if let Some(command) = given("command") {
            unit.command = texts(Some(command));
        }
        unit
    }

    /// Returns true if the timer has a time at which it starts the command.
    pub(super) fn has_times(&self) -> bool {
        !self.on_calendar.is_empty() || self.spans[..2].iter().any(|span| !span.is_empty())
    }

    /// Returns true if the times are those of another timer.
    pub(super) fn has_times_of(&self, other: &TimerUnit) -> bool {
        self.on_calendar == other.on_calendar && self.spans == other.spans
    }

    /// Returns the text of the unit file of the timer.
    pub(super) fn timer(&self, name: &str) -> String {
        let mut text = header(name) + "[Unit]\n";
        add(&mut text, "Description", &self.description);
        text.push_str("\n[Timer]\n");
        self.on_calendar.iter().for_each(|calendar| add(&mut text, "OnCalendar", calendar));
        SETTINGS.iter().zip(&self.spans).for_each(|(setting, span)| add(&mut text, setting, span));
        add(&mut text, "Persistent", if self.persistent { "true" } else { "" });
        text.push_str("\n[Install]\nWantedBy=timers.target\n");
        text
    }

    /// Returns the text of the unit file of the service.
    pub(super) fn service(&self, name: &str) -> String {
        let mut text = header(name) + "[Unit]\n";
        add(&mut text, "Description", &self.description);
        text.push_str("\n[Service]\nType=oneshot\n");
        add(&mut text, "User", &self.user);
        let command: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        text.push_str(&format!("ExecStart={}\n", command.join(" ")));
        text
    }

    /// Reads the files of a timer.
    ///
    /// # Errors
    /// If another program has written one of them.
    pub(super) fn parse(name: &str, timer: &str, service: &str) -> Result<TimerUnit, EcoString> {
        for (text, suffix) in [(timer, "timer"), (service, "service")] {
            // Without a file, the text is empty.
            if !text.is_empty() && !text.starts_with(&header(name)) {
                return Err(eco_format!(
                    "there is a unit {name}.{suffix} that kilter has not written: choose another name, or remove its \
                     file"
                ));
            }
        }
        let mut unit = TimerUnit::default();
        for (key, value) in timer.lines().chain(service.lines()).filter_map(|line| line.split_once('=')) {
            match key {
                "Description" => unit.description = unescaped(value),
                "OnCalendar" => unit.on_calendar.push(unescaped(value)),
                "Persistent" => unit.persistent = value == "true",
                "User" => unit.user = unescaped(value),
                "ExecStart" => unit.command = words(value).unwrap_or_default(),
                key => {
                    let at = SETTINGS.iter().position(|setting| *setting == key);
                    at.into_iter().for_each(|at| unit.spans[at] = unescaped(value));
                }
            }
        }
        Ok(unit)
    }

    pub(super) fn attributes(&self, name: &EcoString) -> Attributes {
        let mut attributes = Attributes::with_capacity(10);
        attributes.push("ensure", "present");
        attributes.push("name", name.clone());
        // Without the file of the service, there is no command.
        if !self.command.is_empty() {
            attributes.push("command", Value::strings(self.command.iter().cloned()));
        }
        attributes.push("on_calendar", Value::strings(self.on_calendar.iter().cloned()));
        SPANS.iter().zip(&self.spans).for_each(|(attribute, span)| attributes.push(*attribute, span.clone()));
        attributes.push("persistent", self.persistent);
        attributes.push("user", self.user.clone());
        attributes.push("description", self.description.clone());
        attributes
    }
}

/// Adds a setting unless it is empty.
fn add(text: &mut String, key: &str, value: &str) {
    if !value.is_empty() {
        text.push_str(&format!("{key}={}\n", value.replace('%', "%%")));
    }
}

fn unescaped(value: &str) -> EcoString {
    value.replace("%%", "%").into()
}

/// Returns a word of a command in the syntax of systemd.service(5): without specifiers, variables and prefixes.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-=:,+%@".contains(&byte);
    // Quotes do not protect a prefix such as `@` of the first word. The schema refuses such a word.
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => escaped,
        false => format!("\"{escaped}\""),
    }
}

/// Splits a command that [`quoted`] has written; none for other syntax.
fn words(text: &str) -> Option<Vec<EcoString>> {
    let mut words = Vec::new();
    let mut rest = text.chars().peekable();
    while rest.peek().is_some() {
        let is_quoted = rest.next_if_eq(&'"').is_some();
        let mut word = EcoString::new();
        loop {
            match rest.next() {
                Some('"') if is_quoted => break,
                Some(' ') if !is_quoted => break,
                None if !is_quoted => break,
                None => return None,
                Some('\\') => word.push(rest.next()?),
                Some(double @ ('%' | '$')) => {
                    rest.next_if_eq(&double)?;
                    word.push(double);
                }
                Some(other) => word.push(other),
            }
        }
        words.push(word);
        if is_quoted && rest.peek().is_some() {
            rest.next_if_eq(&' ')?;
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_read_as_they_were_written() {
        let unit = TimerUnit {
            description: "100 % done".into(),
            on_calendar: vec!["Mon 03:00".into(), "*-*-01 04:00".into()],
            persistent: true,
            spans: ["1m", "", "10m"].map(EcoString::from),
            user: "backup".into(),
            command: ["/usr/bin/env", "", "a b", "$HOME", "%n", "it's \"\\x\"", "x=1"].map(EcoString::from).into(),
        };
        let (timer, service) = (unit.timer("job"), unit.service("job"));
        assert_eq!(TimerUnit::parse("job", &timer, &service), Ok(unit));
        assert!(
            timer.contains(
                "\nOnCalendar=Mon 03:00\nOnCalendar=*-*-01 04:00\nOnBootSec=1m\n\
             RandomizedDelaySec=10m\nPersistent=true\n"
            ),
            "{timer}"
        );
        assert!(service.contains(" \"\" \"a b\" \"$$HOME\" %%n \"it's \\\"\\\\x\\\"\" x=1\n"), "{service}");
        let least =
            TimerUnit { command: vec!["true".into()], on_calendar: vec!["daily".into()], ..TimerUnit::default() };
        assert_eq!(TimerUnit::parse("job", &least.timer("job"), &least.service("job")), Ok(least));
    }

    #[test]
    fn files_of_others_are_refused() {
        let own = TimerUnit::default().timer("job");
        for (timer, service) in [("[Timer]\n", ""), (&*own, "[Service]\n"), ("# x\n", "")] {
            let refused = TimerUnit::parse("job", timer, service).unwrap_err();
            assert!(refused.contains("kilter has not written"), "{refused}");
        }
        assert!(TimerUnit::parse("other", &own, "").is_err());
        assert_eq!(TimerUnit::parse("job", &own, ""), Ok(TimerUnit::default()));
    }

    #[test]
    fn other_syntax_of_commands_is_no_command() {
        for text in ["\"a", "a\\", "$HOME", "%n", "\"a\"b"] {
            assert_eq!(words(text), None, "{text}");
        }
        assert_eq!(words(""), Some(Vec::new()));
    }
}
