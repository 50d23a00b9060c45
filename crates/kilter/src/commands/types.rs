//! `kilter types`: lists the types, or describes a type.

mod human;
mod json;
mod page;

use kilter_provider::{Provider, Registry};

use crate::cli::{TypesArgs, TypesFormat};
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, providers, signals};

pub(crate) fn run(args: &TypesArgs, session: &Session) -> Exit {
    let registry = match providers::registry(session) {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    // The suitability of a provider may depend on facts of scripts.
    match signals::interruptible(|| text(args, &registry)) {
        Ok(Ok(text)) => output::data(&text),
        Ok(Err(exit)) | Err(exit) => exit,
    }
}

fn text(args: &TypesArgs, registry: &Registry) -> Result<String, Exit> {
    Ok(match &args.type_name {
        None => {
            let one = |first: &'_ std::sync::Arc<dyn Provider>| {
                let type_name = first.schema().name.text().clone();
                registry.index(&type_name).unwrap_or_else(|| registry.candidates(&type_name)[0].index)
            };
            let usable = registry.types().filter(|of| registry.is_for_target(of.as_ref()));
            let all: Vec<&dyn Provider> = usable.map(|first| registry.at(one(first)).as_ref()).collect();
            match args.format {
                TypesFormat::Human => human::list(registry),
                TypesFormat::Json => format!("{:#}\n", json::list(&all, registry)),
                TypesFormat::Markdown => page::list(&all),
            }
        }
        Some(name) => {
            let provider = providers::find(registry, name)?.as_ref();
            match args.format {
                TypesFormat::Human => human::describe(provider, &registry.candidates(name)),
                TypesFormat::Json => format!("{:#}\n", json::describe(provider, &registry.candidates(name))),
                TypesFormat::Markdown => page::describe(provider),
            }
        }
    })
}
