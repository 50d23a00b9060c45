//! Providers of the command, and messages about unknown types.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ecow::{EcoString, eco_format};
use kilter_model::suggest::nearest;
use kilter_model::{Attributes, ResourceRef, TitleError};
use kilter_process::Environment;
use kilter_provider::{ChoiceError, Context, Interrupt, Level, Provider, Registry, TransportType, canonical_name};
use kilter_script::mold::{Historian, Mold, NoHistorian};
use kilter_script::{EmbeddedProvider, Found, Note, Script, ScriptEnvironment, Scripts};
use serde_json::json;

use crate::embedded::SCRIPTS;
use crate::exit::Exit;
use crate::facts::Gathered;
use crate::mold::OpenedMold;
use crate::render::progress::PrintedLog;
use crate::session::Session;
use crate::{facts, output, paths, signals};

/// Search path of scripts, and their settings.
pub(crate) struct Search {
    /// Directories in order of preference.
    pub(crate) directories: Vec<PathBuf>,
    /// Directories in which scripts find commands before the usual ones.
    pub(crate) libexec: Vec<PathBuf>,
    /// Number of resources of one script that are read concurrently; none for the default.
    pub(crate) jobs: Option<usize>,
    /// True if a script that reported earlier that it is suitable is asked again before it is used.
    pub(crate) verify_suitability: bool,
}

/// Available providers.
pub(crate) struct Providers {
    /// All providers.
    pub(crate) registry: Registry,
    /// Providers that are scripts of directories.
    pub(crate) scripts: Vec<Arc<dyn Script>>,
    /// Notes about scripts, unusable ones included.
    pub(crate) notes: Vec<Note>,
}

/// Returns the context in which providers canonicalise declared values.
pub(crate) fn declaring(hostname: &str) -> Context<'_> {
    Context::empty()
        .with_hostname(hostname)
        .with_log(&PrintedLog { from: Level::Warning })
        .with_interrupt(Interrupt::new(signals::raised(), None))
}

/// Returns all providers, native ones and scripts, and reports the notes about them.
///
/// # Errors
/// If a signal has arrived.
pub(crate) fn registry(session: &Session) -> Result<Registry, Exit> {
    registry_with(session, None)
}

/// Returns all providers, with scripts that read this number of resources concurrently.
///
/// # Errors
/// If a signal has arrived.
pub(crate) fn registry_with(session: &Session, jobs: Option<usize>) -> Result<Registry, Exit> {
    let is_missing = |directory: &&PathBuf| {
        !session.record.record_or_replay("exists", || json!(directory.to_string_lossy()), || directory.is_dir())
    };
    for directory in session.global.include.iter().filter(is_missing) {
        output::warning(format_args!("{}: there is no such provider directory", directory.display()));
    }
    let providers = all(session, jobs)?;
    for note in &providers.notes {
        match note.level {
            Level::Warning | Level::Err => output::warning(note),
            _ if session.global.verbose => output::line(note),
            _ => {}
        }
    }
    Ok(providers.registry)
}

/// Returns all providers of the usual directories, and the notes about them.
///
/// # Errors
/// If a signal has arrived.
pub(crate) fn all(session: &Session, jobs: Option<usize>) -> Result<Providers, Exit> {
    let mut directories = session.global.include.clone();
    directories.extend(usual_directories());
    collect(session, &Search { directories, libexec: Vec::new(), jobs, verify_suitability: true })
}

/// Returns the default directories.
pub(crate) fn usual_directories() -> impl Iterator<Item = PathBuf> {
    paths::given_providers_dirs().into_iter().chain(paths::providers_dirs())
}

/// Returns all providers: native ones and scripts.
///
/// # Errors
/// If a signal has arrived.
pub(crate) fn collect(session: &Session, search: &Search) -> Result<Providers, Exit> {
    let native = kilter_native::native(Arc::clone(&session.world));
    let of_mold: Vec<Arc<dyn Provider>> = session.mold().map(|opened| of_mold(opened.mold())).unwrap_or_default();
    let environment = Arc::new(script_environment(session, search));
    let Scripts { providers, transports, mut notes } = scripts(session, search, &environment)?;
    let is_taken = |provider: &dyn Provider| native.iter().chain(&of_mold).any(|one| is_same(one.as_ref(), provider));
    let (taken, scripts): (Vec<_>, Vec<_>) = providers.into_iter().partition(|one| is_taken(one.as_ref()));
    for provider in taken {
        let (name, type_name) = (provider.name(), provider.type_name());
        let message = eco_format!("not used: there is a provider `{name}` of {type_name} already");
        notes.push(Note { file: provider.path().to_owned(), level: Level::Warning, message });
    }
    // A script of mold's directory replaces all embedded scripts of its type.
    let is_free = |one: &Arc<dyn Provider>| {
        let is_of_mold = of_mold.iter().any(|other| other.type_name() == one.type_name());
        !is_of_mold && !is_taken(one.as_ref()) && !scripts.iter().any(|other| is_same(other.as_ref(), one.as_ref()))
    };
    for script in &scripts {
        tracing::debug!(path = ?script.path(), of = script.type_name(), "provider script");
    }
    let embedded: Vec<Arc<dyn Provider>> = embedded(&scripts, &environment).filter(is_free).collect();
    let free = scripts.iter().map(|provider| Arc::clone(provider) as Arc<dyn Provider>);
    let all = native.iter().cloned().chain(of_mold.iter().cloned()).chain(free).chain(embedded);
    let registry = Registry::new(all).map_err(output::fail)?;
    let transports = transports.into_iter().map(|one| one as Arc<dyn TransportType>).collect();
    let registry = session.record.decorate(registry).on_machine(session.host()).with_transports(transports);
    let registry = match session.device() {
        Some(open) => registry.on_device(Arc::clone(&open.device)),
        None => registry,
    };
    Ok(Providers { registry, scripts, notes })
}

