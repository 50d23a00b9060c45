//! Comparison of a catalog with the next one.

use kilter_engine::ResourceId;
use kilter_model::expr::{Name, Template};
use kilter_model::{Catalog, Meta, Resource};

use crate::prepare::Prepared;

/// Resources of the next catalog, matched with those of the current one, in the order of the next catalog.
pub(super) struct Matches {
    /// Resource of the current catalog with the same reference.
    pub(super) before: Vec<Option<ResourceId>>,
    /// True for resources that stay as they are.
    pub(super) is_unchanged: Vec<bool>,
    /// True for resources that are declared as before. Some of them restart because of other resources.
    pub(super) is_same: Vec<bool>,
}

impl Matches {
    /// Compares two catalogs.
    pub(super) fn of(before: &Prepared, after: &Prepared) -> Matches {
        let lookup = before.lookup();
        let inputs = TemplateInputs::of(&before.catalog, &after.catalog);
        let order = before.graph.order();
        let count = after.resources().len();
        let (mut olds, mut declared_as_before) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut next = 0;
        for (place, resource) in after.resources().iter().enumerate() {
            // Most resources keep their order.
            let is_next = before.resources().get(next).is_some_and(|before| before.reference == resource.reference);
            let old = if is_next { Some(order[next]) } else { lookup.referred(&resource.reference) };
            next = old.map_or(next, |old| before.graph.place(old) + 1);
            let is_same = old.is_some_and(|old| {
                before.provider_index(old) == after.providers[place] && is_same(before.resource(old), resource, &inputs)
            });
            olds.push(old);
            declared_as_before.push(is_same);
        }
        Matches { before: olds, is_unchanged: declared_as_before.clone(), is_same: declared_as_before }
    }

    /// Returns the id of a resource that stays as it is.
    pub(super) fn unchanged(&self, place: usize) -> Option<ResourceId> {
        self.before[place].filter(|_| self.is_unchanged[place])
    }
}

/// Variables and facts of both catalogs, for comparing templates.
struct TemplateInputs<'p> {
    before: &'p Catalog,
    after: &'p Catalog,
    are_same: bool,
}

impl<'p> TemplateInputs<'p> {
    fn of(before: &'p Catalog, after: &'p Catalog) -> TemplateInputs<'p> {
        let are_same = before.vars == after.vars && before.facts == after.facts;
        TemplateInputs { before, after, are_same }
    }

    /// Returns true if all variables and facts of a template are unchanged.
    fn are_same_for(&self, template: &Template) -> bool {
        let mut same = true;
        if !self.are_same {
            template.names(&mut |name, _| {
                same &= match name {
                    Name::Var(name) => self.before.vars.get(name) == self.after.vars.get(name),
                    Name::Fact(name) => self.before.facts.get(name) == self.after.facts.get(name),
                    Name::Own(_) | Name::Each(_) | Name::Output(..) => true,
                }
            });
        }
        same
    }
}

/// Returns true if a resource is declared as before and needs no restart.
///
/// A template may have another value with other `inputs`. The result of a noop resource may depend on other
/// resources, so that such a resource always restarts.
fn is_same(one: &Resource, other: &Resource, inputs: &TemplateInputs<'_>) -> bool {
    one.name == other.name
        && one.attributes == other.attributes
        && one.meta() == other.meta()
        && !one.meta().is_some_and(Meta::is_observe_only)
        && one.deferred().len() == other.deferred().len()
        && one.deferred().iter().zip(other.deferred()).all(|(one, other)| {
            one.attribute == other.attribute
                && one.sensitive == other.sensitive
                && one.template == other.template
                && inputs.are_same_for(&one.template)
        })
}
