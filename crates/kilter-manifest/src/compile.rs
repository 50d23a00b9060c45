//! Compiles sources to a catalog.

use kilter_model::Catalog;

use crate::attribute_spans::AttributeSpans;
use crate::composite::Composites;
use crate::diagnostic::{Diagnostic, sorted};
use crate::environment::Environment;
use crate::index::Index;
use crate::inputs::Inputs;
use crate::load::{Loaded, load};
use crate::meta::Defaults;
use crate::register::register;
use crate::resources;
use crate::secrets::collect_sensitive;
use crate::source::Sources;
use crate::value;

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
    compile_with(sources, inputs, &mut |_| {})
}

/// State at the end of a compilation.
pub(crate) struct Compilation<'a, 't> {
    pub(crate) environment: &'a Environment<'t>,
    pub(crate) loaded: &'t Loaded,
    pub(crate) index: &'a Index<'t>,
    pub(crate) defaults: &'a Defaults<'t>,
    pub(crate) catalog: &'a Catalog,
}

/// Compiles manifests, and shows `see` the state at the end.
pub(crate) fn compile_with(
    sources: &mut Sources,
    inputs: &Inputs<'_>,
    see: &mut dyn FnMut(&Compilation<'_, '_>),
) -> (Compiled, Vec<Diagnostic>) {
    let mut loaded = load(sources, inputs);
    let (mut problems, mut warnings) = (std::mem::take(&mut loaded.problems), std::mem::take(&mut loaded.warnings));
    let composites = Composites::read(&loaded, inputs.schemas, &mut problems, &mut warnings);
    let environment = Environment::new(*inputs, sources, &loaded, problems, value::of_variable);
    let defaults = Defaults::compile(&environment, &loaded, &composites);
    let registered = register(&environment, &loaded, &composites, &defaults);
    let (mut catalog, index) = resources::compile(&environment, registered, &defaults);
    defaults.attributes.check_rest(&environment);
    environment.evaluate_rest();
    see(&Compilation {
        environment: &environment,
        loaded: &loaded,
        index: &index,
        defaults: &defaults,
        catalog: &catalog,
    });
    drop(index);
    catalog.secrets = environment.sensitive_vars();
    warnings.extend(environment.take_warnings());
    let (problems, secrets, files) = environment.finish();
    for file in files {
        sources.add(file);
    }
    let compiled = Compiled { catalog, places: AttributeSpans::new(), warnings: sorted(warnings) };
    if problems.is_empty() {
        sources.secrets = secrets;
        return (compiled, problems);
    }
    // The search for secrets comes last, so that it also covers the parts that a problem kept from compilation.
    sources.secrets = collect_sensitive(&loaded, sources, inputs.schemas, &composites);
    sources.secrets.extend(secrets);
    (compiled, sorted(problems))
}
