//! `kilter schema`: the JSON Schema of manifests.

use crate::cli::{Global, SchemaArgs};
use crate::exit::Exit;
use crate::load::Types;
use crate::{providers, say};

pub(crate) fn run(_: &SchemaArgs, global: &Global) -> Exit {
    let registry = providers::registry(global);
    say::data(&format!("{:#}\n", kilter_manifest::json_schema(&Types(&registry))))
}
