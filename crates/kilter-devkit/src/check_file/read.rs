//! Parses check files.

use crate::conformance::{Sample, Unsupported};
use ecow::{EcoString, eco_format};
use kilter_model::suggest::nearest;
use kilter_model::{Attributes, Behaviour, TypeSchema, Value};

use super::{CheckFile, InterruptCase};
use kilter_script::Fault;
use kilter_script::yaml::{self, Node, YamlKind};

const KEYS: [&str; 9] = ["specimens", "unknown", "failing", "slow", "without", "sparing", "names", "setup", "ignore"];

/// Keys of a resource.
const OF_SPECIMENS: [&str; 4] = ["name", "present", "changed", "absent"];

/// Keywords of missing capabilities.
const LACKS: [(&str, Unsupported); 5] = [
    ("unknown", Unsupported::Unknown),
    ("failing", Unsupported::Failing),
    ("slow", Unsupported::Slow),
    ("listing", Unsupported::Listing),
    ("removal", Unsupported::Removal),
];

struct CheckReader<'s> {
    schema: &'s TypeSchema,
    faults: Vec<Fault>,
}

/// Validation of values.
#[derive(Clone, Copy, PartialEq)]
enum ValueRule {
    AreValid,
    /// A failing change may contain invalid values.
    MayBeAnything,
}

pub(super) fn read(text: &str, schema: &TypeSchema) -> Result<CheckFile, Vec<Fault>> {
    let is_said = |line: &str| !line.is_empty() && !line.starts_with('#') && line != "---";
    if !text.lines().map(str::trim).any(is_said) {
        return Ok(CheckFile::default());
    }
    let root = yaml::parse(text).map_err(|fault| vec![fault])?;
    let mut reader = CheckReader { schema, faults: Vec::new() };
    let file = reader.file(&root);
    let mut faults = reader.faults;
    faults.sort_by_key(|fault| fault.at);
    if faults.is_empty() { Ok(file) } else { Err(faults) }
}