/// Opens the directory of mold from the command line, if there is one.
///
/// # Errors
/// If it cannot be opened; reported.
pub(crate) fn open_mold(session: &Session) -> Result<(), Exit> {
    if let Some(directory) = &session.global.mold {
        let surroundings = surroundings(session, session.state_dir_if_any());
        session.set_mold(OpenedMold::open(directory, surroundings, session.record.clone(), session.global.verbose)?);
    }
    Ok(())
}

/// Returns the historian for the actions of scripts.
fn historian(session: &Session) -> Arc<dyn Historian> {
    match &session.channel3 {
        Some(log) => Arc::clone(log) as Arc<dyn Historian>,
        None => Arc::new(NoHistorian),
    }
}

/// Returns true if manifests could not distinguish two providers.
fn is_same(one: &dyn Provider, other: &dyn Provider) -> bool {
    one.type_name() == other.type_name() && one.name() == other.name()
}

/// Returns the embedded scripts, beside the scripts of the user.
pub(crate) fn embedded<'a>(
    scripts: &'a [Arc<dyn Script>],
    environment: &'a Arc<ScriptEnvironment>,
) -> impl Iterator<Item = Arc<dyn Provider>> + 'a {
    SCRIPTS.iter().map(|source| {
        let rivals = scripts.iter().filter(|one| one.type_name() == source.type_name).cloned().collect();
        Arc::new(EmbeddedProvider::new(source, rivals, environment)) as Arc<dyn Provider>
    })
}

/// Returns the providers of mold's directory.
fn of_mold(mold: &Mold) -> Vec<Arc<dyn Provider>> {
    mold.providers().iter().map(|provider| Arc::clone(provider) as Arc<dyn Provider>).collect()
}

/// Returns the environment and limits of the scripts of a search.
fn script_environment(session: &Session, search: &Search) -> ScriptEnvironment {
    let mut environment = surroundings_with(session, &search.libexec, session.state_dir_if_any());
    environment.verify_suitability = search.verify_suitability;
    if let Some(jobs) = search.jobs {
        environment.limits.jobs = jobs;
    }
    environment
}

/// Returns the scripts of the directories.
fn scripts(session: &Session, search: &Search, environment: &Arc<ScriptEnvironment>) -> Result<Scripts, Exit> {
    let directories: Vec<PathBuf> = search.directories.iter().filter(|path| path.exists()).cloned().collect();
    let look = || {
        session.record.record_or_replay(
            "scripts",
            || serde_json::Value::Null,
            || discover(session, &directories, environment),
        )
    };
    // Without directories, no script runs.
    let found = if directories.is_empty() { look() } else { signals::interruptible(look)? };
    Ok(Scripts::of(found, environment))
}

/// Searches the directories.
fn discover(session: &Session, directories: &[PathBuf], surroundings: &Arc<ScriptEnvironment>) -> Found {
    if directories.is_empty() {
        return Found::default();
    }
    // It has the metadata of the scripts.
    let cache = session.local_state_dir().map(|state| state.join("describe"));
    Found::search(directories, cache.as_deref(), surroundings)
}

/// Returns the environment and limits of scripts. They store data in the state directory, if given.
pub(crate) fn surroundings(session: &Session, state_dir: Option<PathBuf>) -> ScriptEnvironment {
    surroundings_with(session, &[], state_dir)
}

