//! Provider under test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kilter_model::TypeSchema;
use kilter_process::trust::TrustPolicy;
use kilter_provider::Provider;
use kilter_script::mold::Mold;
use kilter_script::{Script, ScriptEnvironment, ScriptRunner, script};

use super::findings::{self, Finding};

/// Provider under test, with a way to create further instances.
pub struct Candidate {
    kind: CandidateKind,
    /// Instance that makes no changes.
    provider: Arc<dyn Provider>,
    environment: ScriptEnvironment,
}

enum CandidateKind {
    Script(Arc<dyn Script>),
    Mold { directory: PathBuf, path: PathBuf },
    Native(MakeFn),
}

/// Function that creates an instance of a native provider.
type MakeFn = Box<dyn Fn() -> Option<Arc<dyn Provider>> + Send + Sync>;

/// Provider, if it can be used, and the findings about its files.
pub type Inspection = (Option<Arc<Candidate>>, Vec<Finding>);

impl Candidate {
    /// Inspects the script `NAME.prov` at a path. `rule` is the trust rule under which root would run it.
    pub fn at(path: &Path, environment: &ScriptEnvironment, rule: Option<&TrustPolicy>) -> Inspection {
        let mut findings = findings::of_file(path, rule);
        if findings.iter().any(Finding::is_fatal) {
            return (None, findings);
        }
        let (found, described) = findings::described(path, environment);
        findings.extend(described);
        (found.map(|script| Candidate::of_script(&script, environment)), findings)
    }

    /// Inspects a script that is already loaded.
    pub fn loaded(script: &Arc<dyn Script>, environment: &ScriptEnvironment, rule: Option<&TrustPolicy>) -> Inspection {
        let mut findings = findings::of_file(script.path(), rule);
        findings.extend(findings::described(script.path(), environment).1);
        (Some(Candidate::of_script(script, environment)), findings)
    }

    fn of_script(script: &Arc<dyn Script>, environment: &ScriptEnvironment) -> Arc<Candidate> {
        let provider = Arc::clone(script) as Arc<dyn Provider>;
        Arc::new(Candidate {
            kind: CandidateKind::Script(Arc::clone(script)),
            provider,
            environment: environment.clone(),
        })
    }

    /// Inspects a script in the directory `resources` of mold.
    pub fn of_mold(path: &Path, environment: &ScriptEnvironment, rule: Option<&TrustPolicy>) -> Inspection {
        let mut findings = findings::of_file(path, rule);
        if findings.iter().any(Finding::is_fatal) {
            return (None, findings);
        }
        let directory = path.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
        let mold = match Mold::open(&directory, Arc::new(environment.clone())) {
            Ok(mold) => mold,
            Err(error) => return (None, vec![Finding::fault(&directory, error)]),
        };
        let beside = PathBuf::from(format!("{}.yaml", path.display()));
        let provider = mold.providers().iter().find(|provider| provider.path() == path);
        let notes = mold.notes().iter().filter(|note| note.file == path || note.file == beside);
        findings.extend(Finding::of(notes, provider.is_some()));
        let candidate = provider.map(|provider| {
            let kind = CandidateKind::Mold { directory, path: path.to_owned() };
            let provider = Arc::clone(provider) as Arc<dyn Provider>;
            Arc::new(Candidate { kind, provider, environment: environment.clone() })
        });
        (candidate, findings)
    }

    /// Creates a candidate of a native provider. `make` creates further instances.
    pub fn native(
        provider: Arc<dyn Provider>,
        environment: ScriptEnvironment,
        make: impl Fn() -> Option<Arc<dyn Provider>> + Send + Sync + 'static,
    ) -> Arc<Candidate> {
        Arc::new(Candidate { kind: CandidateKind::Native(Box::new(make)), provider, environment })
    }

    /// Returns the type.
    pub fn schema(&self) -> &TypeSchema {
        self.provider.schema()
    }

    /// Returns the instance that makes no changes.
    pub fn provider(&self) -> &dyn Provider {
        &*self.provider
    }

    /// Returns the script; none for a native provider.
    pub fn script(&self) -> Option<&Path> {
        match &self.kind {
            CandidateKind::Script(script) => Some(script.path()),
            CandidateKind::Mold { path, .. } => Some(path),
            CandidateKind::Native(_) => None,
        }
    }

    /// Returns its calling convention.
    pub fn convention(&self) -> &'static str {
        match &self.kind {
            CandidateKind::Script(script) => script.metadata().convention.word(),
            CandidateKind::Mold { .. } => "mold",
            CandidateKind::Native(_) => "native",
        }
    }

    /// Returns the environment and limits of its scripts.
    pub(super) fn environment(&self) -> &ScriptEnvironment {
        &self.environment
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
        let environment = Arc::new(ScriptEnvironment { exchanges, state_dir, ..self.environment.clone() });
        let type_name = &self.schema().name;
        match &self.kind {
            CandidateKind::Script(known) => Ok(script(known.path(), known.metadata().clone(), &environment)),
            CandidateKind::Mold { directory, .. } => {
                let mold = Mold::open(directory, environment).map_err(|error| error.to_string())?;
                let provider = mold.provider(type_name.as_str()).ok_or("its script no longer exists")?;
                Ok(Arc::clone(provider) as Arc<dyn Provider>)
            }
            CandidateKind::Native(make) => make().ok_or_else(|| "there is no such provider".to_owned()),
        }
    }
}
