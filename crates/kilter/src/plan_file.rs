//! Plans in files: the steps of a dry run, and all its inputs.
//!
//! A plan contains the texts of its manifests, the facts they use and the variables, so that its apply compiles the
//! same catalog. It also contains its steps, each with the differences found. Secrets from files, variables and
//! commands are not part of it: the apply reads them again. The inputs are encrypted with the key of the state
//! directory if they may contain a secret. A keyed digest covers every byte (`kilter_runtime::integrity`).

mod open;
mod provenance;
mod sealed;
mod trust;
mod write;

use std::path::Path;

use ecow::EcoString;
use indexmap::IndexMap;
use kilter_manifest::Source;
use kilter_model::{Value, from_canonical_json, to_canonical_json_clear};
use kilter_provider::Registry;
use kilter_runtime::{Plan, PlanProvenance, PrivateKey, Report, SealingKey, integrity};
use serde_json::{Map, Value as Json, json};

use crate::load::Loaded;
use crate::output;

pub(crate) use open::{is_plan, read};
pub(crate) use provenance::{introduce, record_applied, written};
pub(crate) use trust::signer;

/// Version of the format.
const VERSION: u64 = 3;

/// Plan of a file.
pub(crate) struct PlanFile {
    /// Manifests of the command line, in order.
    pub(crate) sources: Vec<Source>,
    /// Origin of these manifests, if resources have to be restored, now or later.
    pub(crate) origin: EcoString,
    /// Included texts, by the including file and the written path.
    pub(crate) includes: IndexMap<(EcoString, EcoString), Source>,
    /// Facts that the manifests use.
    pub(crate) facts: IndexMap<EcoString, Value>,
    /// Variables of the command line.
    pub(crate) vars: Vec<(EcoString, Value)>,
    /// Host and time at which it was made; none in plans of earlier versions of kilter.
    pub(crate) provenance: Option<PlanProvenance>,
    /// Steps to carry out.
    pub(crate) plan: Plan,
}

/// Writes the plan of a dry run, for its owner only, and returns its provenance. Creates the key of the state
/// directory if needed.
///
/// # Errors
/// The reason why it cannot be written.
pub(crate) fn write(
    path: &Path,
    loaded: &Loaded<'_>,
    report: &Report,
    registry: &Registry,
    state: &Path,
    signer: Option<&PrivateKey>,
) -> Result<PlanProvenance, String> {
    let key = SealingKey::made(state).map_err(|error| error.to_string())?;
    let is_secret = sealed::may_hold_secrets(loaded, registry);
    let inputs = inputs(loaded);
    let mut plan = Map::new();
    plan.insert("kilter_plan".into(), VERSION.into());
    plan.insert("kilter_version".into(), env!("CARGO_PKG_VERSION").into());
    let provenance = PlanProvenance::new(registry.hostname(), provenance::now()).map_err(|error| error.to_string())?;
    plan.insert("made".into(), provenance.json());
    plan.insert("steps".into(), Plan::steps(report, &key).into());
    match is_secret {
        true => drop(plan.insert("sealed".into(), sealed::seal(&Json::Object(inputs).to_string(), &key)?.into())),
        false => plan.extend(inputs),
    }
    write::write(path, &integrity::protect(&Json::Object(plan), &key, signer))?;
    if is_secret && signer.is_some() {
        let why = "secrets may be written in its manifests, which are sealed with the key of this state directory";
        output::warning(format_args!("the plan {} can be applied here only: {why}", path.display()));
        output::hint("keep secrets in files, and name these: `{ sensitive: { file: PATH } }`");
    }
    Ok(provenance)
}

/// Returns the inputs of a plan.
fn inputs(loaded: &Loaded<'_>) -> Map<String, Json> {
    let source = |source: &Source| match source.is_lenient() {
        true => json!({ "name": &*source.name, "text": &*source.text, "lenient": true }),
        false => json!({ "name": &*source.name, "text": &*source.text }),
    };
    let values = |values: &mut dyn Iterator<Item = (&EcoString, &Value)>| -> Map<String, Json> {
        values.map(|(name, value)| (name.to_string(), to_canonical_json_clear(value))).collect()
    };
    let includes = loaded.includes.iter();
    let includes =
        includes.map(|((from, path), found)| json!({ "from": &**from, "path": &**path, "source": source(found) }));
    let mut inputs = Map::new();
    inputs.insert("sources".into(), loaded.given.iter().map(source).collect());
    if loaded.prepared.reverses() {
        inputs.insert("origin".into(), loaded.prepared.origin().as_str().into());
    }
    inputs.insert("includes".into(), includes.collect());
    inputs.insert("facts".into(), values(&mut loaded.facts.iter()).into());
    inputs.insert("vars".into(), values(&mut loaded.vars.iter().map(|(name, value)| (name, value))).into());
    inputs
}

/// Reads the JSON of [`inputs`].
fn parsed(inputs: &Json, provenance: Option<PlanProvenance>, plan: Plan) -> Option<PlanFile> {
    let source = |json: &Json| {
        let lenient = json.get("lenient").and_then(Json::as_bool).unwrap_or(false);
        Some(Source::new(json.get("name")?.as_str()?, json.get("text")?.as_str()?).leniently(lenient))
    };
    let include = |json: &Json| {
        let text = |key: &str| Some(EcoString::from(json.get(key)?.as_str()?));
        Some(((text("from")?, text("path")?), source(json.get("source")?)?))
    };
    let values = |key: &str| {
        let entries = inputs.get(key)?.as_object()?.iter();
        let values = entries.map(|(name, value)| Some((EcoString::from(name), from_canonical_json(value).ok()?)));
        values.collect::<Option<Vec<_>>>()
    };
    Some(PlanFile {
        sources: inputs.get("sources")?.as_array()?.iter().map(source).collect::<Option<_>>()?,
        origin: inputs.get("origin").and_then(Json::as_str).unwrap_or_default().into(),
        includes: inputs.get("includes")?.as_array()?.iter().map(include).collect::<Option<_>>()?,
        facts: values("facts")?.into_iter().collect(),
        vars: values("vars")?,
        provenance,
        plan,
    })
}
