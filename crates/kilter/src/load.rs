//! Preparation of a run from the manifests of a command line.

mod check;
mod content;
mod diagnostics;
mod executable;
mod for_host;
mod input_files;
mod known;
mod received;
mod recorded;
mod secrets;
mod sources;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ecow::{EcoString, eco_format};
use indexmap::IndexMap;
use kilter_manifest::{
    Compiled, Diagnostic, Explanation, Inputs, Source, Sources, Subject, compile_partly, render_warnings,
};
use kilter_model::{RelationKind, Value};
use kilter_process::trust::TrustedFile;
use kilter_provider::Registry;
use kilter_recording::RecordMode;
use kilter_runtime::{IneffectiveNotification, Plan, PlanDocument, PlanProvenance, Prepared};

use crate::cli::{ManifestArgs, ReportFormat};
use crate::collected::Collected;
use crate::exit::Exit;
use crate::run_inputs::RunInputs;
use crate::session::Session;
use crate::{facts, output, released, reversals, signals, streams, trust};
use known::compile_known;
use recorded::RecordedSource;
use secrets::{KeptSecrets, SecretsFrom};
use sources::{FactSource, Includes, LiveFacts, LiveIncludes};

pub(crate) use check::check;
pub(crate) use for_host::{ForHost, for_host};
pub(crate) use input_files::InputFiles;
pub(crate) use known::KnownInputs;
pub(crate) use received::Received;
pub(crate) use sources::Types;

/// End of the name of a manifest that a program has printed.
pub(crate) const OUTPUT: &str = " (output)";
/// Maximum size of a manifest in bytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// Audience of the problems of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// People, on standard error.
    People,
    /// Programs as well, with a document on standard output.
    Programs,
}

impl From<ReportFormat> for ErrorFormat {
    fn from(format: ReportFormat) -> ErrorFormat {
        match format {
            ReportFormat::Human => ErrorFormat::People,
            ReportFormat::Json => ErrorFormat::Programs,
        }
    }
}

/// Prepared run with its inputs.
pub(crate) struct Loaded {
    /// The run.
    pub(crate) prepared: Prepared,
    /// Manifests of the command line, in order.
    pub(crate) given: Vec<Source>,
    /// Included texts, by the including file and the written path.
    pub(crate) includes: IndexMap<(EcoString, EcoString), Source>,
    /// Facts that the manifests use.
    pub(crate) facts: IndexMap<EcoString, Value>,
    /// Variables of the command line.
    pub(crate) vars: Vec<(EcoString, Value)>,
    /// Secrets that the manifests name, with descriptions of their sources.
    pub(crate) secrets: Vec<(serde_json::Value, Value)>,
    /// Digests of the texts, and the facts, for the history.
    pub(crate) inputs: RunInputs,
    /// Time of the read.
    pub(crate) read_at: SystemTime,
    /// Resources that others exported for this machine, if the manifests collect any.
    pub(crate) collected: Option<Collected>,
}

/// Origin of the texts of a run.
pub(crate) enum Input<'a> {
    /// Manifests of a command line.
    Manifests(&'a ManifestArgs),
    /// Manifests of a run that reads them again after an edit.
    Held {
        /// The manifests.
        args: &'a ManifestArgs,
        /// Receiver of the read files. It gets them even if the manifests have problems.
        noted: &'a InputFiles,
        /// State directory with the resources that were collected last. They are used while the world is unreachable.
        fallback: Option<&'a Path>,
    },
    /// A text that is no file.
    Text {
        /// Its name in messages.
        name: &'a str,
        /// The manifest.
        text: String,
    },
    /// A saved plan.
    Plan(Box<PlanFile>),
}

/// Plan of a file.
pub(crate) struct PlanFile {
    /// Inputs of the run that made it.
    pub(crate) inputs: KnownInputs,
    /// Host and time at which it was made; none in plans of earlier versions of kilter.
    pub(crate) provenance: Option<PlanProvenance>,
    /// Steps to carry out.
    pub(crate) plan: Plan,
}

