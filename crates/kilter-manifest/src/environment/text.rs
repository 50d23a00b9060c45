//! Parses and evaluates texts with expressions.

use std::borrow::Cow;
use std::ops::Range;

use ecow::{EcoString, eco_format};
use kilter_model::Value;
use kilter_model::expr::{EvalError, Expr, ExprError, FactComparison, Lookup, Template};

use super::{Environment, REPORTED};
use crate::diagnostic::Diagnostic;
use crate::scalar_span::place;
use crate::text_scope::{Binding, Bound};
use crate::tree::View;

/// A parsed text, with `self` and `each` replaced.
pub(crate) struct ParsedText<P> {
    pub(crate) parsed: P,
    bound: Option<Bound>,
}

impl<P> ParsedText<P> {
    /// Returns true if a sensitive value that depends on outputs was inserted.
    pub(crate) fn is_sealed(&self) -> bool {
        self.bound.as_ref().is_some_and(|bound| bound.is_sealed)
    }

    /// Maps a range of the parsed text to the text as written.
    pub(crate) fn before(&self, at: Range<u32>) -> Range<u32> {
        self.bound.as_ref().map_or(at.clone(), |bound| bound.before(&at))
    }

    /// Moves an error to its position in the text as written.
    pub(crate) fn at(&self, error: EvalError) -> EvalError {
        match error {
            EvalError::Failed { message, at, hint } => EvalError::Failed { message, at: self.before(at), hint },
            unknown @ EvalError::Unknown(_) => unknown,
        }
    }
}

