//! The interface to the known resource types.

use kilter_model::TypeSchema;

/// The known resource types.
pub trait Schemas {
    /// Returns the schema of a type.
    fn schema(&self, type_name: &str) -> Option<&TypeSchema>;
    /// Returns the names of all types.
    fn names(&self) -> Vec<&str>;

    /// Returns the schema of a type for the named provider, if there is such a provider. Providers of a type may
    /// accept different attributes.
    fn schema_of(&self, type_name: &str, provider: &str) -> Option<&TypeSchema> {
        let _ = provider;
        self.schema(type_name)
    }

    /// Returns the schema of a type for each of its providers. The first is that of [`schema`](Schemas::schema).
    fn variants(&self, type_name: &str) -> Vec<&TypeSchema> {
        self.schema(type_name).into_iter().collect()
    }
}
