//! Compilation for another host.

use std::collections::HashMap;
use std::time::Duration;

use kilter_manifest::render_warnings;
use kilter_model::{Hash, Poll, Resource, to_json};
use kilter_provider::Registry;
use serde_json::{Map, Value as Json};

use super::secrets::KeptSecrets;
use super::sources::LiveIncludes;
use super::{ErrorFormat, InputFiles, ManifestKind, Received, Texts, compile_texts, diagnostics, manifests_with};
use crate::cli::ManifestArgs;
use crate::exit::Exit;
use crate::session::Session;
use crate::{facts, output, plan_file};

/// Inputs of a run on another host.
pub(crate) struct ForHost {
    /// Texts, facts, variables and secrets, with which the host compiles the manifests again.
    pub(crate) received: Received,
    /// Shortest interval of the checks of a resource (`poll`), if any has one.
    pub(crate) poll: Option<Duration>,
    /// Declared attributes of each resource, without secrets.
    pub(crate) declared: HashMap<String, Map<String, Json>>,
}

/// Compiles manifests for another host, with the facts that it has reported and its variables in the inventory. Returns
/// what the host needs to compile them again: texts, facts, variables and secrets. `noted` gets the files that are read.
/// With `finds_others`, the providers of this machine look for further problems.
/// kilter prepares nothing on this machine.
///
/// # Errors
/// If there is any problem; reported.
pub(crate) fn for_host(
    session: &Session,
    args: &ManifestArgs,
    facts: Hash,
    vars: &Hash,
    registry: &Registry,
    noted: &InputFiles,
    finds_others: bool,
) -> Result<ForHost, Exit> {
    let facts = facts::of_host(session, facts);
    let includes = LiveIncludes::for_host(session, &args.manifests, noted);
    let secrets = KeptSecrets::default();
    let compile = |texts: Texts<'_>| {
        // The last value of a variable counts: that of the command line.
        let of_inventory = vars.iter().map(|(name, value)| (name.clone(), value.clone()));
        let vars = of_inventory.chain(texts.vars).collect();
        let texts = Texts { vars, secrets: Some(&secrets), ..texts };
        let (sources, compiled, problems) = compile_texts(session, &texts, registry);
        if !problems.is_empty() {
            let problems = match finds_others {
                true => diagnostics::with_others(problems, compiled, &sources, registry),
                false => problems,
            };
            return Err(diagnostics::print(&problems, &sources, ErrorFormat::People));
        }
        let warnings = session.warnings.unreported(compiled.warnings, &sources);
        if !warnings.is_empty() {
            output::line(render_warnings(&warnings, &sources, true).trim_end());
        }
        let resources = &compiled.catalog.resources;
        let poll = resources.iter().filter_map(|resource| match resource.meta()?.poll {
            Poll::Every(seconds) => Some(Duration::from_secs(seconds.into())),
            Poll::Watched | Poll::Once => None,
        });
        let poll = poll.min();
        let declared =
            resources.iter().map(|resource| (resource.reference.to_string(), attributes(resource))).collect();
        let Texts { given, origin, vars, facts, includes, .. } = texts;
        let (includes, facts) = (includes.taken(), facts.taken());
        let machine = format!("{}:", session.host());
        let inputs = plan_file::inputs_of(&given, &origin, &includes, &facts, &vars, &machine);
        Ok(ForHost { received: Received::of(&inputs, secrets.take()), poll, declared })
    };
    manifests_with(session, args, &facts, includes, ManifestKind::FileOrPipe, compile).map(|(made, _)| made)
}

/// Returns the declared attributes of a resource. Values that depend on outputs are expressions.
fn attributes(resource: &Resource) -> Map<String, Json> {
    let known = resource.attributes.iter().map(|(name, value)| (name.to_string(), to_json(value)));
    let deferred = resource.deferred().iter().filter(|deferred| !deferred.sensitive);
    known.chain(deferred.map(|one| (one.attribute.to_string(), format!("{:?}", one.template).into()))).collect()
}
