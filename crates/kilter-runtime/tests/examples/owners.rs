//! Automatic edges by what resources own.

use std::sync::Arc;

use ecow::EcoString;
use kilter_model::{Attributes, Change, Outcome, State, TypeSchema};
use kilter_provider::{Capabilities, Context, Mode, Owner, Provider, ProviderError, Query, Relations};

use crate::site::{Site, defined};

/// A type of which only the relations matter.
struct OwnerType {
    schema: TypeSchema,
    names_paths: bool,
    /// Paths that resources of these names own.
    owned: Vec<(&'static str, &'static str)>,
}

impl Provider for OwnerType {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            relations: Some(self),
            owner: (!self.owned.is_empty()).then_some(self as &dyn Owner),
            ..Capabilities::default()
        }
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        Ok(Vec::new())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        changes.iter().map(|_| Outcome::default()).collect()
    }
}

impl Relations for OwnerType {
    fn names_are_paths(&self) -> bool {
        self.names_paths
    }
}

impl Owner for OwnerType {
    fn owned(&self, name: &str, _: &Attributes, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
        let own = self.owned.iter().filter(|(owner, path)| *owner == name && is_wanted(path));
        own.map(|(_, path)| EcoString::from(*path)).collect()
    }
}

fn kind(name: &str, names_paths: bool, owned: &[(&'static str, &'static str)]) -> Arc<dyn Provider> {
    let schema = defined(&format!(
        "name: {name}\ndesc: Things.\nattributes:\n  \
         ensure: {{ type: 'Enum[absent, present]', desc: Whether it is there. }}\n  \
         name: {{ type: String, desc: Its name., behaviour: namevar }}\n  \
         uses: {{ type: 'Optional[Array[String]]', desc: What it works with., behaviour: parameter }}\n\
         autorequire: {{ place: $uses }}\n"
    ));
    Arc::new(OwnerType { schema, names_paths, owned: owned.to_vec() })
}

/// The automatic edges of a manifest in which packages own some paths, each `first < second`.
fn edges(owned: &[(&'static str, &'static str)], resources: &[&str]) -> Vec<String> {
    let site = Site::new([kind("pack", false, owned), kind("place", true, &[]), kind("job", false, &[])]);
    let manifest = format!("resources:\n  {}\n", resources.join("\n  "));
    let prepared = site.prepare(&manifest).unwrap_or_else(|problems| panic!("{manifest}{problems:?}"));
    let label = |vertex: kilter_engine::ResourceId| prepared.resource(vertex).reference.to_string();
    let mut edges: Vec<String> =
        prepared.graph().edges().iter().map(|edge| format!("{} < {}", label(edge.from), label(edge.to))).collect();
    edges.sort_unstable();
    edges
}

const NONE: [&str; 0] = [];

#[test]
fn owner_of_a_path_precedes_its_files_and_users() {
    let owned = [("web", "/etc/web.conf"), ("web", "/usr/sbin/web")];
    let resources = ["place[/etc/web.conf]: {}", "job[run]: {uses: [/usr/sbin/web, /etc/motd]}", "pack[web]: {}"];
    assert_eq!(edges(&owned, &resources), ["pack[web] < job[run]", "pack[web] < place[/etc/web.conf]"]);
    assert_eq!(edges(&owned, &["place[/etc/web.confs]: {}", "job[run]: {uses: [web]}", "pack[web]: {}"]), NONE);
    assert_eq!(edges(&[("other", "/etc/web.conf")], &resources), NONE, "it is not there yet and owns nothing");
}

#[test]
fn a_file_has_one_owner_by_either_of_its_names() {
    let jobs = ["job[a]: {uses: [/bin/sh]}", "job[b]: {uses: [/usr/bin/sh]}", "pack[shell]: {}"];
    for listed in ["/bin/sh", "/usr/bin/sh"] {
        assert_eq!(edges(&[("shell", listed)], &jobs), ["pack[shell] < job[a]", "pack[shell] < job[b]"], "{listed}");
    }
}

#[test]
fn nearest_owned_directory_decides() {
    let owned = [("all", "/etc/web"), ("one", "/etc/web/sites"), ("two", "/etc/web/mods"), ("one", "/etc/web/mods")];
    let of = |resource: &str| edges(&owned, &[resource, "pack[all]: {}", "pack[one]: {}", "pack[two]: {}"]);
    assert_eq!(of("place[/etc/web/x/y]: {}"), ["pack[all] < place[/etc/web/x/y]"]);
    assert_eq!(of("place[/etc/web/sites/x]: {}"), ["pack[one] < place[/etc/web/sites/x]"]);
    assert_eq!(of("place[/etc/web/mods/x]: {}"), NONE, "several own it, so nobody does");
    assert_eq!(of("place[/etc/web/mods]: {}"), NONE);
    assert_eq!(of("job[x]: {uses: [/etc/web/x]}"), NONE, "who works with a file does not work with its directory");
    let declared = ["place[/etc/web/x]: {}", "place[/etc/web/x/y]: {}", "pack[all]: {}"];
    assert_eq!(edges(&owned, &declared), ["pack[all] < place[/etc/web/x]"], "that is before what lies in it");
}

#[test]
fn users_of_a_path_precede_its_removal_and_files_follow_it() {
    let owned = [("web", "/etc/web.conf"), ("web", "/usr/sbin/web")];
    let resources = ["place[/etc/web.conf]: {}", "job[run]: {uses: [/usr/sbin/web]}", "pack[web]: {ensure: absent}"];
    assert_eq!(edges(&owned, &resources), ["job[run] < pack[web]", "pack[web] < place[/etc/web.conf]"]);
}

#[test]
fn declared_edge_overrides_owner_edge() {
    let owned = [("web", "/etc/web.conf"), ("web", "/usr/sbin/web")];
    let turned = ["place[/etc/web.conf]: {before: 'pack[web]'}", "pack[web]: {}"];
    assert_eq!(edges(&owned, &turned), ["place[/etc/web.conf] < pack[web]"]);
    let around =
        ["job[a]: {uses: [/usr/sbin/web], before: 'job[b]'}", "job[b]: {before: 'pack[web]'}", "pack[web]: {}"];
    assert_eq!(edges(&owned, &around), ["job[a] < job[b]", "job[b] < pack[web]"]);
}

#[test]
fn resource_without_automatic_edges_has_no_owner_edges() {
    let owned = [("web", "/etc/web.conf")];
    let out = "meta: {autoedge: false}";
    assert_eq!(edges(&owned, &[&format!("place[/etc/web.conf]: {{{out}}}"), "pack[web]: {}"]), NONE);
    assert_eq!(edges(&owned, &["place[/etc/web.conf]: {}", &format!("pack[web]: {{{out}}}")]), NONE);
}
