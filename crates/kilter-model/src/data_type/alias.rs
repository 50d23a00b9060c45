//! Named types.

use std::sync::Arc;

use ecow::EcoString;
use rustc_hash::{FxHashMap, FxHashSet};

use super::DataType;

/// Definitions of named types: `My::Port` for `Integer[1, 65535]`.
///
/// A definition may refer to other names and to itself: `Tree = Variant[String, Array[Tree]]`.
#[derive(Clone, Debug, Default)]
pub struct Aliases {
    definitions: Arc<FxHashMap<EcoString, DataType>>,
}

/// A named type with the table that defines it.
#[derive(Clone, Debug)]
pub struct Alias {
    pub(super) name: EcoString,
    pub(super) table: Aliases,
}

/// Reason why a table of names is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AliasError {
    /// The name belongs to a type of the language.
    #[error("`{0}` is the name of a type of the language")]
    Taken(EcoString),
    /// The text is not a valid type name.
    #[error("`{0}` is not the name of a type: it must begin with a capital letter, as in My::Port")]
    NoName(EcoString),
    /// The definition refers to itself without an array or a hash in between.
    #[error("the type `{0}` is defined by itself: a recursive reference must be inside an array or a hash")]
    Circular(EcoString),
}

impl Aliases {
    /// Creates a table from definitions.
    ///
    /// # Errors
    /// If a name is taken or invalid, or if a definition is circular.
    pub fn new(definitions: impl IntoIterator<Item = (EcoString, DataType)>) -> Result<Aliases, AliasError> {
        let definitions: FxHashMap<EcoString, DataType> = definitions.into_iter().collect();
        for name in definitions.keys() {
            match super::parse(name) {
                Ok(DataType::TypeReference(read)) if read == *name => {}
                Ok(_) => return Err(AliasError::Taken(name.clone())),
                Err(_) => return Err(AliasError::NoName(name.clone())),
            }
        }
        let mut sound = FxHashSet::default();
        let mut names: Vec<&EcoString> = definitions.keys().collect();
        names.sort_unstable();
        for name in names {
            ground(name, &definitions, &mut Vec::new(), &mut sound)?;
        }
        Ok(Aliases { definitions: Arc::new(definitions) })
    }

    /// Returns the type with a name.
    pub fn get(&self, name: &str) -> Option<DataType> {
        let (name, _) = self.definitions.get_key_value(name)?;
        Some(DataType::Alias(Alias { name: name.clone(), table: self.clone() }))
    }

    /// Returns the definition of a name. Names inside it are not resolved.
    pub(super) fn definition(&self, name: &str) -> Option<&DataType> {
        self.definitions.get(name)
    }
}

/// Follows definitions that refer directly to each other. Returns an error if they form a circle.
fn ground<'a>(
    name: &'a EcoString,
    definitions: &'a FxHashMap<EcoString, DataType>,
    way: &mut Vec<&'a EcoString>,
    sound: &mut FxHashSet<&'a EcoString>,
) -> Result<(), AliasError> {
    if way.contains(&name) {
        return Err(AliasError::Circular(name.clone()));
    }
    let (Some(definition), false) = (definitions.get(name), sound.contains(name)) else { return Ok(()) };
    way.push(name);
    let mut names = Vec::new();
    bare_names(definition, &mut names);
    for next in names {
        ground(next, definitions, way, sound)?;
    }
    way.pop();
    sound.insert(name);
    Ok(())
}

/// Collects the names that apply to a value as a whole and not to its elements.
fn bare_names<'a>(data_type: &'a DataType, names: &mut Vec<&'a EcoString>) {
    match data_type {
        DataType::TypeReference(name) => names.push(name),
        DataType::Array(..) | DataType::Hash(..) | DataType::Struct(_) | DataType::Tuple(..) | DataType::Alias(_) => {}
        other => other.parts().into_iter().for_each(|part| bare_names(part, names)),
    }
}

impl Alias {
    /// Returns the name of the type.
    pub fn name(&self) -> &EcoString {
        &self.name
    }

    /// Returns the definition, with its names resolved one level deep.
    pub fn definition(&self) -> DataType {
        self.body().resolve(&self.table)
    }

    /// Returns the definition with its names as written.
    pub(super) fn body(&self) -> &DataType {
        self.table.definition(&self.name).expect("an alias is made of a definition")
    }
}

