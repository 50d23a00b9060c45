//! The providers of a program, by type.

use std::sync::Arc;

use kilter_model::TypeSchema;

use crate::contract::Provider;

/// The providers of a program, by type.
#[derive(Clone, Default)]
pub struct Registry {
    providers: Vec<Arc<dyn Provider>>,
}

impl Registry {
    /// A registry of `providers`, in the order in which types are listed.
    pub fn new(providers: impl IntoIterator<Item = Arc<dyn Provider>>) -> Registry {
        Registry { providers: providers.into_iter().collect() }
    }

    /// The index of the provider of a type.
    pub fn index(&self, type_name: &str) -> Option<usize> {
        self.providers.iter().position(|provider| provider.schema().name == type_name)
    }

    /// The provider of a type.
    pub fn find(&self, type_name: &str) -> Option<&Arc<dyn Provider>> {
        self.providers.iter().find(|provider| provider.schema().name == type_name)
    }

    /// The provider at an index that [`Registry::index`] gave.
    pub fn at(&self, index: usize) -> &Arc<dyn Provider> {
        &self.providers[index]
    }

    /// The schema of a type.
    pub fn schema(&self, type_name: &str) -> Option<&TypeSchema> {
        self.find(type_name).map(|provider| provider.schema())
    }

    /// All providers.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.providers.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.providers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }
}
