//! Lookup of providers.

use std::env;
use std::path::PathBuf;

use kilter_model::Feature;
use kilter_provider::{ChoiceError, Level, Provider, Suitability};

use super::args::Args;
use super::error::Error;
use super::log::Logger;
use crate::paths;
use crate::providers::{self, Providers, Search};
use crate::session::Session;

/// Names of libral's own providers, with the corresponding types of kilter.
const LIBRALS: [(&str, &str); 4] =
    [("file::posix", "file"), ("group::groupadd", "group"), ("host::aug", "host"), ("user::useradd", "user")];

/// Directories in which libral installs its scripts.
const DATA_DIRS: [&str; 2] = ["/usr/local/share/libral/data", "/usr/share/libral/data"];

/// Returns all providers, and logs the notes about scripts.
pub(super) fn providers(session: &Session, args: &Args, logger: &Logger) -> Result<Providers, Error> {
    let listed = |name: &str| env::var_os(name).map(|list| paths::directories(&list)).unwrap_or_default();
    let given = args.include.iter().filter(|directory| !directory.as_os_str().is_empty()).cloned();
    let data = given.chain(listed("RALSH_DATA_DIR"));
    let mut directories: Vec<PathBuf> = data.map(|directory| directory.join("providers")).collect();
    directories.extend(providers::usual_directories());
    directories.extend(DATA_DIRS.map(|directory| PathBuf::from(directory).join("providers")));
    let libexec = listed("RALSH_LIBEXEC_DIR").into_iter().filter(|directory| directory.is_absolute()).collect();
    // Like libral, `ralsh` does not ask a suitable script again.
    let search = Search { directories, libexec, jobs: None, verify_suitability: false };
    let providers = providers::collect(session, &search).map_err(|_| Error::reported())?;
    for note in &providers.notes {
        // A problem of one script is no error of a command that may use another.
        logger.line(note.level.min(Level::Warning), &note.to_string());
    }
    for script in &providers.scripts {
        if let Suitability::Unsuitable(why) = script.suitable() {
            let message = format!("{}: provider {} is not suitable: {why}", script.path().display(), script.name());
            logger.line(Level::Info, &message);
        }
    }
    Ok(providers)
}

/// Returns the name of a provider with that of its type: `package::apt`.
pub(super) fn qualified(provider: &dyn Provider) -> String {
    format!("{}::{}", provider.schema().name, provider.name())
}

/// Returns the source of a provider.
pub(super) fn source(providers: &Providers, provider: &dyn Provider) -> String {
    let is_it = |name: &str, type_name: &str| name == provider.name() && provider.schema().name == *type_name;
    let script = providers.scripts.iter().find(|one| is_it(one.name(), one.schema().name.as_str()));
    script.map_or_else(|| "builtin".to_owned(), |script| script.path().display().to_string())
}

/// Returns the providers that are suitable here, sorted by name.
pub(super) fn suitable(providers: &Providers) -> Vec<&dyn Provider> {
    let is_local = |provider: &dyn Provider| !provider.schema().has(Feature::RemoteResource);
    let all = providers.registry.iter().filter(|one| is_local(one.as_ref()) && one.suitable().is_suitable());
    let mut suitable: Vec<&dyn Provider> = all.map(|provider| provider.as_ref() as &dyn Provider).collect();
    suitable.sort_by_cached_key(|provider| qualified(*provider));
    suitable
}

/// Returns the provider of that name, or of that type.
///
/// # Errors
/// If there is none, or the name is ambiguous.
pub(super) fn find<'p>(providers: &'p Providers, name: &str) -> Result<&'p dyn Provider, Error> {
    let registry = &providers.registry;
    let chosen = match registry.choose(name, None) {
        Err(ChoiceError::Type(_)) => {
            let (type_name, provider) = name.rsplit_once("::").ok_or_else(|| unknown(name))?;
            match (registry.choose(type_name, Some(provider)), LIBRALS.iter().find(|(libral, _)| *libral == name)) {
                (Err(_), Some((_, type_name))) => registry.choose(type_name, None),
                (chosen, _) => chosen,
            }
        }
        chosen => chosen,
    };
    let provider = match chosen {
        Ok(at) => registry.at(at).as_ref(),
        Err(ChoiceError::Ambiguous { type_name, among }) => return Err(ambiguous(&type_name, &among)),
        Err(ChoiceError::Name { type_name, known, .. }) => {
            let known: Vec<String> = known.iter().map(|provider| format!("{type_name}::{provider}")).collect();
            return Err(unknown(name).hint(format!("there is {}", known.join(", "))));
        }
        Err(ChoiceError::Type(_)) => return Err(unknown(name)),
        Err(ChoiceError::Contradiction(error)) => return Err(Error::failed(error)),
        Err(error @ (ChoiceError::NeedsDevice(_) | ChoiceError::NeedsMachine { .. })) => {
            return Err(Error::failed(error));
        }
    };
    match provider.suitable() {
        Suitability::Suitable => Ok(provider),
        Suitability::Unsuitable(why) => {
            Err(unknown(name).hint(format!("{} is not suitable here: {why}", qualified(provider))))
        }
    }
}

fn unknown(name: &str) -> Error {
    Error::new(format!("unknown provider: '{name}'")).hint("run 'ralsh' to see a list of all providers")
}

fn ambiguous(type_name: &str, among: &[&str]) -> Error {
    let candidates: Vec<String> = among.iter().map(|name| format!("{type_name}::{name}")).collect();
    Error::new(format!("ambiguous type: '{type_name}' has the providers {}", candidates.join(", ")))
        .hint(format!("name one of them, such as {}", candidates.first().map_or("", String::as_str)))
}
