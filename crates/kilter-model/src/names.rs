//! Identifiers: type names, titles, attribute names, references.

use std::fmt;

use ecow::EcoString;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(EcoString);

        impl $name {
            /// Returns the text.
            #[inline]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the text as a shared string.
            pub fn text(&self) -> &EcoString {
                &self.0
            }
        }

        impl<T: Into<EcoString>> From<T> for $name {
            fn from(text: T) -> Self {
                $name(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }

        impl PartialEq<str> for $name {
            #[inline]
            fn eq(&self, other: &str) -> bool {
                same(self.as_str(), other)
            }
        }

        impl PartialEq<&str> for $name {
            #[inline]
            fn eq(&self, other: &&str) -> bool {
                same(self.as_str(), other)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }
    };
}

/// Compares names. Most unequal names differ in their length or first byte.
#[inline]
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.as_bytes().first() == other.as_bytes().first() && one == other
}

name! {
    /// Name of a resource type: `file`, `service`.
    TypeName
}
name! {
    /// Title of a resource. A manifest refers to a resource by its type and title.
    Title
}
name! {
    /// Name of an attribute.
    AttributeName
}

/// A reference to a resource, written `type[title]` everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceRef {
    /// The type.
    pub type_name: TypeName,
    /// The title.
    pub title: Title,
}

/// Reason why a text is not a reference of the form `type[title]`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceRefError {
    /// The text has no `[…]`.
    #[error("`{0}` is not a reference: it has the form type[title], such as file[/etc/motd]")]
    Shape(EcoString),
    /// The type name contains other characters than `a-z`, `0-9`, `_` and `::`.
    #[error("`{0}` is not the name of a type: it must begin with a letter and contain only a-z, 0-9, `_` and `::`")]
    Type(EcoString),
    /// The title is empty.
    #[error("the reference `{0}` has an empty title")]
    Title(EcoString),
}

impl ResourceRef {
    /// Creates a reference to the resource `title` of type `type_name`.
    pub fn new(type_name: impl Into<TypeName>, title: impl Into<Title>) -> ResourceRef {
        ResourceRef { type_name: type_name.into(), title: title.into() }
    }

    /// Splits `type[title]`. The title may contain brackets.
    ///
    /// # Errors
    /// If the text does not have this form.
    pub fn split(text: &str) -> Result<(&str, &str), ResourceRefError> {
        let shape = || ResourceRefError::Shape(text.into());
        let bracket = text.find('[').ok_or_else(shape)?;
        let (type_name, rest) = (&text[..bracket], &text[bracket + 1..]);
        let title = rest.strip_suffix(']').ok_or_else(shape)?;
        if !is_type_name(type_name) {
            return Err(ResourceRefError::Type(type_name.into()));
        }
        if title.is_empty() {
            return Err(ResourceRefError::Title(text.into()));
        }
        Ok((type_name, title))
    }
}

/// Returns true if a text is a valid name of a machine that shares values. `*` means all machines.
pub fn is_machine(text: &str) -> bool {
    let is_harmless = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    text == "*" || !text.is_empty() && text.len() <= 253 && text.chars().all(is_harmless)
}

/// Returns true if `text` is a valid type name.
fn is_type_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b':'))
}

impl std::str::FromStr for ResourceRef {
    type Err = ResourceRefError;

    fn from_str(text: &str) -> Result<ResourceRef, ResourceRefError> {
        let (type_name, title) = ResourceRef::split(text)?;
        Ok(ResourceRef::new(type_name, title))
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.type_name, self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_keeps_brackets_in_its_title() {
        let reference: ResourceRef = "exec[test [ -e /x ]]".parse().unwrap();
        assert_eq!(reference.title, "test [ -e /x ]");
        assert_eq!(reference.to_string(), "exec[test [ -e /x ]]");
    }

    #[test]
    fn text_without_brackets_is_not_a_reference() {
        assert!(matches!("file".parse::<ResourceRef>(), Err(ResourceRefError::Shape(_))));
        assert!(matches!("File[x]".parse::<ResourceRef>(), Err(ResourceRefError::Type(_))));
        assert!(matches!("file[]".parse::<ResourceRef>(), Err(ResourceRefError::Title(_))));
    }
}
