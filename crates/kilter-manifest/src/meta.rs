//! The engine's metaparameters.

use ecow::eco_format;
use kilter_model::{DataType, Meta, Value};

use crate::attributes::mismatched;
use crate::diagnostic::{Diagnostic, choose};
use crate::environment::Environment;
use crate::tree::View;
use crate::value::{Built, Values};

/// Metaparameters that are known.
pub(crate) const META: [&str; 4] = ["noop", "retry", "delay", "autoedge"];

/// Metaparameters that will be.
const LATER: [&str; 14] = [
    "poll",
    "limit",
    "burst",
    "sema",
    "timeout",
    "autogroup",
    "retryreset",
    "reset",
    "rewatch",
    "realize",
    "reverse",
    "hidden",
    "export",
    "dollar",
];

/// What `meta` says; none if it says nothing.
pub(crate) fn compile<'t>(environment: &Environment<'t>, value: View<'t>, values: &Values<'_, 't>) -> Option<Meta> {
    if value.is_null() {
        return None;
    }
    if !value.is_mapping() {
        let problem = Diagnostic::new("`meta` is a mapping").at(value.span());
        environment.report(problem.hint("such as meta: { retry: 3, delay: 500 }"));
        return None;
    }
    let mut meta = Meta::default();
    for (key, value) in value.entries() {
        let name = key.text();
        match data_type(name) {
            Some(wanted) => {
                if let Some(found) = evaluate(environment, name, value, &wanted, values) {
                    set(&mut meta, name, &found);
                }
            }
            None => unknown(environment, key),
        }
    }
    (meta != Meta::default()).then_some(meta)
}

pub(crate) fn data_type(name: &str) -> Option<DataType> {
    Some(match name {
        "noop" | "autoedge" => DataType::Boolean(None),
        "retry" => DataType::Integer(Some(-1), Some(i64::from(i32::MAX))),
        "delay" => DataType::Integer(Some(0), None),
        _ => return None,
    })
}

fn unknown(environment: &Environment<'_>, key: View<'_>) {
    let name = key.text();
    let problem = match LATER.contains(&name) {
        true => Diagnostic::new(eco_format!("the metaparameter `{name}` is not supported yet")).hint("take it out"),
        false => {
            Diagnostic::new(eco_format!("unknown metaparameter `{name}`")).hint(choose(name, &META, "metaparameters"))
        }
    };
    environment.report(problem.at(key.span()));
}

fn evaluate<'t>(
    environment: &Environment<'t>,
    name: &str,
    view: View<'t>,
    wanted: &DataType,
    values: &Values<'_, 't>,
) -> Option<Value> {
    match values.build(view, wanted) {
        Built::Value(Value::Undef) | Built::Skipped | Built::Broken => None,
        Built::Value(value) => match wanted.check(&value) {
            Ok(()) => Some(value),
            Err(mismatch) => {
                environment.report(mismatched(name, wanted, &value, &mismatch, Some(view)).at(view.span()));
                None
            }
        },
        Built::Deferred(_) => {
            let problem = Diagnostic::new(eco_format!("`{name}` must be known before the run"));
            environment.report(problem.at(view.span()));
            None
        }
    }
}

fn set(meta: &mut Meta, name: &str, value: &Value) {
    let number = value.as_integer().unwrap_or(0);
    let truth = value.as_bool().unwrap_or(false);
    match name {
        "noop" => meta.noop = truth,
        "autoedge" => meta.no_autoedge = !truth,
        "retry" => meta.retry = i32::try_from(number).unwrap_or(i32::MAX),
        _ => meta.delay = number.unsigned_abs(),
    }
}
