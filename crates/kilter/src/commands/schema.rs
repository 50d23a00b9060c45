//! `kilter schema`: the JSON Schema of manifests, of mold's documents, or of the documents of runs.

use serde_json::Value as Json;

use crate::cli::{SchemaArgs, SchemaOf};
use crate::exit::Exit;
use crate::load::Types;
use crate::session::Session;
use crate::{output, providers, signals};

/// Schema of mold's documents.
const MOLD: &str = include_str!("mold.schema.json");

/// Schemas of plans, reports and events, in `$defs`.
const RUN: &str = include_str!("run.schema.json");

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
        SchemaOf::Plan => run_document("plan"),
        SchemaOf::Report => run_document("report"),
        SchemaOf::Events => run_document("event"),
    }
}

/// Prints the schemas of runs with a reference to that of one document.
fn run_document(name: &str) -> Exit {
    let mut schema: Json = serde_json::from_str(RUN).expect("the text is JSON");
    schema["$ref"] = format!("#/$defs/{name}").into();
    output::data(&format!("{schema:#}\n"))
}
