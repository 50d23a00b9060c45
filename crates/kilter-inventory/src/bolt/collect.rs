//! The data of each target from all its groups.

use std::sync::Arc;

use ecow::EcoString;
use indexmap::IndexSet;
use kilter_model::{Hash, Value};
use rustc_hash::FxBuildHasher;

use super::{BoltGroup, BoltTarget, Data, config};
use crate::inventory::{GroupMembers, Inventory};
use crate::problem::Problems;

/// Maximum number of data that all targets get from all groups.
const MAX_RESOLVED: usize = 5_000_000;

/// Returns the inventory. Groups have an index above that of the group around them.
pub(super) fn resolve(groups: Vec<BoltGroup>, targets: Vec<BoltTarget>, problems: &mut Problems) -> Option<Inventory> {
    if !problems.errors.is_empty() {
        return None;
    }
    let members = members(&groups);
    let mut of_target: Vec<Vec<usize>> = vec![Vec::new(); targets.len()];
    for (group, members) in members.iter().enumerate() {
        members.iter().for_each(|target| of_target[*target].push(group));
    }
    let mut found = Vec::with_capacity(targets.len());
    let mut aliases = Vec::new();
    let mut resolved = 0;
    for (at, target) in targets.into_iter().enumerate() {
        let is_member: IndexSet<usize, FxBuildHasher> = of_target[at].iter().copied().collect();
        let groups_of = of_target[at].iter().map(|group| &groups[*group]);
        resolved += groups_of.clone().map(|group| 1 + group.data.vars.len() + group.data.config.len()).sum::<usize>();
        if resolved > MAX_RESOLVED {
            problems.error(
                &target.place,
                "groups and their data have too many parts",
                "divide it into several inventories",
            );
            return None;
        }
        let data = merged(collected(0, &groups, &is_member), target.data);
        let mut made = match config::target(&target.name, target.uri.as_deref(), &data.config) {
            Ok(made) => made,
            Err(fault) => {
                problems.error(&target.place, fault, "");
                continue;
            }
        };
        made.groups = groups_of.map(|group| group.name.clone()).collect();
        (made.vars, made.facts, made.features) = (data.vars, data.facts, data.features);
        aliases.extend(target.aliases.into_iter().map(|alias| (alias, at)));
        found.push(made);
    }
    if !problems.errors.is_empty() {
        return None;
    }
    let listed = groups.iter().zip(members).map(|(group, members)| GroupMembers {
        name: group.name.clone(),
        children: group.groups.iter().map(|inside| groups[*inside].name.clone()).collect(),
        own: group.targets.clone(),
        members: members.into_iter().collect(),
    });
    let listed = listed.collect();
    let mut inventory = Inventory::new(found, listed);
    aliases.into_iter().for_each(|(alias, target)| inventory.add_alias(alias, target));
    Some(inventory)
}

/// Returns the targets of each group, with those of the groups inside.
fn members(groups: &[BoltGroup]) -> Vec<IndexSet<usize, FxBuildHasher>> {
    let mut found: Vec<IndexSet<usize, FxBuildHasher>> = vec![IndexSet::default(); groups.len()];
    for (at, group) in groups.iter().enumerate().rev() {
        let mut members: IndexSet<usize, FxBuildHasher> = group.targets.iter().copied().collect();
        group.groups.iter().for_each(|inside| members.extend(found[*inside].iter().copied()));
        found[at] = members;
    }
    found
}

/// Returns the data that a target gets from a group and the groups inside, depth-first: the first one wins.
fn collected(group: usize, groups: &[BoltGroup], is_member: &IndexSet<usize, FxBuildHasher>) -> Data {
    let mut data: Option<Data> = None;
    for inside in groups[group].groups.iter().filter(|inside| is_member.contains(*inside)) {
        let found = collected(*inside, groups, is_member);
        data = Some(match data {
            Some(first) => merged(found, first),
            None => found,
        });
    }
    match data {
        Some(data) => merged(groups[group].data.clone(), data),
        None => groups[group].data.clone(),
    }
}

/// Merges data. `config` and `facts` are merged at any depth, variables replace each other.
pub(super) fn merged(low: Data, high: Data) -> Data {
    let mut features: IndexSet<EcoString> = low.features.into_iter().collect();
    features.extend(high.features);
    let mut vars = low.vars;
    vars.extend(high.vars);
    Data {
        config: deep(&low.config, &high.config),
        vars,
        facts: deep(&low.facts, &high.facts),
        features: features.into_iter().collect(),
    }
}

/// Merges hashes at any depth.
fn deep(low: &Hash, high: &Hash) -> Hash {
    let mut merged = low.clone();
    for (key, value) in high {
        let value = match (merged.get(key), value) {
            (Some(Value::Hash(low)), Value::Hash(high)) => Value::Hash(Arc::new(deep(low, high))),
            _ => value.clone(),
        };
        merged.insert(key.clone(), value);
    }
    merged
}