/// Returns true if a text is a valid type name: `Port`, `My::Port`.
pub(crate) fn is_type_name(text: &str) -> bool {
    text.split("::").all(|part| {
        part.starts_with(|c: char| c.is_ascii_uppercase())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

impl PartialEq for Alias {
    fn eq(&self, other: &Alias) -> bool {
        self.name == other.name
    }
}

impl DataType {
    /// Replaces the names that the table defines. Other names remain references and accept no values.
    #[must_use]
    pub fn resolve(&self, aliases: &Aliases) -> DataType {
        match self {
            DataType::TypeReference(name) => aliases.get(name).unwrap_or_else(|| self.clone()),
            other => other.with_parts(&mut |part| part.resolve(aliases)),
        }
    }

    /// Collects the unresolved names of the type, except those inside aliases.
    pub(crate) fn references(&self, names: &mut Vec<EcoString>) {
        match self {
            DataType::TypeReference(name) => names.push(name.clone()),
            other => other.parts().into_iter().for_each(|part| part.references(names)),
        }
    }

    /// Returns the first undefined name of the type, including those inside aliases.
    pub fn unresolved(&self) -> Option<EcoString> {
        unresolved(self, None, &mut FxHashSet::default())
    }
}

fn unresolved(data_type: &DataType, table: Option<&Aliases>, seen: &mut FxHashSet<EcoString>) -> Option<EcoString> {
    match data_type {
        DataType::TypeReference(name) => match table.and_then(|table| Some((table, table.definition(name)?))) {
            None => Some(name.clone()),
            Some((table, definition)) => {
                seen.insert(name.clone()).then(|| unresolved(definition, Some(table), seen)).flatten()
            }
        },
        DataType::Alias(alias) => {
            seen.insert(alias.name.clone()).then(|| unresolved(alias.body(), Some(&alias.table), seen)).flatten()
        }
        other => other.parts().into_iter().find_map(|part| unresolved(part, table, seen)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn table(definitions: &[(&str, &str)]) -> Result<Aliases, AliasError> {
        Aliases::new(definitions.iter().map(|(name, text)| ((*name).into(), text.parse().unwrap())))
    }

    fn refused(aliases: &Aliases, data_type: &str, value: &Value) -> String {
        let data_type = data_type.parse::<DataType>().unwrap().resolve(aliases);
        data_type.check(value).unwrap_err().of("t.x").to_string()
    }

    #[test]
    fn a_name_stands_for_its_definition() {
        let aliases = table(&[
            ("My::Port", "Integer[1, 65535]"),
            ("Stdlib::HTTPUrl", r"Pattern[/(?i:\Ahttps?:\/\/.*\z)/]"),
            ("My::Ports", "Array[My::Port]"),
        ])
        .unwrap();
        let ports: DataType = "My::Ports".parse::<DataType>().unwrap().resolve(&aliases);
        assert!(ports.check(&Value::array([Value::Integer(80)])).is_ok());
        assert_eq!(
            refused(&aliases, "My::Ports", &Value::array([Value::Integer(0)])),
            "t.x index 0 expects a My::Port = Integer[1, 65535] value, got Integer[0, 0]"
        );
        assert_eq!(
            refused(&aliases, "Stdlib::HTTPUrl", &Value::from("not a url")),
            r"t.x expects a match for Stdlib::HTTPUrl = Pattern[/(?i:\Ahttps?:\/\/.*\z)/], got 'not a url'"
        );
        assert_eq!(ports.to_string(), "My::Ports");
    }

    #[test]
    fn unknown_type_alias_is_reported_at_use() {
        let message = refused(&Aliases::default(), "Array[Stdlib::HTTPUrl]", &Value::from("x"));
        assert_eq!(message, "t.x references an unresolved type 'Stdlib::HTTPUrl'");
        let aliases = table(&[("A", "Array[B]")]).unwrap();
        assert_eq!(refused(&aliases, "A", &Value::array([Value::Undef])), "t.x references an unresolved type 'B'");
    }

    #[test]
    fn alias_may_be_recursive_inside_container() {
        let aliases = table(&[("Tree", "Variant[String, Array[Tree]]")]).unwrap();
        let tree: DataType = "Tree".parse::<DataType>().unwrap().resolve(&aliases);
        let deep = Value::array([Value::from("a"), Value::array([Value::array([Value::from("b")])])]);
        assert!(tree.check(&deep).is_ok());
        let wrong = Value::array([Value::from("a"), Value::array([Value::Integer(1)])]);
        assert_eq!(
            tree.check(&wrong).unwrap_err().to_string(),
            "variant 0 expects a String value, got Tuple; variant 1 index 1 variant 0 expects a String value, \
             got Tuple; variant 1 index 1 variant 1 index 0 expects a Tree = Variant[String, Array[Tree]] value, \
             got Integer"
        );
        for circular in [
            &[("A", "A")][..],
            &[("A", "Variant[A, Integer]")],
            &[("A", "Optional[B]"), ("B", "NotUndef[A]")],
            &[("A", "Sensitive[A]")],
            &[("A", "Type[A]")],
        ] {
            assert!(matches!(table(circular), Err(AliasError::Circular(_))), "{circular:?}");
        }
        assert!(table(&[("A", "Array[B]"), ("B", "Struct[{a => A}]")]).is_ok());
        assert!(matches!(table(&[("Integer", "String")]), Err(AliasError::Taken(_))));
        assert!(matches!(table(&[("port", "String")]), Err(AliasError::NoName(_))));
    }
}
