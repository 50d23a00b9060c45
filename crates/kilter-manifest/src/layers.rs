//! Layered data: a hierarchy of files that facts choose, and the rules that merge their values.

use ecow::{EcoString, eco_format};
use kilter_model::expr::{EvalError, ExprError, Lookup, Scope, Template};
use kilter_model::{ResourceRef, Span};

use crate::diagnostic::{Diagnostic, choose};
use crate::inputs::Inputs;
use crate::merge::MergeRule;
use crate::scalar_span::place;
use crate::tree::{NodeKind, Tree, View};

/// Keys of `data`.
const KEYS: [&str; 2] = ["hierarchy", "merge"];

/// Key of Hiera for merge rules in a data file.
const LOOKUP_OPTIONS: &str = "lookup_options";

/// Example of a hierarchy, for hints.
const FORM: &str = "such as hierarchy: [\"hosts/${facts.networking.hostname}.yaml\", common.yaml]";

/// The section `data` of a manifest.
pub(crate) struct Declaration {
    pub(crate) layers: Vec<DeclaredLayer>,
    merge: Vec<(EcoString, MergeRule, Span)>,
}

/// An entry of `hierarchy`.
pub(crate) struct DeclaredLayer {
    /// The path, with the values of its expressions.
    pub(crate) path: EcoString,
    pub(crate) span: Span,
    pub(crate) is_required: bool,
}

/// A hierarchy with its files.
pub(crate) struct Hierarchy {
    /// Highest priority first.
    pub(crate) layers: Vec<Layer>,
    merge: Vec<(EcoString, MergeRule, Span)>,
}

/// A file of a hierarchy.
pub(crate) struct Layer {
    pub(crate) declared: DeclaredLayer,
    /// The file; none if it does not exist.
    pub(crate) tree: Option<Tree>,
}

impl Hierarchy {
    pub(crate) fn new(declaration: Declaration) -> Hierarchy {
        Hierarchy { layers: Vec::new(), merge: declaration.merge }
    }

    /// Returns the rule of a key, and its place if it is declared.
    pub(crate) fn rule(&self, key: &str) -> (MergeRule, Option<Span>) {
        let found = self.merge.iter().find(|(name, ..)| name == key);
        found.map_or((MergeRule::First, None), |(_, rule, span)| (*rule, Some(*span)))
    }

    /// Returns the entries of a layer.
    pub(crate) fn entries(layer: &Layer) -> impl Iterator<Item = (View<'_>, View<'_>)> {
        layer.tree.iter().flat_map(Tree::roots).flat_map(View::entries)
    }

    /// Returns warnings about merge rules without effect whose key resembles another one.
    pub(crate) fn warnings(&self) -> Vec<Diagnostic> {
        let keys: Vec<&str> = self.layers.iter().flat_map(Hierarchy::entries).map(|(key, _)| key.text()).collect();
        let unknown = self.merge.iter().filter(|(name, ..)| !keys.contains(&name.as_str()));
        let warning = |(name, _, span): &(EcoString, MergeRule, Span)| {
            let near = kilter_model::suggest::nearest(name, keys.iter().copied())?;
            let message = eco_format!("no layer has the key `{name}` of this merge rule");
            Some(Diagnostic::new(message).at(*span).hint(eco_format!("did you mean `{near}`?")))
        };
        unknown.filter_map(warning).collect()
    }
}

/// Reads the section `data`. Reports its problems; a wrong layer is left out.
pub(crate) fn read(view: View<'_>, inputs: &Inputs<'_>, report: &mut dyn FnMut(Diagnostic)) -> Declaration {
    let mut declaration = Declaration { layers: Vec::new(), merge: Vec::new() };
    if !view.is_mapping() {
        report(Diagnostic::new("`data` is a mapping").at(view.span()).hint(FORM));
        return declaration;
    }
    for (key, value) in view.entries() {
        match key.text() {
            "hierarchy" if value.kind() == NodeKind::Sequence => {
                let read = value.elements().filter_map(|entry| layer(entry, inputs, report));
                declaration.layers.extend(read.collect::<Vec<_>>());
            }
            "hierarchy" => report(Diagnostic::new("`hierarchy` is a list of paths").at(value.span()).hint(FORM)),
            "merge" if value.is_mapping() => {
                for (name, rule) in value.entries() {
                    match MergeRule::parse(rule.text()) {
                        Some(rule) => declaration.merge.push((name.text().into(), rule, name.span())),
                        None => {
                            let message = eco_format!("`{}` is no merge rule", rule.text());
                            report(Diagnostic::new(message).at(rule.span()).hint(choose(
                                rule.text(),
                                &MergeRule::NAMES,
                                "merge rules",
                            )));
                        }
                    }
                }
            }
            "merge" => {
                let problem = Diagnostic::new("`merge` is a mapping of keys to merge rules").at(value.span());
                report(problem.hint("such as merge: { ntp_servers: unique, users: deep }"));
            }
            other => {
                let message = eco_format!("unknown key `{other}` of `data`");
                report(Diagnostic::new(message).at(key.span()).hint(choose(other, &KEYS, "its keys")));
            }
        }
    }
    if view.get("hierarchy").is_none() {
        report(Diagnostic::new("`data` has no `hierarchy`").at(view.span()).hint(FORM));
    }
    declaration
}

