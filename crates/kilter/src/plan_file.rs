//! Plans in files: the steps of a dry run, and all its inputs.
//!
//! A plan contains the texts of its manifests, the facts they use and the variables, so that its apply compiles the
//! same catalog. It also contains its steps, each with the differences found. Secrets from files, variables and
//! commands are not part of it: the apply reads them again. [`PlanDocument`] is the format.

mod open;
mod provenance;
mod sealed;
mod trust;

use std::path::{Path, PathBuf};

use ecow::{EcoString, eco_format};
use indexmap::IndexMap;
use kilter_manifest::{Source, SourceOrigin};
use kilter_model::Value;
use kilter_provider::Registry;
use kilter_runtime::{
    InputSecrecy, PlanDocument, PlanInputs, PlanProvenance, PlanSource, PrivateKey, Report, SealingKey,
};

use crate::cli::PlanArgs;
use crate::exit::Exit;
use crate::load::{KnownInputs, Loaded};
use crate::output;
use crate::output_file::{self, FileMode};
use crate::run_inputs::origin_of;
use crate::session::Session;

pub(crate) use open::{check, read};
pub(crate) use provenance::{introduce, record_applied, written};
pub(crate) use trust::signer;

/// Returns the inputs of a run as the compilation takes them.
pub(crate) fn known_inputs(inputs: PlanInputs) -> KnownInputs {
    let source = |source: PlanSource| {
        let origin = source.origin.map(|(path, version)| SourceOrigin { path, version });
        Source::new(source.name, source.text).leniently(source.is_lenient).read_from(origin)
    };
    let PlanInputs { sources, origin, includes, facts, vars } = inputs;
    KnownInputs {
        sources: sources.into_iter().map(source).collect(),
        origin,
        includes: includes.into_iter().map(|(key, included)| (key, source(included))).collect(),
        facts: facts.into_iter().collect(),
        vars,
    }
}

/// Writes the plan of a dry run, for its owner only, and returns its provenance. Creates the key of the state
/// directory if needed.
///
/// # Errors
/// The reason why it cannot be written.
pub(crate) fn write(
    path: &Path,
    loaded: &Loaded,
    report: &Report,
    registry: &Registry,
    state: &Path,
    signer: Option<&PrivateKey>,
) -> Result<PlanProvenance, String> {
    let key = SealingKey::made(state).map_err(|error| error.to_string())?;
    let is_secret = sealed::may_hold_secrets(loaded, registry);
    let secrecy = if is_secret { InputSecrecy::Secret } else { InputSecrecy::Public };
    let provenance = PlanProvenance::new(registry.hostname(), provenance::now()).map_err(|error| error.to_string())?;
    let text = PlanDocument::text(&report.resources, &inputs(loaded), secrecy, &provenance, &key, signer);
    output_file::write(path, &text.map_err(|error| error.to_string())?, FileMode::Private)?;
    if is_secret && signer.is_some() {
        let why = "secrets may be written in its manifests, which are sealed with the key of this state directory";
        output::warning(format_args!("the plan {} can be applied here only: {why}", path.display()));
        output::hint("keep secrets in files, and name these: `{ sensitive: { file: PATH } }`");
    }
    Ok(provenance)
}

/// Returns the inputs of a plan.
fn inputs(loaded: &Loaded) -> PlanInputs {
    let prepared = &loaded.prepared;
    let origin = if prepared.reverses() { prepared.origin().clone() } else { EcoString::new() };
    inputs_of(&loaded.given, &origin, &loaded.includes, &loaded.facts, &loaded.vars, "")
}

/// Returns the inputs of a run, as a plan contains them. `machine` comes before the paths of its files.
pub(crate) fn inputs_of(
    given: &[Source],
    origin: &EcoString,
    includes: &IndexMap<(EcoString, EcoString), Source>,
    facts: &IndexMap<EcoString, Value>,
    vars: &[(EcoString, Value)],
    machine: &str,
) -> PlanInputs {
    let file = |source: &Source| match &source.origin {
        Some(origin) => Some((origin.path.clone(), origin.version.clone())),
        None => origin_of(&source.name).map(|SourceOrigin { path, version }| (eco_format!("{machine}{path}"), version)),
    };
    let source = |source: &Source| PlanSource {
        name: source.name.clone(),
        text: source.text.as_str().to_owned(),
        is_lenient: source.is_lenient(),
        origin: file(source),
    };
    PlanInputs {
        sources: given.iter().map(source).collect(),
        origin: origin.clone(),
        includes: includes.iter().map(|(key, included)| (key.clone(), source(included))).collect(),
        facts: facts.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        vars: vars.to_vec(),
    }
}

/// Refuses an output that is one of the manifests.
///
/// # Errors
/// If it is; reported.
pub(crate) fn refuse_overwrite(args: &PlanArgs, session: &Session) -> Result<(), Exit> {
    let Some(output) = &args.output else { return Ok(()) };
    let is_same = |input: &&PathBuf| {
        let about = || serde_json::json!([input.to_string_lossy(), output.to_string_lossy()]);
        session.record.record_or_replay("same file", about, || output_file::is_same(input, output))
    };
    match args.input.manifests.iter().find(is_same) {
        None => Ok(()),
        Some(input) => {
            let message = format_args!("the plan would overwrite {}, one of its input files", input.display());
            Err(output::fail_with(message, ["give another name to --output"]))
        }
    }
}
