//! Catalogs: the resources and relations that result from a manifest and the facts.

use std::ops::Range;
use std::sync::Arc;

use ecow::EcoString;

use crate::expr::Template;
use crate::names::{AttributeName, ResourceRef};
use crate::schema::Attributes;
use crate::span::Span;
use crate::value::Value;

/// Resources and the relations written in the manifest, in manifest order.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The resources, in manifest order, without those whose `when` was false.
    pub resources: Vec<Arc<Resource>>,
    /// Number of resources whose `when` was false. A composite resource counts once, without its parts.
    pub left_out: usize,
    /// The written relations.
    pub relations: Vec<Relation>,
    /// The composite resources, in manifest order, each before its parts. Those whose `when` was false are left
    /// out.
    pub composites: Vec<Composite>,
    /// Variables, for values that become known during the run.
    pub vars: crate::value::Hash,
    /// Facts that such values refer to.
    pub facts: crate::value::Hash,
    /// Identifies the manifests of the catalog. Empty if no manifest can be reloaded.
    pub origin: EcoString,
    /// Sensitive variables. Messages must not contain any part of a text that was made from them.
    pub secrets: Vec<crate::value::Value>,
    /// True if the resources restore former states, in the order of the relations alone: the order of their types is
    /// the one of the changes, not of their reversal. A failure blocks no other resource then.
    pub is_undo: bool,
}

/// A resource of a composite type. Not part of [`Catalog::resources`], which contains its parts instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    /// Its reference.
    pub reference: ResourceRef,
    /// Index of the composite that contains this composite.
    pub owner: Option<u32>,
    /// Indexes of its resources, including the resources of nested composites.
    pub parts: Range<u32>,
    /// Indexes of other resources that contain entries made by its parts, in order.
    pub entries_in: Vec<u32>,
}

impl Catalog {
    /// Returns a catalog of these resources, without relations.
    pub fn of(resources: impl IntoIterator<Item = Resource>) -> Catalog {
        Catalog { resources: resources.into_iter().map(Arc::new).collect(), ..Catalog::default() }
    }

    /// Returns the index of the innermost composite that contains a resource.
    pub fn owner_of(&self, resource: u32) -> Option<u32> {
        let mut next = self.composites.partition_point(|composite| composite.parts.start <= resource).checked_sub(1);
        // The last composite that starts at or before the resource is either its owner or nested in its owner.
        while let Some(at) = next {
            let composite = &self.composites[at];
            if composite.parts.contains(&resource) {
                return u32::try_from(at).ok();
            }
            next = composite.owner.map(|owner| owner as usize);
        }
        None
    }

    /// Returns the indexes of the composites nested in a composite, at any depth.
    pub fn composites_within(&self, composite: u32) -> Range<u32> {
        let behind = self.composites.iter().skip(composite as usize + 1);
        let inside = behind.take_while(|inner| inner.owner.is_some_and(|owner| owner >= composite));
        composite + 1..composite + 1 + u32::try_from(inside.count()).unwrap_or(u32::MAX)
    }
}

/// A declared resource.
///
/// The catalog keeps each resource for the whole run, so rarely used parts are stored separately.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its reference.
    pub reference: ResourceRef,
    /// Name on the system: the declared namevar, or the title.
    pub name: EcoString,
    /// Desired attributes with known values, including defaults.
    pub attributes: Attributes,
    /// Rarely used parts, or none.
    pub particulars: Option<Box<ResourceExt>>,
    /// Location of the declaration.
    pub span: Span,
}

/// Parts that few resources have.
#[derive(Clone, Debug, Default)]
pub struct ResourceExt {
    /// Values that become known after other resources have run.
    pub deferred: Vec<Deferred>,
    /// Metaparameters, or none if the declaration has none.
    pub meta: Option<Meta>,
    /// Declared provider. None lets kilter choose.
    pub provider: Option<EcoString>,
    /// True if the resource restores saved pre-change state, because it is no longer declared.
    pub is_reversal: bool,
    /// Attributes without a value because of errors. Only in a catalog that is used to find more errors.
    pub broken: Vec<EcoString>,
}

/// An attribute whose value depends on outputs of other resources.
#[derive(Clone, Debug)]
pub struct Deferred {
    /// The attribute.
    pub attribute: AttributeName,
    /// Expression that returns the value.
    pub template: Template,
    /// True if the value is sensitive.
    pub sensitive: bool,
    /// Location of the value.
    pub span: Span,
}

