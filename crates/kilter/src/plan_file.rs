//! Plans in files: what would change, and all that it was made from.
//!
//! A plan holds the texts of its manifests, the facts that they named and the variables that were
//! given, so that applying it compiles the very same catalog; and the changes, so that it is refused
//! when the machine has moved on. Secrets that come from files, variables and commands are not in
//! it: they are fetched again. What it was made from is sealed with the key of the state directory if
//! a secret may be written in it; what would change holds none, and can be read.

mod sealed;

use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ecow::EcoString;
use indexmap::IndexMap;
use kilter_manifest::Source;
use kilter_model::{Value, from_canonical_json, to_canonical_json_clear};
use kilter_provider::Registry;
use kilter_runtime::Report;
use serde_json::{Map, Value as Json, json};

use crate::cli::{Global, ManifestArgs};
use crate::exit::Exit;
use crate::load::Loaded;
use crate::render::json;
use crate::{recording, say};

/// The version of the format in which all can be read.
const READABLE: u64 = 1;
/// The version of the format in which what the plan was made from is sealed.
const SEALED: u64 = 2;

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
    changes: Vec<Json>,
    /// Whether a secret may be written in what it was made from.
    is_secret: bool,
}

impl PlanFile {
    /// The plan that a run without changes found.
    pub(crate) fn new(loaded: &Loaded<'_>, report: &Report, registry: &Registry) -> PlanFile {
        PlanFile {
            sources: loaded.given.clone(),
            origin: if loaded.prepared.reverses() { loaded.prepared.origin().clone() } else { EcoString::new() },
            includes: loaded.includes.clone(),
            facts: loaded.facts.clone(),
            vars: loaded.vars.clone(),
            changes: changes(report),
            is_secret: sealed::may_hold_secrets(loaded, registry),
        }
    }

    /// What would change now and was not planned, or was planned and would not, a line each.
    pub(crate) fn moved(&self, report: &Report) -> Vec<String> {
        let now = changes(report);
        let name = |change: &Json| change["resource"].as_str().unwrap_or_default().to_owned();
        let mut planned: IndexMap<String, &Json> = self.changes.iter().map(|change| (name(change), change)).collect();
        let mut lines = Vec::new();
        for change in &now {
            match planned.swap_remove(&name(change)) {
                Some(planned) if planned == change => {}
                Some(_) => lines.push(format!("{} would change in another way than planned", name(change))),
                None => lines.push(format!("{} would change and was not planned to", name(change))),
            }
        }
        lines.extend(planned.keys().map(|name| format!("{name} was planned to change and would not")));
        lines
    }

    /// Writes the plan, for its owner only, sealed with the key of a state directory where it must be.
    pub(crate) fn write(&self, path: &Path, state: &Path) -> Result<(), String> {
        let inputs = self.inputs();
        let mut plan = Map::new();
        let version = if self.is_secret { SEALED } else { READABLE };
        plan.insert("kilter_plan".into(), version.into());
        plan.insert("kilter_version".into(), env!("CARGO_PKG_VERSION").into());
        plan.insert("changes".into(), self.changes.clone().into());
        if self.is_secret {
            let text = Json::Object(inputs).to_string();
            plan.insert("sealed".into(), sealed::seal(&text, state)?.into());
        } else {
            plan.extend(inputs);
        }
        written(path, &Json::Object(plan)).map_err(|error| error.to_string())
    }

    /// What the plan was made from, and what would change: those who read it are shown the changes
    /// beside it as well, and what counts is what is sealed.
    fn inputs(&self) -> Map<String, Json> {
        let source = |source: &Source| match source.is_lenient() {
            true => json!({ "name": &*source.name, "text": &*source.text, "lenient": true }),
            false => json!({ "name": &*source.name, "text": &*source.text }),
        };
        let values = |values: &mut dyn Iterator<Item = (&EcoString, &Value)>| -> Map<String, Json> {
            values.map(|(name, value)| (name.to_string(), to_canonical_json_clear(value))).collect()
        };
        let includes = self.includes.iter();
        let includes =
            includes.map(|((from, path), found)| json!({ "from": &**from, "path": &**path, "source": source(found) }));
        let mut inputs = Map::new();
        inputs.insert("sources".into(), self.sources.iter().map(source).collect());
        if !self.origin.is_empty() {
            inputs.insert("origin".into(), self.origin.as_str().into());
        }
        inputs.insert("includes".into(), includes.collect());
        inputs.insert("facts".into(), values(&mut self.facts.iter()).into());
        inputs.insert("vars".into(), values(&mut self.vars.iter().map(|(name, value)| (name, value))).into());
        if self.is_secret {
            inputs.insert("changes".into(), self.changes.clone().into());
        }
        inputs
    }
}

