//! Hosts and groups as an inventory declares them, and the precedence of groups: `all`, parents, children, the host.
//!
//! On the same level, a group with a higher priority wins, then the one whose name is later in the alphabet, as in
//! Ansible. Variables replace each other as a whole; options of connections do so one by one.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use indexmap::{IndexMap, IndexSet};
use kilter_model::{Hash, suggest};
use rustc_hash::FxBuildHasher;

use crate::inventory::{GroupMembers, Inventory};
use crate::options::Options;
use crate::problem::{ProblemPlace, Problems};
use crate::target::Target;

/// Maximum number of hosts.
const MAX_HOSTS: usize = 100_000;
/// Maximum number of groups.
const MAX_GROUPS: usize = 5_000;
/// Maximum number of entries in all groups together.
const MAX_ENTRIES: usize = 1_000_000;
/// Maximum number of memberships, variables and options that precedence can produce.
const MAX_RESOLVED: usize = 5_000_000;

/// Map that keeps the order of its names.
type ByName<T> = IndexMap<EcoString, T, FxBuildHasher>;
/// Names in their order.
type NameSet = IndexSet<EcoString, FxBuildHasher>;

/// Declared hosts and groups.
#[derive(Debug, Default)]
pub(crate) struct InventoryGraph {
    pub(crate) hosts: ByName<HostEntry>,
    pub(crate) groups: ByName<GroupEntry>,
    entries: usize,
    /// True if the inventory exceeds a limit; reported.
    pub(crate) is_full: bool,
}

/// A declared host.
#[derive(Debug)]
pub(crate) struct HostEntry {
    pub(crate) vars: Hash,
    pub(crate) options: Options,
    pub(crate) place: ProblemPlace,
}

/// A declared group.
#[derive(Debug)]
pub(crate) struct GroupEntry {
    /// True if the inventory has an entry for it, and not only names it inside of another group.
    pub(crate) is_declared: bool,
    pub(crate) hosts: NameSet,
    pub(crate) children: NameSet,
    pub(crate) vars: Hash,
    /// Variables of files beside the inventory.
    pub(crate) file_vars: Hash,
    pub(crate) options: Options,
    pub(crate) priority: i64,
    pub(crate) place: ProblemPlace,
}

impl InventoryGraph {
    /// Returns a host, and adds it if necessary. None if the inventory has too many.
    pub(crate) fn host(
        &mut self,
        name: &EcoString,
        place: &ProblemPlace,
        problems: &mut Problems,
    ) -> Option<&mut HostEntry> {
        if self.hosts.len() >= MAX_HOSTS && !self.hosts.contains_key(name) {
            self.report_size(place, eco_format!("the inventory has more than {MAX_HOSTS} hosts"), problems);
            return None;
        }
        Some(self.hosts.entry(name.clone()).or_insert_with(|| HostEntry {
            vars: Hash::default(),
            options: Options::default(),
            place: place.clone(),
        }))
    }

    /// Returns a group, and adds it if necessary. None if the inventory has too many.
    pub(crate) fn group(
        &mut self,
        name: &str,
        place: &ProblemPlace,
        problems: &mut Problems,
    ) -> Option<&mut GroupEntry> {
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(name) {
            self.report_size(place, eco_format!("the inventory has more than {MAX_GROUPS} groups"), problems);
            return None;
        }
        Some(self.groups.entry(name.into()).or_insert_with(|| GroupEntry {
            is_declared: false,
            hosts: NameSet::default(),
            children: NameSet::default(),
            vars: Hash::default(),
            file_vars: Hash::default(),
            options: Options::default(),
            priority: 1,
            place: place.clone(),
        }))
    }

    /// Adds a host to a group, and both to the inventory.
    pub(crate) fn add_member(&mut self, group: &str, host: &EcoString, place: &ProblemPlace, problems: &mut Problems) {
        if self.host(host, place, problems).is_none() || !self.is_below_limit(place, problems) {
            return;
        }
        if let Some(group) = self.group(group, place, problems) {
            group.hosts.insert(host.clone());
        }
    }

    /// Adds a group to a group.
    pub(crate) fn add_child(&mut self, group: &str, child: &str, place: &ProblemPlace, problems: &mut Problems) {
        if self.group(child, place, problems).is_none() || !self.is_below_limit(place, problems) {
            return;
        }
        if let Some(group) = self.group(group, place, problems) {
            group.children.insert(child.into());
        }
    }