fn layer(entry: View<'_>, inputs: &Inputs<'_>, report: &mut dyn FnMut(Diagnostic)) -> Option<DeclaredLayer> {
    let (mut path, mut is_required) = (entry.is_scalar().then_some(entry), false);
    for (key, value) in entry.entries() {
        match (key.text(), value.text()) {
            ("path", _) => path = Some(value),
            ("required", "true") => is_required = true,
            ("required", "false") => {}
            ("required", _) => report(Diagnostic::new("`required` is true or false").at(value.span())),
            (other, _) => {
                let message = eco_format!("unknown key `{other}` of a layer");
                report(Diagnostic::new(message).at(key.span()).hint(choose(other, &["path", "required"], "its keys")));
            }
        }
    }
    let Some(view) = path.filter(|path| path.is_scalar() && !path.is_null()) else {
        let hint = "such as common.yaml or { path: common.yaml, required: true }";
        report(Diagnostic::new("a layer is the path of a file").at(entry.span()).hint(hint));
        return None;
    };
    let path = evaluated_path(view, inputs, report)?;
    Some(DeclaredLayer { path, span: view.span(), is_required })
}

/// Returns a path, whose expressions may use facts and the variables of the command line.
pub(crate) fn evaluated_path(
    view: View<'_>,
    inputs: &Inputs<'_>,
    report: &mut dyn FnMut(Diagnostic),
) -> Option<EcoString> {
    let at = |range: std::ops::Range<u32>| place(view, range.start, range.end);
    let template = match Template::parse(view.text()) {
        Ok(template) => template,
        Err(ExprError { message, at: range, hint }) => {
            report(Diagnostic::new(message).at(at(range)).hint_if(hint));
            return None;
        }
    };
    let scope = PathScope { inputs };
    let value = match template.render(&scope) {
        Ok(value) => value,
        Err(_) => {
            for error in template.errors(&scope) {
                report(match error {
                    EvalError::Failed { message, at: range, hint } => {
                        Diagnostic::new(message).at(at(range)).hint_if(hint)
                    }
                    EvalError::Unknown(why) => Diagnostic::new(why).at(view.span()),
                });
            }
            return None;
        }
    };
    match value.to_text() {
        Some(text) if !value.holds_sensitive() => Some(text),
        _ => {
            report(Diagnostic::new("a path is a text").at(view.span()));
            None
        }
    }
}

/// Facts and the variables of the command line.
struct PathScope<'a> {
    inputs: &'a Inputs<'a>,
}

impl Scope for PathScope<'_> {
    fn var(&self, name: &str) -> Lookup {
        match self.inputs.overrides.iter().rfind(|(known, _)| known == name) {
            Some((_, value)) => Lookup::Found(value.clone()),
            None => Lookup::Unknown(eco_format!(
                "a path may use facts and variables of the command line, and `{name}` is none of these"
            )),
        }
    }

    fn fact(&self, name: &str) -> Lookup {
        self.inputs.facts.fact(name)
    }

    fn output(&self, _: &ResourceRef, _: &str) -> Lookup {
        Lookup::Unknown("a path may use facts and variables of the command line, and no outputs".into())
    }

    fn var_names(&self) -> Vec<EcoString> {
        self.inputs.overrides.iter().map(|(name, _)| name.clone()).collect()
    }

    fn fact_names(&self) -> Vec<EcoString> {
        self.inputs.facts.names()
    }
}

/// Checks the form of a data file.
pub(crate) fn check(tree: &Tree, report: &mut dyn FnMut(Diagnostic)) {
    for root in tree.roots().filter(|root| !root.is_null()) {
        if !root.is_mapping() {
            let problem = Diagnostic::new("a data file is a mapping of names to values").at(root.span());
            report(problem.hint("write NAME: VALUE in each line"));
        }
        if let Some((key, _)) = root.entries().find(|(key, _)| key.text() == LOOKUP_OPTIONS) {
            let problem = Diagnostic::new("merge rules belong to the manifest, not to a data file").at(key.span());
            report(problem.hint("write data: { merge: { NAME: unique } } in the manifest"));
        }
    }
}
