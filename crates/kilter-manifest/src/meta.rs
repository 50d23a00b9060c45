//! Metaparameters for the engine: those of a resource, and defaults for types and for all resources.

use ecow::{EcoString, eco_format};
use kilter_model::{Contested, DataType, EventLimit, Meta, Policy, Poll, Semaphore, TypeSchema, Value};
use rustc_hash::FxHashMap;

use crate::attribute_defaults::AttributeDefaults;
use crate::composite::Composites;
use crate::diagnostic::{Diagnostic, KNOWN_BEFORE, choose};
use crate::environment::Environment;
use crate::load::Loaded;
use crate::metaparameters::{META, names};
use crate::mismatch::mismatched;
use crate::tree::View;
use crate::value::{BuildResult, Values};

/// Defaults per type, and for all resources.
#[derive(Default)]
pub(crate) struct Defaults<'t> {
    all: Option<Meta>,
    /// None if a type resets all defaults.
    of_type: FxHashMap<EcoString, Option<Meta>>,
    /// Defaults for composite types. They apply to members and override the defaults of the members' own types.
    of_composite: FxHashMap<EcoString, Vec<View<'t>>>,
    /// Defaults of attributes.
    pub(crate) attributes: AttributeDefaults<'t>,
}

impl<'t> Defaults<'t> {
    /// Compiles the defaults of a manifest: `defaults: { "*": { meta: … }, file: { meta: …, mode: … } }`.
    pub(crate) fn compile(
        environment: &Environment<'t>,
        loaded: &'t Loaded,
        composites: &'t Composites<'t>,
    ) -> Defaults<'t> {
        let mut defaults = Defaults::default();
        let sections: Vec<(View<'t>, View<'t>)> = loaded.sections("defaults").flat_map(View::entries).collect();
        // Defaults for all types come first, wherever they are written.
        for (_, body) in sections.iter().filter(|(key, _)| key.text() == EVERY) {
            defaults.all = of_body(environment, *body, defaults.all.take(), &mut |key, _| {
                let problem = Diagnostic::new(eco_format!("there are no defaults for `{}` of all types", key.text()));
                let hint = "only for `meta`; defaults of attributes stand below the name of a type";
                environment.report(problem.at(key.span()).hint(hint));
            });
            if let Some(all) = &mut defaults.all {
                all.reverse_of_all = all.reverse;
            }
        }
        for (key, body) in sections.iter().filter(|(key, _)| key.text() != EVERY) {
            let name = key.text();
            if environment.inputs.schemas.schema(name).is_none() {
                if let Some(composite) = composites.get(name) {
                    let told = environment.problem_count();
                    let attributes = &mut defaults.attributes;
                    of_body(environment, *body, None, &mut |attribute, value| {
                        add(environment, attributes, *key, &[&composite.schema], (attribute, value));
                    });
                    // An error is reported once, and not for each member.
                    let meta = body.get("meta").filter(|_| environment.problem_count() == told);
                    defaults.of_composite.entry(name.into()).or_default().extend(meta);
                    continue;
                }
                let mut known = environment.inputs.schemas.names();
                known.extend(composites.names());
                known.push(EVERY);
                let problem = Diagnostic::new(eco_format!("unknown type `{name}`")).at(key.span());
                environment.report(problem.hint(choose(name, &known, "known types")));
                continue;
            }
            let begun = defaults.of_type.remove(name).unwrap_or_else(|| defaults.all.clone());
            let (variants, attributes) = (environment.inputs.schemas.variants(name), &mut defaults.attributes);
            let meta = of_body(environment, *body, begun, &mut |attribute, value| {
                add(environment, attributes, *key, &variants, (attribute, value));
            });
            defaults.of_type.insert(name.into(), meta);
        }
        defaults
    }

    /// Returns the defaults for members of a composite type, one per manifest.
    pub(crate) fn of_composite(&self, type_name: &str) -> impl Iterator<Item = View<'t>> {
        self.of_composite.get(type_name).into_iter().flatten().copied()
    }

    /// Returns the defaults for resources of a type.
    pub(crate) fn of(&self, type_name: &str) -> Option<&Meta> {
        if self.of_type.is_empty() {
            return self.all.as_ref();
        }
        self.of_type.get(type_name).unwrap_or(&self.all).as_ref()
    }
}

/// Key that stands for all types.
pub(crate) const EVERY: &str = "*";

