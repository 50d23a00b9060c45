//! Words of mgmt graphs with another name in kilter. Problems that are found later use the words of the graph.

use std::collections::BTreeMap;

use kilter_model::Span;

/// Words of graphs, by position.
#[derive(Default)]
pub(crate) struct Terms {
    /// Kinds with their types in kilter.
    kinds: Vec<(Span, &'static str, &'static str)>,
    /// Fields whose attributes have another name, by the positions of their values.
    fields: BTreeMap<Span, &'static str>,
}

impl Terms {
    pub(super) fn add_kind(&mut self, at: Span, kind: &'static str, type_name: &'static str) {
        self.kinds.push((at, kind, type_name));
    }

    pub(super) fn add_field(&mut self, value: Span, field: &'static str) {
        self.fields.insert(value, field);
    }

    /// Adds the terms of another graph.
    pub(crate) fn extend(&mut self, other: Terms) {
        self.kinds.extend(other.kinds);
        self.fields.extend(other.fields);
    }

    /// Returns the kind in the graph for a type, with its position. `within` is a position in the graph.
    pub(crate) fn kind(&self, type_name: &str, within: Span) -> Option<(Span, &'static str)> {
        let is_it = |(at, _, of): &&(Span, &str, &str)| at.source == within.source && *of == type_name;
        self.kinds.iter().find(is_it).map(|(at, kind, _)| (*at, *kind))
    }

    /// Returns the field of a value, if its attribute has another name.
    pub(crate) fn field(&self, value: Span) -> Option<&'static str> {
        self.fields.get(&value).copied()
    }
}
