//! `kilter schema`: the JSON Schema of manifests, or of mold's documents.

use crate::cli::{SchemaArgs, SchemaOf};
use crate::exit::Exit;
use crate::load::Types;
use crate::session::Session;
use crate::{output, providers, signals};

/// Schema of mold's documents.
const MOLD: &str = include_str!("mold.schema.json");

pub(crate) fn run(args: &SchemaArgs, session: &Session) -> Exit {
    match args.of {
        SchemaOf::Manifest => {
            let registry = match providers::registry(session) {
                Ok(registry) => registry,
                Err(exit) => return exit,
            };
            // The choice of a provider may depend on facts of scripts.
            match signals::interruptible(|| kilter_manifest::json_schema(&Types(&registry))) {
                Ok(schema) => output::data(&format!("{schema:#}\n")),
                Err(exit) => exit,
            }
        }
        SchemaOf::Mold => output::data(MOLD),
    }
}