/// Writes a plan in the place of what is there.
fn written(path: &Path, plan: &Json) -> io::Result<()> {
    // A link stays one, and what is no file is written to: nothing else may take its place.
    let target = std::fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    if let Ok(found) = std::fs::symlink_metadata(path)
        && !found.is_file()
    {
        return writeln!(std::fs::OpenOptions::new().write(true).open(path)?, "{plan:#}");
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let new = directory.join(format!(".{name}.{}.new", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = writeln!(file, "{plan:#}").and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&new);
    }
    written
}

/// The changes of a report, without what differs from run to run.
fn changes(report: &Report) -> Vec<Json> {
    let mut changes: Vec<Json> = report.resources.iter().map(json::resource).collect();
    for change in &mut changes {
        if let Some(change) = change.as_object_mut() {
            change.remove("duration_ms");
            change.remove("notes");
        }
    }
    changes
}

/// The plan, if the only input is one.
///
/// # Errors
/// When it is one of a version that this program does not know, or damaged; that has been said.
pub(crate) fn read(input: &ManifestArgs, global: &Global) -> Result<Option<PlanFile>, Exit> {
    let [path] = input.manifests.as_slice() else { return Ok(None) };
    let text = recording::ask("plan", || path.to_string_lossy().into(), || begins_like_a_plan(path));
    let Some(text) = text else { return Ok(None) };
    let damaged = || say::fail_with(format_args!("the plan {} is damaged", path.display()), ["make the plan anew"]);
    let json = serde_json::from_str::<Json>(&text).map_err(|_| damaged())?;
    let version = json.get("kilter_plan").ok_or_else(damaged)?;
    let is_secret = match version.as_u64() {
        Some(READABLE) => false,
        Some(SEALED) => true,
        _ => {
            let reads = format!("versions {READABLE} and {SEALED}");
            let hint = format!("this kilter ({}) reads {reads}; make the plan anew", env!("CARGO_PKG_VERSION"));
            return Err(say::fail_with(format_args!("{} is a plan of version {version}", path.display()), [hint]));
        }
    };
    if !input.vars.is_empty() || !input.facts_dirs.is_empty() {
        let hint = "give them to `kilter plan`";
        return Err(say::fail_with("a plan has its variables and facts already", [hint]));
    }
    let opened = if is_secret { sealed::opened(path, json.get("sealed").ok_or_else(damaged)?, global)? } else { json };
    parsed(&opened, is_secret).map(Some).ok_or_else(damaged)
}

/// The text of a regular file that starts as plans do. Others are not read: an executable manifest
/// or a pipe is none.
fn begins_like_a_plan(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut file = std::fs::File::open(path).ok()?;
    let mut head = [0; 24];
    let length = usize::try_from(found.len()).map_or(head.len(), |length| length.min(head.len()));
    file.read_exact(&mut head[..length]).ok()?;
    if !is_plan(&String::from_utf8_lossy(&head[..length])) {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

/// Whether a text starts as plans do.
pub(crate) fn is_plan(text: &str) -> bool {
    let head: String = text.chars().take(64).filter(|c| !c.is_whitespace()).collect();
    head.starts_with("{\"kilter_plan\"")
}

fn parsed(json: &Json, is_secret: bool) -> Option<PlanFile> {
    let source = |json: &Json| {
        let lenient = json.get("lenient").and_then(Json::as_bool).unwrap_or(false);
        Some(Source::new(json.get("name")?.as_str()?, json.get("text")?.as_str()?).leniently(lenient))
    };
    let include = |json: &Json| {
        let text = |key: &str| Some(EcoString::from(json.get(key)?.as_str()?));
        Some(((text("from")?, text("path")?), source(json.get("source")?)?))
    };
    let values = |key: &str| {
        let entries = json.get(key)?.as_object()?.iter();
        let values = entries.map(|(name, value)| Some((EcoString::from(name), from_canonical_json(value).ok()?)));
        values.collect::<Option<Vec<_>>>()
    };
    Some(PlanFile {
        sources: json.get("sources")?.as_array()?.iter().map(source).collect::<Option<_>>()?,
        origin: json.get("origin").and_then(Json::as_str).unwrap_or_default().into(),
        includes: json.get("includes")?.as_array()?.iter().map(include).collect::<Option<_>>()?,
        facts: values("facts")?.into_iter().collect(),
        vars: values("vars")?,
        changes: json.get("changes")?.as_array()?.clone(),
        is_secret,
    })
}
