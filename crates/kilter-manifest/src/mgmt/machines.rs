//! Translation of mgmt's kind for virtual machines.

use ecow::eco_format;
use kilter_model::Span;

use super::GraphReader;
use super::convert::{copy, word};
use super::emit::{Lowered, Piece};
use super::fields::{Fields, Shape};
use crate::diagnostic::Diagnostic;

use Shape::{Any, Historical, Number, Text, Texts, Unsupported};

pub(super) const VIRT: &[(&str, Shape)] = &[
    ("uri", Text),
    ("state", Text),
    ("startup", Unsupported),
    ("transient", Unsupported),
    ("cpus", Number),
    // kilter changes the definition only, so that these have no effect.
    ("maxcpus", Historical(&[])),
    ("hotcpus", Historical(&[])),
    ("restartondiverge", Historical(&["", "error", "ignore"])),
    ("restartonrefresh", Historical(&["false"])),
    ("memory", Number),
    ("osinit", Unsupported),
    ("boot", Texts),
    ("disk", Any),
    ("cdrom", Any),
    ("network", Any),
    ("filesystem", Unsupported),
    ("auth", Unsupported),
];

/// Translates a machine, which runs by default. mgmt gives the memory in KiB.
pub(super) fn virt(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    match fields.text("state") {
        None => lowered.imply("ensure", "running"),
        Some(_) => {
            let states = [("running", "running"), ("paused", "paused"), ("shutoff", "stopped")];
            word(reader, fields, "state", &states, lowered, "ensure");
        }
    }
    for name in ["uri", "cpus", "boot"] {
        copy(fields, name, lowered, name);
    }
    if let Some((Piece::Plain(kibibytes, _), at)) = fields.get("memory") {
        let mebibytes = kibibytes.parse::<u64>().ok().filter(|kibibytes| kibibytes % 1024 == 0);
        match mebibytes.map(|kibibytes| kibibytes / 1024) {
            // mgmt leaves the memory as it is.
            Some(0) => {}
            Some(mebibytes) => lowered.push("memory", at, Piece::Plain(eco_format!("{mebibytes}"), at)),
            None => reader.report(Diagnostic::new("kilter sets the memory in whole MiB, which are 1024 KiB").at(at)),
        }
    }
    let disk = |device: &Device<'_>| match device.text("type") {
        Some(format) => device.text("source").map(|path| {
            let text = |text| Piece::Text(text, device.at);
            Piece::Mapping(
                vec![(text("path".into()), text(path.into())), (text("format".into()), text(format.into()))],
                device.at,
            )
        }),
        None => device.piece("source"),
    };
    devices(reader, fields, lowered, ("disk", "disks", &["source", "type"]), &disk);
    devices(reader, fields, lowered, ("cdrom", "cdroms", &["source", "type"]), &|device| device.piece("source"));
    devices(reader, fields, lowered, ("network", "networks", &["name"]), &|device| device.piece("name"));
}

/// A device of a machine.
struct Device<'d> {
    fields: &'d [(Piece, Piece)],
    at: Span,
}

impl Device<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.fields.iter().find(|(key, _)| scalar(key) == Some(name))?;
        scalar(value).filter(|text| !text.is_empty())
    }

    fn piece(&self, name: &str) -> Option<Piece> {
        self.text(name).map(|text| Piece::Text(text.into(), self.at))
    }
}

/// Translates a list of devices with the given fields.
fn devices(
    reader: &mut GraphReader,
    fields: &Fields,
    lowered: &mut Lowered,
    (name, attribute, known): (&str, &str, &[&str]),
    translate: &dyn Fn(&Device<'_>) -> Option<Piece>,
) {
    let Some((given, at)) = fields.get(name) else { return };
    let Piece::List(given, _) = given else {
        return reader.report(Diagnostic::new(eco_format!("`{name}` is a list of mappings")).at(at));
    };
    let mut translated = Vec::with_capacity(given.len());
    for device in given {
        let at = device.span();
        let Piece::Mapping(device, _) = device else {
            return reader.report(Diagnostic::new(eco_format!("`{name}` is a list of mappings")).at(at));
        };
        if let Some((key, _)) = device.iter().find(|(key, _)| scalar(key).is_none_or(|key| !known.contains(&key))) {
            let message = eco_format!("kilter has nothing like `{}` of `{name}`", scalar(key).unwrap_or("?"));
            return reader.report(Diagnostic::new(message).at(key.span()));
        }
        match translate(&Device { fields: device, at }) {
            Some(piece) => translated.push(piece),
            None => return reader.report(Diagnostic::new(eco_format!("`{}` of `{name}` is missing", known[0])).at(at)),
        }
    }
    lowered.push(attribute, at, Piece::List(translated, at));
}

fn scalar(piece: &Piece) -> Option<&str> {
    match piece {
        Piece::Text(text, _) | Piece::Plain(text, _) => Some(text),
        _ => None,
    }
}
