//! `kilter schema`: the JSON Schema of manifests.

use crate::cli::SchemaArgs;
use crate::exit::Exit;
use crate::load::Types;
use crate::{providers, say};

pub(crate) fn run(_: &SchemaArgs) -> Exit {
    let registry = providers::registry();
    say::data(&format!("{:#}\n", kilter_manifest::json_schema(&Types(&registry))))
}
