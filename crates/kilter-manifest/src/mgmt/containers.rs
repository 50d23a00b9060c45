//! Translation of mgmt's kinds for containers and machines.

use ecow::eco_format;

use super::GraphReader;
use super::convert::{STATES, copy, word};
use super::emit::{Lowered, Piece};
use super::fields::{Fields, Shape};
use crate::diagnostic::Diagnostic;

use Shape::{Any, Historical, Text, Texts, Truth};

pub(super) const CONTAINER: &[(&str, Shape)] = &[
    ("state", Text),
    ("image", Text),
    ("cmd", Texts),
    ("env", Texts),
    ("ports", Any),
    ("apiversion", Historical(&[])),
    ("force", Truth),
];
pub(super) const IMAGE: &[(&str, Shape)] = &[("state", Text), ("apiversion", Historical(&[]))];

pub(super) const NSPAWN: &[(&str, Shape)] = &[("state", Text)];

/// Translates a container. `force` allows mgmt to replace a container, which kilter always does.
pub(super) fn container(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    let states = [("running", "running"), ("stopped", "stopped"), ("removed", "absent")];
    word(reader, fields, "state", &states, lowered, "ensure");
    copy(fields, "image", lowered, "image");
    copy(fields, "cmd", lowered, "command");
    copy(fields, "env", lowered, "environment");
    let Some((ports, at)) = fields.get("ports") else { return };
    let Piece::Mapping(protocols, _) = ports else {
        return reader.report(Diagnostic::new("`ports` is a mapping from protocols to mappings of ports").at(at));
    };
    let mut published = Vec::new();
    for (protocol, ports) in protocols {
        let Piece::Mapping(ports, _) = ports else {
            return reader.report(Diagnostic::new("the ports of a protocol are a mapping").at(ports.span()));
        };
        for (outer, inner) in ports {
            match (scalar(protocol), scalar(outer), scalar(inner)) {
                (Some(protocol), Some(outer), Some(inner)) => {
                    published.push(Piece::Text(eco_format!("{outer}:{inner}/{protocol}"), at));
                }
                _ => return reader.report(Diagnostic::new("a port is a number").at(at)),
            }
        }
    }
    lowered.push("ports", at, Piece::List(published, at));
}

/// Translates an image.
pub(super) fn image(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    word(reader, fields, "state", &STATES, lowered, "ensure");
}

/// Translates a machine, which runs by default.
pub(super) fn nspawn(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    match fields.text("state") {
        None => lowered.imply("ensure", "running"),
        Some(_) => word(reader, fields, "state", &[("running", "running"), ("stopped", "stopped")], lowered, "ensure"),
    }
}

fn scalar(piece: &Piece) -> Option<&str> {
    match piece {
        Piece::Text(text, _) | Piece::Plain(text, _) => Some(text),
        _ => None,
    }
}
