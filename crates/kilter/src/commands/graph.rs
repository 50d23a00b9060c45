//! `kilter graph`: draws the graph of a manifest.

use crate::cli::{Global, GraphArgs, GraphFormat};
use crate::draw::{self, Drawing};
use crate::exit::Exit;
use crate::load::Audience;
use crate::{load, providers, say};

pub(crate) fn run(args: &GraphArgs, global: &Global) -> Exit {
    let registry = providers::registry(global);
    let audience = if args.format == GraphFormat::Json { Audience::Programs } else { Audience::People };
    let loaded = match load::prepare(&args.input, audience, &registry) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let drawing = Drawing::of(&loaded.prepared);
    say::data(&match args.format {
        GraphFormat::Human => draw::list(&drawing),
        GraphFormat::Json => format!("{:#}\n", draw::json(&drawing)),
        GraphFormat::Dot => draw::dot(&drawing),
        GraphFormat::Mermaid => draw::mermaid(&drawing),
        GraphFormat::Svg => draw::svg(&drawing),
    })
}
