//! Redaction of secrets in reports and logs.

use ecow::EcoString;
use kilter_engine::ResourceId;
use kilter_model::{Attributes, Difference, Value};
use kilter_provider::Redactor;

use super::RunState;

impl RunState<'_> {
    /// Returns the secrets to redact for a resource.
    pub(super) fn seal(&self, vertex: ResourceId) -> Redactor {
        self.seal_of([self.wanted_of(vertex)])
    }

    /// Returns the declared attributes of a resource, with received outputs as far as they are known.
    fn wanted_of(&self, vertex: ResourceId) -> &Attributes {
        match self.resolved.get(&vertex) {
            Some(resolved) => &resolved.attributes,
            None => &self.prepared.resource(vertex).attributes,
        }
    }

    /// Returns the secrets to redact for several resources: their own, those of the manifest, and received ones.
    fn seal_of<'a>(&'a self, resources: impl IntoIterator<Item = &'a Attributes>) -> Redactor {
        let own = resources.into_iter().flat_map(|attributes| attributes.iter().map(|(_, value)| value));
        Redactor::of_values(own.chain(&self.prepared.catalog.secrets).chain(&self.sent))
    }

    /// Redacts a log line of a provider.
    ///
    /// A line about an undeclared resource may come from a cancelled call. The secrets of all resources of the type
    /// are then redacted.
    pub(in super::super) fn sealed(&mut self, type_name: &str, name: &str, line: String) -> EcoString {
        let Some(provider) = self.prepared.registry.index(type_name) else { return line.into() };
        if let Some(vertex) = self.prepared.lookup().named(provider as u16, name) {
            return self.seal(vertex).redact(line.into());
        }
        let slot = self.prepared.registry.slot(provider);
        if !self.seals.contains_key(&slot) {
            let seal = self.seal_of_type(slot);
            self.seals.insert(slot, seal);
        }
        self.seals[&slot].redact(line.into())
    }

    /// Returns the secrets to redact for all resources of a type.
    fn seal_of_type(&self, slot: u16) -> Redactor {
        let vertices = self.prepared.providers.iter().zip(self.prepared.graph.vertices());
        let of_type = vertices.filter(|(at, _)| self.prepared.registry.slot(usize::from(**at)) == slot);
        self.seal_of(of_type.map(|(_, vertex)| self.wanted_of(vertex)))
    }

    /// Remembers the secrets of resources with running calls, because an edit may remove these resources.
    pub(in super::super) fn remember_secrets(&mut self, vertices: impl Iterator<Item = ResourceId>) {
        let mut vertices = vertices.peekable();
        let of_manifest = vertices.peek().map_or(&[][..], |_| &self.prepared.catalog.secrets);
        let declared = vertices.filter(|vertex| self.prepared.graph.contains(*vertex));
        let own = declared.flat_map(|vertex| self.wanted_of(vertex).iter().map(|(_, value)| value));
        let secrets: Vec<Value> = own.chain(of_manifest).filter(|value| value.holds_sensitive()).cloned().collect();
        for secret in secrets {
            if !self.sent.contains(&secret) {
                self.sent.push(secret);
            }
        }
    }

    /// Redacts secrets in differences.
    pub(super) fn told(&self, vertex: ResourceId, differences: Vec<Difference>) -> Vec<Difference> {
        let seal = self.seal(vertex);
        differences.into_iter().map(|each| seal.redact_difference(each)).collect()
    }
}