/// Returns the environment and limits of scripts, which find commands in `libexec` before the usual directories.
fn surroundings_with(session: &Session, libexec: &[PathBuf], state_dir: Option<PathBuf>) -> ScriptEnvironment {
    let environment = environment(session, libexec);
    let record = session.record.clone();
    let path = ScriptEnvironment { environment: environment.clone(), ..ScriptEnvironment::new() };
    let commands = move |name: &str| record.record_or_replay("command", || name.into(), || path.finds_command(name));
    ScriptEnvironment {
        facts: Arc::new(lazy_facts(session)),
        environment,
        commands: Some(Arc::new(commands)),
        // A replay writes nothing.
        state_dir: state_dir.filter(|_| !session.record.is_replay()),
        hostname: (!session.record.is_replay()).then(|| session.host().into()),
        exchanges: session.record.exchanges(),
        trust: session.trust.clone(),
        historian: historian(session),
        cancelled: Some(signals::raised()),
        ..ScriptEnvironment::new()
    }
}

/// Returns the environment variables of scripts, which find commands in `libexec` before the usual directories.
fn environment(session: &Session, libexec: &[PathBuf]) -> Environment {
    if session.record.is_replay() {
        return Environment::new();
    }
    let environment = Environment::new().user(rustix::process::geteuid().as_raw());
    let path = libexec.iter().cloned().chain(std::env::split_paths(kilter_process::DEFAULT_PATH));
    match std::env::join_paths(path) {
        Ok(path) if !libexec.is_empty() => environment.set("PATH", path),
        _ => environment,
    }
}

/// Returns facts that are gathered when a condition needs them.
fn lazy_facts(session: &Session) -> impl Fn(&str) -> Option<kilter_model::Value> + Send + Sync + use<> {
    let session = session.downgrade();
    let facts: OnceLock<Gathered> = OnceLock::new();
    move |name| {
        // A script runs only during its session.
        let session = session.upgrade()?;
        facts.get_or_init(|| facts::gather(&session, &[], None)).get(name)
    }
}

/// Returns the canonical name of a resource on the system, and its namevars if the type has several. Attributes that a
/// declaration would require do not matter here.
///
/// # Errors
/// If the title is invalid.
pub(crate) fn identified(
    provider: &dyn Provider,
    hostname: &str,
    title: &str,
) -> Result<(EcoString, Option<Attributes>), TitleError> {
    let schema = provider.schema();
    let (name, namevars) = schema.identify(title, &Attributes::default())?;
    let is_composite = schema.namevars().nth(1).is_some();
    let given = if is_composite { namevars } else { Attributes::new() };
    let (name, namevars) = canonical_name(provider, &declaring(hostname), &name, &given).unwrap_or((name, given));
    Ok((name, is_composite.then_some(namevars)))
}

/// Returns the provider of a type, which may be written with the provider's name: `package::apt`.
///
/// # Errors
/// If there is none, or a signal has arrived; reported.
pub(crate) fn find<'r>(registry: &'r Registry, type_name: &str) -> Result<&'r Arc<dyn Provider>, Exit> {
    // The choice may depend on facts of scripts.
    match signals::interruptible(|| registry.choose(type_name, None))? {
        Ok(at) => return Ok(registry.at(at)),
        Err(error @ ChoiceError::Ambiguous { .. }) => return Err(ambiguous(type_name, &error)),
        Err(ChoiceError::Contradiction(error)) => return Err(output::fail(error)),
        Err(error @ (ChoiceError::NeedsDevice(_) | ChoiceError::NeedsMachine { .. })) => {
            return Err(output::fail(error));
        }
        Err(_) => {}
    }
    if let Some((type_name, name)) = type_name.rsplit_once("::").filter(|(of, _)| registry.schema(of).is_some()) {
        return match registry.choose(type_name, Some(name)) {
            Ok(at) => Ok(registry.at(at)),
            Err(error) => Err(output::fail(error)),
        };
    }
    let known: Vec<&str> = registry.types().map(|provider| provider.type_name()).collect();
    let meant = nearest(&type_name.to_lowercase(), known.iter().copied());
    let foreign = kilter_model::foreign_words::type_hint(type_name, &|name| known.contains(&name));
    let hint = match (foreign, meant) {
        (Some(hint), _) => hint.into(),
        (None, Some(meant)) => format!("did you mean `{meant}`?"),
        (None, None) => format!("there are {}; `kilter types` describes them", known.join(", ")),
    };
    Err(output::fail_with(format!("there is no type `{type_name}`"), [hint]))
}

fn ambiguous(type_name: &str, error: &ChoiceError) -> Exit {
    let ChoiceError::Ambiguous { among, .. } = error else { return output::fail(error) };
    let first = among.first().copied().unwrap_or_default();
    let hint = format!("name one: {type_name}::{first} here, `provider: {first}` in a manifest");
    output::fail_with(error, [hint])
}

/// Returns the name of the provider, if it was written with the type.
pub(crate) fn named(provider: &dyn Provider, type_name: &str) -> Option<&'static str> {
    (provider.type_name() != type_name).then(|| provider.name())
}

/// Splits `TYPE` or `TYPE[NAME]` of the command line.
pub(crate) fn split(text: &str) -> (&str, Option<&str>) {
    ResourceRef::split(text).map_or((text, None), |(type_name, name)| (type_name, Some(name)))
}
