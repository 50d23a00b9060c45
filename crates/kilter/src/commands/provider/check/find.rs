//! The provider to check: a script at a path, or the provider of a type.

use std::path::Path;
use std::sync::Arc;

use kilter_devkit::{Candidate, Inspection};
use kilter_process::trust::TrustPolicy;
use kilter_provider::Provider;
use kilter_script::{Script, ScriptEnvironment};

use crate::exit::Exit;
use crate::mold::OpenedMold;
use crate::providers::{self, Search};
use crate::session::Session;
use crate::{output, paths};

/// Returns the provider of a word: a path, or a type.
///
/// # Errors
/// If there is none; reported.
pub(super) fn find(word: &str, session: &Session) -> Result<Inspection, Exit> {
    let path = Path::new(word);
    let is_path = word.contains('/') || word.ends_with(".prov");
    if !is_path {
        return known(word, session);
    }
    if !path.exists() {
        return Err(output::fail(format_args!("{word}: there is no such file")));
    }
    let path = path.canonicalize().map_err(|error| output::fail(format_args!("{word}: {error}")))?;
    let above = path.parent().and_then(Path::file_name);
    match path.extension() {
        Some(end) if end == "prov" => Ok(Candidate::at(&path, &environment(session), rule(session))),
        _ if above.is_some_and(|above| above == "resources") => {
            Ok(Candidate::of_mold(&path, &environment(session), rule(session)))
        }
        _ => Err(output::fail_with(
            format!("{word} is neither called NAME.prov nor in a directory `resources`"),
            ["`kilter provider new` writes a provider to start from"],
        )),
    }
}

/// Returns the environment of scripts. A script that the user names explicitly runs without the trust rule.
fn environment(session: &Session) -> ScriptEnvironment {
    ScriptEnvironment { trust: TrustPolicy::any(), ..providers::surroundings(session, None) }
}

/// Returns the trust rule under which root would run a script.
fn rule(session: &Session) -> Option<&TrustPolicy> {
    paths::is_root().then_some(&session.trust)
}

/// Returns a provider that kilter finds by itself.
fn known(word: &str, session: &Session) -> Result<Inspection, Exit> {
    let directories = session.global.include.iter().cloned().chain(providers::usual_directories()).collect();
    let search = Search { directories, libexec: Vec::new(), jobs: None, verify_suitability: true };
    let all = providers::collect(session, &search)?;
    let provider = providers::find(&all.registry, word)?.as_ref();
    let is_it = |one: &dyn Provider| one.schema().name == provider.schema().name && one.name() == provider.name();
    if let Some(script) = all.scripts.iter().find(|script| is_it(&***script)) {
        return Ok(Candidate::loaded(script, &environment(session), rule(session)));
    }
    let mold = session.mold().map(OpenedMold::mold);
    if let Some(script) = mold.and_then(|mold| mold.providers().iter().find(|script| is_it(&***script))) {
        return Ok(Candidate::of_mold(script.path(), &environment(session), rule(session)));
    }
    let (type_name, name) = (provider.schema().name.clone(), provider.name());
    let world = Arc::clone(&session.world);
    let of_scripts = Arc::new(environment(session));
    let make = move || {
        let is_it = |one: &Arc<dyn Provider>| type_name == one.type_name() && one.name() == name;
        let embedded = providers::embedded(&[], &of_scripts);
        kilter_native::native(Arc::clone(&world)).into_iter().chain(embedded).find(is_it)
    };
    Ok((make().map(|native| Candidate::native(native, environment(session), make)), Vec::new()))
}
