//! The type `net`: network interfaces with their addresses and routes, in the running kernel.

mod address;
mod kernel;
mod netlink;
mod schema;

use std::sync::{Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_provider::{
    AutoEdge, Context, Declaration, Direction, Insync, Match, Mode, Network, Predict, Provider, ProviderError, Query,
    Relations, SideEffects, ValidationError, Watch, WatchSource,
};

use crate::builtin::is_absent;
use address::{Prefix, Route};
use kernel::{Link, NetKernel, NewLink};
use schema::schema;

/// Maximum length of the name of an interface in bytes.
const MAX_NAME_BYTES: usize = 15;

/// Kinds of interfaces that kilter can make.
const KINDS: [&str; 4] = ["bridge", "dummy", "veth", "vlan"];

/// Attributes of one kind.
const PARTS: [(&str, &str); 3] = [("parent", "vlan"), ("vlan_id", "vlan"), ("peer", "veth")];

/// Attributes with lists of texts, in the order in which they are changed.
const LISTS: [&str; 3] = ["addresses", "gateway", "routes"];

/// Provides the type `net`, for the network namespace of kilter.
#[derive(Default)]
pub struct NetProvider {
    turn: Mutex<()>,
    /// Second ends of the declared pairs, which exist as soon as their first ends do.
    peers: Mutex<Vec<EcoString>>,
}

impl NetProvider {
    /// Fails if nothing can make the declared interface, or if it is of another kind.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let Change { name, is, .. } = *change;
        let found = is.attributes.text("kind");
        let Some(should) = change.should.filter(|should| !is_absent(should)) else {
            return if is.exists && found.is_none() { Err(not_removable(name)) } else { Ok(()) };
        };
        match should.text("kind") {
            Some(kind) if is.exists && found != Some(kind) => Err(other_kind(name, found, kind)),
            Some(_) if !is.exists => require_parts(should),
            None if !is.exists && !self.is_peer(name) && !cx.preview_context().may_change_before(name) => {
                Err(missing(name))
            }
            _ => Ok(()),
        }
    }

    fn is_peer(&self, name: &EcoString) -> bool {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}

fn missing(name: &str) -> EcoString {
    eco_format!("there is no interface {name}: add `kind` to make a virtual one")
}

fn other_kind(name: &str, found: Option<&str>, kind: &str) -> EcoString {
    let found = found.unwrap_or("device");
    eco_format!("{name} exists and is a {found}, not a {kind}: remove it first, or choose another name")
}

fn not_removable(name: &str) -> EcoString {
    eco_format!("{name} is a device and cannot be removed: write `ensure: down`")
}

/// Returns the elements of a list in their order and their form. None if the attribute is not declared.
fn parsed<T: Ord>(
    should: &Attributes,
    attribute: &str,
    parse: impl Fn(&str) -> Result<T, EcoString>,
) -> Result<Option<Vec<T>>, EcoString> {
    let Some(value) = should.get(attribute).filter(|value| !value.is_undef()) else { return Ok(None) };
    let texts = value.as_list().iter().map(|text| parse(text.as_str().unwrap_or_default()));
    let mut all = texts.collect::<Result<Vec<T>, EcoString>>()?;
    all.sort_unstable();
    all.dedup();
    Ok(Some(all))
}

fn addresses(should: &Attributes) -> Result<Option<Vec<Prefix>>, EcoString> {
    parsed(should, "addresses", Prefix::parse)
}

/// Returns the static routes of an attribute: `gateway` or `routes`.
fn routes(should: &Attributes, attribute: &str) -> Result<Option<Vec<Route>>, EcoString> {
    parsed(should, attribute, if attribute == "gateway" { Route::parse_default } else { Route::parse })
}

/// Returns a list in its canonical form.
fn canonical(should: &Attributes, attribute: &str) -> Result<Option<Value>, EcoString> {
    match attribute {
        "addresses" => Ok(addresses(should)?.map(|all| texts(&all))),
        attribute => Ok(routes(should, attribute)?.map(|all| texts(&all))),
    }
}

fn texts<T: ToString>(all: &[T]) -> Value {
    Value::strings(all.iter().map(ToString::to_string))
}

/// Returns the addresses of an interface that belong to a resource.
fn owned_addresses(kernel: &NetKernel, link: &Link, declared: &[Prefix]) -> Vec<Prefix> {
    let is_owned = |prefix: &Prefix| !prefix.is_link_local() || declared.contains(prefix);
    kernel.addresses(link.index).into_iter().filter(is_owned).collect()
}

fn owned_routes(kernel: &NetKernel, link: &Link, attribute: &str) -> Vec<Route> {
    let is_owned = |route: &Route| match attribute {
        "gateway" => route.network.is_none() && route.gateway.is_some(),
        _ => route.network.is_some(),
    };
    kernel.routes(link.index).into_iter().filter(is_owned).collect()
}

fn state(kernel: &NetKernel, link: &Link, name: &EcoString, should: Option<&Attributes>) -> State {
    let mut attributes = Attributes::with_capacity(10);
    attributes.push("ensure", if link.is_up { "up" } else { "down" });
    attributes.push("name", name.clone());
    if let Some(kind) = link.kind.as_ref().filter(|kind| KINDS.contains(&kind.as_str())) {
        attributes.push("kind", kind.clone());
    }
    let other = kernel.name_of(link.parent).cloned();
    match (link.kind.as_deref(), other) {
        (Some("vlan"), Some(parent)) => attributes.push("parent", parent),
        (Some("veth"), Some(peer)) => attributes.push("peer", peer),
        _ => {}
    }
    if let Some(vlan) = link.vlan {
        attributes.push("vlan_id", i64::from(vlan));
    }
    attributes.push("mtu", i64::from(link.mtu));
    attributes.push("master", kernel.name_of(link.master).cloned().unwrap_or_default());
    let declared = should.and_then(|should| addresses(should).ok().flatten()).unwrap_or_default();
    attributes.push("addresses", texts(&owned_addresses(kernel, link, &declared)));
    for attribute in ["gateway", "routes"] {
        attributes.push(attribute, texts(&owned_routes(kernel, link, attribute)));
    }
    State::present(name.clone(), attributes)
}

/// Makes a virtual interface that does not exist.
fn create(kernel: &mut NetKernel, name: &str, should: &Attributes) -> Result<(), EcoString> {
    let Some(kind) = should.text("kind") else {
        return Err(missing(name));
    };
    require_parts(should)?;
    let parent = match should.text("parent") {
        Some(parent) => Some(index(kernel, parent)?),
        None => None,
    };
    let vlan = should.get("vlan_id").and_then(Value::as_integer).and_then(|id| u16::try_from(id).ok());
    kernel.create(&NewLink { name, kind, parent, vlan, peer: should.text("peer") })
}

/// Returns an error if a new interface of a kind lacks an attribute.
fn require_parts(should: &Attributes) -> Result<(), EcoString> {
    let kind = should.text("kind").unwrap_or_default();
    match PARTS.iter().find(|(attribute, of)| *of == kind && should.get(attribute).is_none()) {
        Some((attribute, _)) => Err(eco_format!("a new interface of the kind {kind} needs `{attribute}`")),
        None => Ok(()),
    }
}

fn index(kernel: &NetKernel, name: &str) -> Result<u32, EcoString> {
    kernel.link(name).map(|link| link.index).ok_or_else(|| eco_format!("there is no interface {name}"))
}

/// Brings an interface to its declared state.
fn converge(kernel: &mut NetKernel, name: &str, should: &Attributes) -> Result<(), EcoString> {
    // Values from other resources have not been validated before.
    if let Some(problem) = problems(name, should, &[]).pop() {
        return Err(eco_format!("{problem}"));
    }
    if kernel.link(name).is_none() {
        create(kernel, name, should)?;
    }
    let link = kernel.link(name).cloned().ok_or_else(|| eco_format!("the interface {name} has disappeared"))?;
    if let Some(kind) = should.text("kind").filter(|kind| link.kind.as_deref() != Some(kind)) {
        return Err(other_kind(name, link.kind.as_deref(), kind));
    }
    let mtu = should.get("mtu").and_then(Value::as_integer).and_then(|mtu| u32::try_from(mtu).ok());
    if let Some(mtu) = mtu.filter(|mtu| *mtu != link.mtu) {
        kernel.set_mtu(&link, mtu)?;
    }
    if let Some(master) = should.text("master") {
        let master = if master.is_empty() { 0 } else { index(kernel, master)? };
        if master != link.master {
            kernel.set_master(&link, master)?;
        }
    }
    let is_up = match should.text("ensure") {
        Some("up") | None => Some(true),
        Some("down") => Some(false),
        _ => None,
    };
    if let Some(is_up) = is_up.filter(|is_up| *is_up != link.is_up) {
        kernel.set_up(&link, is_up)?;
        // The kernel removes addresses and routes of an interface that goes down.
        kernel.refresh()?;
    }
    if let Some(wanted) = addresses(should)? {
        for prefix in owned_addresses(kernel, &link, &wanted).into_iter().filter(|prefix| !wanted.contains(prefix)) {
            kernel.set_address(&link, prefix, false)?;
        }
        // With an address, the kernel removes others of the same network, and routes.
        kernel.refresh()?;
        let found = kernel.addresses(link.index);
        for prefix in wanted.iter().filter(|prefix| !found.contains(prefix)) {
            kernel.set_address(&link, *prefix, true)?;
        }
    }
    // A gateway can be reached through another route.
    for attribute in ["routes", "gateway"] {
        let Some(wanted) = routes(should, attribute)? else { continue };
        let found = owned_routes(kernel, &link, attribute);
        for route in found.iter().filter(|route| !wanted.contains(route)) {
            kernel.set_route(&link, route, false)?;
        }
        for route in wanted.iter().filter(|route| !found.contains(route)) {
            kernel.set_route(&link, route, true)?;
        }
    }
    Ok(())
}

fn remove(kernel: &mut NetKernel, name: &str) -> Result<(), EcoString> {
    match kernel.link(name).cloned() {
        None => Ok(()),
        Some(link) if link.kind.is_none() => Err(not_removable(name)),
        Some(link) => kernel.remove(&link),
    }
}

fn is_name(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':');
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_sign) && !matches!(name, "." | "..")
}

