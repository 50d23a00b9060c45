//! Variables and facts, each worked out when something first asks for it.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use ecow::{EcoString, eco_format};
use kilter_model::expr::{EvalError, Expr, ExprError, Lookup, Scope, Template};
use kilter_model::{DataType, ResourceRef, Span, Value};
use rustc_hash::FxHashMap;

use crate::compile::Inputs;
use crate::diagnostic::Diagnostic;
use crate::load::Loaded;
use crate::offsets::place;
use crate::tree::View;
use crate::value::{Built, Values};

/// The reason that stands for "a problem was reported already": what follows from it is not told.
const REPORTED: &str = "\u{0}reported";

/// How deep variables may refer to each other.
const MAX_DEPTH: usize = 64;

/// How many nodes the value of a variable may have.
const MAX_WEIGHT: usize = 100_000;

pub(crate) struct Environment<'t> {
    pub(crate) inputs: Inputs<'t>,
    vars: FxHashMap<EcoString, Slot<'t>>,
    /// The names of the variables in the order in which they were first set.
    names: Vec<EcoString>,
    facts: RefCell<FxHashMap<EcoString, Lookup>>,
    busy: RefCell<Vec<EcoString>>,
    problems: RefCell<Vec<Diagnostic>>,
    secrets: RefCell<Vec<Span>>,
    /// How many nodes may still become values.
    budget: Cell<usize>,
    /// Whether secrets are fetched.
    fetches: Cell<bool>,
    /// Whether all of the manifest could be read.
    pub(crate) complete: bool,
}

struct Slot<'t> {
    written: Option<(View<'t>, View<'t>)>,
    state: RefCell<State>,
}

enum State {
    Waiting,
    Busy,
    Known(Value),
    Broken,
}

impl<'t> Environment<'t> {
    pub(crate) fn new(inputs: Inputs<'t>, loaded: &'t Loaded, problems: Vec<Diagnostic>) -> Environment<'t> {
        let mut vars: FxHashMap<EcoString, Slot<'t>> = FxHashMap::default();
        let mut names = Vec::new();
        let mut set = |name: EcoString, slot: Slot<'t>| {
            if vars.insert(name.clone(), slot).is_none() {
                names.push(name);
            }
        };
        for (key, value) in loaded.sections("vars").flat_map(View::entries) {
            let slot = Slot { written: Some((key, value)), state: RefCell::new(State::Waiting) };
            set(key.text().into(), slot);
        }
        for (name, value) in inputs.overrides {
            set(name.clone(), Slot { written: None, state: RefCell::new(State::Known(value.clone())) });
        }
        let budget = loaded.size().saturating_mul(2).saturating_add(100_000);
        Environment {
            inputs,
            vars,
            names,
            facts: RefCell::default(),
            busy: RefCell::default(),
            problems: RefCell::new(problems),
            secrets: RefCell::default(),
            budget: Cell::new(budget),
            fetches: Cell::new(true),
            complete: loaded.complete,
        }
    }

    /// Works out the variables that nothing has asked for, so that mistakes in them are told too.
    /// Their secrets are not fetched: no command is run for nothing.
    pub(crate) fn evaluate_rest(&self) {
        self.fetches.set(false);
        for name in &self.names {
            self.var(name);
        }
    }

    /// Whether a secret that is come by is to be fetched.
    pub(crate) fn fetches(&self) -> bool {
        self.fetches.get()
    }

    /// The variables that are known and sensitive.
    pub(crate) fn sensitive_vars(&self) -> Vec<Value> {
        let known = |slot: &Slot<'_>| match &*slot.state.borrow() {
            State::Known(value) if value.holds_sensitive() => Some(value.clone()),
            _ => None,
        };
        self.vars.values().filter_map(known).collect()
    }

    pub(crate) fn finish(self) -> (Vec<Diagnostic>, Vec<Span>) {
        (self.problems.into_inner(), self.secrets.into_inner())
    }

    pub(crate) fn report(&self, problem: Diagnostic) {
        self.problems.borrow_mut().push(problem);
    }

    /// Remembers that a secret is written there.
    pub(crate) fn hide(&self, span: Span) {
        self.secrets.borrow_mut().push(span);
    }

    /// Whether one more node may become a value: aliases can stand for more than fits.
    pub(crate) fn spend(&self, view: View<'_>) -> bool {
        let left = self.budget.get();
        if left == 1 || view.tree().is_exhausted() && left > 0 {
            self.report(Diagnostic::new("aliases and merge keys add up to too much").at(view.span()));
            self.budget.set(0);
            return false;
        }
        self.budget.set(left.saturating_sub(1));
        left > 0
    }

    /// Reports that a text with expressions is not one.
    pub(crate) fn report_syntax(&self, error: ExprError, view: View<'_>) {
        let span = place(view, error.at.start, error.at.end);
        self.report(Diagnostic::new(error.message).at(span).hint_if(error.hint));
    }

    /// Reports that an expression has no value.
    pub(crate) fn report_eval(&self, error: EvalError, view: View<'_>) {
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

    /// The value of a template that may not ask for outputs; none when it has none.
    pub(crate) fn render(&self, template: &Template, view: View<'_>) -> Option<Value> {
        template.render(self).map_err(|error| self.report_eval(error, view)).ok()
    }

    /// The text of a scalar in which `${…}` may stand; borrowed where none does.
    pub(crate) fn text<'v>(&self, view: View<'v>) -> Option<Cow<'v, str>> {
        if kilter_model::expr::is_plain(view.text()) {
            return Some(Cow::Borrowed(view.text()));
        }
        let template = Template::parse(view.text()).map_err(|error| self.report_syntax(error, view)).ok()?;
        let value = self.render(&template, view)?;
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

    /// The truth of a condition over vars and facts.
    pub(crate) fn condition(&self, view: View<'_>) -> Option<bool> {
        let expr = match Expr::parse(view.text()) {
            Ok(expr) => expr,
            Err(_) if view.text().contains("${") => {
                let problem = Diagnostic::new("`when` is an expression by itself").at(view.span());
                self.report(problem.hint("write it without `${` and `}`"));
                return None;
            }
            Err(error) => {
                self.report_syntax(error, view);
                return None;
            }
        };
        let value = expr.eval(self).map_err(|error| self.report_eval(error, view)).ok()?;
        let truth = value.as_bool();
        if truth.is_none() {
            let message = eco_format!("`when` expects a Boolean value, got {}", value.kind());
            self.report(Diagnostic::new(message).at(view.span()).hint("compare the value: x == \"…\""));
        }
        truth
    }

    fn work_out(&self, name: &EcoString, slot: &Slot<'t>) -> Lookup {
        let Some((key, view)) = slot.written else { return Lookup::Missing };
        if self.busy.borrow().len() >= MAX_DEPTH {
            let message = eco_format!("variables refer to each other more than {MAX_DEPTH} levels deep");
            self.report(Diagnostic::new(message).at(key.span()));
            *slot.state.borrow_mut() = State::Broken;
            return Lookup::Unknown(REPORTED.into());
        }
        *slot.state.borrow_mut() = State::Busy;
        self.busy.borrow_mut().push(name.clone());
        let built = Values::new(self).build(view, &DataType::Any);
        self.busy.borrow_mut().pop();
        // A cycle has been reported and marked on the way.
        let broken = matches!(*slot.state.borrow(), State::Broken);
        let state = match built {
            Built::Value(value) if !broken && self.check_weight(&value, view) => State::Known(value),
            _ => State::Broken,
        };
        *slot.state.borrow_mut() = state;
        slot.state.borrow().lookup()
    }

    fn check_weight(&self, value: &Value, view: View<'_>) -> bool {
        let mut left = MAX_WEIGHT;
        let fits = weigh(value, &mut left);
        if !fits {
            self.report(Diagnostic::new("the value becomes too large").at(view.span()));
        }
        fits
    }

    fn report_cycle(&self, name: &EcoString, slot: &Slot<'t>) {
        let busy = self.busy.borrow();
        let first = busy.iter().position(|other| other == name).unwrap_or(0);
        let way: Vec<&str> = busy[first..].iter().map(EcoString::as_str).collect();
        for name in &busy[first..] {
            if let Some(slot) = self.vars.get(name) {
                *slot.state.borrow_mut() = State::Broken;
            }
        }
        let message = eco_format!("the variable `{name}` refers to itself: {} -> {name}", way.join(" -> "));
        let span = slot.written.map(|(key, _)| key.span());
        let problem = Diagnostic::new(message);
        self.report(match span {
            Some(span) => problem.at(span),
            None => problem,
        });
    }
}