    fn is_below_limit(&mut self, place: &ProblemPlace, problems: &mut Problems) -> bool {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            self.report_size(place, eco_format!("the groups have more than {MAX_ENTRIES} entries"), problems);
        }
        self.entries <= MAX_ENTRIES
    }

    fn report_size(&mut self, place: &ProblemPlace, message: EcoString, problems: &mut Problems) {
        if !std::mem::replace(&mut self.is_full, true) {
            problems.error(place, message, "divide it into several inventories");
        }
    }

    /// Applies the precedence of groups. `finish` completes each target from its variables.
    pub(crate) fn resolve(
        mut self,
        root: &ProblemPlace,
        problems: &mut Problems,
        finish: &dyn Fn(&mut Target, &ProblemPlace, &mut Problems),
    ) -> Option<Inventory> {
        self.group("all", root, problems)?.is_declared = true;
        self.group("ungrouped", root, problems)?.is_declared = true;
        self.check_names(problems);
        let order = MergeOrder::new(&self, problems)?;
        let ancestors = order.ancestors(&self);
        let direct = self.direct_groups();
        let mut targets = Vec::with_capacity(self.hosts.len());
        let mut resolved = 0;
        for (at, (name, host)) in self.hosts.iter().enumerate() {
            let mut groups: Vec<usize> =
                direct[at].iter().flat_map(|group| ancestors[*group].iter().copied()).collect();
            groups.extend(direct[at].iter().copied());
            groups.push(order.all);
            groups.sort_unstable_by_key(|group| order.rank[*group]);
            groups.dedup();
            let entries = groups.iter().map(|group| &self.groups[*group]);
            resolved += groups.len();
            resolved += entries.clone().map(|group| group.vars.len() + group.file_vars.len()).sum::<usize>();
            if resolved > MAX_RESOLVED {
                let message = eco_format!("groups and variables of the hosts have more than {MAX_RESOLVED} parts");
                problems.error(root, message, "divide it into several inventories");
                return None;
            }
            let mut options = Options::default();
            let mut vars = Hash::default();
            entries.clone().for_each(|group| options.apply(&group.options));
            entries.clone().for_each(|group| extend(&mut vars, &group.vars));
            entries.clone().for_each(|group| extend(&mut vars, &group.file_vars));
            options.apply(&host.options);
            extend(&mut vars, &host.vars);
            let mut target = options.target(name.clone());
            target.vars = vars;
            target.groups =
                groups.iter().filter_map(|group| self.groups.get_index(*group)).map(|(n, _)| n.clone()).collect();
            finish(&mut target, &host.place, problems);
            targets.push(target);
        }
        let members = self.members(&direct);
        Some(Inventory::new(targets, members))
    }

    /// Reports names that are a host and a group, and groups that are only named.
    fn check_names(&self, problems: &mut Problems) {
        for (name, host) in &self.hosts {
            if self.groups.contains_key(name) {
                let message = eco_format!("`{name}` is the name of a host and of a group");
                problems.warning(&host.place, message, "patterns mean the group: rename one of them");
            }
        }
        for (name, group) in &self.groups {
            if group.is_declared {
                continue;
            }
            let known = self.groups.iter().filter(|(_, group)| group.is_declared).map(|(name, _)| name.as_str());
            let hint = match suggest::nearest(name, known) {
                Some(near) => eco_format!("did you mean `{near}`?"),
                None => eco_format!("declare it, even if it is empty: `{name}: {{}}`"),
            };
            problems.error(&group.place, eco_format!("there is no group `{name}`"), hint);
        }
    }

    /// Returns the groups that name each host. `all` and `ungrouped` count only if they are the only ones.
    fn direct_groups(&mut self) -> Vec<Vec<usize>> {
        let mut direct = vec![Vec::new(); self.hosts.len()];
        let ungrouped = self.groups.get_index_of("ungrouped");
        for (at, (name, group)) in self.groups.iter().enumerate() {
            if name == "all" || Some(at) == ungrouped {
                continue;
            }
            for host in &group.hosts {
                if let Some(host) = self.hosts.get_index_of(host) {
                    direct[host].push(at);
                }
            }
        }
        direct.iter_mut().filter(|groups| groups.is_empty()).for_each(|groups| groups.extend(ungrouped));
        direct
    }

    /// Returns the members of each group.
    fn members(&self, direct: &[Vec<usize>]) -> Vec<GroupMembers> {
        let mut own = vec![Vec::new(); self.groups.len()];
        let ungrouped = self.groups.get_index_of("ungrouped");
        for (at, (name, group)) in self.groups.iter().enumerate() {
            if name != "all" && Some(at) != ungrouped {
                own[at] = group.hosts.iter().filter_map(|host| self.hosts.get_index_of(host)).collect();
            }
        }
        if let Some(ungrouped) = ungrouped {
            own[ungrouped] = (0..self.hosts.len()).filter(|host| direct[*host] == [ungrouped]).collect();
        }
        let mut found: Vec<GroupMembers> = Vec::with_capacity(self.groups.len());
        for (at, (name, group)) in self.groups.iter().enumerate() {
            let children = group.children.iter().filter_map(|child| self.groups.get_index_of(child));
            let members = if name == "all" { (0..self.hosts.len()).collect() } else { self.below(at, &own) };
            found.push(GroupMembers {
                name: name.clone(),
                children: children.filter_map(|child| self.groups.get_index(child)).map(|(n, _)| n.clone()).collect(),
                own: own[at].clone(),
                members,
            });
        }
        found
    }

    /// Returns the hosts of a group and of the groups inside, level by level.
    fn below(&self, group: usize, own: &[Vec<usize>]) -> Vec<usize> {
        let mut seen = IndexSet::<usize, FxBuildHasher>::from_iter([group]);
        let mut hosts = IndexSet::<usize, FxBuildHasher>::default();
        let mut at = 0;
        while let Some(group) = seen.get_index(at).copied() {
            hosts.extend(own[group].iter().copied());
            seen.extend(self.groups[group].children.iter().filter_map(|child| self.groups.get_index_of(child)));
            at += 1;
        }
        hosts.into_iter().collect()
    }
}