/// Metaparameters of a resource (mgmt resource guide, "Metaparameters").
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// True if the resource is checked but never changed (`noop`).
    pub noop: bool,
    /// Action for a resource that is out of sync.
    pub policy: Policy,
    /// Maximum number of retries after a failed check or apply. -1 means unlimited.
    pub retry: i32,
    /// True if the resource gets all its retries back when it is in sync.
    pub retry_reset: bool,
    /// Milliseconds between two attempts.
    pub delay: u64,
    /// Timeout of a check, a change or a refresh, in milliseconds. 0 means no timeout.
    pub timeout: u64,
    /// Checks of the resource while its state is held.
    pub poll: Poll,
    /// Reaction to another program that keeps undoing the repairs while the state is held.
    pub contested: Contested,
    /// Rate limit for events while the state is held. None means unlimited.
    pub limit: Option<EventLimit>,
    /// Semaphores that the resource acquires while it is handled.
    pub semaphores: Vec<Semaphore>,
    /// True if the resource has no automatic edges.
    pub no_autoedge: bool,
    /// True if the resource is changed in a separate call and not in a batch.
    pub no_autogroup: bool,
    /// True if the resource is only a node of the graph: it is never checked or changed.
    pub hidden: bool,
    /// True if the pre-change state is restored when the resource is no longer declared.
    pub reverse: bool,
    /// True if `reverse` was declared for resources of all types. It then applies to types whose state can be
    /// restored.
    pub reverse_of_all: bool,
    /// True if a graph replacement waits until this resource has settled once.
    pub realize: bool,
    /// True if the resource gets all its retries back when its declaration changes.
    pub reset: bool,
    /// Other machines for which the resource is also declared: names, or `*` for all.
    pub export: Vec<EcoString>,
}

impl Meta {
    /// Returns true if the resource is never changed.
    pub fn is_observe_only(&self) -> bool {
        self.noop || self.policy != Policy::Repair
    }
}

/// Action for a resource that is out of sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Repair the resource.
    #[default]
    Repair,
    /// Do not change the resource; print a warning.
    Warn,
    /// Do not change the resource; include it in the report.
    Observe,
}

/// Treatment of a resource whose repairs another program keeps undoing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contested {
    /// Repair it at growing intervals.
    #[default]
    Repair,
    /// Only watch it until the manifest is edited.
    Observe,
}

/// Checks of a resource while its state is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poll {
    /// Check after each watch event.
    #[default]
    Watched,
    /// Check at this interval in seconds. Events cause no earlier check.
    Every(u32),
    /// Check once, at the start of the run.
    Once,
}

/// Token bucket: each event takes one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventLimit {
    /// Number of tokens added per second.
    pub per_second: f64,
    /// Maximum number of tokens.
    pub burst: u32,
}

/// A limit on the number of resources that are handled at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semaphore {
    /// Name of the semaphore. `foo` and `foo:1` are different semaphores.
    pub id: EcoString,
    /// Maximum number of holders.
    pub count: u32,
}

impl Semaphore {
    /// Returns the semaphore of an `id`. Its count is the number after the last colon, otherwise 1 (mgmt,
    /// `SemaSize`).
    pub fn of(id: &str) -> Semaphore {
        let count = id.rsplit_once(':').and_then(|(_, count)| count.parse().ok()).filter(|count| *count > 0);
        Semaphore { id: id.into(), count: count.unwrap_or(1) }
    }
}

/// Kind of a relation between two resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelationKind {
    /// Written `require`: the other comes first.
    Require,
    /// Written `before`: this one comes first.
    Before,
    /// Written `notify`: this one comes first and refreshes the other.
    Notify,
    /// Written `subscribe`: the other comes first and refreshes this one.
    Subscribe,
}

