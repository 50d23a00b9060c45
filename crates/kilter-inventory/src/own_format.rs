//! kilter's own format (docs/reference/inventory.md): `hosts` and `groups` with options and variables.

use std::path::{Path, PathBuf};

use ecow::{EcoString, eco_format};
use kilter_model::{Hash, Value, suggest};
use kilter_remote::BecomeMethod;
use kilter_script::yaml::{Node, YamlKind};

use crate::destination::{checked_host, checked_user, word};
use crate::graph::InventoryGraph;
use crate::host_range;
use crate::options::{Options, Route};
use crate::problem::{ProblemPlace, Problems};
use crate::prompts;
use crate::secrets;

/// Returns true if a document has the form of kilter's format: `hosts` and `groups` at the top, and nothing else.
pub(crate) fn is_own(root: &Node) -> bool {
    let Some(entries) = root.entries() else { return false };
    let is_form = |(key, value): &(Node, Node)| match key.text().map(EcoString::as_str) {
        Some("hosts") => true,
        // In Bolt's format `groups` is a list.
        Some("groups") => !matches!(value.kind, YamlKind::Sequence(_)),
        _ => false,
    };
    !entries.is_empty() && entries.iter().all(is_form)
}

/// Reads a document into the graph.
pub(crate) fn read(root: &Node, file: &ProblemPlace, graph: &mut InventoryGraph, problems: &mut Problems) {
    let mut reader = DocumentReader { file, graph, problems };
    for (key, value) in root.entries().unwrap_or_default() {
        match key.text().map(EcoString::as_str) {
            Some("hosts") => reader.hosts(value),
            _ => reader.groups(value),
        }
    }
}

const OPTIONS: [&str; 5] = ["ssh", "become", "connection", "transport", "vars"];
const SSH: [&str; 8] = ["host", "user", "port", "identity_file", "jump", "config", "args", "password"];

struct DocumentReader<'a> {
    file: &'a ProblemPlace,
    graph: &'a mut InventoryGraph,
    problems: &'a mut Problems,
}

/// Role of a node with options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Host,
    Group,
}

