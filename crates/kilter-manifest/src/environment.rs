//! Variables and facts, evaluated on first use.

mod files;
mod text;

use std::cell::{Cell, RefCell};

use ecow::{EcoString, eco_format};
use indexmap::IndexMap;
use kilter_model::expr::{Lookup, Scope};
use kilter_model::{ResourceRef, Span, Value};
use rustc_hash::FxHashMap;

use files::Files;
pub(crate) use text::ParsedText;

use crate::diagnostic::Diagnostic;
use crate::inputs::Inputs;
use crate::layers::Hierarchy;
use crate::load::Loaded;
use crate::merge::MergeRule;
use crate::mgmt::Terms;
use crate::source::{Source, Sources};
use crate::text_scope::TextScope;
use crate::tree::View;

/// Marks a value as unknown because of a problem that has been reported. Problems that follow from it are not
/// reported.
const REPORTED: &str = "\u{0}reported";

/// Maximum depth of references between variables.
const MAX_DEPTH: usize = 64;

/// Maximum number of nodes in the value of a variable.
const MAX_WEIGHT: usize = 100_000;

/// Converts the node of a variable to a value; none if it is invalid, which has been reported.
///
/// Values contain variables, and variables are values. The conversion is a layer above the environment, so the
/// environment gets it as a function.
type Convert<'t> = fn(&Environment<'t>, View<'t>) -> Option<Value>;

pub(crate) struct Environment<'t> {
    pub(crate) inputs: Inputs<'t>,
    convert: Convert<'t>,
    /// Terms of mgmt graphs.
    pub(crate) terms: &'t Terms,
    vars: FxHashMap<EcoString, LazyBinding<'t>>,
    /// Names of the variables in the order of their first definition.
    names: Vec<EcoString>,
    facts: RefCell<FxHashMap<EcoString, Lookup>>,
    busy: RefCell<Vec<EcoString>>,
    problems: RefCell<Vec<Diagnostic>>,
    /// True if a part was left out because of a problem. There is then at least one problem.
    is_broken: Cell<bool>,
    warnings: RefCell<Vec<Diagnostic>>,
    secrets: RefCell<Vec<Span>>,
    /// Number of nodes that may still be converted to values.
    budget: Cell<usize>,
    /// True if secrets are fetched.
    fetches: Cell<bool>,
    /// Meaning of `self` and `each` in the current resource.
    scope: RefCell<TextScope<'t>>,
    /// Attributes of composite resources and elements of `for_each`, by the variables that represent them.
    owned: RefCell<FxHashMap<EcoString, Lookup>>,
    /// True if the complete manifest was read.
    pub(crate) complete: bool,
    files: Files<'t>,
}

struct LazyBinding<'t> {
    /// Its key and its value; none if it is given from outside.
    written: Option<(View<'t>, View<'t>)>,
    /// Values of several layers, the highest first, instead of one.
    layers: Option<Box<MergedLayers<'t>>>,
    state: RefCell<BindingState>,
}

/// Values of a variable in several layers.
struct MergedLayers<'t> {
    rule: MergeRule,
    values: Vec<View<'t>>,
}

enum BindingState {
    Waiting,
    Busy,
    Known(Value),
    Broken,
}

