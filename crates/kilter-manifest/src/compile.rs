//! The way from sources to a catalog.

use ecow::EcoString;
use kilter_model::expr::Lookup;
use kilter_model::{Catalog, TypeSchema, Value};

use crate::collect::Collect;
use crate::composite::Composites;
use crate::diagnostic::{Diagnostic, sorted};
use crate::environment::Environment;
use crate::load::load;
use crate::places::Places;
use crate::resources::Resources;
use crate::secrets::{SecretSource, find_secrets};
use crate::source::{Source, Sources};

/// The types that resources may have.
pub trait Schemas {
    /// The schema of a type.
    fn schema(&self, type_name: &str) -> Option<&TypeSchema>;
    /// The names of all types.
    fn names(&self) -> Vec<&str>;

    /// The type as the provider of a name has it, if there is one of that name. Providers of one type may take different
    /// attributes.
    fn schema_of(&self, type_name: &str, provider: &str) -> Option<&TypeSchema> {
        let _ = provider;
        self.schema(type_name)
    }

    /// The type as each of its providers has it, that of [`schema`](Schemas::schema) first.
    fn variants(&self, type_name: &str) -> Vec<&TypeSchema> {
        self.schema(type_name).into_iter().collect()
    }
}

/// What the machine says of itself.
pub trait Facts {
    /// The top-level fact of a name. Asked only for facts that the manifest names, each once.
    fn fact(&self, name: &str) -> Lookup;
    /// The names of all top-level facts, for "did you mean".
    fn names(&self) -> Vec<EcoString>;

    /// Returns true if the values of the fact at `path`, such as `os.name`, are always in lower case.
    fn is_lower_case(&self, path: &str) -> bool {
        let _ = path;
        false
    }
}

/// Reads what a manifest includes.
pub trait Loader {
    /// The text at `path`, which was written in the source named `from`. The name of the result
    /// tells one file from another, whichever way it is reached.
    ///
    /// # Errors
    /// Says why it cannot be read.
    fn load(&self, from: &str, path: &str) -> Result<Source, String>;

    /// The resources that other machines export and the source named `from` wants, as a list of them in JSON:
    /// `[{"resource": "type[title]", "attributes": {…}}]`; an empty text for none.
    ///
    /// # Errors
    /// Says why they cannot be read.
    fn collect(&self, from: &str, wanted: &Collect) -> Result<Source, String> {
        let _ = (from, wanted);
        Err("nothing is shared with other machines here".to_owned())
    }
}

/// Fetches sensitive values.
pub trait Secrets {
    /// The content of a file, the value of an environment variable, or the output of a command.
    ///
    /// # Errors
    /// Says why there is none.
    fn resolve(&self, source: &SecretSource) -> Result<Value, String>;
}

/// What a compilation may ask for.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The types.
    pub schemas: &'a dyn Schemas,
    /// The facts.
    pub facts: &'a dyn Facts,
    /// Sensitive values.
    pub secrets: &'a dyn Secrets,
    /// Included files.
    pub loader: &'a dyn Loader,
    /// Variables given from outside; they win over those of the manifest.
    pub overrides: &'a [(EcoString, Value)],
}

/// What a manifest amounts to.
#[derive(Debug)]
pub struct Compiled {
    /// The resources and their relations.
    pub catalog: Catalog,
    /// Where attributes are written; costs nothing until it is asked.
    pub places: Places,
    /// What is accepted and hardly meant.
    pub warnings: Vec<Diagnostic>,
}

/// Compiles manifests to a catalog.
///
/// The sources are merged in their order: of a variable, the last one counts; resources are
/// united. Included texts are added to `sources`, so that problems in them can be shown.
///
/// # Errors
/// All problems, in the order of their places.
pub fn compile(sources: &mut Sources, inputs: &Inputs<'_>) -> Result<Compiled, Vec<Diagnostic>> {
    match compile_partly(sources, inputs) {
        (compiled, problems) if problems.is_empty() => Ok(compiled),
        (_, problems) => Err(problems),
    }
}

/// Compiles manifests to a catalog as far as they can be, and tells all problems, in the order of
/// their places.
///
/// With problems, the catalog is only good for finding more of them: resources of unknown types and
/// attributes at fault are missing from it.
pub fn compile_partly(sources: &mut Sources, inputs: &Inputs<'_>) -> (Compiled, Vec<Diagnostic>) {
    let mut loaded = load(sources, inputs);
    let (mut problems, mut warnings) = (std::mem::take(&mut loaded.problems), std::mem::take(&mut loaded.warnings));
    let composites = Composites::read(&loaded, inputs.schemas, &mut problems, &mut warnings);
    let environment = Environment::new(*inputs, &loaded, problems);
    let mut catalog = Resources::new(&environment, &loaded, &composites).compile();
    environment.evaluate_rest();
    catalog.secrets = environment.sensitive_vars();
    warnings.extend(environment.take_warnings());
    let (problems, secrets) = environment.finish();
    let compiled = Compiled { catalog, places: Places::new(), warnings: sorted(warnings) };
    if problems.is_empty() {
        sources.secrets = secrets;
        return (compiled, problems);
    }
    // Only now are all secrets searched for, those too that no problem let us get to.
    sources.secrets = find_secrets(&loaded, sources, inputs.schemas, &composites);
    (compiled, sorted(problems))
}
