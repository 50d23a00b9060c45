//! Explicit relations: `require`, `before`, `notify`, `subscribe`.

use ecow::eco_format;
use kilter_model::{Relation, RelationKind, ResourceRef};

use crate::diagnostic::Diagnostic;
use crate::environment::Environment;
use crate::index::Index;
use crate::tree::View;

pub(crate) const RELATIONS: [RelationKind; 4] =
    [RelationKind::Require, RelationKind::Before, RelationKind::Notify, RelationKind::Subscribe];

/// Maximum number of relations. A relation of a composite resource counts once per member.
const MOST_RELATIONS: usize = 1_000_000;

/// Adds the relations in a value: a reference or a list of references.
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
        let Some(other) = resolve(environment, index, number, view) else { continue };
        let count = |number: u32| index.group(number).map_or(1, |group| group.len());
        if count(number).saturating_mul(count(other)) > MOST_RELATIONS - relations.len().min(MOST_RELATIONS)
            && (index.group(number).is_some() || index.group(other).is_some())
        {
            let problem = Diagnostic::new(eco_format!("composite resources have more than {MOST_RELATIONS} relations"));
            environment.report(problem.at(view.span()).hint("relate the single resources that they expand to"));
            continue;
        }
        for own in index.positions(number) {
            for other in index.positions(other) {
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

/// Returns the number of the referenced resource.
fn resolve<'t>(environment: &Environment<'t>, index: &Index<'t>, number: u32, view: View<'t>) -> Option<u32> {
    let text = environment.text(view)?;
    let report = |problem: Diagnostic| environment.report(problem.at(view.span()));
    let (type_name, title) = match ResourceRef::split(&text) {
        Ok(parts) => parts,
        Err(error) => {
            report(Diagnostic::new(eco_format!("{error}")));
            return None;
        }
    };
    let Some(other) = index.find_from(number, type_name, title) else {
        if environment.complete && !index.lacks_resources {
            report(index.dangling(&text));
        }
        return None;
    };
    if other == number {
        report(Diagnostic::new(eco_format!("`{text}` refers to itself")).hint("take the relation out"));
        return None;
    }
    let contains = |whole: u32, part: u32| index.group(whole).is_some_and(|group| group.contains(&part));
    if contains(other, number) || contains(number, other) {
        let problem =
            Diagnostic::new(eco_format!("a relation between a composite resource and a part of it: `{text}`"));
        report(problem.hint("relate it to other parts"));
        return None;
    }
    Some(other)
}
