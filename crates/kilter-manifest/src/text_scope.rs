//! Names that depend on the place of a text: `self` in a member of a composite resource, `each` in a resource with
//! `for_each`.
//!
//! A text with `self.port` is treated as a text with a variable in that position. The variable has a name that no
//! manifest can define: `vars["site[blog].port"]`. So all rules for variables apply, in a run and in a plan. A value
//! that waits for outputs is inserted as written.

use ecow::{EcoString, eco_format};
use kilter_model::expr::{Expr, ExprError, Name, Template, is_plain, quoted};
use kilter_model::{ResourceRef, Span, TypeSchema};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::rc::Rc;

use crate::diagnostic::choose;
use crate::source::small;
use crate::tree::View;

/// A composite resource, as its members see it.
pub(crate) struct SelfScope<'t> {
    pub(crate) reference: ResourceRef,
    pub(crate) schema: &'t TypeSchema,
    /// Position of its declaration.
    pub(crate) span: Span,
    /// Metaparameters for its members.
    pub(crate) meta: Option<View<'t>>,
    /// Scope of its declaration.
    pub(crate) outer: TextScope<'t>,
    /// Attributes that wait for outputs, as expressions. The flag is true for sensitive ones.
    pub(crate) deferred: FxHashMap<EcoString, (EcoString, bool)>,
}

impl SelfScope<'_> {
    /// Returns the name of the variable that represents an attribute.
    pub(crate) fn variable(&self, attribute: &str) -> EcoString {
        eco_format!("{}.{attribute}", self.reference)
    }
}

/// An element of `for_each`, as the texts of its resource see it.
pub(crate) struct EachElement {
    /// Prefix of the variables that represent its key and its value.
    pub(crate) variable: EcoString,
    /// Position of the element, or of `for_each` if the elements come from an expression.
    pub(crate) span: Span,
    /// Its key or number, for messages.
    pub(crate) label: EcoString,
    /// True for an element of `titles`.
    pub(crate) is_title: bool,
}

/// Parts of an element.
const EACH: [&str; 2] = ["key", "value"];

impl EachElement {
    /// Returns the name of the variable that represents a part.
    pub(crate) fn variable(&self, part: &str) -> EcoString {
        eco_format!("{}.{part}", self.variable)
    }
}

/// Values of `self` and `each` in a text.
#[derive(Clone, Default)]
pub(crate) struct TextScope<'t> {
    /// Composite resource that contains the text.
    pub(crate) own: Option<Rc<SelfScope<'t>>>,
    /// Element of `for_each` that the text is evaluated for.
    pub(crate) each: Option<Rc<EachElement>>,
}

impl TextScope<'_> {
    /// Returns true if neither name has a meaning.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_none() && self.each.is_none()
    }
}

/// A text in which `self` and `each` have been replaced.
pub(crate) struct Bound {
    pub(crate) text: EcoString,
    /// True if a sensitive value that depends on outputs was inserted.
    pub(crate) is_sealed: bool,
    /// Replaced ranges: in the old text, and in the new text.
    replaced: Vec<(Range<u32>, Range<u32>)>,
}

impl Bound {
    /// Maps a range of the new text to the old text.
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

/// Collects the replacements in a text.
pub(crate) struct Binding<'a, 't> {
    scope: &'a TextScope<'t>,
    /// Evaluates a title with `${…}`.
    title: &'a dyn Fn(&str) -> Option<EcoString>,
    replacements: Vec<(Range<u32>, EcoString)>,
    is_sealed: bool,
    errors: Vec<ExprError>,
}

impl<'a, 't> Binding<'a, 't> {
    pub(crate) fn new(scope: &'a TextScope<'t>, title: &'a dyn Fn(&str) -> Option<EcoString>) -> Binding<'a, 't> {
        Binding { scope, title, replacements: Vec::new(), is_sealed: false, errors: Vec::new() }
    }

    /// Replaces `self` and `each` in a template; returns none if there is no change.
    ///
    /// # Errors
    /// If it names an unknown attribute or resource.
    pub(crate) fn template(mut self, template: &Template, text: &str) -> Result<Option<Bound>, Vec<ExprError>> {
        template.names(&mut |name, at| self.see(name, at));
        self.bound(text)
    }

    /// Replaces `self` and `each` in an expression; returns none if there is no change.
    ///
    /// # Errors
    /// If it names an unknown attribute or resource.
    pub(crate) fn expression(mut self, expr: &Expr, text: &str) -> Result<Option<Bound>, Vec<ExprError>> {
        expr.names(&mut |name, at| self.see(name, at));
        self.bound(text)
    }

    fn see(&mut self, name: Name<'_>, at: Range<u32>) {
        match name {
            Name::Own(name) => {
                let Some(own) = self.scope.own.as_deref() else { return };
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
                        // `has()` accepts only names and members.
                        eco_format!("{{\"given\": ({expression})}}.given")
                    }
                    None => eco_format!("vars[{}]", quoted(&own.variable(name))),
                };
                self.replacements.push((at, text));
            }
            Name::Each(name) => {
                let Some(each) = self.scope.each.as_deref() else { return };
                if !EACH.contains(&name.as_str()) {
                    let message = eco_format!("an element of `for_each` has no `{name}`");
                    let hint = Some(match kilter_model::suggest::nearest(name, EACH) {
                        Some(near) => eco_format!("did you mean `each.{near}`?"),
                        None => eco_format!(
                            "it has `each.key` and `each.value`; an entry of its value is each.value.{name}"
                        ),
                    });
                    self.errors.push(ExprError { message, at, hint });
                    return;
                }
                let text = eco_format!("vars[{}]", quoted(&each.variable(name)));
                self.replacements.push((at, text));
            }
            Name::Output(reference, output) if !is_plain(reference.title.as_str()) => {
                let Some(title) = (self.title)(reference.title.as_str()) else { return };
                if is_balanced(&title) {
                    self.replacements.push((at, eco_format!("{}[{title}].{output}", reference.type_name)));
                } else {
                    let message = eco_format!(
                        "an expression cannot refer to a resource whose title has unbalanced brackets: `{title}`"
                    );
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

/// Returns true if the brackets in a title are balanced, so that the reference ends at the right bracket.
fn is_balanced(title: &str) -> bool {
    let mut depth = 0_i32;
    let ends_early = title.chars().any(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        depth < 0
    });
    !ends_early && depth == 0
}
