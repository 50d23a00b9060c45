//! Names of resources in calls of a simple provider.

use std::fmt;

use kilter_model::{Attributes, Value};

/// The name of a resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Name<'a> {
    /// Value of the only namevar of the type.
    Single(&'a str),
    /// Values of all namevars, if the type has several.
    Composite(&'a Attributes),
}

impl<'a> Name<'a> {
    /// Returns the value of a single namevar.
    pub fn single(&self) -> Option<&'a str> {
        match self {
            Name::Single(name) => Some(name),
            Name::Composite(_) => None,
        }
    }

    /// Returns the value of a namevar if the type has several.
    pub fn get(&self, namevar: &str) -> Option<&'a Value> {
        match self {
            Name::Single(_) => None,
            Name::Composite(values) => values.get(namevar),
        }
    }
}

/// Formats the name for people: `bar`, or `name: bar, group: foo`.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Single(name) => f.pad(name),
            Name::Composite(values) => {
                for (at, (namevar, value)) in values.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{namevar}: {value}")?;
                }
                Ok(())
            }
        }
    }
}