impl RelationKind {
    /// Returns the keyword in a manifest.
    pub fn word(self) -> &'static str {
        match self {
            RelationKind::Require => "require",
            RelationKind::Before => "before",
            RelationKind::Notify => "notify",
            RelationKind::Subscribe => "subscribe",
        }
    }

    /// Returns the relation of a keyword in a manifest.
    #[inline]
    pub fn of_word(word: &str) -> Option<RelationKind> {
        match word {
            "require" => Some(RelationKind::Require),
            "before" => Some(RelationKind::Before),
            "notify" => Some(RelationKind::Notify),
            "subscribe" => Some(RelationKind::Subscribe),
            _ => None,
        }
    }

    /// Returns true if a change of the first resource refreshes the second.
    pub fn refreshes(self) -> bool {
        matches!(self, RelationKind::Notify | RelationKind::Subscribe)
    }
}

/// A written relation: `first` must be in its state before `second` starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Index of the resource that comes first.
    pub first: u32,
    /// Index of the resource that comes second.
    pub second: u32,
    /// Keyword of the relation.
    pub kind: RelationKind,
    /// Location of the relation.
    pub span: Span,
}

impl Resource {
    /// Creates a resource without attributes or metaparameters.
    pub fn new(reference: ResourceRef, name: impl Into<EcoString>, span: Span) -> Resource {
        Resource { reference, name: name.into(), attributes: Attributes::default(), particulars: None, span }
    }

    /// Returns the values that become known after other resources have run.
    pub fn deferred(&self) -> &[Deferred] {
        self.particulars.as_deref().map_or(&[], |particulars| &particulars.deferred)
    }

    /// Returns the metaparameters of the resource.
    pub fn meta(&self) -> Option<&Meta> {
        self.particulars.as_deref()?.meta.as_ref()
    }

    /// Returns true if the resource is never checked or changed (`hidden`).
    pub fn is_hidden(&self) -> bool {
        self.meta().is_some_and(|meta| meta.hidden)
    }

    /// Returns the declared provider of the resource.
    pub fn provider(&self) -> Option<&EcoString> {
        self.particulars.as_deref()?.provider.as_ref()
    }

    /// Returns true if the resource restores saved pre-change state.
    pub fn is_reversal(&self) -> bool {
        self.particulars.as_ref().is_some_and(|particulars| particulars.is_reversal)
    }

    /// Returns the attributes without a value because of errors.
    pub fn broken(&self) -> &[EcoString] {
        self.particulars.as_deref().map_or(&[], |particulars| &particulars.broken)
    }

    /// Returns the rarely used parts for modification, and creates them if necessary.
    pub fn particulars_mut(&mut self) -> &mut ResourceExt {
        self.particulars.get_or_insert_default()
    }

    /// Returns the known value of an attribute.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.attributes.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a catalog from the owner and the parts of each composite.
    fn of_composites(all: &[(Option<u32>, Range<u32>)]) -> Catalog {
        let composites = all.iter().zip(0..).map(|((owner, parts), at): (_, u32)| Composite {
            reference: ResourceRef::new("site", at.to_string().as_str()),
            owner: *owner,
            parts: parts.clone(),
            entries_in: Vec::new(),
        });
        Catalog { composites: composites.collect(), ..Catalog::default() }
    }

    #[test]
    fn resource_belongs_to_nearest_composite() {
        // 0 contains 1 and 4. 1 contains 2 and 3, and 2 is empty. 5 is empty. 6 follows a resource without a
        // composite.
        let catalog = of_composites(&[
            (None, 1..8),
            (Some(0), 2..5),
            (Some(1), 2..2),
            (Some(1), 3..4),
            (Some(0), 5..6),
            (None, 8..8),
            (None, 9..10),
        ]);
        let owners: Vec<Option<u32>> = (0..11).map(|at| catalog.owner_of(at)).collect();
        let (none, some) = (None, Some);
        assert_eq!(owners, [none, some(0), some(1), some(3), some(1), some(4), some(0), some(0), none, some(6), none]);
        let within: Vec<Range<u32>> = (0..7).map(|at| catalog.composites_within(at)).collect();
        assert_eq!(within, [1..5, 2..4, 3..3, 4..4, 5..5, 6..6, 7..7]);
        assert_eq!(of_composites(&[]).owner_of(0), None);
    }

    #[test]
    fn semaphore_size_follows_last_colon() {
        for (id, count) in
            [("id", 1), ("hello:42", 42), (":13", 13), ("id:", 1), ("id:-1", 1), ("id:0", 1), ("a:b:4", 4), ("4", 1)]
        {
            assert_eq!(Semaphore::of(id), Semaphore { id: id.into(), count }, "{id}");
        }
    }
}
