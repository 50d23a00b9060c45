//! `self`: what a member of a composite resource says of that.
//!
//! A text with `self.port` in it is evaluated, kept and compared as one with a variable in that place, which
//! has a name that no manifest gives: `vars["site[blog].port"]`. So whatever is known of variables holds of it, in
//! a run and in a plan too. What waits for outputs is put in its place as it was written.

use ecow::{EcoString, eco_format};
use kilter_model::expr::{Expr, ExprError, Name, Template, is_plain, quoted};
use kilter_model::{ResourceRef, Span, TypeSchema};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::rc::Rc;

use crate::diagnostic::choose;
use crate::source::small;
use crate::tree::View;

/// A resource of a composite type, for those that it stands for.
pub(crate) struct Own<'t> {
    pub(crate) reference: ResourceRef,
    pub(crate) schema: &'t TypeSchema,
    /// Where it is declared.
    pub(crate) span: Span,
    /// What it says about how the engine treats its members.
    pub(crate) meta: Option<View<'t>>,
    /// The composite resource that it is itself a member of.
    pub(crate) owner: Option<Rc<Own<'t>>>,
    /// The attributes that wait for outputs, as expressions, and whether they are sensitive.
    pub(crate) deferred: FxHashMap<EcoString, (EcoString, bool)>,
}

impl Own<'_> {
    /// The name of the variable that stands for an attribute.
    pub(crate) fn variable(&self, attribute: &str) -> EcoString {
        eco_format!("{}.{attribute}", self.reference)
    }
}

/// A text in which nothing is left of `self`.
pub(crate) struct Bound {
    pub(crate) text: EcoString,
    /// Whether something sensitive was put in that waits for outputs.
    pub(crate) is_sealed: bool,
    /// What was put in: where it stood, and where it stands now.
    replaced: Vec<(Range<u32>, Range<u32>)>,
}

impl Bound {
    /// Where a place in the new text was in the old one.
    pub(crate) fn before(&self, at: &Range<u32>) -> Range<u32> {
        self.offset(at.start, false)..self.offset(at.end, true)
    }

    fn offset(&self, at: u32, is_end: bool) -> u32 {
        let behind = self.replaced.iter().rfind(|(_, new)| new.start <= at);
        match behind {
            None => at,
            Some((old, new)) if at < new.end || at == new.end && is_end => {
                if is_end && at > new.start {
                    old.end
                } else {
                    old.start
                }
            }
            Some((old, new)) => old.end + (at - new.end),
        }
    }
}

/// The parts of a text that are to be replaced.
pub(crate) struct Binding<'a, 't> {
    own: Option<&'a Own<'t>>,
    /// The value of a title in which there is `${…}`.
    title: &'a dyn Fn(&str) -> Option<EcoString>,
    replacements: Vec<(Range<u32>, EcoString)>,
    is_sealed: bool,
    errors: Vec<ExprError>,
}

impl<'a, 't> Binding<'a, 't> {
    pub(crate) fn new(own: Option<&'a Own<'t>>, title: &'a dyn Fn(&str) -> Option<EcoString>) -> Binding<'a, 't> {
        Binding { own, title, replacements: Vec::new(), is_sealed: false, errors: Vec::new() }
    }

    /// The text of a template as it is to be read; none if that is as it is written.
    ///
    /// # Errors
    /// When it names what there is not.
    pub(crate) fn template(mut self, template: &Template, text: &str) -> Result<Option<Bound>, Vec<ExprError>> {
        template.names(&mut |name, at| self.see(name, at));
        self.bound(text)
    }

    /// The same for an expression.
    ///
    /// # Errors
    /// When it names what there is not.
    pub(crate) fn expression(mut self, expr: &Expr, text: &str) -> Result<Option<Bound>, Vec<ExprError>> {
        expr.names(&mut |name, at| self.see(name, at));
        self.bound(text)
    }

    fn see(&mut self, name: Name<'_>, at: Range<u32>) {
        match name {
            Name::Own(name) => {
                let Some(own) = self.own else { return };
                if own.schema.find(name).is_none() {
                    let known: Vec<&str> = own.schema.attributes.iter().map(|a| a.name.as_str()).collect();
                    let message = eco_format!("`{}` has no attribute `{name}`", own.schema.name);
                    let hint = Some(choose(name, &known, "its attributes"));
                    self.errors.push(ExprError { message, at, hint });
                    return;
                }
                let text = match own.deferred.get(name) {
                    Some((expression, sealed)) => {
                        self.is_sealed |= sealed;
                        // `has()` takes names, and members of what there is.
                        eco_format!("{{\"given\": ({expression})}}.given")
                    }
                    None => eco_format!("vars[{}]", quoted(&own.variable(name))),
                };
                self.replacements.push((at, text));
            }
            Name::Output(reference, output) if !is_plain(reference.title.as_str()) => {
                let Some(title) = (self.title)(reference.title.as_str()) else { return };
                if is_balanced(&title) {
                    self.replacements.push((at, eco_format!("{}[{title}].{output}", reference.type_name)));
                } else {
                    let message =
                        eco_format!("outputs cannot be asked of a resource whose title has odd brackets: `{title}`");
                    let hint = Some("give it another title, and this one to the attribute that names it".into());
                    self.errors.push(ExprError { message, at, hint });
                }
            }
            _ => {}
        }
    }

    fn bound(mut self, text: &str) -> Result<Option<Bound>, Vec<ExprError>> {
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        if self.replacements.is_empty() {
            return Ok(None);
        }
        self.replacements.sort_by_key(|(at, _)| at.start);
        let mut bound = Bound { text: EcoString::new(), is_sealed: self.is_sealed, replaced: Vec::new() };
        let mut from = 0;
        for (at, new) in self.replacements {
            bound.text.push_str(&text[from..at.start as usize]);
            let start = small(bound.text.len());
            bound.text.push_str(&new);
            bound.replaced.push((at.clone(), start..small(bound.text.len())));
            from = at.end as usize;
        }
        bound.text.push_str(&text[from..]);
        Ok(Some(bound))
    }
}

/// Whether a title in brackets ends where the last of them closes: else it would be read as something else.
fn is_balanced(title: &str) -> bool {
    let mut depth = 0_i32;
    let ends_early = title.chars().any(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        depth < 0
    });
    !ends_early && depth == 0
}