fn problems(name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
    let mut found = Vec::new();
    let others = ["parent", "peer", "master"].map(|attribute| (attribute, should.text(attribute)));
    for (attribute, name) in std::iter::once(("name", Some(name))).chain(others) {
        let Some(name) = name.filter(|name| !is_name(name) && (attribute != "master" || !name.is_empty())) else {
            continue;
        };
        let problem = ValidationError::with(attribute, format!("`{name}` is not the name of an interface"));
        found.push(problem.hint("a name has at most 15 characters, and no blanks, `/` and `:`"));
    }
    for attribute in LISTS {
        if let Err(why) = canonical(should, attribute) {
            found.push(ValidationError::with(attribute, why));
        }
        let is_empty = should.get(attribute).is_none_or(|value| value.as_list().is_empty());
        if attribute != "addresses" && should.text("ensure") == Some("down") && !is_empty {
            let problem = ValidationError::with(attribute, "an interface that is down has no routes");
            found.push(problem.hint("write `ensure: up`, or remove the routes"));
        }
    }
    if is_absent(should) {
        return found;
    }
    for (attribute, kind) in PARTS {
        if should.text("kind") != Some(kind) && should.get(attribute).is_some() && !deferred.contains(&"kind") {
            let problem = ValidationError::with(attribute, format!("only an interface of the kind {kind} has it"));
            found.push(problem.hint(format!("remove it, or write `kind: {kind}`")));
        }
    }
    found
}

