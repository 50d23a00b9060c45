//! Explicit relations: `require`, `before`, `notify`, `subscribe`.

use std::rc::Rc;

use ecow::eco_format;
use kilter_model::{Relation, RelationKind, ResourceRef};

use crate::diagnostic::Diagnostic;
use crate::environment::Environment;
use crate::index::Index;
use crate::tree::View;

pub(crate) const RELATIONS: [RelationKind; 4] =
    [RelationKind::Require, RelationKind::Before, RelationKind::Notify, RelationKind::Subscribe];

/// Maximum number of relations. A relation of a composite resource counts once per member, a collector once per
/// resource.
const MOST_RELATIONS: usize = 1_000_000;

/// Title that stands for all other resources of a type.
const ALL: &str = "*";

/// Adds the relations in a value: a reference or a list of references. `type[*]` refers to all other resources of the
/// type.
pub(crate) fn compile<'t>(
    environment: &Environment<'t>,
    index: &Index<'t>,
    number: u32,
    kind: RelationKind,
    value: View<'t>,
    relations: &mut Vec<Relation>,
) {
    if value.is_null() {
        return;
    }
    if value.is_mapping() {
        return wrong(environment, kind, value);
    }
    let one = value.is_scalar().then_some(value);
    for view in value.elements().chain(one) {
        if !view.is_scalar() || view.is_null() {
            wrong(environment, kind, view);
            continue;
        }
        let others = resolve(environment, index, number, view);
        let count = |number: u32| index.group(number).map_or(1, |group| group.len());
        let is_multiple = others.len() > 1 || count(number) > 1 || others.iter().any(|other| count(*other) > 1);
        let added = others.iter().map(|other| count(*other)).sum::<usize>().saturating_mul(count(number));
        if is_multiple && added > MOST_RELATIONS - relations.len().min(MOST_RELATIONS) {
            let what = if others.len() > 1 { "collectors" } else { "composite resources" };
            let problem = Diagnostic::new(eco_format!("{what} have more than {MOST_RELATIONS} relations"));
            environment.report(problem.at(view.span()).hint("relate the single resources"));
            continue;
        }
        for own in index.positions(number) {
            for other in others.iter().flat_map(|other| index.positions(*other)) {
                let (first, second) = match kind {
                    RelationKind::Before | RelationKind::Notify => (own, other),
                    RelationKind::Require | RelationKind::Subscribe => (other, own),
                };
                relations.push(Relation { first, second, kind, span: view.span() });
            }
        }
    }
}

fn wrong(environment: &Environment<'_>, kind: RelationKind, view: View<'_>) {
    let message = eco_format!("`{}` expects a reference or a list of references", kind.word());
    environment.report(Diagnostic::new(message).at(view.span()).hint("such as service[nginx]"));
}

/// Returns the numbers of the referenced resources.
fn resolve<'t>(environment: &Environment<'t>, index: &Index<'t>, number: u32, view: View<'t>) -> Rc<[u32]> {
    let Some(text) = environment.text(view) else { return Rc::default() };
    let report = |problem: Diagnostic| environment.report(problem.at(view.span()));
    let (type_name, title) = match ResourceRef::split(&text) {
        Ok(parts) => parts,
        Err(error) => {
            report(Diagnostic::new(eco_format!("{error}")));
            return Rc::default();
        }
    };
    let contains = |whole: u32, part: u32| index.group(whole).is_some_and(|group| group.contains(&part));
    let is_own = |other: u32| other == number || contains(other, number) || contains(number, other);
    if title == ALL {
        let numbers = index.types.known(type_name).map(|type_id| index.of_type(type_id)).unwrap_or_default();
        if numbers.is_empty() || *numbers == [number] {
            nothing(environment, index, type_name, view);
        }
        return match numbers.iter().any(|other| is_own(*other)) {
            true => numbers.iter().copied().filter(|other| !is_own(*other)).collect(),
            false => numbers,
        };
    }
    let Some(other) = index.find_from(number, type_name, title) else {
        if environment.complete && !index.lacks_resources {
            report(index.dangling(&text));
        }
        return Rc::default();
    };
    if other == number {
        report(Diagnostic::new(eco_format!("`{text}` refers to itself")).hint("take the relation out"));
        return Rc::default();
    }
    if is_own(other) {
        let problem =
            Diagnostic::new(eco_format!("a relation between a composite resource and a part of it: `{text}`"));
        report(problem.hint("relate it to other parts"));
        return Rc::default();
    }
    Rc::new([other])
}

/// Reports a collector that matches no other resource: an error for an unknown type, a warning otherwise.
fn nothing(environment: &Environment<'_>, index: &Index<'_>, type_name: &str, view: View<'_>) {
    if !environment.complete || index.lacks_resources {
        return;
    }
    if !index.types.exists(type_name) {
        // A resource of an unknown type has been reported at its own place.
        if index.types.known(type_name).is_none() {
            environment.report(index.dangling(view.text()).at(view.span()));
        }
        return;
    }
    let message = eco_format!("`{}` matches no resource: the manifest declares no other {type_name}", view.text());
    let hint = eco_format!("declare a {type_name}, or take the relation out");
    environment.warn(Diagnostic::new(message).at(view.span()).hint(hint));
}
