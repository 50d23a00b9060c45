//! `kilter inventory`: shows the targets and groups of an inventory.

use std::sync::Arc;

use kilter_inventory::{ConnectionKind, Inventory, Selector, Target};
use kilter_model::{Hash, Value, to_json};
use serde_json::{Map, Value as Json, json};

use super::facts;
use crate::cli::{InventoryArgs, ReportFormat};
use crate::exit::Exit;
use crate::session::Session;
use crate::style::{NAME, styled};
use crate::table::Table;
use crate::visible::visible;
use crate::{inventory, output, paths, terminal};

pub(crate) fn run(args: &InventoryArgs, session: &Session) -> Exit {
    let inventory = match inventory::open(session.global.remote.inventory.as_deref(), &session.trust) {
        Ok(Some(inventory)) => inventory,
        Ok(None) => {
            let usual = paths::inventory().map(|path| format!(", or write {}", path.display())).unwrap_or_default();
            let hint = format!("name one with --inventory or KILTER_INVENTORY{usual}");
            return output::fail_with("there is no inventory", [hint]);
        }
        Err(exit) => return exit,
    };
    if let Some(name) = &args.host {
        return match inventory.target(name) {
            Some(target) if args.format == ReportFormat::Json => output::data(&format!("{:#}\n", object(target))),
            Some(target) => output::data(&facts::human(&shown(target))),
            None => {
                let known = inventory.targets().iter().map(|target| target.name.as_str());
                let hint = match kilter_model::suggest::nearest(name, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "`kilter inventory` lists the targets".to_owned(),
                };
                output::fail_with(format_args!("the inventory has no target `{}`", visible(name)), [hint])
            }
        };
    }
    let selected = match selected(args, &inventory) {
        Ok(selected) => selected,
        Err(exit) => return exit,
    };
    match (args.format, args.graph) {
        (ReportFormat::Json, _) => output::data(&format!("{:#}\n", document(&inventory, &selected))),
        (ReportFormat::Human, true) => output::data(&GroupTree::new(&inventory, &selected).text()),
        (ReportFormat::Human, false) => output::data(&table(&selected)),
    }
}

fn selected(args: &InventoryArgs, inventory: &Inventory) -> Result<Vec<Arc<Target>>, Exit> {
    let Some(text) = &args.pattern else { return Ok(inventory.targets().to_vec()) };
    let found = Selector::parse(text).and_then(|selector| Ok((selector.needs_facts(), selector.select(inventory)?)));
    let (needs_facts, targets) = found.map_err(|error| output::fail_with(&error, error.hint.as_deref()))?;
    if needs_facts {
        output::warning("the facts of these targets decide further: the list has all that they may select");
    }
    Ok(targets)
}

fn table(targets: &[Arc<Target>]) -> String {
    let mut table = Table::new(["name", "connection", "destination", "become", "groups"]);
    for target in targets {
        let become_ = target.become_.as_ref().map(|become_| format!("{} {}", become_.method.name(), become_.user));
        let groups: Vec<&str> = target.groups.iter().map(|name| name.as_str()).filter(|name| *name != "all").collect();
        table.row([
            visible(&target.name),
            target.connection.word().to_owned(),
            visible(&destination(target)),
            visible(&become_.unwrap_or_default()),
            visible(&groups.join(", ")),
        ]);
    }
    table.render(terminal::columns()).0
}

/// Returns the place to connect to, in the words of its connection.
fn destination(target: &Target) -> String {
    match &target.connection {
        ConnectionKind::Ssh => {
            let user = target.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
            let port = target.port.map(|port| format!(":{port}")).unwrap_or_default();
            format!("{user}{}{port}", target.host())
        }
        ConnectionKind::Local => String::new(),
        ConnectionKind::Podman { container } => container.to_string(),
        ConnectionKind::Nspawn { machine } => machine.to_string(),
        ConnectionKind::Chroot { directory } => directory.display().to_string(),
        ConnectionKind::Device { transport, attributes } => {
            let host = attributes.get("host").map(|host| format!(" {host}")).unwrap_or_default();
            format!("{transport}{host}")
        }
    }
}

