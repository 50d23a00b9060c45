//! `kilter types`: lists the types, or describes one.

mod human;
mod json;
mod page;

use kilter_provider::Provider;

use crate::cli::{TypesArgs, TypesFormat};
use crate::exit::Exit;
use crate::{providers, say};

pub(crate) fn run(args: &TypesArgs) -> Exit {
    let registry = providers::registry();
    let text = match &args.type_name {
        None => {
            let all: Vec<&dyn Provider> =
                registry.types().filter_map(|of| registry.find(of.schema().name.as_str())).map(AsRef::as_ref).collect();
            match args.format {
                TypesFormat::Human => human::list(&all),
                TypesFormat::Json => format!("{:#}\n", json::list(&all, &registry)),
                TypesFormat::Markdown => page::list(&all),
            }
        }
        Some(name) => match providers::find(&registry, name) {
            Err(exit) => return exit,
            Ok(provider) => match args.format {
                TypesFormat::Human => human::describe(provider, &registry.candidates(name)),
                TypesFormat::Json => format!("{:#}\n", json::describe(provider, &registry.candidates(name))),
                TypesFormat::Markdown => page::describe(provider),
            },
        },
    };
    say::data(&text)
}
