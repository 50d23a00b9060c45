//! `kilter schema`: the JSON Schema of manifests, or of mold's documents.

use crate::cli::{Global, SchemaArgs, SchemaOf};
use crate::exit::Exit;
use crate::load::Types;
use crate::{providers, say};

/// The schema of the documents of mold.
const MOLD: &str = include_str!("../../../../docs/schemas/mold.schema.json");

pub(crate) fn run(args: &SchemaArgs, global: &Global) -> Exit {
    match args.of {
        SchemaOf::Manifest => {
            let registry = match providers::registry(global) {
                Ok(registry) => registry,
                Err(exit) => return exit,
            };
            say::data(&format!("{:#}\n", kilter_manifest::json_schema(&Types(&registry))))
        }
        SchemaOf::Mold => say::data(MOLD),
    }
}