/// Returns the options, groups and variables of a target. Options without a value are absent.
fn shown(target: &Target) -> Value {
    let mut entries = Hash::default();
    let mut add = |key: &str, value: Option<Value>| {
        if let Some(value) = value.filter(|value| !value.is_undef()) {
            entries.insert(key.into(), value);
        }
    };
    let path =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| Value::from(path.to_string_lossy().into_owned()));
    add("name", Some(Value::String(target.name.clone())));
    add("connection", Some(connection(&target.connection)));
    add("address", target.address.clone().map(Value::String));
    add("user", target.user.clone().map(Value::String));
    add("port", target.port.map(|port| Value::Integer(port.into())));
    add("password", target.password.clone());
    add("identity_file", path(&target.identity_file));
    add("jump", target.jump.clone().map(Value::String));
    add("config", path(&target.config));
    let list = |values: Vec<Value>| Some(Value::array(values)).filter(|list| !list.as_list().is_empty());
    add("ssh_args", list(target.ssh_args.iter().map(|arg| Value::from(arg.as_str())).collect()));
    add(
        "become",
        target.become_.as_ref().map(|become_| {
            let method =
                [("method", Value::from(become_.method.name())), ("user", Value::String(become_.user.clone()))];
            let password = become_.password.clone().map(|password| ("password", password));
            Value::hash(method.into_iter().chain(password))
        }),
    );
    add("features", list(target.features.iter().cloned().map(Value::String).collect()));
    add("facts", Some(target.facts.clone()).filter(|facts| !facts.is_empty()).map(|facts| Value::Hash(facts.into())));
    add("groups", Some(Value::strings(target.groups.iter().cloned())));
    add("vars", Some(Value::Hash(target.vars.clone().into())));
    Value::Hash(entries.into())
}

fn connection(connection: &ConnectionKind) -> Value {
    let mut entries = vec![("kind", Value::from(connection.word()))];
    match connection {
        ConnectionKind::Ssh | ConnectionKind::Local => {}
        ConnectionKind::Podman { container } => entries.push(("container", Value::String(container.clone()))),
        ConnectionKind::Nspawn { machine } => entries.push(("machine", Value::String(machine.clone()))),
        ConnectionKind::Chroot { directory } => {
            entries.push(("directory", Value::from(directory.to_string_lossy().into_owned())));
        }
        ConnectionKind::Device { transport, attributes } => {
            entries.push(("transport", Value::String(transport.clone())));
            entries.push(("attributes", Value::Hash(attributes.clone().into())));
        }
    }
    Value::hash(entries)
}

fn object(target: &Target) -> Json {
    to_json(&shown(target))
}

fn document(inventory: &Inventory, selected: &[Arc<Target>]) -> Json {
    let targets: Vec<Json> = selected.iter().map(|target| object(target)).collect();
    let mut groups = Map::new();
    for group in inventory.groups() {
        let children: Vec<&str> = group.children.iter().map(|name| name.as_str()).collect();
        let members: Vec<&str> = inventory.members(group).map(|target| target.name.as_str()).collect();
        groups.insert(group.name.to_string(), json!({"targets": members, "groups": children}));
    }
    json!({"targets": targets, "groups": groups})
}

/// GroupTree of groups. A group that is inside of several others has its content at its first place only.
struct GroupTree<'a> {
    inventory: &'a Inventory,
    /// Indexes of the selected targets.
    is_selected: Vec<bool>,
    is_drawn: Vec<bool>,
    text: String,
}

impl<'a> GroupTree<'a> {
    fn new(inventory: &'a Inventory, selected: &[Arc<Target>]) -> GroupTree<'a> {
        let is_selected =
            inventory.targets().iter().map(|target| selected.iter().any(|s| s.name == target.name)).collect();
        GroupTree { inventory, is_selected, is_drawn: vec![false; inventory.groups().len()], text: String::new() }
    }

    fn text(mut self) -> String {
        let groups = self.inventory.groups();
        let is_inside = |name: &str| {
            groups.iter().any(|group| group.name != "all" && group.children.iter().any(|child| child == name))
        };
        self.text += &format!("{}\n", styled(NAME, "all:"));
        for (at, group) in groups.iter().enumerate() {
            if group.name != "all"
                && !is_inside(&group.name)
                && !(group.name == "ungrouped" && group.members.is_empty())
            {
                self.group(at, 1);
            }
        }
        // Targets of Bolt's group at the top.
        self.targets(
            &groups.iter().filter(|group| group.name == "all").flat_map(|group| group.own.clone()).collect::<Vec<_>>(),
            1,
        );
        self.text
    }

    fn group(&mut self, at: usize, depth: usize) {
        let group = &self.inventory.groups()[at];
        let is_drawn = std::mem::replace(&mut self.is_drawn[at], true);
        let indent = "  ".repeat(depth);
        let name = styled(NAME, format!("{}:", visible(&group.name)));
        if is_drawn {
            self.text += &format!("{indent}{name} (above)\n");
            return;
        }
        self.text += &format!("{indent}{name}\n");
        for child in &group.children {
            if let Some(at) = self.inventory.groups().iter().position(|group| group.name == *child) {
                self.group(at, depth + 1);
            }
        }
        self.targets(&group.own, depth + 1);
    }

    fn targets(&mut self, targets: &[usize], depth: usize) {
        for at in targets.iter().filter(|at| self.is_selected[**at]) {
            self.text += &format!("{}{}\n", "  ".repeat(depth), visible(&self.inventory.targets()[*at].name));
        }
    }
}