impl<'t> Environment<'t> {
    pub(crate) fn new(
        inputs: Inputs<'t>,
        sources: &'t Sources,
        loaded: &'t Loaded,
        problems: Vec<Diagnostic>,
        convert: Convert<'t>,
    ) -> Environment<'t> {
        let mut vars: FxHashMap<EcoString, LazyBinding<'t>> = FxHashMap::default();
        let mut names = Vec::new();
        let mut set = |name: EcoString, slot: LazyBinding<'t>| {
            if vars.insert(name.clone(), slot).is_none() {
                names.push(name);
            }
        };
        for (key, value) in loaded.sections("vars").flat_map(View::entries) {
            set(key.text().into(), LazyBinding::written(key, value));
        }
        for (name, slot) in loaded.hierarchies.iter().flat_map(LazyBinding::of_layers) {
            set(name, slot);
        }
        for (name, value) in inputs.overrides {
            let state = RefCell::new(BindingState::Known(value.clone()));
            set(name.clone(), LazyBinding { written: None, layers: None, state });
        }
        let budget = loaded.size().saturating_mul(2).saturating_add(100_000);
        Environment {
            inputs,
            convert,
            terms: &loaded.terms,
            vars,
            names,
            facts: RefCell::default(),
            busy: RefCell::default(),
            problems: RefCell::new(problems),
            warnings: RefCell::default(),
            is_broken: Cell::new(false),
            secrets: RefCell::default(),
            budget: Cell::new(budget),
            // An incomplete manifest may lack the condition that keeps a secret's command from running.
            fetches: Cell::new(loaded.complete),
            scope: RefCell::default(),
            owned: RefCell::default(),
            complete: loaded.complete,
            files: Files::new(sources),
        }
    }

    /// Evaluates the variables that are never used, so that errors in them are reported. Does not fetch their
    /// secrets, to avoid running commands without need.
    pub(crate) fn evaluate_rest(&self) {
        self.fetches.set(false);
        for name in &self.names {
            self.var(name);
        }
    }

    /// Sets the scope of the next texts, and returns the previous one.
    pub(crate) fn within(&self, scope: TextScope<'t>) -> TextScope<'t> {
        self.scope.replace(scope)
    }

    /// Returns the scope of the current texts.
    pub(crate) fn scope(&self) -> TextScope<'t> {
        self.scope.borrow().clone()
    }

    /// Stores an attribute of a composite resource, or a part of an element of `for_each`.
    pub(crate) fn own(&self, variable: EcoString, value: Value) {
        self.owned.borrow_mut().insert(variable, Lookup::Found(value));
    }

    /// Marks an attribute of a composite resource as invalid. The problem has been reported.
    pub(crate) fn own_broken(&self, variable: EcoString) {
        self.is_broken.set(true);
        self.own_later(variable);
    }

    /// Marks an attribute of a composite resource as an output, known only during the run.
    pub(crate) fn own_later(&self, variable: EcoString) {
        self.owned.borrow_mut().insert(variable, Lookup::Unknown(REPORTED.into()));
    }

    /// Returns the number of reported problems.
    pub(crate) fn problem_count(&self) -> usize {
        self.problems.borrow().len()
    }

    /// Forgets all problems after the first `count`.
    pub(crate) fn forget_problems_after(&self, count: usize) {
        self.problems.borrow_mut().truncate(count);
    }

    /// Allows or forbids to fetch secrets; returns the previous state.
    pub(crate) fn allow_fetches(&self, is_allowed: bool) -> bool {
        self.fetches.replace(is_allowed)
    }

    /// Returns true if secrets are to be fetched.
    pub(crate) fn fetches(&self) -> bool {
        self.fetches.get()
    }

    /// Returns the sensitive values of all evaluated variables.
    pub(crate) fn sensitive_vars(&self) -> Vec<Value> {
        let known = |slot: &LazyBinding<'_>| match &*slot.state.borrow() {
            BindingState::Known(value) if value.holds_sensitive() => Some(value.clone()),
            _ => None,
        };
        self.vars.values().filter_map(known).collect()
    }

    /// Returns the warnings so far.
    pub(crate) fn take_warnings(&self) -> Vec<Diagnostic> {
        self.warnings.take()
    }

    /// Returns the problems, the positions of secrets, and the files that values name.
    pub(crate) fn finish(self) -> (Vec<Diagnostic>, Vec<Span>, Vec<Source>) {
        let mut problems = self.problems.into_inner();
        if problems.is_empty() && self.is_broken.get() {
            problems.push(Diagnostic::new("resources are missing without a reason: this is a defect of kilter"));
        }
        (problems, self.secrets.into_inner(), self.files.into_read())
    }

    pub(crate) fn report(&self, mut problem: Diagnostic) {
        let TextScope { own, each } = &*self.scope.borrow();
        if let Some(each) = each.as_deref().filter(|each| problem.span != Some(each.span)) {
            problem = problem.also(each.span, eco_format!("in the resource for `{}`", each.label));
        }
        if let Some(own) = own.as_deref().filter(|own| problem.span != Some(own.span)) {
            problem = problem.also(own.span, eco_format!("part of `{}`", own.reference));
        }
        self.problems.borrow_mut().push(problem);
    }

    /// Adds a warning.
    pub(crate) fn warn(&self, warning: Diagnostic) {
        self.warnings.borrow_mut().push(warning);
    }

    /// Records the position of a secret.
    pub(crate) fn hide(&self, span: Span) {
        self.secrets.borrow_mut().push(span);
    }

    /// Adds nodes to the budget, for the members of a composite resource.
    pub(crate) fn grant(&self, nodes: usize) {
        if self.budget.get() > 0 {
            self.budget.set(self.budget.get().saturating_add(nodes));
        }
    }

    /// Takes a node from the budget. Returns false if the budget is used up: aliases can stand for an unlimited
    /// number of nodes.
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

    fn work_out(&self, name: &EcoString, slot: &LazyBinding<'t>) -> Lookup {
        let Some((key, view)) = slot.written else { return Lookup::Missing };
        if self.busy.borrow().len() >= MAX_DEPTH {
            let message = eco_format!("variables refer to each other more than {MAX_DEPTH} levels deep");
            self.report(Diagnostic::new(message).at(key.span()));
            *slot.state.borrow_mut() = BindingState::Broken;
            return Lookup::Unknown(REPORTED.into());
        }
        *slot.state.borrow_mut() = BindingState::Busy;
        self.busy.borrow_mut().push(name.clone());
        // The value of a variable does not depend on the resource that uses it.
        let asker = self.within(TextScope::default());
        let value = match &slot.layers {
            None => (self.convert)(self, view),
            Some(layers) => self.merged(layers),
        };
        self.within(asker);
        self.busy.borrow_mut().pop();
        // A cycle has been reported and marked meanwhile.
        let broken = matches!(*slot.state.borrow(), BindingState::Broken);
        let state = match value {
            Some(value) if !broken && self.check_weight(&value, view) => BindingState::Known(value),
            _ => BindingState::Broken,
        };
        *slot.state.borrow_mut() = state;
        slot.state.borrow().lookup()
    }

    /// Merges the values of several layers.
    fn merged(&self, layers: &MergedLayers<'t>) -> Option<Value> {
        // All problems are reported.
        let values: Vec<Option<Value>> = layers.values.iter().map(|view| (self.convert)(self, *view)).collect();
        let values: Vec<Value> = values.into_iter().collect::<Option<_>>()?;
        let merged = layers.rule.merge(&values);
        let report = |(at, why): (usize, EcoString)| {
            self.report(Diagnostic::new(why).at(layers.values[at].span()));
        };
        merged.map_err(report).ok()
    }

    fn check_weight(&self, value: &Value, view: View<'_>) -> bool {
        let mut left = MAX_WEIGHT;
        let fits = weigh(value, &mut left);
        if !fits {
            self.report(Diagnostic::new("the value becomes too large").at(view.span()));
        }
        fits
    }

    fn report_cycle(&self, name: &EcoString, slot: &LazyBinding<'t>) {
        let busy = self.busy.borrow();
        let first = busy.iter().position(|other| other == name).unwrap_or(0);
        let way: Vec<&str> = busy[first..].iter().map(EcoString::as_str).collect();
        for name in &busy[first..] {
            if let Some(slot) = self.vars.get(name) {
                *slot.state.borrow_mut() = BindingState::Broken;
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

impl<'t> LazyBinding<'t> {
    fn written(key: View<'t>, value: View<'t>) -> LazyBinding<'t> {
        LazyBinding { written: Some((key, value)), layers: None, state: RefCell::new(BindingState::Waiting) }
    }

    /// Returns the variables of a hierarchy.
    fn of_layers(hierarchy: &'t Hierarchy) -> impl Iterator<Item = (EcoString, LazyBinding<'t>)> {
        let mut found: IndexMap<&str, Vec<(View<'t>, View<'t>)>> = IndexMap::new();
        for layer in &hierarchy.layers {
            // The last document of a file counts.
            let entries: IndexMap<&str, (View<'t>, View<'t>)> =
                Hierarchy::entries(layer).map(|(key, value)| (key.text(), (key, value))).collect();
            for (name, entry) in entries {
                found.entry(name).or_default().push(entry);
            }
        }
        found.into_iter().map(|(name, entries)| {
            let (key, value) = entries[0];
            let mut slot = LazyBinding::written(key, value);
            let (rule, _) = hierarchy.rule(name);
            if rule != MergeRule::First {
                let values = entries.into_iter().map(|(_, value)| value).collect();
                slot.layers = Some(Box::new(MergedLayers { rule, values }));
            }
            (name.into(), slot)
        })
    }
}

impl BindingState {
    fn lookup(&self) -> Lookup {
        match self {
            BindingState::Known(value) => Lookup::Found(value.clone()),
            BindingState::Broken | BindingState::Busy | BindingState::Waiting => Lookup::Unknown(REPORTED.into()),
        }
    }
}

/// Counts the nodes of a value. Returns true if there are at most `left`.
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
        // Variables of composite resources are reserved.
        if let Some(own) = self.owned.borrow().get(name) {
            return own.clone();
        }
        let Some((name, slot)) = self.vars.get_key_value(name) else {
            // An unreadable part of the manifest may define the variable.
            return if self.complete { Lookup::Missing } else { Lookup::Unknown(REPORTED.into()) };
        };
        let state = slot.state.borrow();
        match &*state {
            BindingState::Known(value) => Lookup::Found(value.clone()),
            BindingState::Broken => Lookup::Unknown(REPORTED.into()),
            BindingState::Busy => {
                drop(state);
                self.report_cycle(name, slot);
                Lookup::Unknown(REPORTED.into())
            }
            BindingState::Waiting => {
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
