//! Reports of problems in a manifest.

use kilter_engine::{Cycle, Origin, Reason, ResourceId};
use kilter_manifest::{AttributeSpans, Compiled, Diagnostic, MAX_SHOWN_PROBLEMS, Sources, render, to_json};
use kilter_provider::Registry;
use kilter_runtime::{Rejected, survey};

use crate::exit::Exit;
use crate::load::ErrorFormat;
use crate::{output, providers};

/// Reports all problems, with their number at the end.
pub(super) fn print(problems: &[Diagnostic], sources: &Sources, audience: ErrorFormat) -> Exit {
    if audience == ErrorFormat::Programs {
        let mut shown = serde_json::json!({ "problems": to_json(problems, sources) });
        if problems.len() > MAX_SHOWN_PROBLEMS {
            shown["more"] = (problems.len() - MAX_SHOWN_PROBLEMS).into();
        }
        output::data(&format!("{shown:#}\n"));
    }
    output::count_errors(problems.len());
    // The stream removes colours if it does not support them.
    output::line(render(problems, sources, true).trim_end());
    match problems.len() {
        1 => output::line("1 problem; nothing was touched"),
        n => output::line(format_args!("{n} problems; nothing was touched")),
    }
    Exit::NotStarted
}

/// Returns the problems of a compilation, and those that providers and the graph find in the compiled part.
pub(super) fn with_others(
    mut problems: Vec<Diagnostic>,
    compiled: Compiled,
    sources: &Sources,
    registry: &Registry,
) -> Vec<Diagnostic> {
    let Compiled { catalog, mut places, .. } = compiled;
    problems.extend(self::problems(
        &survey(catalog, registry, &providers::declaring(registry.hostname())),
        &mut places,
        sources,
    ));
    problems.sort_by_key(|problem| problem.span);
    problems
}

/// Returns the problems that providers and the graph find in a catalog, each with its place.
pub(super) fn problems(rejected: &Rejected, places: &mut AttributeSpans, sources: &Sources) -> Vec<Diagnostic> {
    let resource = |vertex: ResourceId| &rejected.catalog.resources[vertex.slot()];
    let faults = rejected.problems.iter().map(|(vertex, problem)| {
        let resource = resource(*vertex);
        let attribute = problem.attribute.as_ref().map(|name| name.as_str());
        let prefix = attribute.map(|name| format!(" {name}:")).unwrap_or_default();
        let place = places.of(sources, resource, attribute);
        let diagnostic = Diagnostic::new(format!("{}:{prefix} {}", resource.reference, problem.message))
            .at(place)
            .hint_if(problem.hint.clone());
        match attribute.filter(|attribute| places.is_default(sources, resource, attribute)) {
            Some(name) => {
                let hint = format!("`{name}: null` removes this default from {}", resource.reference);
                diagnostic.also(resource.span, "the resource with this default").hint(hint)
            }
            None => diagnostic,
        }
    });
    let mut all: Vec<Diagnostic> = faults.collect();
    all.extend(rejected.cycles.iter().map(|cycle| circle(cycle, rejected)));
    all.sort_by_key(|problem| problem.span);
    all
}

/// Returns a cycle as a problem, with the place of every edge.
fn circle(cycle: &Cycle, rejected: &Rejected) -> Diagnostic {
    let reference = |vertex: ResourceId| rejected.catalog.resources[vertex.slot()].reference.to_string();
    let mut path: Vec<String> = cycle.edges.iter().map(|edge| reference(edge.from)).collect();
    path.push(path[0].clone());
    let mut problem = Diagnostic::new(format!("resources wait for each other: {}", path.join(" → ")));
    let mut automatic = false;
    for edge in &cycle.edges {
        let (first, second) = (reference(edge.from), reference(edge.to));
        let (span, label) = match edge.origin {
            Origin::Written { kind, span } => (span, format!("{first} comes before {second} ({})", kind.word())),
            Origin::Output { span } => (span, format!("{second} uses a value of {first}")),
            Origin::Automatic(reason) => {
                automatic = true;
                let why = match reason {
                    Reason::Directory => "its directory",
                    Reason::Name => "which it names",
                    Reason::Number => "whose number it names",
                    Reason::Member => "which it lists",
                    Reason::Owner => "which owns its path",
                    Reason::Suitability => "which may bring what its provider needs",
                    Reason::Type => "which is of a type that it needs",
                };
                let span = rejected.catalog.resources[edge.to.slot()].span;
                (span, format!("{second} comes after {first}, {why} (automatic)"))
            }
        };
        problem = if problem.span.is_none() { problem.at(span).also(span, label) } else { problem.also(span, label) };
    }
    let hint = "take one of these relations out";
    let problem = problem.hint(hint);
    if automatic {
        problem.hint("`meta: { autoedge: false }` takes a resource's automatic relations out")
    } else {
        problem
    }
}
