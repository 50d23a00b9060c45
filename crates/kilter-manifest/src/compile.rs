//! Compiles sources to a catalog.

use ecow::EcoString;
use kilter_model::expr::Lookup;
use kilter_model::{Catalog, TypeSchema, Value};

use crate::collect::Collect;
use crate::composite::Composites;
use crate::diagnostic::{Diagnostic, sorted};
use crate::environment::Environment;
use crate::load::load;
use crate::places::AttributeSpans;
use crate::resources::Resources;
use crate::secrets::{SecretSource, collect_sensitive};
use crate::source::{Source, Sources};

/// The known resource types.
pub trait Schemas {
    /// Returns the schema of a type.
    fn schema(&self, type_name: &str) -> Option<&TypeSchema>;
    /// Returns the names of all types.
    fn names(&self) -> Vec<&str>;

    /// Returns the schema of a type for the named provider, if there is such a provider. Providers of a type may
    /// accept different attributes.
    fn schema_of(&self, type_name: &str, provider: &str) -> Option<&TypeSchema> {
        let _ = provider;
        self.schema(type_name)
    }

    /// Returns the schema of a type for each of its providers. The first is that of [`schema`](Schemas::schema).
    fn variants(&self, type_name: &str) -> Vec<&TypeSchema> {
        self.schema(type_name).into_iter().collect()
    }
}

/// The facts of the machine.
pub trait Facts {
    /// Returns a top-level fact. Called only for facts that the manifest names, once for each.
    fn fact(&self, name: &str) -> Lookup;
    /// Returns the names of all top-level facts, for "did you mean".
    fn names(&self) -> Vec<EcoString>;

    /// Returns true if the values of the fact at `path`, such as `os.name`, are always in lower case.
    fn is_lower_case(&self, path: &str) -> bool {
        let _ = path;
        false
    }
}

/// Loads the includes of a manifest.
pub trait Loader {
    /// Loads the text at `path`, an include of the source named `from`. The name of the result identifies the file,
    /// independently of the path that led to it.
    ///
    /// # Errors
    /// The reason why the text cannot be read.
    fn load(&self, from: &str, path: &str) -> Result<Source, String>;

    /// Loads the exported resources of other machines that the source named `from` collects.
    ///
    /// The text is a JSON list: `[{"resource": "type[title]", "attributes": {…}}]`. It is empty if there are no
    /// resources.
    ///
    /// # Errors
    /// The reason why they cannot be read.
    fn collect(&self, from: &str, wanted: &Collect) -> Result<Source, String> {
        let _ = (from, wanted);
        Err("nothing is shared with other machines here".to_owned())
    }
}

/// Fetches sensitive values.
pub trait Secrets {
    /// Returns the content of a file, the value of an environment variable, or the output of a command.
    ///
    /// # Errors
    /// The reason why there is no value.
    fn resolve(&self, source: &SecretSource) -> Result<Value, String>;
}

/// Inputs of a compilation.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The resource types.
    pub schemas: &'a dyn Schemas,
    /// The facts.
    pub facts: &'a dyn Facts,
    /// The sensitive values.
    pub secrets: &'a dyn Secrets,
    /// The included files.
    pub loader: &'a dyn Loader,
    /// Variables given from outside. They override those of the manifest.
    pub overrides: &'a [(EcoString, Value)],
}

/// Result of a compilation.
#[derive(Debug)]
pub struct Compiled {
    /// The resources and their relations.
    pub catalog: Catalog,
    /// Positions of attributes, computed on demand.
    pub places: AttributeSpans,
    /// Warnings about valid input that is probably a mistake.
    pub warnings: Vec<Diagnostic>,
}

/// Compiles manifests to a catalog.
///
/// The sources are merged in their order. The last value of a variable wins; the resources are combined. Included
/// texts are added to `sources`, so that problems in them can be shown.
///
/// # Errors
/// All problems, in the order of their positions.
pub fn compile(sources: &mut Sources, inputs: &Inputs<'_>) -> Result<Compiled, Vec<Diagnostic>> {
    match compile_partly(sources, inputs) {
        (compiled, problems) if problems.is_empty() => Ok(compiled),
        (_, problems) => Err(problems),
    }
}

/// Compiles manifests to a catalog as far as possible, and returns all problems in the order of their positions.
///
/// If there are problems, the catalog only helps to find more of them. It lacks resources of unknown types and
/// invalid attributes.
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
    let compiled = Compiled { catalog, places: AttributeSpans::new(), warnings: sorted(warnings) };
    if problems.is_empty() {
        sources.secrets = secrets;
        return (compiled, problems);
    }
    // The search for secrets comes last, so that it also covers the parts that a problem kept from compilation.
    sources.secrets = collect_sensitive(&loaded, sources, inputs.schemas, &composites);
    (compiled, sorted(problems))
}