/// Adds the default of an attribute.
fn add<'t>(
    environment: &Environment<'t>,
    attributes: &mut AttributeDefaults<'t>,
    type_: View<'t>,
    variants: &[&'t TypeSchema],
    (key, value): (View<'t>, View<'t>),
) {
    let name = key.text();
    if names().contains(&name) && !variants.iter().any(|schema| schema.find(name).is_some()) {
        let problem = Diagnostic::new(eco_format!("`{}` has no attribute `{name}`", type_.text())).at(key.span());
        return environment.report(problem.hint(eco_format!("it belongs below `meta`: meta: {{ {name}: … }}")));
    }
    attributes.add(environment, type_, variants, (key, value));
}

/// Compiles the metaparameters in a body of `defaults`, on top of earlier ones. Calls `other` with all other keys.
fn of_body<'t>(
    environment: &Environment<'t>,
    body: View<'t>,
    mut begun: Option<Meta>,
    other: &mut dyn FnMut(View<'t>, View<'t>),
) -> Option<Meta> {
    if !body.is_mapping() && !body.is_null() {
        let problem = Diagnostic::new("defaults of a type are a mapping").at(body.span());
        environment.report(problem.hint("such as file: { mode: \"0644\", meta: { retry: 3 } }"));
    }
    for (key, value) in body.entries() {
        match key.text() {
            "meta" => begun = compile(environment, value, &Values::new(environment), begun),
            _ if key.is_scalar() => other(key, value),
            // The tree has already reported keys that are not texts.
            _ => {}
        }
    }
    begun
}

/// Compiles `meta` on top of earlier metaparameters. Returns none if all have their default values.
pub(crate) fn compile<'t>(
    environment: &Environment<'t>,
    value: View<'t>,
    values: &Values<'_, 't>,
    begun: Option<Meta>,
) -> Option<Meta> {
    if value.is_null() {
        return begun;
    }
    if !value.is_mapping() {
        let problem = Diagnostic::new("`meta` is a mapping").at(value.span());
        environment.report(problem.hint("such as meta: { retry: 3, delay: 500 }"));
        return begun;
    }
    let mut meta = begun.unwrap_or_default();
    let (mut limit, mut burst, mut is_odd) = (None, None, false);
    for (key, value) in value.entries() {
        let name = key.text();
        let Some(wanted) = data_type(name) else {
            unknown(environment, key);
            continue;
        };
        let Some(found) = evaluate(environment, name, value, &wanted, values) else {
            is_odd |= matches!(name, "limit" | "burst") && !value.is_null();
            continue;
        };
        match name {
            "limit" => limit = Some((number(&found), key)),
            "burst" => burst = Some((found.as_integer().unwrap_or(1), key)),
            "sema" => meta.semaphores = semaphores(environment, &found, value),
            "export" => meta.export = machines(environment, &found, value),
            _ => set(&mut meta, name, &found),
        }
    }
    // The value of an invalid metaparameter of a pair is missing, but the problem has been reported.
    if !is_odd && (limit.is_some() || burst.is_some()) {
        meta.limit = throttle(environment, limit, burst, meta.limit);
    }
    (meta != Meta::default()).then_some(meta)
}

pub(crate) fn data_type(name: &str) -> Option<DataType> {
    let (.., text, _) = META.iter().find(|(known, ..)| *known == name)?;
    Some(text.parse().expect("the data types of metaparameters are valid"))
}

fn unknown(environment: &Environment<'_>, key: View<'_>) {
    let name = key.text();
    let problem = Diagnostic::new(eco_format!("unknown metaparameter `{name}`"));
    environment.report(problem.at(key.span()).hint(choose(name, &names(), "metaparameters")));
}

fn evaluate<'t>(
    environment: &Environment<'t>,
    name: &str,
    view: View<'t>,
    wanted: &DataType,
    values: &Values<'_, 't>,
) -> Option<Value> {
    match values.build(view, wanted) {
        BuildResult::Value(Value::Undef) | BuildResult::Skipped | BuildResult::Broken => None,
        BuildResult::Value(value) => match wanted.check(&value) {
            Ok(()) => Some(value),
            Err(mismatch) => {
                environment.report(mismatched(name, wanted, &value, &mismatch, Some(view)).at(view.span()));
                None
            }
        },
        BuildResult::Deferred(_) => {
            let problem = Diagnostic::new(eco_format!("`{name}` must be known before the run"));
            environment.report(problem.at(view.span()).hint(KNOWN_BEFORE));
            None
        }
    }
}

