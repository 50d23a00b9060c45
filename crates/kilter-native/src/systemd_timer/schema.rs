//! Schema of the type `systemd_timer`, and its problems.

use ecow::eco_format;
use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::ValidationError;

use crate::accounts::name_problem;
use crate::exec::split::split;
use crate::value_text::texts;

const DESC: &str = "\
Commands that systemd runs at given times, like the entries of cron.

```yaml
resources:
  systemd_timer[backup]:
    command: /usr/local/bin/backup --all
    on_calendar: \"*-*-* 03:15\"
    user: backup
    persistent: true
  systemd_timer[report]:
    command: [/usr/local/bin/report, --title, weekly report]
    on_calendar: [Mon 06:00, Fri 18:00]
    randomized_delay_sec: 10m
  systemd_timer[poll]:
    command: /usr/local/bin/poll
    on_boot_sec: 1m
    on_unit_active_sec: 5m
  systemd_timer[old]:
    ensure: absent
```

kilter writes `/etc/systemd/system/NAME.timer` and `NAME.service`, makes systemd read them once for all changes of a \
batch, and enables and starts the timer. kilter refuses to overwrite unit files that it has not written, and to \
replace the unit of a package. Declare \
further settings as a [`file`](file.md) in `/etc/systemd/system/NAME.service.d`.

The command runs without a shell. To use one, write `[sh, -c, \"a | b\"]`. `journalctl -u NAME` shows its output, and \
`systemctl list-timers` shows the next time. All users can read the unit files, so the command must not contain \
secrets. `ensure: absent` stops the timer and removes its files; a running command finishes.

The change fails if the user does not exist, and has a note if the program does not exist. `kilter plan` predicts \
both if no earlier resource may bring them. It checks a changed time with `systemd-analyze`, if that program is \
installed.

For a timer that starts another unit, or has other settings, declare both files and \
[`service[NAME.timer]`](service.md). The type [`timer`](timer.md) causes events of `kilter run`.

**Automatic edges.** The resource runs after its user (before it if both are removed), after the file of its \
command, and after files and directories at its paths.";

/// Attributes with durations of systemd.time(7).
pub(super) const SPANS: [&str; 3] = ["on_boot_sec", "on_unit_active_sec", "randomized_delay_sec"];

pub(super) fn schema() -> TypeSchema {
    let text = |schema: TypeSchema, name: &str, desc: &str| schema.attribute(name, "String", Behaviour::Property, desc);
    let schema = TypeSchema::new("systemd_timer", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State of the timer: `present`, `absent`.")
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the units without `.timer`: `backup`.")
        .attribute(
            "command",
            "Variant[String[1], Array[String, 1]]",
            Behaviour::Property,
            "Command on one line, or a list of its words: `/usr/local/bin/backup --all`. Required for a new timer.",
        )
        .attribute(
            "on_calendar",
            "Variant[String[1], Array[String[1]]]",
            Behaviour::Property,
            "Times of the calendar (systemd.time(7)): `daily`, `Mon..Fri 18:00`, `\"*-*-01 04:00\"`. A new timer needs \
             this attribute, `on_boot_sec` or `on_unit_active_sec`.",
        );
    let schema = text(schema, "on_boot_sec", "Time after the boot: `5m`; `\"\"` for none.");
    let schema = text(
        schema,
        "on_unit_active_sec",
        "Time after the last start of the command: `1h`; `\"\"` for none. Add `on_boot_sec` for the first start.",
    );
    let schema = text(schema, "randomized_delay_sec", "Maximum random delay of each run: `10m`; `\"\"` for none.");
    let schema = schema.attribute(
        "persistent",
        "Boolean",
        Behaviour::Property,
        "True to run the command at the boot if the machine was off at a time of `on_calendar`.",
    );
    let schema = text(schema, "user", "User that runs the command: `backup`; `\"\"` for root.");
    text(schema, "description", "Purpose, which systemd shows: `Nightly backup`.").features(&[
        Feature::Canonicalize,
        Feature::SimpleGetFilter,
        Feature::SupportsNoop,
    ])
}

pub(super) fn bad_name(name: &str) -> Option<ValidationError> {
    let is_name = !name.is_empty()
        && name.len() <= 200
        && !name.starts_with(['.', '-'])
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte))
        && ![".timer", ".service"].iter().any(|suffix| name.ends_with(suffix));
    let problem = || ValidationError::with("name", eco_format!("`{name}` cannot be the name of a timer"));
    (!is_name).then(|| problem().hint("use letters, digits and the characters . _ - :, without .timer"))
}

/// Returns the problems that the schema cannot detect.
pub(super) fn problems(name: &str, should: &Attributes) -> Vec<ValidationError> {
    let mut found: Vec<ValidationError> = bad_name(name).into_iter().collect();
    for attribute in ["command", "on_calendar", "user", "description"].into_iter().chain(SPANS) {
        let Some(value) = should.get(attribute) else { continue };
        let texts = texts(Some(value));
        if value.holds_sensitive() {
            let problem = ValidationError::with(attribute, "all users can read the unit files of a timer");
            found.push(problem.hint("write the secret to a file with `mode: \"0400\"`, and let the command read it"));
        } else if texts.iter().any(|text| text.contains(char::is_control)) {
            found.push(ValidationError::with(attribute, "it contains a control character, such as a line break"));
        } else if attribute != "command" && texts.iter().any(|text| text.ends_with('\\') || text.trim() != text) {
            let problem = "it begins or ends with white space, or ends with a backslash";
            found.push(ValidationError::with(attribute, problem));
        }
    }
    match should.get("command") {
        Some(Value::String(command)) => {
            if let Err(why) = split(command) {
                let problem = ValidationError::with("command", eco_format!("{why}"));
                found.push(problem.hint("write the command as a list of its words: [sh, -c, \"a | b\"]"));
            }
        }
        Some(command) => {
            let program = texts(Some(command)).into_iter().next().unwrap_or_default();
            if !program.starts_with(|c: char| c == '/' || c.is_ascii_alphanumeric()) {
                found.push(ValidationError::with("command", eco_format!("`{program}` is not the name of a program")));
            } else if !program.starts_with('/') && program.contains('/') {
                let problem = ValidationError::with("command", eco_format!("`{program}` is a relative path"));
                found.push(problem.hint("write an absolute path, or the name of a program without a directory"));
            }
        }
        None => {}
    }
    if let Some(user) = should.text("user").filter(|user| !user.is_empty()) {
        found.extend(name_problem("user", user));
    }
    found
}
