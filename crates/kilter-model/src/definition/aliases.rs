//! Type aliases of a definition.

use ecow::{EcoString, eco_format};

use super::fault::{Fault, Path};
use super::read::Reader;
use crate::data_type::{self, AliasError, DataType, NAMES, is_type_name};
use crate::suggest;
use crate::value::Hash;

/// Valid aliases, and the names of invalid ones.
#[derive(Default)]
pub(super) struct Aliases {
    table: data_type::Aliases,
    names: Vec<EcoString>,
    broken: Vec<EcoString>,
}

/// Message and hint for an invalid type. None if the fault has already been reported.
type TypeProblem = Option<(EcoString, Option<EcoString>)>;

impl Aliases {
    /// Reads the table and reports the faults of each name.
    pub(super) fn read(entries: &Hash, path: &Path, reader: &mut Reader) -> Aliases {
        let mut aliases = Aliases::default();
        let mut sound: Vec<(EcoString, DataType)> = Vec::new();
        for (name, value) in entries {
            match definition(name, value) {
                Ok(data_type) => sound.push((name.clone(), data_type)),
                Err((message, hint)) => {
                    reader.fault(Fault::new(path.key(name.clone()), message).hint_if(hint));
                    aliases.broken.push(name.clone());
                }
            }
        }
        aliases.names = sound.iter().map(|(name, _)| name.clone()).collect();
        loop {
            match data_type::Aliases::new(sound.iter().cloned()) {
                Ok(table) => aliases.table = table,
                Err(error) => {
                    let (AliasError::Taken(name) | AliasError::NoName(name) | AliasError::Circular(name)) = &error;
                    reader.fault(Fault::new(path.key(name.clone()), eco_format!("{error}")));
                    sound.retain(|(other, _)| other != name);
                    aliases.broken.push(name.clone());
                    continue;
                }
            }
            break;
        }
        for (name, data_type) in sound {
            if let Err(Some((message, hint))) = aliases.resolve(&data_type) {
                reader.fault(Fault::new(path.key(name), message).hint_if(hint));
            }
        }
        aliases
    }

    /// Parses a type and resolves its names.
    pub(super) fn data_type(&self, text: &str) -> Result<DataType, TypeProblem> {
        let data_type: DataType = text.parse().map_err(|error| Some(refused(&error, text)))?;
        self.resolve(&data_type)
    }

    /// Resolves the names of a type. An unknown name inside another alias is reported there.
    fn resolve(&self, data_type: &DataType) -> Result<DataType, TypeProblem> {
        let resolved = data_type.resolve(&self.table);
        let mut left = Vec::new();
        resolved.references(&mut left);
        if let Some(unknown) = left.iter().find(|name| !self.broken.contains(name)) {
            return Err(Some(no_such_type(unknown, &self.names)));
        }
        if resolved.unresolved().is_some() { Err(None) } else { Ok(resolved) }
    }
}

fn definition(name: &str, value: &crate::value::Value) -> Result<DataType, (EcoString, Option<EcoString>)> {
    if !is_type_name(name) {
        let message = eco_format!("`{name}` is not the name of a type: it must begin with a capital letter");
        return Err((message, Some("such as Port or My::Port".into())));
    }
    let Some(text) = value.as_str() else {
        return Err((super::read::expectation("the text of a data type", value), None));
    };
    text.parse().map_err(|error| refused(&error, text))
}

/// Returns the message for an invalid type, with a hint if only the capitalisation is wrong.
fn refused(error: &data_type::DataTypeError, text: &str) -> (EcoString, Option<EcoString>) {
    let word: String = text.chars().skip(error.at() - 1).take_while(char::is_ascii_alphabetic).collect();
    let near = NAMES.into_iter().find(|name| *name != word && name.eq_ignore_ascii_case(&word));
    (eco_format!("{error}"), near.map(|near| eco_format!("did you mean `{near}`?")))
}

/// Returns the message for an unknown type, with the most similar name.
pub(super) fn no_such_type(reference: &str, others: &[EcoString]) -> (EcoString, Option<EcoString>) {
    let name = reference.split('[').next().unwrap_or(reference);
    let known = || NAMES.into_iter().chain(others.iter().map(EcoString::as_str));
    let same = known().find(|known| known.eq_ignore_ascii_case(name));
    let near = same.or_else(|| suggest::nearest(name, known()));
    (eco_format!("there is no type {name}"), near.map(|near| eco_format!("did you mean `{near}`?")))
}
