//! A resource that a suite may make, change and remove.

use ecow::EcoString;
use kilter_model::{Attributes, TypeSchema, Value};

/// A resource that the suite may make, change and remove, as a manifest would declare it: values need
/// not be canonical, defaults of the schema are filled in, and `ensure: present` is added where the
/// type knows that word and nothing is said.
#[derive(Clone, Debug)]
pub struct Specimen {
    namevars: Namevars,
    present: Attributes,
    changed: Vec<Attributes>,
    absent: Option<Attributes>,
}

#[derive(Clone, Debug)]
enum Namevars {
    /// The value of the only one.
    One(EcoString),
    Several(Attributes),
}

/// Attributes, from whatever is at hand.
fn attributes<'a, V: Into<Value>>(entries: impl IntoIterator<Item = (&'a str, V)>) -> Attributes {
    entries.into_iter().map(|(name, value)| (name, value.into())).collect()
}

impl Specimen {
    /// A resource of a type with one namevar.
    pub fn new(name: impl Into<EcoString>) -> Specimen {
        Specimen::of(Namevars::One(name.into()))
    }

    /// A resource of a type with several namevars.
    pub fn keyed<'a, V: Into<Value>>(namevars: impl IntoIterator<Item = (&'a str, V)>) -> Specimen {
        Specimen::of(Namevars::Several(attributes(namevars)))
    }

    fn of(namevars: Namevars) -> Specimen {
        Specimen { namevars, present: Attributes::new(), changed: Vec::new(), absent: None }
    }

    /// What is declared of it first.
    #[must_use]
    pub fn present<'a, V: Into<Value>>(mut self, should: impl IntoIterator<Item = (&'a str, V)>) -> Specimen {
        self.present = attributes(should);
        self
    }

    /// Another declaration of it, which differs from the first. There may be several.
    #[must_use]
    pub fn changed<'a, V: Into<Value>>(mut self, should: impl IntoIterator<Item = (&'a str, V)>) -> Specimen {
        self.changed.push(attributes(should));
        self
    }

    /// How its absence is declared, where that is not `ensure: absent` and the parameters it has when
    /// it is present.
    #[must_use]
    pub fn absent<'a, V: Into<Value>>(mut self, should: impl IntoIterator<Item = (&'a str, V)>) -> Specimen {
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

    /// The namevars with their values.
    pub(super) fn namevars(&self, schema: &TypeSchema) -> Attributes {
        match &self.namevars {
            Namevars::Several(namevars) => namevars.clone(),
            Namevars::One(name) => {
                schema.namevars().take(1).map(|namevar| (namevar.name.clone(), name.clone())).collect()
            }
        }
    }

    /// The same specimen with another value of a namevar.
    pub(super) fn renamed(&self, schema: &TypeSchema, namevar: &str, value: Value) -> Specimen {
        let mut namevars = self.namevars(schema);
        namevars.set(namevar, value);
        Specimen { namevars: Namevars::Several(namevars), ..self.clone() }
    }
}
