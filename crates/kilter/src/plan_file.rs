//! Plans in files: the steps of a dry run, and everything that it was made from.
//!
//! A plan holds the texts of its manifests, the facts that they named and the variables that were given, so that applying it
//! compiles the very same catalog; and its steps, each with the differences that were found. Secrets that come from files,
//! variables and commands are not in it: they are fetched again. What it was made from is sealed with the key of the state
//! directory if a secret may be written in it. Every byte is bound by a keyed digest (`kilter_runtime::integrity`).

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
use crate::say;

pub(crate) use open::{is_plan, read};
pub(crate) use provenance::{introduce, record_applied, written};
pub(crate) use trust::signer;

/// The version of the format.
const VERSION: u64 = 3;

/// A plan as it is kept.
pub(crate) struct PlanFile {
    /// The manifests that were given, in order.
    pub(crate) sources: Vec<Source>,
    /// Which manifests those are, where what was before them has to be restored, now or later.
    pub(crate) origin: EcoString,
    /// Included texts by where they were included and how that was written.
    pub(crate) includes: IndexMap<(EcoString, EcoString), Source>,
    /// The facts that were named.
    pub(crate) facts: IndexMap<EcoString, Value>,
    /// The variables that were given.
    pub(crate) vars: Vec<(EcoString, Value)>,
    /// Where and when it was made; none in plans of earlier versions of kilter.
    pub(crate) provenance: Option<PlanProvenance>,
    /// The steps, to be carried out.
    pub(crate) plan: Plan,
}

/// Writes the plan that a dry run found, for its owner only, and returns its provenance. The key of the state directory is made
/// if it is not there.
///
/// # Errors
/// Says why it cannot.
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
        say::warning(format_args!("the plan {} can be applied here only: {why}", path.display()));
        say::hint("keep secrets in files, and name these: `{ sensitive: { file: PATH } }`");
    }
    Ok(provenance)
}

/// What a plan is made from.
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

/// Reads what [`inputs`] returned.
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
