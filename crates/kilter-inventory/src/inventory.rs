//! A loaded inventory.

use std::path::Path;
use std::sync::Arc;

use ecow::EcoString;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::load::{self, LoadOptions};
use crate::problem::Problem;
use crate::target::Target;

/// Targets and groups, with all variables and options of connections in place.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    targets: Vec<Arc<Target>>,
    by_name: FxHashMap<EcoString, usize>,
    groups: Vec<GroupMembers>,
    groups_by_name: FxHashMap<EcoString, usize>,
    /// Targets that are not part of the inventory, and that only their names select.
    outside: FxHashMap<EcoString, Arc<Target>>,
    /// Names of the variables of all targets.
    var_names: FxHashSet<EcoString>,
    warnings: Vec<Problem>,
}

/// A group and its members.
#[derive(Clone, Debug)]
pub struct GroupMembers {
    /// Name.
    pub name: EcoString,
    /// Names of the groups directly inside.
    pub children: Vec<EcoString>,
    /// Targets directly inside, by their index in [`Inventory::targets`].
    pub own: Vec<usize>,
    /// Targets inside, directly or by a group inside, in the order of the declarations.
    pub members: Vec<usize>,
}

impl Inventory {
    /// Reads an inventory: a file, a directory, or a program.
    ///
    /// # Errors
    /// All problems, with their places.
    pub fn load(path: &Path, options: &LoadOptions<'_>) -> Result<Inventory, Vec<Problem>> {
        load::load(path, options)
    }

    pub(crate) fn new(targets: Vec<Target>, groups: Vec<GroupMembers>) -> Inventory {
        let targets: Vec<Arc<Target>> = targets.into_iter().map(Arc::new).collect();
        let by_name = targets.iter().enumerate().map(|(at, target)| (target.name.clone(), at)).collect();
        let groups_by_name = groups.iter().enumerate().map(|(at, group)| (group.name.clone(), at)).collect();
        let mut var_names = FxHashSet::default();
        for name in targets.iter().flat_map(|target| target.vars.keys()) {
            if !var_names.contains(name) {
                var_names.insert(name.clone());
            }
        }
        let (outside, warnings) = (FxHashMap::default(), Vec::new());
        Inventory { targets, by_name, groups, groups_by_name, outside, var_names, warnings }
    }

    /// Adds targets that are not part of the inventory, such as the devices of another file. They are in no group, and
    /// only their names select them. A target of the inventory with the same name has priority.
    #[must_use]
    pub fn with_outside(mut self, targets: impl IntoIterator<Item = Target>) -> Inventory {
        self.outside.extend(targets.into_iter().map(|target| (target.name.clone(), Arc::new(target))));
        self
    }

    pub(crate) fn with_warnings(self, warnings: Vec<Problem>) -> Inventory {
        Inventory { warnings, ..self }
    }

    /// Adds another name of a target.
    pub(crate) fn add_alias(&mut self, alias: EcoString, target: usize) {
        self.by_name.insert(alias, target);
    }

    /// Returns all targets, in the order of their declarations.
    pub fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }

    /// Returns the target with a name, or with an alias.
    pub fn target(&self, name: &str) -> Option<&Arc<Target>> {
        self.by_name.get(name).map(|at| &self.targets[*at]).or_else(|| self.outside.get(name))
    }

    /// Returns all groups.
    pub fn groups(&self) -> &[GroupMembers] {
        &self.groups
    }

    /// Returns the group with a name.
    pub fn group(&self, name: &str) -> Option<&GroupMembers> {
        self.groups_by_name.get(name).map(|at| &self.groups[*at])
    }

    /// Returns the members of a group.
    pub fn members<'a>(&'a self, group: &'a GroupMembers) -> impl Iterator<Item = &'a Arc<Target>> {
        group.members.iter().map(|at| &self.targets[*at])
    }

    /// Returns the parts of the inventory that have no effect.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Returns the names of the variables that any target has.
    pub(crate) fn var_names(&self) -> &FxHashSet<EcoString> {
        &self.var_names
    }

    /// Returns the names of all targets, with aliases, and of all groups.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().chain(self.groups_by_name.keys()).chain(self.outside.keys()).map(EcoString::as_str)
    }
}