impl DocumentReader<'_> {
    fn error(&mut self, node: &Node, message: impl Into<EcoString>, hint: impl Into<EcoString>) {
        self.problems.error(&self.file.at(node.at), message, hint);
    }

    /// Reports a value of the wrong kind.
    fn expected(&mut self, node: &Node, expected: &str) {
        self.error(node, eco_format!("{expected} is expected, not {}", node.what()), "");
    }

    fn hosts(&mut self, node: &Node) {
        match &node.kind {
            YamlKind::Mapping(entries) => {
                for (name, value) in entries {
                    let names = self.host_names(name);
                    let (options, vars) = self.options(value, Level::Host, &mut |_, _, _| false);
                    if names.len() > 1 && options.address.is_some() {
                        self.error(value, "`host` is the address of one host, and the range has several names", "");
                    }
                    let place = self.file.at(name.at);
                    for name in names {
                        if let Some(host) = self.graph.host(&name, &place, self.problems) {
                            host.options.apply(&options);
                            host.vars.extend(vars.iter().map(|(key, value)| (key.clone(), value.clone())));
                        }
                    }
                }
            }
            YamlKind::Sequence(nodes) => {
                for node in nodes {
                    let place = self.file.at(node.at);
                    for name in self.host_names(node) {
                        self.graph.host(&name, &place, self.problems);
                    }
                }
            }
            _ if node.is_null() => {}
            YamlKind::Scalar { .. } => self.expected(node, "a mapping of hosts, or a list of names"),
        }
    }

    /// Returns the names of hosts that a text with ranges gives.
    fn host_names(&mut self, node: &Node) -> Vec<EcoString> {
        let Some(text) = node.text().filter(|_| !node.is_null()) else {
            self.expected(node, "the name of a host");
            return Vec::new();
        };
        if self.graph.is_full {
            return Vec::new();
        }
        match host_range::expand(text) {
            Ok(names) => match names.iter().find_map(|name| word("name of a host", name).err()) {
                None => names,
                Some(fault) => {
                    self.error(node, fault, "such as web1, web1.example.com or web[01:20]");
                    Vec::new()
                }
            },
            Err(fault) => {
                self.error(node, fault, "such as web[01:20] or db-[a:f]");
                Vec::new()
            }
        }
    }

    fn groups(&mut self, node: &Node) {
        let Some(entries) = node.entries() else {
            if !node.is_null() {
                self.expected(node, "a mapping of groups");
            }
            return;
        };
        for (key, value) in entries {
            let Some(name) = self.group_name(key) else { continue };
            let place = self.file.at(key.at);
            match self.graph.group(&name, &place, self.problems) {
                Some(group) => (group.is_declared, group.place) = (true, place),
                None => return,
            }
            if matches!(value.kind, YamlKind::Sequence(_)) {
                self.members(&name, value);
                continue;
            }
            let (options, vars) = self.options(value, Level::Group, &mut |reader, key, value| match key {
                "hosts" => {
                    reader.members(&name, value);
                    true
                }
                "groups" => {
                    reader.children(&name, value);
                    true
                }
                _ => false,
            });
            let place = self.file.at(key.at);
            if let Some(group) = self.graph.group(&name, &place, self.problems) {
                group.options.apply(&options);
                group.vars.extend(vars);
            }
        }
    }

    fn group_name(&mut self, node: &Node) -> Option<EcoString> {
        let is_word = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        match node.text().filter(|_| !node.is_null()) {
            Some(name) if name.chars().all(is_word) && !name.starts_with(['-', '.']) => Some(name.clone()),
            Some(name) => {
                let message = eco_format!("`{}` is not a name of a group", name.escape_debug());
                self.error(node, message, "letters, digits, `_`, `-` and `.` are allowed");
                None
            }
            None => {
                self.expected(node, "the name of a group");
                None
            }
        }
    }

    fn members(&mut self, group: &str, node: &Node) {
        for node in self.texts(node, "a list of hosts") {
            let place = self.file.at(node.at);
            for host in self.host_names(node) {
                self.graph.add_member(group, &host, &place, self.problems);
            }
        }
    }

    fn children(&mut self, group: &str, node: &Node) {
        for node in self.texts(node, "a list of groups") {
            if let Some(child) = self.group_name(node) {
                self.graph.add_child(group, &child, &self.file.at(node.at), self.problems);
            }
        }
    }

    /// Returns the elements of a list, or the one text in its place.
    fn texts<'n>(&mut self, node: &'n Node, expected: &str) -> &'n [Node] {
        match &node.kind {
            YamlKind::Sequence(nodes) => nodes,
            _ if node.is_null() => &[],
            YamlKind::Scalar { .. } => std::slice::from_ref(node),
            YamlKind::Mapping(_) => {
                self.expected(node, expected);
                &[]
            }
        }
    }

    /// Reads the options and variables of a host or a group. `other` reads further keys.
    fn options(
        &mut self,
        node: &Node,
        level: Level,
        other: &mut dyn FnMut(&mut Self, &str, &Node) -> bool,
    ) -> (Options, Hash) {
        let (mut options, mut vars) = (Options::default(), Hash::default());
        let Some(entries) = node.entries() else {
            if !node.is_null() {
                self.expected(node, "a mapping of options");
            }
            return (options, vars);
        };
        for (key, value) in entries {
            let name = key.text().map_or("", EcoString::as_str);
            match name {
                "ssh" => self.ssh(value, level, &mut options),
                "become" => self.become_(value, &mut options),
                "connection" => self.connection(value, &mut options),
                "transport" => self.transport(value, &mut options),
                "vars" => vars.extend(self.vars(value)),
                _ if other(self, name, value) => {}
                _ => {
                    let more: &[&str] = if level == Level::Group { &["hosts", "groups"] } else { &[] };
                    self.unknown(key, OPTIONS.iter().chain(more).copied());
                }
            }
        }
        if node.get("connection").is_some() && node.get("transport").is_some() {
            self.error(node, "`connection` and `transport` are two ways to reach the target", "remove one of them");
        }
        (options, vars)
    }

    fn unknown(&mut self, key: &Node, known: impl Iterator<Item = &'static str> + Clone) {
        let Some(name) = key.text() else { return self.expected(key, "the name of an option") };
        let hint = match suggest::nearest(name, known.clone()) {
            Some(near) => eco_format!("did you mean `{near}`?"),
            None => {
                let known: Vec<&str> = known.collect();
                eco_format!("known are {}", known.join(", "))
            }
        };
        self.error(key, eco_format!("there is no option `{name}`"), hint);
    }

    fn vars(&mut self, node: &Node) -> Hash {
        match node.value() {
            Value::Hash(entries) => secrets::sealed_all((*entries).clone()),
            Value::Undef => Hash::default(),
            _ => {
                self.expected(node, "a mapping of variables");
                Hash::default()
            }
        }
    }

    fn ssh(&mut self, node: &Node, level: Level, options: &mut Options) {
        let Some(entries) = node.entries() else {
            return self.expected(node, "a mapping such as {user: ops, port: 2222}");
        };
        for (key, value) in entries {
            let name = key.text().map_or("", EcoString::as_str);
            match name {
                "host" if level == Level::Group => {
                    self.error(key, "`host` is the address of one host: a group has none", "write it below the host");
                }
                "host" => options.address = self.checked(value, &checked_host),
                "user" => options.user = self.checked(value, &checked_user),
                "port" => options.port = self.port(value),
                "identity_file" => options.identity_file = self.path(value),
                "jump" => options.jump = self.checked(value, &|text| word("jump host", text)),
                "config" => options.config = self.path(value),
                "args" => {
                    let nodes = self.texts(value, "a list of arguments");
                    let args = nodes.iter().filter_map(|node| self.text(node)).map(|text| text.to_string()).collect();
                    options.ssh_args = Some(args);
                }
                "password" => options.password = self.secret(value),
                _ => self.unknown(key, SSH.iter().copied()),
            }
        }
    }

    fn become_(&mut self, node: &Node, options: &mut Options) {
        if let Some(entries) = node.entries() {
            options.is_become = Some(true);
            for (key, value) in entries {
                match key.text().map_or("", EcoString::as_str) {
                    "method" => options.become_method = self.method(value),
                    "user" => options.become_user = self.checked(value, &checked_user),
                    "password" => options.become_password = self.secret(value),
                    _ => self.unknown(key, ["method", "user", "password"].into_iter()),
                }
            }
        } else if let Some(is_become) = node.as_bool() {
            options.is_become = Some(is_become);
        } else {
            options.is_become = Some(true);
            options.become_method = self.method(node);
        }
    }

    fn method(&mut self, node: &Node) -> Option<BecomeMethod> {
        let method = node.text().and_then(|text| BecomeMethod::of(text));
        if method.is_none() {
            self.expected(node, "sudo, doas, su or run0");
        }
        method
    }

    fn connection(&mut self, node: &Node, options: &mut Options) {
        let (word_of, value) = match node.entries() {
            Some([(key, value)]) => (key.text(), Some(value)),
            _ => (node.text(), None),
        };
        let name = |reader: &mut Self, role: &'static str| match value {
            Some(value) => reader.checked(value, &|text| word(role, text)),
            None => None,
        };
        options.route = match word_of.map(EcoString::as_str) {
            Some("ssh") if value.is_none() => Some(Route::Ssh),
            Some("local") if value.is_none() => Some(Route::Local),
            Some("podman") => Some(Route::Podman(name(self, "container"))),
            Some("nspawn") => Some(Route::Nspawn(name(self, "machine"))),
            Some("chroot") if value.is_some() => value.and_then(|value| self.path(value)).map(Route::Chroot),
            _ => {
                self.expected(node, "ssh, local, {podman: CONTAINER}, {nspawn: MACHINE} or {chroot: DIRECTORY}");
                None
            }
        };
    }

    fn transport(&mut self, node: &Node, options: &mut Options) {
        if matches!(node.kind, YamlKind::Scalar { .. }) && !node.is_null() {
            options.route = self.checked(node, &|text| word("transport", text)).map(Route::Device);
            return;
        }
        let Value::Hash(entries) = node.value() else {
            return self.expected(node, "a mapping such as {name: nx9k, host: 10.0.0.7}");
        };
        if let Some(name) = node.get("name") {
            options.route = self.checked(name, &|text| word("transport", text)).map(Route::Device);
        }
        let attributes = entries.iter().filter(|(key, _)| *key != "name");
        options.attributes = secrets::sealed_all(attributes.map(|(key, value)| (key.clone(), value.clone())).collect());
    }

    fn text(&mut self, node: &Node) -> Option<EcoString> {
        let text = node.text().filter(|_| !node.is_null()).cloned();
        if text.is_none() {
            self.expected(node, "a text");
        }
        text
    }

    fn checked(&mut self, node: &Node, check: &dyn Fn(&str) -> Result<EcoString, EcoString>) -> Option<EcoString> {
        match check(&self.text(node)?) {
            Ok(text) => Some(text),
            Err(fault) => {
                self.error(node, fault, "");
                None
            }
        }
    }

    fn port(&mut self, node: &Node) -> Option<u16> {
        let port = node.text().and_then(|text| text.parse().ok()).filter(|port| *port > 0);
        if port.is_none() {
            self.expected(node, "a port, 1 to 65535,");
        }
        port
    }

    /// Returns a path. A relative one starts at the directory of the inventory.
    fn path(&mut self, node: &Node) -> Option<PathBuf> {
        let text = self.text(node)?;
        match text.starts_with("~/") {
            true => Some(PathBuf::from(text.as_str())),
            false => Some(self.file.file.parent().unwrap_or(Path::new("/")).join(text.as_str())),
        }
    }

    fn secret(&mut self, node: &Node) -> Option<Value> {
        // The message does not show a value of the wrong kind.
        match &node.kind {
            YamlKind::Scalar { text, .. } if !node.is_null() => Some(Value::sensitive(Value::String(text.clone()))),
            YamlKind::Mapping(entries) if entries.len() == 1 && node.get("prompt").is_some() => {
                let message = node.get("prompt").and_then(|message| self.text(message))?;
                Some(prompts::question(&message))
            }
            _ => {
                self.error(node, "a password is a text, or {prompt: MESSAGE}", "");
                None
            }
        }
    }
}

/// Converts JSON to a tree without positions.
pub(crate) fn node_of_json(json: &serde_json::Value) -> Node {
    let scalar = |text: EcoString, plain: bool| YamlKind::Scalar { text, plain };
    let kind = match json {
        serde_json::Value::Null => scalar("".into(), true),
        serde_json::Value::Bool(truth) => scalar(eco_format!("{truth}"), true),
        serde_json::Value::Number(number) => scalar(eco_format!("{number}"), true),
        serde_json::Value::String(text) => scalar(text.as_str().into(), false),
        serde_json::Value::Array(values) => YamlKind::Sequence(values.iter().map(node_of_json).collect()),
        serde_json::Value::Object(entries) => YamlKind::Mapping(
            entries
                .iter()
                .map(|(key, value)| (node(scalar(key.as_str().into(), false)), node_of_json(value)))
                .collect(),
        ),
    };
    node(kind)
}

fn node(kind: YamlKind) -> Node {
    Node { kind, at: kilter_script::TextPosition { line: 0, column: 0 } }
}