impl Environment<'_> {
    /// Parses a template and replaces `self` and `each` in it.
    pub(crate) fn template(&self, view: View<'_>) -> Option<ParsedText<Template>> {
        let text = view.text();
        let template = Template::parse(text);
        let template = template.map_err(|error| self.report_all_syntax(text, error, view)).ok()?;
        let scope = self.scope();
        let title = |title: &str| self.title(title, view);
        let bound = Binding::new(&scope, &title).template(&template, text);
        self.read(template, bound, view, Template::parse)
    }

    /// Parses the expression of a name in the value at `view`, and replaces `self` and `each` in it.
    ///
    /// # Errors
    /// All errors in it. Their ranges belong to `text`.
    pub(crate) fn named(&self, text: &str, view: View<'_>) -> Result<ParsedText<Template>, Vec<ExprError>> {
        let parsed = Template::parse(text).map_err(|error| vec![error])?;
        let scope = self.scope();
        let title = |title: &str| self.title(title, view);
        match Binding::new(&scope, &title).template(&parsed, text)? {
            None => Ok(ParsedText { parsed, bound: None }),
            Some(bound) => {
                let parsed = Template::parse(&bound.text).map_err(|error| vec![error])?;
                Ok(ParsedText { parsed, bound: Some(bound) })
            }
        }
    }

    /// Parses an expression and replaces `self` and `each` in it.
    fn expression(&self, view: View<'_>) -> Option<ParsedText<Expr>> {
        let text = view.text();
        let expr = match Expr::parse(text) {
            Ok(expr) => expr,
            Err(_) if text.contains("${") => {
                let problem = Diagnostic::new("`when` is an expression without `${…}`").at(view.span());
                self.report(problem.hint("write it without `${` and `}`"));
                return None;
            }
            Err(error) => {
                self.report_syntax(error, view);
                return None;
            }
        };
        let scope = self.scope();
        let title = |title: &str| self.title(title, view);
        let bound = Binding::new(&scope, &title).expression(&expr, text);
        self.read(expr, bound, view, Expr::parse)
    }

    /// Reports all syntax errors of a template, of which `error` is the first.
    fn report_all_syntax(&self, text: &str, error: ExprError, view: View<'_>) {
        let mut errors = Template::syntax_errors(text);
        if errors.is_empty() {
            errors.push(error);
        }
        errors.into_iter().for_each(|error| self.report_syntax(error, view));
    }

    fn read<P>(
        &self,
        parsed: P,
        bound: Result<Option<Bound>, Vec<ExprError>>,
        view: View<'_>,
        parse: impl Fn(&str) -> Result<P, ExprError>,
    ) -> Option<ParsedText<P>> {
        match bound {
            Ok(None) => Some(ParsedText { parsed, bound: None }),
            Ok(Some(bound)) => match parse(&bound.text) {
                Ok(parsed) => Some(ParsedText { parsed, bound: Some(bound) }),
                Err(error) => {
                    self.report_syntax(ExprError { at: bound.before(&error.at), ..error }, view);
                    None
                }
            },
            Err(errors) => {
                errors.into_iter().for_each(|error| self.report_syntax(error, view));
                None
            }
        }
    }

    /// Returns the title of a resource whose output is used. The title may contain `${…}`.
    fn title(&self, title: &str, view: View<'_>) -> Option<EcoString> {
        let scope = self.scope();
        let template = Template::parse(title).ok()?;
        let template = match Binding::new(&scope, &|_| None).template(&template, title) {
            Ok(None) => template,
            Ok(Some(bound)) => Template::parse(&bound.text).ok()?,
            Err(errors) => {
                for error in errors {
                    self.report(Diagnostic::new(error.message).at(view.span()).hint_if(error.hint));
                }
                return None;
            }
        };
        self.render(&template, view).and_then(|value| value.to_text())
    }

    /// Warns about a comparison of a fact with a text that never matches because of its case.
    pub(crate) fn check_comparison<P>(&self, read: &ParsedText<P>, compared: &FactComparison<'_>, view: View<'_>) {
        let FactComparison { path, text, at } = compared;
        let lower = text.to_lowercase();
        let found = self.known_fact(path);
        let found = found.as_ref().and_then(Value::as_str);
        let is_lower = self.inputs.facts.is_lower_case(path) && found.is_none_or(|found| found == found.to_lowercase());
        let (why, right) = match found {
            _ if is_lower && *text != lower => (eco_format!("its values are in lower case"), lower.as_str()),
            Some(found) if found != *text && found.to_lowercase() == lower => {
                (eco_format!("it is `{found}` here, and comparisons are exact"), found)
            }
            _ => return,
        };
        let at = read.before(at.clone());
        let message = eco_format!("the fact `{path}` never equals `{text}`: {why}");
        let warning = Diagnostic::new(message).at(place(view, at.start, at.end));
        self.warnings.borrow_mut().push(warning.hint(eco_format!("write \"{right}\"")));
    }

    /// Returns the value at a path of facts, if the fact has been read already.
    fn known_fact(&self, path: &str) -> Option<Value> {
        let mut names = path.split('.');
        let facts = self.facts.borrow();
        let Lookup::Found(fact) = facts.get(names.next()?)? else { return None };
        let found = names.try_fold(fact, |value, name| value.as_hash()?.get(name))?;
        (!found.holds_sensitive()).then(|| found.clone())
    }

    /// Reports a syntax error in a text with expressions.
    fn report_syntax(&self, error: ExprError, view: View<'_>) {
        let span = place(view, error.at.start, error.at.end);
        self.report(Diagnostic::new(error.message).at(span).hint_if(error.hint));
    }

    /// Reports a failed evaluation.
    fn report_eval(&self, error: EvalError, view: View<'_>) {
        match error {
            EvalError::Unknown(reason) if reason == REPORTED => {}
            EvalError::Unknown(reason) => {
                self.report(Diagnostic::new(eco_format!("the value is only known {reason}")).at(view.span()));
            }
            EvalError::Failed { message, at, hint } => {
                let span = place(view, at.start, at.end);
                self.report(Diagnostic::new(message).at(span).hint_if(hint));
            }
        }
    }

    /// Reports all errors of a parsed text.
    pub(crate) fn report_all<P>(&self, read: &ParsedText<P>, errors: Vec<EvalError>, view: View<'_>) {
        errors.into_iter().for_each(|error| self.report_eval(read.at(error), view));
    }

    /// Returns the value of a template without outputs; none if the evaluation failed.
    fn render(&self, template: &Template, view: View<'_>) -> Option<Value> {
        let report = |_| template.errors(self).into_iter().for_each(|error| self.report_eval(error, view));
        template.render(self).map_err(report).ok()
    }

    /// Returns the text of a scalar that may contain `${…}`. Borrows it if there is no expression.
    pub(crate) fn text<'v>(&self, view: View<'v>) -> Option<Cow<'v, str>> {
        if kilter_model::expr::is_plain(view.text()) {
            return Some(Cow::Borrowed(view.text()));
        }
        let template = self.template(view)?;
        let value = template.parsed.render(self);
        template.parsed.fact_comparisons(&mut |compared| self.check_comparison(&template, &compared, view));
        let value = value.map_err(|_| self.report_all(&template, template.parsed.errors(self), view)).ok()?;
        match value {
            Value::String(text) => Some(Cow::Owned(text.into())),
            Value::Sensitive(_) => {
                self.report(Diagnostic::new("a sensitive value has no place here").at(view.span()));
                None
            }
            other => {
                let message = eco_format!("expects a String value, got {}", other.kind());
                self.report(Diagnostic::new(message).at(view.span()));
                None
            }
        }
    }

    /// Evaluates a condition over variables and facts.
    pub(crate) fn condition(&self, view: View<'_>) -> Option<bool> {
        let expr = self.expression(view)?;
        let value = expr.parsed.eval(self);
        expr.parsed.fact_comparisons(&mut |compared| self.check_comparison(&expr, &compared, view));
        let value = value.map_err(|_| self.report_all(&expr, expr.parsed.errors(self), view)).ok()?;
        let truth = value.as_bool();
        if truth.is_none() {
            let message = eco_format!("`when` expects a Boolean value, got {}", value.kind());
            self.report(Diagnostic::new(message).at(view.span()).hint("compare the value: x == \"…\""));
        }
        truth
    }
}
