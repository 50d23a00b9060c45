//! Catalogs: what a manifest and the facts amount to.

use std::ops::Range;

use ecow::EcoString;

use crate::expr::Template;
use crate::names::{AttributeName, ResourceRef};
use crate::schema::Attributes;
use crate::span::Span;
use crate::value::Value;

/// Resources and the relations that were written between them, in manifest order.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The resources, in manifest order. Those whose `when` was false are not among them.
    pub resources: Vec<Resource>,
    /// Number of resources whose `when` was false. A composite resource counts once, without its parts.
    pub left_out: usize,
    /// The written relations.
    pub relations: Vec<Relation>,
    /// The resources of composite types, in manifest order: each before those that are parts of it. Those whose `when` was false
    /// are not among them.
    pub composites: Vec<Composite>,
    /// The variables, for values that are only known during the run.
    pub vars: crate::value::Hash,
    /// The facts that values refer to which are only known during the run.
    pub facts: crate::value::Hash,
    /// Which manifests it was made of, as one text; empty when it was made of none that is read again.
    pub origin: EcoString,
    /// The variables that are sensitive: no message holds any part of a text that is made of them.
    pub secrets: Vec<crate::value::Value>,
}

/// A resource of a composite type. It is not among the resources: it stands for its parts, which are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    /// Its reference.
    pub reference: ResourceRef,
    /// The index of the composite that it is itself a part of.
    pub owner: Option<u32>,
    /// The indexes of the resources that it stands for, those of composites that are parts of it included.
    pub parts: Range<u32>,
    /// The indexes of other resources of which parts of it are entries, in order.
    pub entries_in: Vec<u32>,
}

impl Catalog {
    /// The composite that the resource at an index is a part of, the nearest of several.
    pub fn owner_of(&self, resource: u32) -> Option<u32> {
        let mut next = self.composites.partition_point(|composite| composite.parts.start <= resource).checked_sub(1);
        // Whatever holds the resource is the last one to begin before it, or holds that.
        while let Some(at) = next {
            let composite = &self.composites[at];
            if composite.parts.contains(&resource) {
                return u32::try_from(at).ok();
            }
            next = composite.owner.map(|owner| owner as usize);
        }
        None
    }

    /// The indexes of the composites that are parts of the one at an index, at any depth.
    pub fn composites_within(&self, composite: u32) -> Range<u32> {
        let behind = self.composites.iter().skip(composite as usize + 1);
        let inside = behind.take_while(|inner| inner.owner.is_some_and(|owner| owner >= composite));
        composite + 1..composite + 1 + u32::try_from(inside.count()).unwrap_or(u32::MAX)
    }
}

/// A resource as it was declared.
///
/// There is one for each throughout a run: what is said of few is kept aside.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its reference.
    pub reference: ResourceRef,
    /// Its name on the system: the namevar that was given, or the title.
    pub name: EcoString,
    /// What is wanted: values that are known, defaults included.
    pub attributes: Attributes,
    /// What is said of few resources; none when nothing of it was said.
    pub particulars: Option<Box<Particulars>>,
    /// Where it was declared.
    pub span: Span,
}

/// What is said of few resources.
#[derive(Clone, Debug, Default)]
pub struct Particulars {
    /// Values that are known when other resources have run.
    pub deferred: Vec<Deferred>,
    /// How the engine treats it; none when nothing was said.
    pub meta: Option<Meta>,
    /// The provider that was named for it; none leaves the choice to kilter.
    pub provider: Option<EcoString>,
    /// Whether it is what was there before, which is restored: it is declared no longer.
    pub is_reversal: bool,
    /// The attributes that have problems, so that their values are missing. Only in a catalog that is good for finding more problems.
    pub broken: Vec<EcoString>,
}

/// An attribute whose value comes from the outputs of other resources.
#[derive(Clone, Debug)]
pub struct Deferred {
    /// The attribute.
    pub attribute: AttributeName,
    /// Yields the value.
    pub template: Template,
    /// Whether the value is sealed.
    pub sensitive: bool,
    /// Where it was written.
    pub span: Span,
}

/// The engine's metaparameters of a resource (mgmt resource guide, "Metaparameters").
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// Whether it is only looked at, never changed.
    pub noop: bool,
    /// What is done about a resource that is not in its state.
    pub policy: Policy,
    /// How often a failed check or apply is tried again; -1 without end.
    pub retry: i32,
    /// Whether all tries are there again when the resource is in its state.
    pub retry_reset: bool,
    /// Milliseconds between two tries.
    pub delay: u64,
    /// Milliseconds that a check, a change or a refresh may take; 0 without end.
    pub timeout: u64,
    /// When it is looked at while its state is held.
    pub poll: Poll,
    /// What is done if another program keeps undoing its repairs while its state is held.
    pub contested: Contested,
    /// How many events it heeds while its state is held; none for all.
    pub limit: Option<EventLimit>,
    /// What it has for itself, or with few others, while something is done to it.
    pub semaphores: Vec<Semaphore>,
    /// Whether automatic edges to and from it are left out.
    pub no_autoedge: bool,
    /// Whether it is changed in a call of its own where others are changed together.
    pub no_autogroup: bool,
    /// Whether nothing is done about it: it has a place in the graph, and no more.
    pub hidden: bool,
    /// Whether what it was before is restored when it is declared no longer.
    pub reverse: bool,
    /// Whether that was said of resources of all types: then it holds of those that can be restored.
    pub reverse_of_all: bool,
    /// Whether another graph waits until this resource has settled once.
    pub realize: bool,
    /// Whether it has all its tries again when it is declared in another way.
    pub reset: bool,
    /// The machines that it is declared for as well: names, or `*` for all.
    pub export: Vec<EcoString>,
}

