//! The index of all resources in a manifest: finds a resource by its reference or its number.

use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::rc::Rc;

use ecow::{EcoString, eco_format};
use indexmap::{Equivalent, IndexMap};
use kilter_model::{ResourceRef, TypeSchema};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::diagnostic::{Diagnostic, choose};
use crate::source::small;
use crate::text_scope::TextScope;
use crate::tree::View;
use crate::types::Types;

/// Maximum number of comparisons for "did you mean" hints, in total.
const MOST_COMPARISONS: usize = 40_000;

/// Type and title of a resource.
#[derive(PartialEq, Eq)]
struct Key {
    type_id: u32,
    title: EcoString,
}

/// A borrowed [`Key`] for lookups.
struct BorrowedKey<'a>(u32, &'a str);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        BorrowedKey(self.type_id, &self.title).hash(state);
    }
}

impl Hash for BorrowedKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.0);
        state.write(self.1.as_bytes());
    }
}

impl Equivalent<Key> for BorrowedKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.type_id && self.1 == key.title
    }
}

/// A resource in a manifest.
///
/// Entries stay in memory during the whole compilation, when memory use is highest, so they are small.
pub(crate) struct Entry<'t> {
    pub(crate) key: View<'t>,
    /// Index of its body in the tree of the key.
    body: u32,
    /// Position in the catalog, or [`LEFT_OUT`].
    at: u32,
}

/// Marks a resource without a position in the catalog.
const LEFT_OUT: u32 = u32::MAX;

impl<'t> Entry<'t> {
    /// Creates an entry with its position in the catalog; none if its `when` is false or invalid. The body must
    /// belong to the tree of the key.
    pub(crate) fn new(key: View<'t>, body: View<'t>, at: Option<u32>) -> Entry<'t> {
        Entry { key, body: body.index(), at: at.unwrap_or(LEFT_OUT) }
    }

    pub(crate) fn body(&self) -> View<'t> {
        self.key.of_same_tree(self.body)
    }

    /// Returns the position in the catalog.
    pub(crate) fn at(&self) -> Option<u32> {
        (self.at != LEFT_OUT).then_some(self.at)
    }
}

/// All resources of the manifest, also those that are left out.
pub(crate) struct Index<'t> {
    pub(crate) types: Types<'t>,
    entries: IndexMap<Key, Entry<'t>, FxBuildHasher>,
    /// Member numbers of each composite resource.
    groups: FxHashMap<u32, Range<u32>>,
    /// Scopes of the resources whose texts may contain `self` or `each`.
    scopes: FxHashMap<u32, TextScope<'t>>,
    /// True if the titles of some resources are unknown because of a problem that has been reported.
    pub(crate) lacks_resources: bool,
    /// Numbers of all resources of a type, by the id of the type; filled on demand.
    of_type: RefCell<FxHashMap<u32, Rc<[u32]>>>,
    /// Remaining number of comparisons for "did you mean" hints.
    comparisons: Cell<usize>,
}

impl<'t> Index<'t> {
    /// Creates an empty index for about `count` resources.
    pub(crate) fn new(types: Types<'t>, count: usize) -> Index<'t> {
        Index {
            types,
            entries: IndexMap::with_capacity_and_hasher(count, FxBuildHasher),
            groups: FxHashMap::default(),
            scopes: FxHashMap::default(),
            lacks_resources: false,
            of_type: RefCell::default(),
            comparisons: Cell::new(MOST_COMPARISONS),
        }
    }

    /// Adds a resource that the index does not have yet. Returns its number.
    pub(crate) fn insert(&mut self, type_id: u32, title: EcoString, entry: Entry<'t>) -> u32 {
        small(self.entries.insert_full(Key { type_id, title }, entry).0)
    }

    /// Sets the members of a composite resource: all resources that were added after it.
    pub(crate) fn close_group(&mut self, at: u32) {
        self.groups.insert(at, at + 1..self.len());
    }

    /// Sets the scope of a resource.
    pub(crate) fn set_scope(&mut self, number: u32, scope: TextScope<'t>) {
        self.scopes.insert(number, scope);
    }

    /// Returns the scope of a resource.
    pub(crate) fn scope(&self, number: u32) -> TextScope<'t> {
        self.scopes.get(&number).cloned().unwrap_or_default()
    }

    /// Returns true if a resource has a scope.
    pub(crate) fn has_scopes(&self) -> bool {
        !self.scopes.is_empty()
    }

    /// Returns the number of resources.
    pub(crate) fn len(&self) -> u32 {
        small(self.entries.len())
    }

