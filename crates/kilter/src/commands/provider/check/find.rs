//! The provider to check: a script at a path, or the provider of a type.

use std::path::Path;
use std::sync::Arc;

use kilter_devkit::{Candidate, Inspection};
use kilter_process::trust::TrustPolicy;
use kilter_provider::Provider;
use kilter_script::{Script, ScriptEnvironment};

use crate::cli::Global;
use crate::exit::Exit;
use crate::providers::{self, Search};
use crate::{output, paths, trust};

/// Returns the provider of a word: a path, or a type.
///
/// # Errors
/// If there is none; reported.
pub(super) fn find(word: &str, global: &Global) -> Result<Inspection, Exit> {
    let path = Path::new(word);
    let is_path = word.contains('/') || word.ends_with(".prov");
    if !is_path {
        return known(word, global);
    }
    if !path.exists() {
        return Err(output::fail(format_args!("{word}: there is no such file")));
    }
    let path = path.canonicalize().map_err(|error| output::fail(format_args!("{word}: {error}")))?;
    let above = path.parent().and_then(Path::file_name);
    match path.extension() {
        Some(end) if end == "prov" => Ok(Candidate::at(&path, &environment(), rule())),
        _ if above.is_some_and(|above| above == "resources") => Ok(Candidate::of_mold(&path, &environment(), rule())),
        _ => Err(output::fail_with(
            format!("{word} is neither called NAME.prov nor in a directory `resources`"),
            ["`kilter provider new` writes a provider to start from"],
        )),
    }
}

/// Returns the environment of scripts. A script that the user names explicitly runs without the trust rule.
fn environment() -> ScriptEnvironment {
    ScriptEnvironment { trust: TrustPolicy::any(), ..providers::surroundings(None) }
}

/// Returns the trust rule under which root would run a script.
fn rule() -> Option<&'static TrustPolicy> {
    paths::is_root().then(trust::policy)
}

/// Returns a provider that kilter finds by itself.
fn known(word: &str, global: &Global) -> Result<Inspection, Exit> {
    let directories = global.include.iter().cloned().chain(providers::usual_directories()).collect();
    let search = Search {
        directories,
        state_dir: global.state_dir.clone(),
        libexec: Vec::new(),
        jobs: None,
        verify_suitability: true,
    };
    let all = providers::collect(&search)?;
    let provider = providers::find(&all.registry, word)?;
    let is_it = |one: &dyn Provider| one.schema().name == provider.schema().name && one.name() == provider.name();
    if let Some(script) = all.scripts.iter().find(|script| is_it(&***script)) {
        return Ok(Candidate::loaded(script, &environment(), rule()));
    }
    let mold = crate::mold::given();
    if let Some(script) = mold.and_then(|mold| mold.providers().iter().find(|script| is_it(&***script))) {
        return Ok(Candidate::of_mold(script.path(), &environment(), rule()));
    }
    let (type_name, name) = (provider.schema().name.clone(), provider.name());
    let make = move || {
        let is_it = |one: &Arc<dyn Provider>| one.schema().name == type_name && one.name() == name;
        kilter_native::native(crate::world::world()).into_iter().find(is_it)
    };
    Ok((make().map(|native| Candidate::native(native, environment(), make)), Vec::new()))
}