impl CheckReader<'_> {
    fn fault(&mut self, node: &Node, message: impl Into<EcoString>) {
        self.faults.push(Fault::new(node.at, message));
    }

    /// Reports unknown keys.
    fn keys(&mut self, node: &Node, known: &[&'static str]) {
        for (key, _) in node.entries().unwrap_or_default() {
            let name = key.text().cloned().unwrap_or_default();
            if !known.contains(&name.as_str()) {
                let hint = match nearest(&name, known.iter().copied()) {
                    Some(near) => eco_format!("did you mean `{near}`?"),
                    None => eco_format!("the keys are {}", known.join(", ")),
                };
                self.faults.push(Fault::new(key.at, eco_format!("unknown key `{name}`")).hint(hint));
            }
        }
    }

    fn file(&mut self, root: &Node) -> CheckFile {
        if root.entries().is_none() {
            self.fault(root, eco_format!("it is a mapping, not {}", root.what()));
            return CheckFile::default();
        }
        self.keys(root, &KEYS);
        CheckFile {
            specimens: self.specimens(root),
            unknown: self.words(root, "unknown"),
            failing: root.get("failing").and_then(|node| self.specimen(node, &OF_SPECIMENS, ValueRule::MayBeAnything)),
            slow: root.get("slow").and_then(|node| self.lasting(node)),
            without: self.without(root),
            sparing: self.sparing(root),
            names: self.names(root),
            setup: self.word(root, "setup"),
            ignore: self.words(root, "ignore"),
        }
    }

    fn word(&mut self, parent: &Node, key: &str) -> Option<EcoString> {
        let node = parent.get(key)?;
        let text = node.text().cloned();
        if text.is_none() {
            self.fault(node, eco_format!("`{key}` is a text, not {}", node.what()));
        }
        text
    }

    /// Reads a list of texts. A single text counts as a list.
    fn words(&mut self, parent: &Node, key: &str) -> Vec<EcoString> {
        let Some(node) = parent.get(key) else { return Vec::new() };
        let nodes = match &node.kind {
            YamlKind::Sequence(nodes) => nodes.as_slice(),
            YamlKind::Scalar { .. } => std::slice::from_ref(node),
            YamlKind::Mapping(_) => {
                self.fault(node, eco_format!("`{key}` is a list of texts, not a mapping"));
                return Vec::new();
            }
        };
        let mut words = Vec::new();
        for node in nodes {
            match node.text() {
                Some(text) => words.push(text.clone()),
                None => self.fault(node, eco_format!("`{key}` is a list of texts: this is {}", node.what())),
            }
        }
        words
    }

    /// Reads a mapping of texts.
    fn reasons(&mut self, parent: &Node, key: &str) -> Vec<(EcoString, Node, EcoString)> {
        let Some(node) = parent.get(key) else { return Vec::new() };
        let Some(entries) = node.entries() else {
            self.fault(node, eco_format!("`{key}` is a mapping to reasons, not {}", node.what()));
            return Vec::new();
        };
        let mut reasons = Vec::new();
        for (key, value) in entries {
            let name = key.text().cloned().unwrap_or_default();
            match value.text().filter(|why| !value.is_null() && !why.trim().is_empty()) {
                Some(why) => reasons.push((name, key.clone(), why.clone())),
                None => self.fault(value, eco_format!("`{name}` needs a reason, in words")),
            }
        }
        reasons
    }

    fn without(&mut self, root: &Node) -> Vec<(Unsupported, EcoString)> {
        let mut lacks = Vec::new();
        for (name, key, why) in self.reasons(root, "without") {
            match LACKS.iter().find(|(word, _)| *word == name) {
                Some((_, lack)) => lacks.push((*lack, why)),
                None => {
                    let words: Vec<&str> = LACKS.iter().map(|(word, _)| *word).collect();
                    self.fault(&key, eco_format!("`{name}` is not one of: {}", words.join(", ")));
                }
            }
        }
        lacks
    }

    fn sparing(&mut self, root: &Node) -> Vec<(EcoString, EcoString)> {
        let mut spared = Vec::new();
        for (name, key, why) in self.reasons(root, "sparing") {
            if self.knows(&name, &key) {
                spared.push((name, why));
            }
        }
        spared
    }

    fn names(&mut self, root: &Node) -> Option<EcoString> {
        let names = self.word(root, "names")?;
        if !names.contains("{}") && !names.contains("{hex}") {
            let node = root.get("names").unwrap_or(root);
            self.fault(node, "`names` has `{}` instead of a text, or `{hex}` for its bytes in hexadecimal digits");
        }
        Some(names)
    }

    fn specimens(&mut self, root: &Node) -> Vec<Sample> {
        let Some(node) = root.get("specimens") else {
            self.fault(root, "`specimens` is missing: at least two resources that may be created, changed and removed");
            return Vec::new();
        };
        let YamlKind::Sequence(nodes) = &node.kind else {
            self.fault(node, eco_format!("`specimens` is a list, not {}", node.what()));
            return Vec::new();
        };
        if nodes.len() < 2 {
            self.fault(node, "two `specimens` are needed at least: one has to leave the other alone");
        }
        nodes.iter().filter_map(|node| self.specimen(node, &OF_SPECIMENS, ValueRule::AreValid)).collect()
    }

    fn lasting(&mut self, node: &Node) -> Option<InterruptCase> {
        let keys: Vec<&'static str> = OF_SPECIMENS.into_iter().chain(["begun"]).collect();
        let specimen = self.specimen(node, &keys, ValueRule::AreValid)?;
        let begun = self.word(node, "begun");
        if begun.is_none() && node.get("begun").is_none() {
            self.fault(node, "`begun` is missing: a shell command that succeeds while the change runs");
        }
        Some(InterruptCase { specimen, begun: begun? })
    }

    fn specimen(&mut self, node: &Node, keys: &[&'static str], values: ValueRule) -> Option<Sample> {
        if node.entries().is_none() {
            self.fault(node, eco_format!("a resource is a mapping with `name` and `present`, not {}", node.what()));
            return None;
        }
        self.keys(node, keys);
        let mut specimen = self.named(node)?;
        if let Some(present) = node.get("present") {
            specimen = specimen.present(borrowed(&self.attributes(present, values)));
        }
        for changed in node.get("changed").into_iter().flat_map(each) {
            specimen = specimen.changed(borrowed(&self.attributes(changed, values)));
        }
        if let Some(absent) = node.get("absent") {
            specimen = specimen.absent(borrowed(&self.attributes(absent, values)));
        }
        Some(specimen)
    }

    fn named(&mut self, node: &Node) -> Option<Sample> {
        let namevars = self.schema.namevars().count();
        match node.get("name") {
            None => {
                self.fault(node, "the resource has no `name`");
                None
            }
            Some(name) if name.entries().is_some() && namevars > 1 => {
                Some(Sample::keyed(borrowed(&self.attributes(name, ValueRule::AreValid))))
            }
            Some(name) if namevars > 1 => {
                self.fault(name, "the type has several namevars: `name` is a mapping of all of them");
                None
            }
            Some(name) => match name.text() {
                Some(text) => Some(Sample::new(text.clone())),
                None => {
                    self.fault(name, eco_format!("`name` is a text, not {}", name.what()));
                    None
                }
            },
        }
    }

    fn attributes(&mut self, node: &Node, values: ValueRule) -> Attributes {
        let Some(entries) = node.entries() else {
            self.fault(node, eco_format!("it is a mapping of attributes, not {}", node.what()));
            return Attributes::new();
        };
        let mut attributes = Attributes::new();
        for (key, value) in entries {
            let name = key.text().cloned().unwrap_or_default();
            if self.knows(&name, key) {
                let found = self.value(&name, value, values);
                attributes.set(name, found);
            }
        }
        attributes
    }

    fn knows(&mut self, name: &str, key: &Node) -> bool {
        let is_open = self.schema.others.is_some();
        match self.schema.find(name) {
            Some(attribute) if attribute.behaviour == Behaviour::ReadOnly => {
                self.fault(key, eco_format!("`{name}` can only be read"));
                false
            }
            Some(_) => true,
            None if is_open => true,
            None => {
                let known = self.schema.attributes.iter().map(|attribute| attribute.name.as_str());
                let hint = nearest(name, known).map(|near| eco_format!("did you mean `{near}`?"));
                let type_name = &self.schema.name;
                self.faults.push(
                    Fault::new(key.at, eco_format!("the type {type_name} has no attribute `{name}`")).hint_if(hint),
                );
                false
            }
        }
    }

    fn value(&mut self, name: &str, node: &Node, values: ValueRule) -> Value {
        let Some(attribute) = self.schema.find(name) else { return node.value() };
        let value = attribute.data_type.sealed(node.value());
        if values == ValueRule::AreValid
            && let Err(mismatch) = attribute.data_type.check(&value)
        {
            let message = eco_format!("{name} {mismatch}");
            self.fault(node, message);
        }
        value
    }
}

/// Returns the nodes of a list. Another node counts as a list of itself.
fn each(node: &Node) -> &[Node] {
    match &node.kind {
        YamlKind::Sequence(nodes) => nodes,
        _ => std::slice::from_ref(node),
    }
}

fn borrowed(attributes: &Attributes) -> Vec<(&str, Value)> {
    attributes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
}
