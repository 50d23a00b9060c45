//! The providers of the command, and how it speaks of a type that it does not know.

use ecow::EcoString;
use kilter_model::suggest::nearest;
use kilter_model::{ResourceRef, TypeSchema};
use kilter_provider::{Provider, Registry};

use crate::exit::Exit;
use crate::say;

/// All providers.
pub(crate) fn registry() -> Registry {
    Registry::new(kilter_native::native())
}

/// The provider of a type.
///
/// # Errors
/// When there is none; it has been said.
pub(crate) fn find<'r>(registry: &'r Registry, type_name: &str) -> Result<&'r dyn Provider, Exit> {
    if let Some(provider) = registry.find(type_name) {
        return Ok(provider.as_ref());
    }
    let known: Vec<&str> = registry.types().map(|provider| provider.schema().name.as_str()).collect();
    let meant = nearest(&type_name.to_lowercase(), known.iter().copied());
    let hint = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are {}; `kilter types` describes them", known.join(", ")),
    };
    Err(say::fail_with(format!("there is no type `{type_name}`"), [hint]))
}

/// Says of names that cannot be ones what is wrong with them. Attributes that a declaration would
/// need do not matter here.
///
/// # Errors
/// When there are such; it has been said.
pub(crate) fn check_names(schema: &TypeSchema, names: &[EcoString]) -> Result<(), Exit> {
    let mut exit = Ok(());
    for namevar in schema.namevars().take(1) {
        for name in names {
            if let Err(mismatch) = namevar.data_type.check(&name.clone().into()) {
                exit = Err(say::fail(format_args!("{}[{name}]: `{}` {mismatch}", schema.name, namevar.name)));
            }
        }
    }
    exit
}

/// Splits `TYPE` or `TYPE[NAME]` as it may be written on the command line.
pub(crate) fn split(text: &str) -> (&str, Option<&str>) {
    ResourceRef::split(text).map_or((text, None), |(type_name, name)| (type_name, Some(name)))
}