impl Provider for NetProvider {
    crate::builtin::describe!("net", "rtnetlink", schema, [relations, predict, watch]);

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let kernel = NetKernel::read().map_err(ProviderError::new)?;
        Ok(match query {
            Query::All => kernel.links.iter().map(|link| state(&kernel, link, &link.name, None)).collect(),
            Query::Named(wanted) => {
                let found = |name: &EcoString, should| match kernel.link(name) {
                    Some(link) => state(&kernel, link, name, should),
                    None => State::absent(name.clone()),
                };
                wanted.iter().map(|one| found(one.name, one.should)).collect()
            }
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return crate::builtin::previews(changes, |change| self.preview(cx, change));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = |change: &Change<'_>| {
            let mut kernel = NetKernel::read()?;
            match change.should.filter(|should| !is_absent(should)) {
                Some(should) => converge(&mut kernel, change.name, should),
                None => remove(&mut kernel, change.name),
            }
        };
        changes.iter().map(|change| changed(change).map_or_else(Outcome::failed, |()| Outcome::done())).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        if let Some((attribute, _)) = should.iter().find(|(_, value)| value.holds_sensitive()) {
            let message = "the network of a machine cannot hold a secret: every user can list it";
            return vec![ValidationError::with(attribute.as_str(), message).hint("use a value that is not secret")];
        }
        problems(name, should, deferred)
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            if let Some(peer) = should.text("peer").filter(|_| !is_absent(should)) {
                self.peers.lock().unwrap_or_else(PoisonError::into_inner).push(peer.into());
            }
            for attribute in LISTS {
                if let Ok(Some(value)) = canonical(should, attribute)
                    && !should.get(attribute).is_some_and(Value::holds_sensitive)
                {
                    should.set(attribute, value);
                }
            }
        }
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        match attribute {
            "ensure" if should.text("ensure") == Some("present") && is.exists => Insync::Same,
            // The other end is in another network namespace.
            "peer" if is.exists && is.attributes.get("peer").is_none() => Insync::Same,
            _ => Insync::Default,
        }
    }
}

impl Relations for NetProvider {
    fn auto_edges(&self, _: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let (first, last) = match is_absent(should) {
            false => (Direction::Before, Direction::After),
            true => (Direction::After, Direction::Before),
        };
        // Both ends of a pair can name the other one.
        for (attribute, direction, by) in
            [("parent", first, Match::Name), ("master", first, Match::Name), ("peer", last, Match::Member)]
        {
            if let Some(name) = should.text(attribute).filter(|name| !name.is_empty()) {
                add(AutoEdge { direction, by, ..AutoEdge::require("net", name) });
            }
        }
    }
}

impl Predict for NetProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }
}

impl Watch for NetProvider {
    /// Returns the watches for the events of the kernel.
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        [Network::Links, Network::Addresses, Network::Routes].map(WatchSource::Network).into()
    }
}

#[cfg(test)]
mod tests;