impl State {
    fn lookup(&self) -> Lookup {
        match self {
            State::Known(value) => Lookup::Found(value.clone()),
            State::Broken | State::Busy | State::Waiting => Lookup::Unknown(REPORTED.into()),
        }
    }
}

/// Counts the nodes of a value; whether they are no more than `left`.
fn weigh(value: &Value, left: &mut usize) -> bool {
    if *left == 0 {
        return false;
    }
    *left -= 1;
    match value {
        Value::Array(values) => values.iter().all(|value| weigh(value, left)),
        Value::Hash(entries) => entries.values().all(|value| weigh(value, left)),
        Value::Sensitive(inner) => weigh(inner, left),
        _ => true,
    }
}

impl Scope for Environment<'_> {
    fn var(&self, name: &str) -> Lookup {
        let Some((name, slot)) = self.vars.get_key_value(name) else {
            // What could not be read may have set it.
            return if self.complete { Lookup::Missing } else { Lookup::Unknown(REPORTED.into()) };
        };
        let state = slot.state.borrow();
        match &*state {
            State::Known(value) => Lookup::Found(value.clone()),
            State::Broken => Lookup::Unknown(REPORTED.into()),
            State::Busy => {
                drop(state);
                self.report_cycle(name, slot);
                Lookup::Unknown(REPORTED.into())
            }
            State::Waiting => {
                drop(state);
                self.work_out(name, slot)
            }
        }
    }

    fn fact(&self, name: &str) -> Lookup {
        if let Some(known) = self.facts.borrow().get(name) {
            return known.clone();
        }
        let found = self.inputs.facts.fact(name);
        self.facts.borrow_mut().insert(name.into(), found.clone());
        found
    }

    fn output(&self, reference: &ResourceRef, _: &str) -> Lookup {
        Lookup::Unknown(eco_format!("after {reference} has run, and only attributes can wait for that"))
    }

    fn var_names(&self) -> Vec<EcoString> {
        self.names.clone()
    }

    fn fact_names(&self) -> Vec<EcoString> {
        self.inputs.facts.names()
    }
}
