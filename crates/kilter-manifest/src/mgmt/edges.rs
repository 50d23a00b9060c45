//! Edges of a graph: each from one resource to another.

use ecow::{EcoString, eco_format};

use super::{GraphReader, is_list, kinds};
use crate::diagnostic::{Diagnostic, choose};
use crate::tree::View;

const KEYS: [&str; 4] = ["name", "from", "to", "notify"];

impl GraphReader {
    pub(super) fn edges(&mut self, edges: View<'_>) {
        if !is_list(edges) {
            let problem = Diagnostic::new("`edges` is a list").at(edges.span());
            return self.report(problem.hint("such as - {from: {kind: file, name: x}, to: {kind: exec, name: y}}"));
        }
        for edge in edges.elements() {
            self.edge(edge);
        }
    }

    fn edge(&mut self, edge: View<'_>) {
        if !edge.is_mapping() {
            return self.report(Diagnostic::new("an edge is a mapping").at(edge.span()));
        }
        for (key, _) in edge.entries().filter(|(key, _)| !KEYS.contains(&key.text())) {
            let problem = Diagnostic::new(eco_format!("an edge has no key `{}`", key.text())).at(key.span());
            self.report(problem.hint(choose(key.text(), &KEYS, "its keys")));
        }
        let notify = match edge.get("notify") {
            None => false,
            Some(notify) => super::fields::parse_bool(notify.text()).unwrap_or_else(|| {
                let problem = Diagnostic::new("`notify` is true or false").at(notify.span());
                self.report(problem);
                false
            }),
        };
        let (Some(first), Some(second)) = (self.end(edge, "from"), self.end(edge, "to")) else { return };
        if first == second {
            let problem = Diagnostic::new("an edge from a resource to itself").at(edge.span());
            return self.report(problem.hint("take it out"));
        }
        let receiver = &self.resources[second];
        // mgmt notifies only resources that react.
        let refreshes = notify && kinds::find(receiver.kind).is_some_and(|kind| kind.refreshes);
        let reference = receiver.reference.clone();
        let is_there = !receiver.is_broken;
        let at = edge.get("to").unwrap_or(edge).span();
        if notify && !refreshes {
            self.unmoved.entry(second).or_insert(at);
        }
        if is_there && refreshes && self.resources[second].kind == "svc" {
            // mgmt reloads a unit that supports it, and restarts other units.
            let service = &mut self.resources[second];
            if !service.attributes.iter().any(|attribute| attribute.name == "refresh") {
                service.imply("refresh", "reload");
            }
        }
        if is_there {
            self.resources[first].followers.push((reference, refreshes, at));
        }
    }

    /// Returns the resource at an end of an edge.
    fn end(&mut self, edge: View<'_>, which: &str) -> Option<usize> {
        let Some(end) = edge.get(which).filter(|end| end.is_mapping()) else {
            let at = edge.get(which).unwrap_or(edge).span();
            let problem = Diagnostic::new(eco_format!("an edge needs `{which}`")).at(at);
            self.report(problem.hint(eco_format!("such as {which}: {{kind: file, name: x}}")));
            return None;
        };
        for (key, _) in end.entries().filter(|(key, _)| !matches!(key.text(), "kind" | "name")) {
            let problem = Diagnostic::new(eco_format!("an end of an edge has no key `{}`", key.text())).at(key.span());
            self.report(problem.hint("its keys: kind, name"));
        }
        let text = |key: &str| end.get(key).filter(|view| view.is_scalar()).map(|view| view.text());
        let (kind, name) = (text("kind").unwrap_or_default().to_lowercase(), text("name").unwrap_or_default());
        let of_kind = || self.resources.iter().enumerate().filter(|(_, resource)| resource.kind == kind);
        if let Some((at, _)) = of_kind().find(|(_, resource)| resource.title == name) {
            return Some(at);
        }
        if self.unknown.iter().any(|unknown| *unknown == kind) {
            return None;
        }
        let known: Vec<EcoString> = of_kind().map(|(_, resource)| resource.title.clone()).collect();
        let near = kilter_model::suggest::nearest(name, known.iter().map(EcoString::as_str));
        let hint = near.map(|near| eco_format!("did you mean `{near}`?"));
        let problem = Diagnostic::new(eco_format!("the graph has no `{kind}` with the name `{name}`"));
        self.report(problem.at(end.get("name").unwrap_or(end).span()).hint_if(hint));
        None
    }
}