fn set(meta: &mut Meta, name: &str, value: &Value) {
    let whole = value.as_integer().unwrap_or(0);
    let truth = value.as_bool().unwrap_or(false);
    match name {
        "noop" => meta.noop = truth,
        "policy" => {
            meta.policy = match value.as_str() {
                Some("warn") => Policy::Warn,
                Some("observe") => Policy::Observe,
                _ => Policy::Repair,
            }
        }
        "contested" => {
            meta.contested = if value.as_str() == Some("observe") { Contested::Observe } else { Contested::Repair };
        }
        "retry" => meta.retry = i32::try_from(whole).unwrap_or(i32::MAX),
        "retryreset" => meta.retry_reset = truth,
        "delay" => meta.delay = whole.unsigned_abs(),
        "timeout" => meta.timeout = whole.unsigned_abs(),
        "poll" => {
            meta.poll = match u32::try_from(whole) {
                Ok(0) => Poll::Watched,
                Ok(seconds) => Poll::Every(seconds),
                Err(_) => Poll::Once,
            }
        }
        "autoedge" => meta.no_autoedge = !truth,
        "autogroup" => meta.no_autogroup = !truth,
        "hidden" => meta.hidden = truth,
        "reverse" => (meta.reverse, meta.reverse_of_all) = (truth, false),
        "realize" => meta.realize = truth,
        "reset" => meta.reset = truth,
        // Names may begin with any character.
        _ => {}
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Float(number) => *number,
        other => other.as_integer().unwrap_or(0) as f64,
    }
}

/// Combines a limit and its burst, which may each come from earlier defaults.
fn throttle(
    environment: &Environment<'_>,
    limit: Option<(f64, View<'_>)>,
    burst: Option<(i64, View<'_>)>,
    begun: Option<EventLimit>,
) -> Option<EventLimit> {
    let per_second = limit.map(|(number, _)| number).or(begun.map(|begun| begun.per_second));
    let tokens = burst.map(|(tokens, _)| tokens.unsigned_abs() as u32).or(begun.map(|begun| begun.burst));
    let problem = match (per_second, tokens) {
        // Zero removes an earlier limit.
        (Some(0.0), _) => return None,
        (Some(per_second), Some(burst)) => return Some(EventLimit { per_second, burst }),
        (Some(_), None) => Diagnostic::new("`limit` needs a `burst`: without one, the resource never handles an event")
            .hint("such as meta: { limit: 0.5, burst: 3 }"),
        (None, _) => Diagnostic::new("`burst` needs a `limit`").hint("such as meta: { limit: 0.5, burst: 3 }"),
    };
    if let Some((_, key)) = limit.or(burst.map(|(_, key)| (0.0, key))) {
        environment.report(problem.at(key.span()));
    }
    None
}

/// Returns the names of machines without duplicates.
fn machines(environment: &Environment<'_>, value: &Value, view: View<'_>) -> Vec<EcoString> {
    let mut machines: Vec<EcoString> = Vec::new();
    for name in value.as_array().unwrap_or_default().iter().filter_map(Value::as_str) {
        if !kilter_model::is_machine(name) {
            let problem = Diagnostic::new(eco_format!("`{name}` is not a machine name")).at(view.span());
            environment.report(problem.hint("such as export: [web1, web2], or [\"*\"] for all"));
        } else if !machines.iter().any(|known| known == name) {
            machines.push(name.into());
        }
    }
    machines
}

fn semaphores(environment: &Environment<'_>, value: &Value, view: View<'_>) -> Vec<Semaphore> {
    let ids = value.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
    let mut semaphores: Vec<Semaphore> = Vec::new();
    for id in ids {
        let count = id.rsplit_once(':').map(|(_, count)| count);
        let why = if id.is_empty() {
            "it is empty"
        } else if id.bytes().all(|byte| byte.is_ascii_digit()) {
            "it is only a number"
        } else if count.is_some_and(|count| !count.parse::<u32>().is_ok_and(|count| count > 0)) {
            "the number after its last colon must be 1 or more"
        } else {
            if semaphores.iter().all(|known| known.id != *id) {
                semaphores.push(Semaphore::of(id));
            }
            continue;
        };
        let problem = Diagnostic::new(eco_format!("`{id}` is not a semaphore: {why}")).at(view.span());
        environment.report(problem.hint("such as sema: [\"database\"], or [\"downloads:4\"] for four at a time"));
    }
    semaphores
}
