//! How a simple provider is told which resource is meant.

use std::fmt;

use kilter_model::{Attributes, Value};

/// The name of a resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Name<'a> {
    /// The value of the type's only namevar.
    Single(&'a str),
    /// The values of all namevars, where the type has several.
    Composite(&'a Attributes),
}

impl<'a> Name<'a> {
    /// The value of a single namevar.
    pub fn single(&self) -> Option<&'a str> {
        match self {
            Name::Single(name) => Some(name),
            Name::Composite(_) => None,
        }
    }

    /// The value of one of several namevars.
    pub fn get(&self, namevar: &str) -> Option<&'a Value> {
        match self {
            Name::Single(_) => None,
            Name::Composite(values) => values.get(namevar),
        }
    }
}

/// As people write it: `bar`, or `name: bar, group: foo`.
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
