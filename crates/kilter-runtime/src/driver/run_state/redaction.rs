//! Redaction of secrets in reports and logs.

use ecow::EcoString;
use kilter_engine::ResourceId;
use kilter_model::Difference;
use kilter_provider::Redactor;

use super::RunState;
use super::output_store::SentOutputs;

impl RunState<'_> {
    /// Returns the secrets to redact for a resource.
    pub(super) fn seal(&self, vertex: ResourceId) -> Redactor {
        self.secrets.with(&self.prepared, [self.outputs.attributes(&self.prepared, vertex)])
    }

    /// Handles outputs that a resource has sent: their secrets are redacted from now on.
    pub(super) fn has_sent(&mut self, vertex: ResourceId, sent: SentOutputs) {
        self.secrets.add(sent.secrets);
        if let Some(note) = sent.note {
            self.draft(vertex).notes.push(note);
        }
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
        if !self.secrets.of_type.contains_key(&slot) {
            let seal = self.seal_of_type(slot);
            self.secrets.of_type.insert(slot, seal);
        }
        self.secrets.of_type[&slot].redact(line.into())
    }

    /// Returns the secrets to redact for all resources of a type.
    fn seal_of_type(&self, slot: u16) -> Redactor {
        let vertices = self.prepared.providers.iter().zip(self.prepared.graph.vertices());
        let of_type = vertices.filter(|(at, _)| self.prepared.registry.slot(usize::from(**at)) == slot);
        let attributes = of_type.map(|(_, vertex)| self.outputs.attributes(&self.prepared, vertex));
        self.secrets.with(&self.prepared, attributes)
    }

    /// Remembers the secrets of resources with running calls, because an edit may remove these resources.
    pub(in super::super) fn remember_secrets(&mut self, vertices: impl Iterator<Item = ResourceId>) {
        let mut vertices = vertices.peekable();
        let of_manifest = vertices.peek().map_or(&[][..], |_| &self.prepared.catalog.secrets);
        let declared = vertices.filter(|vertex| self.prepared.graph.contains(*vertex));
        let attributes = declared.map(|vertex| self.outputs.attributes(&self.prepared, vertex));
        let own = attributes.flat_map(|attributes| attributes.iter().map(|(_, value)| value));
        self.secrets.add(own.chain(of_manifest).filter(|value| value.holds_sensitive()).cloned());
    }

    /// Redacts secrets in differences.
    pub(super) fn redacted_differences(&self, vertex: ResourceId, differences: Vec<Difference>) -> Vec<Difference> {
        let seal = self.seal(vertex);
        differences.into_iter().map(|each| seal.redact_difference(each)).collect()
    }
}