/// Reads, compiles and prepares a run.
///
/// # Errors
/// If there is any problem. All problems have been reported, and the system is unchanged.
pub(crate) fn load(
    session: &Session,
    input: Input<'_>,
    audience: ErrorFormat,
    registry: &Registry,
) -> Result<Loaded, Exit> {
    let is_held = matches!(input, Input::Held { .. });
    let compile = |texts: Texts<'_>| {
        let loaded = compiled(session, texts, audience, registry)?;
        // A run that holds a state takes them up with the declarations.
        if !is_held {
            session.set_inputs(loaded.inputs.clone());
        }
        Ok(loaded)
    };
    let with_collected = |(loaded, collected)| Loaded { collected, ..loaded };
    match input {
        Input::Manifests(_) | Input::Held { .. } if let Some(received) = session.received() => {
            compile_known(received.inputs()?, compile)
        }
        Input::Manifests(args) => {
            manifests(session, args, &InputFiles::default(), None, ManifestKind::FileOrPipe, compile)
                .map(with_collected)
        }
        Input::Held { args, noted, fallback } => {
            manifests(session, args, noted, fallback, ManifestKind::File, compile).map(with_collected)
        }
        Input::Text { name, text } => {
            let facts = facts::gather(session, &[], None);
            let noted = InputFiles::default();
            let (facts, includes) = (LiveFacts::new(&facts), LiveIncludes::new(session, &[], &noted, None));
            compile(Texts::new(vec![Source::new(name, text)], &facts, &includes))
        }
        Input::Plan(plan) => {
            let PlanFile { inputs, plan, provenance: _ } = *plan;
            let loaded = compile_known(inputs, compile)?;
            Ok(Loaded { prepared: loaded.prepared.following(plan), ..loaded })
        }
    }
}

/// Kinds of files that a manifest may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ManifestKind {
    /// A regular file. A run reads it again, and a pipe without a writer would block that forever.
    File,
    /// A file, a pipe or a device.
    FileOrPipe,
}

/// Reads the manifests of a command line and hands their texts to `compile`. Returns its result, and the resources that
/// others exported for this machine.
fn manifests<T>(
    session: &Session,
    input: &ManifestArgs,
    noted: &InputFiles,
    fallback: Option<&Path>,
    kind: ManifestKind,
    compile: impl FnOnce(Texts<'_>) -> Result<T, Exit>,
) -> Result<(T, Option<Collected>), Exit> {
    let facts = facts::gather(session, &input.facts_dirs, directory(&input.manifests).as_deref());
    manifests_with(session, input, &facts, LiveIncludes::new(session, &input.manifests, noted, fallback), kind, compile)
}

/// Reads the manifests of a command line, with these facts, and hands their texts to `compile`.
fn manifests_with<T>(
    session: &Session,
    input: &ManifestArgs,
    facts: &facts::Gathered,
    includes: LiveIncludes<'_>,
    kind: ManifestKind,
    compile: impl FnOnce(Texts<'_>) -> Result<T, Exit>,
) -> Result<(T, Option<Collected>), Exit> {
    let timeout = Duration::from_secs(input.timeout);
    let mut given = Vec::with_capacity(input.manifests.len());
    let mut failed = None;
    for path in &input.manifests {
        includes.noted().note(path);
        match session.record.record_or_replay(
            "manifest",
            || path.to_string_lossy().into(),
            || read(session, path, kind, facts, timeout).map(RecordedSource),
        ) {
            Ok(RecordedSource(source)) => given.push(source.leniently(input.lenient)),
            Err(message) => failed = Some(output::fail(message)),
        }
    }
    if let Some(exit) = failed.filter(|_| given.is_empty()) {
        return Err(signals::exit().unwrap_or(exit));
    }
    let vars = input.vars.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect();
    let facts_asked = LiveFacts::new(facts);
    let origin = reversals::origin(&session.record, &given);
    let (is_whole, noted) = (failed.is_none(), Some(includes.noted()));
    let texts = Texts { is_whole, origin, vars, timeout, noted, ..Texts::new(given, &facts_asked, &includes) };
    let result = compile(texts);
    // The problems of the manifests that could be read have been reported.
    let result = result.and_then(|loaded| failed.map_or(Ok(loaded), Err));
    let result = result.map(|loaded| (loaded, includes.into_collected()));
    facts::warn(facts);
    match signals::exit() {
        Some(exit) => Err(exit),
        None => result,
    }
}

/// Texts to compile, with the sources of the values that they use.
struct Texts<'a> {
    given: Vec<Source>,
    /// False if a manifest could not be read.
    is_whole: bool,
    /// Identity of the manifests, for saved pre-change state.
    origin: EcoString,
    vars: Vec<(EcoString, Value)>,
    facts: &'a dyn FactSource,
    includes: &'a dyn Includes,
    /// Timeout of a command that prints a secret.
    timeout: Duration,
    /// Receiver of the secrets, for another host.
    secrets: Option<&'a KeptSecrets>,
    /// Receiver of the files that contain secrets.
    noted: Option<&'a InputFiles>,
}

impl<'a> Texts<'a> {
    fn new(given: Vec<Source>, facts: &'a dyn FactSource, includes: &'a dyn Includes) -> Texts<'a> {
        let (origin, vars, timeout) = (EcoString::new(), Vec::new(), Duration::from_secs(60));
        Texts { given, is_whole: true, origin, vars, facts, includes, timeout, secrets: None, noted: None }
    }
}