fn extend(vars: &mut Hash, more: &Hash) {
    vars.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
}

/// Order of groups by precedence.
struct MergeOrder {
    all: usize,
    /// Rank of each group. A higher one wins.
    rank: Vec<usize>,
    /// Groups with each parent before its children.
    sorted: Vec<usize>,
}

impl MergeOrder {
    /// Sorts the groups. None if a group contains itself.
    fn new(graph: &InventoryGraph, problems: &mut Problems) -> Option<MergeOrder> {
        let all = graph.groups.get_index_of("all")?;
        let count = graph.groups.len();
        let children =
            |group: usize| graph.groups[group].children.iter().filter_map(|child| graph.groups.get_index_of(child));
        let mut parents = vec![0_usize; count];
        (0..count).flat_map(children).for_each(|child| parents[child] += 1);
        let mut depth: Vec<usize> = (0..count).map(|group| usize::from(group != all)).collect();
        let mut sorted: Vec<usize> = (0..count).filter(|group| parents[*group] == 0).collect();
        let mut at = 0;
        while let Some(group) = sorted.get(at).copied() {
            for child in children(group) {
                depth[child] = depth[child].max(depth[group] + 1);
                parents[child] -= 1;
                if parents[child] == 0 {
                    sorted.push(child);
                }
            }
            at += 1;
        }
        if sorted.len() < count {
            let inside = (0..count).filter(|group| parents[*group] > 0);
            for (name, group) in inside.filter_map(|group| graph.groups.get_index(group)) {
                problems.error(
                    &group.place,
                    eco_format!("the group `{name}` is inside of a cycle of groups"),
                    "a group cannot contain itself, directly or by other groups",
                );
            }
            return None;
        }
        let mut ranked: Vec<usize> = (0..count).collect();
        ranked.sort_by_key(|group| {
            let name = graph.groups.get_index(*group).map(|(name, _)| name);
            (depth[*group], graph.groups[*group].priority, name)
        });
        let mut rank = vec![0; count];
        ranked.iter().enumerate().for_each(|(at, group)| rank[*group] = at);
        Some(MergeOrder { all, rank, sorted })
    }

    /// Returns all groups that contain each group, directly or indirectly.
    fn ancestors(&self, graph: &InventoryGraph) -> Vec<Arc<[usize]>> {
        let mut found: Vec<IndexSet<usize, FxBuildHasher>> = vec![IndexSet::default(); graph.groups.len()];
        for group in &self.sorted {
            let above: Vec<usize> = found[*group].iter().copied().chain([*group]).collect();
            for child in graph.groups[*group].children.iter().filter_map(|child| graph.groups.get_index_of(child)) {
                found[child].extend(above.iter().copied());
            }
        }
        found.into_iter().map(|groups| groups.into_iter().collect()).collect()
    }
}
