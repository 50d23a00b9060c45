//! The providers of the command, and how it speaks of a type that it does not know.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use kilter_facts::Facts;
use kilter_model::ResourceRef;
use kilter_model::suggest::nearest;
use kilter_process::Environment;
use kilter_provider::{ChoiceError, Level, Provider, Registry};
use kilter_script::mold::Mold;
use kilter_script::{Rights, Scripts, Surroundings};

use crate::cli::Global;
use crate::exit::Exit;
use crate::{facts, mold, paths, say, signals};

/// All providers: those that kilter brings along, and scripts.
pub(crate) fn registry(global: &Global) -> Registry {
    let native = kilter_native::native();
    let scripts = scripts(global);
    for note in &scripts.notes {
        match note.level {
            Level::Warning | Level::Err => say::warning(note),
            _ if global.verbose => say::line(note),
            _ => {}
        }
    }
    let of_mold: Vec<Arc<dyn Provider>> = mold::given().map(of_mold).unwrap_or_default();
    let is_taken = |provider: &dyn Provider| {
        native
            .iter()
            .chain(&of_mold)
            .any(|one| one.schema().name == provider.schema().name && one.name() == provider.name())
    };
    let (taken, free): (Vec<_>, Vec<_>) = scripts.providers.into_iter().partition(|one| is_taken(one.as_ref()));
    for provider in taken {
        let (name, type_name) = (provider.name(), &provider.schema().name);
        say::warning(format_args!(
            "{}: not used: there is a provider `{name}` of {type_name} already",
            provider.path().display()
        ));
    }
    let free = free.into_iter().map(|provider| provider as Arc<dyn Provider>);
    Registry::new(native.iter().cloned().chain(of_mold.iter().cloned()).chain(free))
}

/// The providers that are scripts of mold.
fn of_mold(mold: &Mold) -> Vec<Arc<dyn Provider>> {
    mold.providers().iter().map(|provider| Arc::clone(provider) as Arc<dyn Provider>).collect()
}

/// The scripts of the directories that were given and of the usual ones.
fn scripts(global: &Global) -> Scripts {
    for directory in global.include.iter().filter(|directory| !directory.exists()) {
        say::warning(format_args!("{}: there is no such directory of providers", directory.display()));
    }
    let given = global.include.iter().cloned().chain(paths::given_providers_dirs());
    let directories: Vec<PathBuf> = given.chain(paths::providers_dirs()).filter(|path| path.exists()).collect();
    if directories.is_empty() {
        return Scripts::default();
    }
    let cache = global.state_dir.clone().filter(|path| !path.as_os_str().is_empty()).or_else(paths::state_dir);
    Scripts::find(&directories, cache.map(|state| state.join("describe")).as_deref(), &Arc::new(surroundings()))
}

/// What scripts are given of the world.
pub(crate) fn surroundings() -> Surroundings {
    Surroundings {
        facts: Arc::new(lazy_facts()),
        environment: Environment::new().user(rustix::process::geteuid().as_raw()),
        rights: if paths::is_root() { Rights::Root } else { Rights::User },
        cancelled: Some(&signals::RAISED),
        ..Surroundings::new()
    }
}

/// Facts that are gathered when a condition asks for one.
fn lazy_facts() -> impl Fn(&str) -> Option<kilter_model::Value> + Send + Sync + 'static {
    let facts: OnceLock<Facts> = OnceLock::new();
    move |name| facts.get_or_init(|| facts::gather(&[], None)).get(name)
}

/// The provider of a type, which may be written with the provider's name: `package::apt`.
///
/// # Errors
/// When there is none; it has been said.
pub(crate) fn find<'r>(registry: &'r Registry, type_name: &str) -> Result<&'r dyn Provider, Exit> {
    match registry.choose(type_name, None) {
        Ok(at) => return Ok(registry.at(at).as_ref()),
        Err(error @ ChoiceError::Ambiguous { .. }) => return Err(ambiguous(type_name, &error)),
        Err(_) => {}
    }
    if let Some((type_name, name)) = type_name.rsplit_once("::").filter(|(of, _)| registry.schema(of).is_some()) {
        return match registry.choose(type_name, Some(name)) {
            Ok(at) => Ok(registry.at(at).as_ref()),
            Err(error) => Err(say::fail(error)),
        };
    }
    let known: Vec<&str> = registry.types().map(|provider| provider.schema().name.as_str()).collect();
    let meant = nearest(&type_name.to_lowercase(), known.iter().copied());
    let hint = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are {}; `kilter types` describes them", known.join(", ")),
    };
    Err(say::fail_with(format!("there is no type `{type_name}`"), [hint]))
}

fn ambiguous(type_name: &str, error: &ChoiceError) -> Exit {
    let ChoiceError::Ambiguous { among, .. } = error else { return say::fail(error) };
    let first = among.first().copied().unwrap_or_default();
    let hint = format!("name one: {type_name}::{first} here, `provider: {first}` in a manifest");
    say::fail_with(error, [hint])
}

/// The name of the provider, where it was named with the type.
pub(crate) fn named(provider: &dyn Provider, type_name: &str) -> Option<&'static str> {
    (provider.schema().name != *type_name).then(|| provider.name())
}

/// Splits `TYPE` or `TYPE[NAME]` as it may be written on the command line.
pub(crate) fn split(text: &str) -> (&str, Option<&str>) {
    ResourceRef::split(text).map_or((text, None), |(type_name, name)| (type_name, Some(name)))
}

/// The directories in a list with colons between them; an empty name is none.
pub(crate) fn directories(list: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect()
}
