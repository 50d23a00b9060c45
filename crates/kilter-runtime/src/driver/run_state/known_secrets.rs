//! Secrets to redact that no declaration of the current catalog contains.

use kilter_model::{Attributes, Value};
use kilter_provider::Redactor;
use rustc_hash::FxHashMap;

use crate::prepare::Prepared;

/// Secrets that no declaration of the current catalog contains: outputs, and attributes of former declarations.
#[derive(Default)]
pub(super) struct KnownSecrets {
    values: Vec<Value>,
    /// Values to redact in all output about resources of a type; created at the first use.
    pub(super) of_type: FxHashMap<u16, Redactor>,
}

impl KnownSecrets {
    /// Remembers secrets.
    pub(super) fn add(&mut self, secrets: impl IntoIterator<Item = Value>) {
        for secret in secrets {
            if !self.values.contains(&secret) {
                self.values.push(secret);
                self.of_type.clear();
            }
        }
    }

    /// Forgets the redactors of types, because their resources have other attributes now.
    pub(super) fn forget_types(&mut self) {
        self.of_type.clear();
    }

    /// Returns the secrets to redact for several resources: their own, those of the manifest, and the known ones.
    pub(super) fn with<'a>(
        &self,
        prepared: &Prepared,
        resources: impl IntoIterator<Item = &'a Attributes>,
    ) -> Redactor {
        let own = resources.into_iter().flat_map(|attributes| attributes.iter().map(|(_, value)| value));
        Redactor::of_values(own.chain(&prepared.catalog.secrets).chain(&self.values))
    }
}
