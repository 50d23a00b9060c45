//! The kind `cron`: a systemd timer, which is a file and a unit in kilter.

use ecow::{EcoString, eco_format};

use super::GraphReader;
use super::convert::word;
use super::emit::{Lowered, Piece};
use super::fields::{Fields, Shape};
use crate::diagnostic::{Diagnostic, list};

use Shape::{Text, Truth, Unsupported};

pub(super) const FIELDS: &[(&str, Shape)] = &[
    ("unit", Text),
    ("state", Text),
    ("startup", Text),
    ("session", Unsupported),
    ("trigger", Text),
    ("time", Text),
    ("accuracysec", Text),
    ("randomizeddelaysec", Text),
    ("persistent", Truth),
    ("wakesystem", Truth),
    ("remainafterelapse", Truth),
];

/// Triggers of a timer.
const TRIGGERS: [&str; 6] =
    ["OnCalendar", "OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec"];

/// Translates a timer to its unit, which comes after the unit's file.
pub(super) fn lower(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    let unit = eco_format!("{}.timer", fields.title);
    if fields.title.contains('/') {
        return reader.report(Diagnostic::new("the name of a unit has no `/`").at(fields.at));
    }
    if let Some((state, at)) = fields.text("state").filter(|(state, _)| *state != "exists") {
        let problem = Diagnostic::new(eco_format!("`state: {state}` of a `cron`: kilter only makes timers")).at(at);
        return reader.report(problem.hint(eco_format!(
            "write a manifest that stops `service[{unit}]` and removes `file[/etc/systemd/system/{unit}]`"
        )));
    }
    let Some(content) = content(reader, fields) else { return };
    let at = fields.at;
    let mut file = Lowered::new("", "file", &eco_format!("/etc/systemd/system/{unit}"), at);
    file.imply("ensure", "file");
    file.push("content", at, Piece::Text(content, at));
    file.push("mode", at, Piece::Text("0644".into(), at));
    file.followers.push((eco_format!("service[{unit}]"), true, at));
    reader.resources.push(file);
    lowered.reference = eco_format!("service[{unit}]");
    lowered.imply("ensure", "running");
    match fields.text("startup") {
        None => lowered.imply("enable", "true"),
        Some(_) => word(reader, fields, "startup", &[("enabled", "true"), ("disabled", "false")], lowered, "enable"),
    }
}

/// Returns the content of the unit's file.
fn content(reader: &mut GraphReader, fields: &Fields) -> Option<EcoString> {
    let mut given = |name: &str, example: &str| {
        let given = fields.text(name).map(|(text, at)| (text.as_str(), at));
        if given.is_none() {
            let problem = Diagnostic::new(eco_format!("a `cron` needs `{name}`")).at(fields.at);
            reader.report(problem.hint(eco_format!("such as {name}: {example}")));
        }
        given
    };
    let (trigger, time) = (given("trigger", "OnCalendar"), given("time", "'*-*-* 4:00:00'"));
    let ((trigger, at), (time, _)) = (trigger?, time?);
    if !TRIGGERS.contains(&trigger) {
        let problem = Diagnostic::new(eco_format!("`trigger` is not one of its values: `{trigger}`")).at(at);
        reader.report(problem.hint(list(&TRIGGERS, "allowed are")));
        return None;
    }
    let mut lines = vec![eco_format!("{trigger}={time}")];
    for (name, key) in [("accuracysec", "AccuracySec"), ("randomizeddelaysec", "RandomizedDelaySec"), ("unit", "Unit")]
    {
        lines.extend(fields.text(name).map(|(text, _)| eco_format!("{key}={text}")));
    }
    for (name, key) in
        [("persistent", "Persistent"), ("wakesystem", "WakeSystem"), ("remainafterelapse", "RemainAfterElapse")]
    {
        lines.extend(fields.get(name).map(|_| eco_format!("{key}={}", fields.is(name))));
    }
    if let Some(line) = lines.iter().find(|line| line.contains(['\n', '\r'])) {
        let problem = Diagnostic::new(eco_format!("{line:?} has a line break")).at(fields.at);
        reader.report(problem);
        return None;
    }
    let title = fields.title.as_str();
    Some(eco_format!(
        "[Unit]\nDescription=Timer {title}, of a graph of mgmt\n\n[Timer]\n{}\n\n[Install]\nWantedBy=timers.target\n",
        lines.join("\n")
    ))
}
