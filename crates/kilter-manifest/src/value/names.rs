//! Checks that the names in a template exist.

use ecow::{EcoString, eco_format};
use kilter_model::expr::{Lookup, Name, Scope, Template};
use kilter_model::{DataType, ResourceRef};

use super::Values;
use crate::diagnostic::{Diagnostic, choose};
use crate::environment::ParsedText;
use crate::output_types::Receiver;
use crate::scalar_span::place;
use crate::tree::View;

impl<'t> Values<'_, 't> {
    /// Checks the possible types of a template with outputs against the expected type.
    pub(super) fn check_type(&self, template: &Template, view: View<'t>, wanted: &DataType) {
        let (Some(index), Some(attribute), false) = (self.index, self.attribute, self.is_guess) else { return };
        // Outputs for composite resources are checked at the members that use them. A text is always a text.
        if self.is_early && !template.is_text() {
            return;
        }
        let sent = |reference: &ResourceRef, output: &str| {
            let found = index.find(reference.type_name.as_str(), reference.title.as_str());
            let output = found.and_then(|(_, schema)| schema?.find_output(output));
            output.map_or(DataType::Any, |output| output.data_type.clone())
        };
        let receiver = Receiver { attribute, wanted };
        if let Some(problem) = receiver.refuses(template, &template.data_type(&sent)) {
            self.environment.report(problem.at(view.span()));
        }
    }

    /// Reports unknown variables and facts in a template with outputs, unless it handles missing names.
    pub(super) fn check_names(&self, read: &ParsedText<Template>, view: View<'t>) {
        if ["has(", "default("].iter().any(|function| view.text().contains(function)) {
            return;
        }
        read.parsed.names(&mut |name, at| {
            let (what, found) = match name {
                Name::Var(name) => (eco_format!("variable `{name}`"), self.environment.var(name)),
                Name::Fact(name) => (eco_format!("fact `{name}`"), self.environment.fact(name)),
                Name::Own(_) | Name::Each(_) | Name::Output(..) => return,
            };
            if matches!(found, Lookup::Missing) {
                let at = read.before(at);
                let span = place(view, at.start, at.end);
                self.environment.report(Diagnostic::new(eco_format!("there is no {what}")).at(span));
            }
        });
    }

    /// Checks the outputs in a template against the resources and their types.
    pub(super) fn check_outputs(&self, read: &ParsedText<Template>, view: View<'t>) -> bool {
        let mut sound = true;
        read.parsed.names(&mut |name, at| {
            if let Name::Output(reference, output) = name {
                let at = read.before(at);
                let span = place(view, at.start, at.end);
                if let Some(problem) = self.check_output(reference, output) {
                    self.environment.report(problem.at(span));
                    sound = false;
                }
            }
        });
        sound
    }

    pub(super) fn check_output(&self, reference: &ResourceRef, output: &EcoString) -> Option<Diagnostic> {
        if self.is_early {
            return None;
        }
        let Some(index) = self.index else {
            let message = eco_format!("`{reference}` sends its outputs to attributes only");
            return Some(
                Diagnostic::new(message).hint("use it in the attribute itself; vars and conditions come first"),
            );
        };
        let Some((at, schema)) = index.find(reference.type_name.as_str(), reference.title.as_str()) else {
            return (self.environment.complete && !index.lacks_resources)
                .then(|| index.dangling(&reference.to_string()));
        };
        let schema = schema?;
        if at == self.asker {
            return Some(Diagnostic::new(eco_format!("`{reference}` refers to its own output")));
        }
        if schema.find_output(output).is_some() {
            return None;
        }
        let names: Vec<&str> = schema.outputs.iter().map(|output| output.name.as_str()).collect();
        let message = eco_format!("`{}` has no output `{output}`", schema.name);
        Some(Diagnostic::new(message).hint(match names.is_empty() {
            true => eco_format!("resources of the type `{}` send nothing", schema.name),
            false => choose(output, &names, "its outputs"),
        }))
    }
}