/// Compiles manifests and explains a value.
///
/// # Errors
/// If a manifest could not be read or has problems, or the value does not exist; reported.
pub(crate) fn explain(
    session: &Session,
    args: &ManifestArgs,
    subject: Subject<'_>,
    audience: ErrorFormat,
    registry: &Registry,
) -> Result<(Explanation, Sources), Exit> {
    let explained = |texts: Texts<'_>| {
        let (sources, explanation) = with_inputs(session, &texts, registry, |sources, inputs| {
            kilter_manifest::explain(sources, inputs, subject)
        });
        match explanation {
            Ok(explanation) => Ok((explanation, sources)),
            Err(problems) => Err(diagnostics::print(&problems, &sources, audience)),
        }
    };
    manifests(session, args, &InputFiles::default(), None, ManifestKind::FileOrPipe, explained).map(|(found, _)| found)
}

/// Compiles texts. Returns the sources with all includes, and all problems.
fn compile_texts(session: &Session, texts: &Texts<'_>, registry: &Registry) -> (Sources, Compiled, Vec<Diagnostic>) {
    let (sources, (compiled, problems)) = with_inputs(session, texts, registry, compile_partly);
    register_secrets(&session.record, &compiled, &sources);
    (sources, compiled, problems)
}

/// Calls `compile` with the sources of texts and the inputs of a compilation.
fn with_inputs<T>(
    session: &Session,
    texts: &Texts<'_>,
    registry: &Registry,
    compile: impl FnOnce(&mut Sources, &Inputs<'_>) -> T,
) -> (Sources, T) {
    let mut sources = Sources::new();
    for source in &texts.given {
        sources.add(source.clone());
    }
    if !texts.is_whole {
        sources.mark_incomplete();
    }
    let inputs = Inputs {
        schemas: &Types(registry),
        facts: texts.facts.as_facts(),
        secrets: &SecretsFrom { session, timeout: texts.timeout, kept: texts.secrets, noted: texts.noted },
        loader: texts.includes.as_loader(),
        overrides: &texts.vars,
    };
    let compiled = compile(&mut sources, &inputs);
    (sources, compiled)
}

fn compiled(session: &Session, texts: Texts<'_>, audience: ErrorFormat, registry: &Registry) -> Result<Loaded, Exit> {
    let secrets = KeptSecrets::default();
    let texts = Texts { secrets: Some(&secrets), ..texts };
    let (sources, mut compiled, problems) = compile_texts(session, &texts, registry);
    let Texts { given, origin, vars, facts, includes, .. } = texts;
    if !problems.is_empty() {
        let problems = diagnostics::with_others(problems, compiled, &sources, registry);
        return Err(diagnostics::print(&problems, &sources, audience));
    }
    let mut warnings = std::mem::take(&mut compiled.warnings);
    compiled.catalog.origin = origin;
    let (restored, kept) = released::restorations(session, &compiled.catalog, registry)?;
    match reversals::prepare(session.state_dir_if_any(), compiled.catalog, restored, registry) {
        Ok(prepared) => {
            released::name_kept(session, kept, &prepared);
            warnings.extend(prepared.ineffective_notifications().iter().map(ineffective));
            let news = session.warnings.unreported(warnings, &sources);
            if !news.is_empty() {
                output::line(render_warnings(&news, &sources, true).trim_end());
            }
            let (includes, facts) = (includes.taken(), facts.taken());
            let inputs = RunInputs::of(&sources, &facts);
            let (secrets, read_at) = (secrets.take(), SystemTime::now());
            Ok(Loaded { prepared, given, includes, facts, vars, secrets, inputs, read_at, collected: None })
        }
        Err(rejected) => {
            let problems = diagnostics::problems(&rejected, &mut compiled.places, &sources);
            Err(diagnostics::print(&problems, &sources, audience))
        }
    }
}

/// Returns a warning about a relation that was written to refresh a resource and only sets an order.
fn ineffective(notification: &IneffectiveNotification<'_>) -> Diagnostic {
    let IneffectiveNotification { target, provider, kind, span } = notification;
    let type_name = &target.reference.type_name;
    let message = eco_format!(
        "{} cannot be refreshed: the provider `{provider}` of {type_name} has no refresh; `{}` only sets the order",
        target.reference,
        kind.word()
    );
    let order = if *kind == RelationKind::Notify { "before" } else { "require" };
    Diagnostic::new(message).at(*span).hint(eco_format!("write `{order}` if only the order is meant"))
}

/// Registers the secrets of manifests with the recording: their values, and their texts in the manifest.
fn register_secrets(record: &RecordMode, compiled: &Compiled, sources: &Sources) {
    record.register_secrets(&compiled.catalog.secrets);
    // Order matters: parts of values first, then values, then their texts in the manifest.
    let (made, whole): (Vec<&str>, Vec<&str>) =
        sources.secret_texts().into_iter().partition(|text| text.contains("${"));
    record.learn_texts(made.into_iter().flat_map(literals));
    for resource in &compiled.catalog.resources {
        record.register_secrets(resource.attributes.iter().map(|(_, value)| value));
    }
    record.learn_texts(whole.into_iter().flat_map(literals));
    record.settle();
}

/// Returns the literal parts of a scalar, without quotes and expressions.
fn literals(scalar: &str) -> Vec<&str> {
    let mut rest = scalar.trim();
    // The first line of a block scalar contains its style.
    if rest.starts_with(['|', '>']) {
        rest = rest.split_once('\n').map_or("", |(_, lines)| lines);
    }
    let unquoted = ['"', '\''].into_iter().find_map(|quote| rest.strip_prefix(quote)?.strip_suffix(quote));
    rest = unquoted.unwrap_or(rest);
    let mut parts = Vec::new();
    while let Some((before, expression)) = rest.split_once("${") {
        parts.push(before.trim_end_matches('$'));
        rest = expression.split_once('}').map_or("", |(_, after)| after);
    }
    parts.push(rest);
    parts
}

/// Returns true if a manifest is the output of a program.
pub(crate) fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && executable::is(&found))
}