impl Meta {
    /// Whether the resource is never changed.
    pub fn only_looks(&self) -> bool {
        self.noop || self.policy != Policy::Repair
    }
}

/// What is done about a resource that is not in its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// It is brought to its state.
    #[default]
    Repair,
    /// It is left as it is, with a warning.
    Warn,
    /// It is left as it is; the report tells.
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

/// When a resource is looked at while its state is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poll {
    /// When something tells that it may have changed.
    #[default]
    Watched,
    /// Every so many seconds, and whatever happens no sooner.
    Every(u32),
    /// Once, when the run begins.
    Once,
}

/// A bucket of tokens, of which each event takes one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventLimit {
    /// Tokens that come back in a second.
    pub per_second: f64,
    /// Tokens that there are at most.
    pub burst: u32,
}

/// What so many resources may have at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semaphore {
    /// What it is called: `foo` and `foo:1` are two.
    pub id: EcoString,
    /// How many may have it.
    pub count: u32,
}

impl Semaphore {
    /// The semaphore of an `id`, whose number is what stands behind its last colon, or else 1 (mgmt, `SemaSize`).
    pub fn of(id: &str) -> Semaphore {
        let count = id.rsplit_once(':').and_then(|(_, count)| count.parse().ok()).filter(|count| *count > 0);
        Semaphore { id: id.into(), count: count.unwrap_or(1) }
    }
}

/// How one resource relates to another.
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
    /// The word in a manifest.
    pub fn word(self) -> &'static str {
        match self {
            RelationKind::Require => "require",
            RelationKind::Before => "before",
            RelationKind::Notify => "notify",
            RelationKind::Subscribe => "subscribe",
        }
    }

    /// The relation that a word in a manifest stands for.
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

    /// Whether changes of the first refresh the second.
    pub fn refreshes(self) -> bool {
        matches!(self, RelationKind::Notify | RelationKind::Subscribe)
    }
}

/// A written relation: `first` is brought to its state before `second`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// The index of the resource that comes first.
    pub first: u32,
    /// The index of the one that comes second.
    pub second: u32,
    /// Which word it was written with.
    pub kind: RelationKind,
    /// Where it was written.
    pub span: Span,
}

impl Resource {
    /// A resource of which nothing is said yet.
    pub fn new(reference: ResourceRef, name: impl Into<EcoString>, span: Span) -> Resource {
        Resource { reference, name: name.into(), attributes: Attributes::default(), particulars: None, span }
    }

    /// Values that are known when other resources have run.
    pub fn deferred(&self) -> &[Deferred] {
        self.particulars.as_deref().map_or(&[], |particulars| &particulars.deferred)
    }

    /// What the engine was told about it.
    pub fn meta(&self) -> Option<&Meta> {
        self.particulars.as_deref()?.meta.as_ref()
    }

    /// Whether nothing is done about it (`hidden`).
    pub fn is_hidden(&self) -> bool {
        self.meta().is_some_and(|meta| meta.hidden)
    }

    /// The provider that was named for it.
    pub fn provider(&self) -> Option<&EcoString> {
        self.particulars.as_deref()?.provider.as_ref()
    }

    /// Whether it is what was there before, which is restored.
    pub fn is_reversal(&self) -> bool {
        self.particulars.as_ref().is_some_and(|particulars| particulars.is_reversal)
    }

    /// The attributes that have problems, so that their values are missing.
    pub fn broken(&self) -> &[EcoString] {
        self.particulars.as_deref().map_or(&[], |particulars| &particulars.broken)
    }

    /// What is said of few resources, to be added to.
    pub fn particulars_mut(&mut self) -> &mut Particulars {
        self.particulars.get_or_insert_default()
    }

    /// The value of an attribute that is known.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.attributes.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each: what it is a part of, and what it stands for.
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
    fn a_resource_is_a_part_of_the_nearest_composite_that_stands_for_it() {
        // 0 has 1 and 4, 1 has 2 and 3, of which 2 is empty; 5 is empty, 6 is behind a resource of nobody's.
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
    fn the_size_of_a_semaphore_stands_behind_the_last_colon() {
        for (id, count) in
            [("id", 1), ("hello:42", 42), (":13", 13), ("id:", 1), ("id:-1", 1), ("id:0", 1), ("a:b:4", 4), ("4", 1)]
        {
            assert_eq!(Semaphore::of(id), Semaphore { id: id.into(), count }, "{id}");
        }
    }
}
