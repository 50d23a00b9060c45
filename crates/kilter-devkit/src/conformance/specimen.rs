//! Resources that a suite may create, change and remove.

use ecow::EcoString;
use kilter_model::{Attributes, TypeSchema, Value};

/// A resource that the suite may create, change and remove, as declared in a manifest. Values need not be
/// canonical. The suite adds defaults of the schema, and `ensure: present` if the type supports it.
#[derive(Clone, Debug)]
pub struct Sample {
    namevars: Namevars,
    present: Attributes,
    changed: Vec<Attributes>,
    absent: Option<Attributes>,
}

#[derive(Clone, Debug)]
enum Namevars {
    /// Value of the only namevar.
    One(EcoString),
    Several(Attributes),
}

/// Converts pairs to attributes.
fn attributes<'a, V: Into<Value>>(entries: impl IntoIterator<Item = (&'a str, V)>) -> Attributes {
    entries.into_iter().map(|(name, value)| (name, value.into())).collect()
}

impl Sample {
    /// Creates a specimen of a type with one namevar.
    pub fn new(name: impl Into<EcoString>) -> Sample {
        Sample::of(Namevars::One(name.into()))
    }

    /// Creates a specimen of a type with several namevars.
    pub fn keyed<'a, V: Into<Value>>(namevars: impl IntoIterator<Item = (&'a str, V)>) -> Sample {
        Sample::of(Namevars::Several(attributes(namevars)))
    }

    fn of(namevars: Namevars) -> Sample {
        Sample { namevars, present: Attributes::new(), changed: Vec::new(), absent: None }
    }

    /// Sets the first declaration.
    #[must_use]
    pub fn present<'a, V: Into<Value>>(mut self, should: impl IntoIterator<Item = (&'a str, V)>) -> Sample {
        self.present = attributes(should);
        self
    }

    /// Adds another declaration, which differs from the first. Can be called repeatedly.
    #[must_use]
    pub fn changed<'a, V: Into<Value>>(mut self, should: impl IntoIterator<Item = (&'a str, V)>) -> Sample {
        self.changed.push(attributes(should));
        self
    }

    /// Sets the declaration for removal. The default is `ensure: absent` with the parameters of the first
    /// declaration.
    #[must_use]
    pub fn absent<'a, V: Into<Value>>(mut self, should: impl IntoIterator<Item = (&'a str, V)>) -> Sample {
        self.absent = Some(attributes(should));
        self
    }

    pub(super) fn first(&self) -> &Attributes {
        &self.present
    }

    pub(super) fn others(&self) -> &[Attributes] {
        &self.changed
    }

    pub(super) fn removal(&self) -> Option<&Attributes> {
        self.absent.as_ref()
    }

    /// Returns the namevars with their values.
    pub(super) fn namevars(&self, schema: &TypeSchema) -> Attributes {
        match &self.namevars {
            Namevars::Several(namevars) => namevars.clone(),
            Namevars::One(name) => {
                schema.namevars().take(1).map(|namevar| (namevar.name.clone(), name.clone())).collect()
            }
        }
    }

    /// Returns the specimen with another value of a namevar.
    pub(super) fn renamed(&self, schema: &TypeSchema, namevar: &str, value: Value) -> Sample {
        let mut namevars = self.namevars(schema);
        namevars.set(namevar, value);
        Sample { namevars: Namevars::Several(namevars), ..self.clone() }
    }
}
