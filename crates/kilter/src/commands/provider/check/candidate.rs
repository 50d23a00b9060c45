//! Provider under test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kilter_model::TypeSchema;
use kilter_process::trust::TrustPolicy;
use kilter_provider::Provider;
use kilter_script::mold::Mold;
use kilter_script::{Script, ScriptEnvironment, ScriptRunner, Scripts, script};

use super::findings::{self, Finding};
use crate::cli::Global;
use crate::exit::Exit;
use crate::output;
use crate::providers::{self, Search};

/// Provider under test, with a way to create further instances.
pub(super) struct Candidate {
    kind: Kind,
    /// Instance that makes no changes.
    provider: Arc<dyn Provider>,
    surroundings: ScriptEnvironment,
}

enum Kind {
    Script(Arc<dyn Script>),
    Mold { directory: PathBuf, path: PathBuf },
    Native,
}

impl Candidate {
    pub(super) fn schema(&self) -> &TypeSchema {
        self.provider.schema()
    }

    pub(super) fn provider(&self) -> &dyn Provider {
        &*self.provider
    }

    /// Returns the script; none for a native provider.
    pub(super) fn script(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Script(script) => Some(script.path()),
            Kind::Mold { path, .. } => Some(path),
            Kind::Native => None,
        }
    }

    /// Returns its calling convention.
    pub(super) fn convention(&self) -> &'static str {
        match &self.kind {
            Kind::Script(script) => script.metadata().convention.word(),
            Kind::Mold { .. } => "mold",
            Kind::Native => "native",
        }
    }

    pub(super) fn surroundings(&self) -> &ScriptEnvironment {
        &self.surroundings
    }

    /// Creates an independent instance. `exchanges` runs its scripts, which store data in `state_dir`.
    ///
    /// # Errors
    /// If its files have changed.
    pub(super) fn make(
        &self,
        exchanges: Arc<dyn ScriptRunner>,
        state_dir: Option<PathBuf>,
    ) -> Result<Arc<dyn Provider>, String> {
        let surroundings = Arc::new(ScriptEnvironment { exchanges, state_dir, ..self.surroundings.clone() });
        let type_name = &self.schema().name;
        match &self.kind {
            Kind::Script(known) => Ok(script(known.path(), known.metadata().clone(), &surroundings)),
            Kind::Mold { directory, .. } => {
                let mold = Mold::open(directory, surroundings).map_err(|error| error.to_string())?;
                let provider = mold.provider(type_name.as_str()).ok_or("its script is not there any more")?;
                Ok(Arc::clone(provider) as Arc<dyn Provider>)
            }
            Kind::Native => {
                let name = self.provider.name();
                let is_it = |one: &Arc<dyn Provider>| one.schema().name == *type_name && one.name() == name;
                kilter_native::native(crate::world::world())
                    .into_iter()
                    .find(is_it)
                    .ok_or_else(|| "there is no such provider".to_owned())
            }
        }
    }
}

type Found = (Option<Arc<Candidate>>, Vec<Finding>);

/// Returns the provider of a word: a path, or a type.
///
/// # Errors
/// If there is none; reported.
pub(super) fn find(word: &str, global: &Global) -> Result<Found, Exit> {
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
        Some(end) if end == "prov" => Ok(of_script(&path)),
        _ if above.is_some_and(|above| above == "resources") => Ok(of_mold(&path)),
        _ => Err(output::fail_with(
            format!("{word} is neither called NAME.prov nor in a directory `resources`"),
            ["`kilter provider new` writes a provider to start from"],
        )),
    }
}

/// A script that the user names explicitly runs without the trust rule.
fn surroundings() -> ScriptEnvironment {
    ScriptEnvironment { trust: TrustPolicy::any(), ..providers::surroundings(None) }
}

fn of_script(path: &Path) -> Found {
    let mut findings = findings::of_file(path);
    if findings.iter().any(Finding::is_fatal) {
        return (None, findings);
    }
    let (found, described) = findings::described(path, &surroundings());
    findings.extend(described);
    (found.map(|script| of_provider(&script)), findings)
}

fn of_provider(script: &Arc<dyn Script>) -> Arc<Candidate> {
    let provider = Arc::clone(script) as Arc<dyn Provider>;
    Arc::new(Candidate { kind: Kind::Script(Arc::clone(script)), provider, surroundings: surroundings() })
}

fn of_mold(path: &Path) -> Found {
    let mut findings = findings::of_file(path);
    if findings.iter().any(Finding::is_fatal) {
        return (None, findings);
    }
    let directory = path.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
    let mold = match Mold::open(&directory, Arc::new(surroundings())) {
        Ok(mold) => mold,
        Err(error) => return (None, vec![Finding::fault(&directory, error)]),
    };
    let beside = PathBuf::from(format!("{}.yaml", path.display()));
    let provider = mold.providers().iter().find(|provider| provider.path() == path);
    let notes = mold.notes().iter().filter(|note| note.file == path || note.file == beside);
    findings.extend(Finding::of(notes, provider.is_some()));
    let candidate = provider.map(|provider| {
        let kind = Kind::Mold { directory, path: path.to_owned() };
        Arc::new(Candidate { kind, provider: Arc::clone(provider) as Arc<dyn Provider>, surroundings: surroundings() })
    });
    (candidate, findings)
}

/// Returns a provider that kilter finds by itself.
fn known(word: &str, global: &Global) -> Result<Found, Exit> {
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
        let mut findings = findings::of_file(script.path());
        findings.extend(findings::described(script.path(), &surroundings()).1);
        return Ok((Some(of_provider(script)), findings));
    }
    let mold = crate::mold::given();
    if let Some(script) = mold.and_then(|mold| mold.providers().iter().find(|script| is_it(&***script))) {
        return Ok(of_mold(script.path()));
    }
    let native = kilter_native::native(crate::world::world()).into_iter().find(|one| is_it(&**one));
    let candidate = native.map(|provider| Candidate { kind: Kind::Native, provider, surroundings: surroundings() });
    Ok((candidate.map(Arc::new), Vec::new()))
}

/// Returns the script of a path, and the notes about it.
pub(super) fn script_at(path: &Path, surroundings: ScriptEnvironment) -> (Option<Arc<dyn Script>>, Scripts) {
    let scripts = Scripts::at(path, &Arc::new(surroundings));
    (scripts.providers.first().cloned(), scripts)
}
