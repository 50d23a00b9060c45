//! `kilter graph`: draws the graph of a manifest.

use super::mold_loop;
use crate::cli::{GraphArgs, GraphFormat};
use crate::draw::{self, Drawing};
use crate::exit::Exit;
use crate::load::{ErrorFormat, Input};
use crate::session::Session;
use crate::{load, output, providers, signals};

pub(crate) fn run(args: &GraphArgs, session: &Session) -> Exit {
    let is_prescribed = args.input.manifests.is_empty();
    if let Err(exit) = signals::listen() {
        return exit;
    }
    let registry = if is_prescribed { mold_loop::registry(session, None) } else { providers::registry(session) };
    let registry = match registry {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    let audience = if args.format == GraphFormat::Json { ErrorFormat::Programs } else { ErrorFormat::People };
    let loaded = match is_prescribed {
        true => mold_loop::prescription(session, &args.input)
            .and_then(|prescription| prescription.prepare(session, audience, &registry)),
        false => load::load(session, Input::Manifests(&args.input), audience, &registry),
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let mut drawing = Drawing::of(&loaded.prepared);
    if args.live {
        match super::status::states(session) {
            Ok(states) => drawing.standing(&|name| states.get(name).cloned()),
            Err(exit) => return exit,
        }
    }
    output::data(&match args.format {
        GraphFormat::Human => draw::list(&drawing),
        GraphFormat::Json => format!("{:#}\n", draw::json(&drawing)),
        GraphFormat::Dot => draw::dot(&drawing),
        GraphFormat::Mermaid => draw::mermaid(&drawing),
        GraphFormat::Svg => draw::svg(&drawing),
    })
}