/// Reads one manifest: a file, the output of an executable, or standard input.
fn read(
    session: &Session,
    path: &Path,
    kind: ManifestKind,
    facts: &facts::Gathered,
    timeout: Duration,
) -> Result<Source, String> {
    if path.as_os_str() == "-" {
        let read = signals::killable(|| streams::read_stdin(u64::MAX));
        let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other));
        let text = text.map_err(|error| format!("cannot read the manifest from the standard input: {error}"))?;
        return Ok(Source::new("<stdin>", text));
    }
    let shown = path.display();
    let opened = trust::open_as(&session.trust, "the manifest ", path)?;
    let found = opened.metadata();
    if found.is_dir() {
        return Err(format!("the manifest {shown} is a directory: name the files in it, such as {shown}/*.yaml"));
    }
    if kind == ManifestKind::File && !found.is_file() {
        return Err(format!("the manifest {shown} is not a file: a run has to read it again"));
    }
    if executable::is(found) && !opened.is_inherited() {
        let text = executable::output(session, path, facts, timeout)?;
        return Ok(Source::new(format!("{shown}{OUTPUT}"), text));
    }
    let text = match found.is_file() {
        true => text(path, &opened),
        false => signals::killable(|| text(path, &opened)),
    }?;
    if found.is_file() && text.is_empty() {
        return Err(format!("{shown} is empty: it is neither a manifest nor a plan"));
    }
    if PlanDocument::is_start(&text) {
        return Err(format!("{shown} is a plan, not a manifest: `kilter apply {shown}` takes it, alone"));
    }
    tracing::debug!(path = %shown, bytes = text.len(), "manifest");
    Ok(Source::new(shown.to_string(), text))
}

/// Reads the text of a file.
fn text(path: &Path, opened: &TrustedFile) -> Result<String, String> {
    let bytes = bounded(path, opened, MAX_MANIFEST_BYTES)?;
    String::from_utf8(bytes)
        .map_err(|error| not_text(&path.display().to_string(), error.as_bytes(), error.utf8_error().valid_up_to()))
}

/// Reads the bytes of a file, up to `limit`.
fn bounded(path: &Path, opened: &TrustedFile, limit: u64) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let found = opened.metadata();
    let file = opened.open().map_err(cannot)?;
    if found.is_dir() {
        return Err(format!("cannot read {shown}: it is a directory"));
    }
    let too_large = || format!("{shown} is larger than {} MiB", limit >> 20);
    if found.len() > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len() + 1).unwrap_or(0));
    // A pipe has no size, and a file may grow meanwhile.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// Describes the place of the first byte that is not UTF-8.
fn not_text(name: &str, bytes: &[u8], at: usize) -> String {
    let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("{name}:{line}: the text is not UTF-8: byte 0x{:02x} at offset {at}", bytes[at])
}

/// Returns the directory of the first manifest.
fn directory(manifests: &[PathBuf]) -> Option<PathBuf> {
    let first = manifests.first().filter(|path| path.as_os_str() != "-")?;
    std::path::absolute(first).ok()?.parent().map(Path::to_owned)
}
