//! What must not be told of a resource.

use ecow::EcoString;
use kilter_engine::VertexId;
use kilter_model::{Attributes, Difference, Value};
use kilter_provider::Seal;

use super::Board;

impl Board<'_> {
    /// What must not be told of a resource.
    pub(super) fn seal(&self, vertex: VertexId) -> Seal {
        self.seal_of([self.wanted_of(vertex)])
    }

    /// What is wanted of a resource, as far as it is known.
    fn wanted_of(&self, vertex: VertexId) -> &Attributes {
        match self.resolved.get(&vertex) {
            Some(resolved) => &resolved.attributes,
            None => &self.prepared.resource(vertex).attributes,
        }
    }

    /// What must not be told of several resources: their own secrets, and those of which others are made.
    fn seal_of<'a>(&'a self, resources: impl IntoIterator<Item = &'a Attributes>) -> Seal {
        let own = resources.into_iter().flat_map(|attributes| attributes.iter().map(|(_, value)| value));
        Seal::of_values(own.chain(&self.prepared.catalog.secrets).chain(&self.sent))
    }

    /// A line that a provider wrote, without the secrets of the resource that it is about. One that is
    /// about none of those that are declared may be about all of its type: a call that was given up.
    pub(in super::super) fn sealed(&mut self, type_name: &str, name: &str, line: String) -> EcoString {
        let Some(provider) = self.prepared.registry.index(type_name) else { return line.into() };
        if let Some(vertex) = self.lookup.named(provider as u16, name) {
            return self.seal(vertex).hide(line.into());
        }
        let slot = self.prepared.registry.slot(provider);
        if !self.seals.contains_key(&slot) {
            let seal = self.seal_of_type(slot);
            self.seals.insert(slot, seal);
        }
        self.seals[&slot].hide(line.into())
    }

    /// What must not be told of any resource of a type.
    fn seal_of_type(&self, slot: u16) -> Seal {
        let vertices = self.prepared.providers.iter().zip((0..).map(VertexId));
        let of_type = vertices.filter(|(at, _)| self.prepared.registry.slot(usize::from(**at)) == slot);
        self.seal_of(of_type.map(|(_, vertex)| self.wanted_of(vertex)))
    }

    /// Keeps secret for all others what is secret of these, to which something is still being done when they are declared no longer.
    pub(in super::super) fn remember_secrets(&mut self, vertices: impl Iterator<Item = VertexId>) {
        let mut vertices = vertices.peekable();
        let of_manifest = vertices.peek().map_or(&[][..], |_| &self.prepared.catalog.secrets);
        let own = vertices.flat_map(|vertex| self.wanted_of(vertex).iter().map(|(_, value)| value));
        let secrets: Vec<Value> = own.chain(of_manifest).filter(|value| value.holds_sensitive()).cloned().collect();
        for secret in secrets {
            if !self.sent.contains(&secret) {
                self.sent.push(secret);
            }
        }
    }

    /// Differences as they may be told.
    pub(super) fn told(&self, vertex: VertexId, differences: Vec<Difference>) -> Vec<Difference> {
        let seal = self.seal(vertex);
        differences.into_iter().map(|each| seal.hide_in(each)).collect()
    }
}