    /// Returns the number of composite resources.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the resources in the order of their numbers, each with its number, type and title.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32, &EcoString, &Entry<'t>)> {
        (0..).zip(&self.entries).map(|(number, (key, entry))| (number, key.type_id, &key.title, entry))
    }

    /// Returns the resource with a number.
    pub(crate) fn entry(&self, number: u32) -> Option<&Entry<'t>> {
        self.entries.get_index(number as usize).map(|(_, entry)| entry)
    }

    /// Returns the resource with this type and title, and its number.
    pub(crate) fn get(&self, type_id: u32, title: &str) -> Option<(u32, &Entry<'t>)> {
        self.entries.get_full(&BorrowedKey(type_id, title)).map(|(number, _, entry)| (small(number), entry))
    }

    /// Returns the number of a resource, and the schema of its type if the type is known.
    pub(crate) fn find(&self, type_name: &str, title: &str) -> Option<(u32, Option<&'t TypeSchema>)> {
        let type_id = self.types.known(type_name)?;
        let (at, entry) = self.get(type_id, title)?;
        let type_ = self.types.get(type_id);
        let provider = entry.body().get("provider").filter(|provider| !provider.is_null());
        let named = provider.and_then(|provider| self.types.of_provider(type_, provider.text()));
        Some((at, named.map_or(type_.schema, |named| named.schema)))
    }

    /// Returns the number of a resource. Tries the preceding resource first, because most relations refer to it.
    pub(crate) fn find_from(&self, number: u32, type_name: &str, title: &str) -> Option<u32> {
        let before = number.wrapping_sub(1);
        let type_id = self.types.known(type_name)?;
        match self.entries.get_index(before as usize) {
            Some((key, _)) if BorrowedKey(type_id, title).equivalent(key) => Some(before),
            _ => self.entries.get_index_of(&BorrowedKey(type_id, title)).map(small),
        }
    }

    /// Returns the numbers of all resources of a type. Called after all resources have been added.
    pub(crate) fn of_type(&self, type_id: u32) -> Rc<[u32]> {
        let numbers =
            || (0..).zip(self.entries.keys()).filter(|(_, key)| key.type_id == type_id).map(|(number, _)| number);
        Rc::clone(self.of_type.borrow_mut().entry(type_id).or_insert_with(|| numbers().collect()))
    }

    /// Returns the member numbers of a composite resource.
    pub(crate) fn group(&self, at: u32) -> Option<&Range<u32>> {
        self.groups.get(&at)
    }

    /// Returns the catalog positions of a resource, or of all its members.
    pub(crate) fn positions(&self, at: u32) -> impl Iterator<Item = u32> {
        let numbers = self.group(at).cloned().unwrap_or(at..at + 1);
        numbers.filter_map(|number| self.position(number))
    }

    /// Returns the catalog position of a resource.
    pub(crate) fn position(&self, at: u32) -> Option<u32> {
        self.entry(at).and_then(Entry::at)
    }

    pub(crate) fn is_left_out(&self, reference: &ResourceRef) -> bool {
        self.find(reference.type_name.as_str(), reference.title.as_str())
            .is_some_and(|(at, _)| self.position(at).is_none())
    }

    /// Creates the problem of a reference to a missing resource.
    pub(crate) fn dangling(&self, reference: &str) -> Diagnostic {
        let problem = Diagnostic::new(eco_format!("there is no resource `{reference}`"));
        let type_name = reference.split('[').next().unwrap_or_default();
        if !self.types.exists(type_name)
            && self.types.known(type_name).is_none_or(|id| self.types.get(id).schema.is_some())
        {
            return Diagnostic::new(eco_format!("unknown type `{type_name}`")).hint(choose(
                type_name,
                &self.types.names(),
                "known types",
            ));
        }
        match self.nearest(type_name, reference) {
            None => problem.hint("relations and outputs name resources of the manifest"),
            Some(near) => problem.hint(eco_format!("did you mean `{near}`?")),
        }
    }

    /// Returns the most similar reference of the same type. The number of comparisons is limited, because comparing
    /// all pairs would take too long.
    fn nearest(&self, type_name: &str, reference: &str) -> Option<String> {
        let same_type = self.types.known(type_name);
        let titles = self.entries.keys().filter(|key| Some(key.type_id) == same_type);
        let left = self.comparisons.get();
        let known: Vec<String> = titles.take(left).map(|key| format!("{type_name}[{}]", key.title)).collect();
        self.comparisons.set(left - known.len());
        kilter_model::suggest::nearest(reference, known.iter().map(String::as_str)).map(str::to_owned)
    }
}
