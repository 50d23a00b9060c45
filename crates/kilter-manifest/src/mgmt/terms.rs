//! What graphs call things that have another name here: problems that are found later are told in those words.

use std::collections::BTreeMap;

use kilter_model::Span;

/// The words of graphs, by their places.
#[derive(Default)]
pub(crate) struct Terms {
    /// Kinds, each with its type here.
    kinds: Vec<(Span, &'static str, &'static str)>,
    /// The fields of values that are those of an attribute of another name.
    fields: BTreeMap<Span, &'static str>,
}

impl Terms {
    pub(super) fn add_kind(&mut self, at: Span, kind: &'static str, type_name: &'static str) {
        self.kinds.push((at, kind, type_name));
    }

    pub(super) fn add_field(&mut self, value: Span, field: &'static str) {
        self.fields.insert(value, field);
    }

    /// Takes those of another graph.
    pub(crate) fn extend(&mut self, other: Terms) {
        self.kinds.extend(other.kinds);
        self.fields.extend(other.fields);
    }

    /// The kind that a graph has for a type, and where; `within` is a place in the graph.
    pub(crate) fn kind(&self, type_name: &str, within: Span) -> Option<(Span, &'static str)> {
        let is_it = |(at, _, of): &&(Span, &str, &str)| at.source == within.source && *of == type_name;
        self.kinds.iter().find(is_it).map(|(at, kind, _)| (*at, *kind))
    }

    /// The field that a value is written behind, if the attribute has another name.
    pub(crate) fn field(&self, value: Span) -> Option<&'static str> {
        self.fields.get(&value).copied()
    }
}
