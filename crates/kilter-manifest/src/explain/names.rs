//! Names in a value.

use ecow::{EcoString, eco_format};
use kilter_model::expr::{Expr, Name, Template};
use rustc_hash::FxHashSet;

use super::ExplainedValue;
use crate::jinja;
use crate::tree::{NodeKind, View};

/// Names in a value, each once.
#[derive(Default)]
pub(super) struct UsedNames {
    pub(super) seen: FxHashSet<EcoString>,
    pub(super) vars: Vec<EcoString>,
    pub(super) facts: Vec<EcoString>,
    pub(super) own: Vec<EcoString>,
    pub(super) each: Vec<EcoString>,
    pub(super) outputs: Vec<(EcoString, EcoString)>,
    /// Paths of templates, as written.
    pub(super) templates: Vec<EcoString>,
    /// Files of templates.
    pub(super) files: Vec<ExplainedValue>,
}

impl UsedNames {
    fn add(&mut self, root: &str, name: &str) {
        if !self.seen.insert(eco_format!("{root}.{name}")) {
            return;
        }
        match root {
            "vars" => self.vars.push(name.into()),
            "facts" => self.facts.push(name.into()),
            "self" => self.own.push(name.into()),
            _ => self.each.push(name.into()),
        }
    }

    pub(super) fn read(&mut self, view: View<'_>, depth: u32) {
        if depth > 100 {
            return;
        }
        match view.kind() {
            NodeKind::Sequence => view.elements().for_each(|element| self.read(element, depth + 1)),
            NodeKind::Mapping => view.entries().for_each(|(key, value)| {
                self.read_text(key.text());
                match key.text() {
                    "template" if value.is_scalar() && depth < 2 => {
                        self.templates.push(value.text().into());
                        self.read_text(value.text());
                    }
                    "inline" if depth > 0 => {
                        let included = self.read_template(value.text());
                        self.templates.extend(included);
                    }
                    _ => self.read(value, depth + 1),
                }
            }),
            _ => self.read_text(view.text()),
        }
    }

    fn read_text(&mut self, text: &str) {
        let Ok(template) = Template::parse(text) else { return };
        template.names(&mut |name, _| self.add_name(name));
    }

    pub(super) fn read_condition(&mut self, text: &str) {
        let Ok(condition) = Expr::parse(text) else { return };
        condition.names(&mut |name, _| self.add_name(name));
    }

    fn add_name(&mut self, name: Name<'_>) {
        match name {
            Name::Var(name) => self.add("vars", name),
            Name::Fact(name) => self.add("facts", name),
            Name::Own(name) => self.add("self", name),
            Name::Each(name) => self.add("each", name),
            Name::Output(reference, output) => self.add_output(&reference.to_string(), output),
        }
    }

    /// Adds the names in a template. Returns the names of the templates that it includes.
    pub(super) fn read_template(&mut self, text: &str) -> Vec<EcoString> {
        let Ok(names) = jinja::read(text, false) else { return Vec::new() };
        for used in &names.used {
            match (used.root.as_str(), used.steps.as_slice()) {
                (root @ ("vars" | "facts" | "self" | "each"), [name, ..]) => self.add(root, name),
                (root, [title, output, ..]) if names.assigned.iter().all(|(name, _)| name != root) => {
                    self.add_output(&format!("{root}[{title}]"), output);
                }
                _ => {}
            }
        }
        names.templates.into_iter().filter_map(|template| template.name).collect()
    }

    fn add_output(&mut self, reference: &str, output: &str) {
        if self.seen.insert(eco_format!("{reference}.{output}")) {
            self.outputs.push((reference.into(), output.into()));
        }
    }
}
