//! Evaluates expressions.
//!
//! A result is sensitive if any value that it was computed from is sensitive, including the conditions.

use std::sync::Arc;

use ecow::{EcoString, eco_format};

use super::ast::{At, Node, NodeKind, Operator};
use super::functions::Function;
use super::operators::{OperatorError, apply, kind, trouble};
use super::{EvalError, Lookup, Scope};
use crate::names::ResourceRef;
use crate::suggest;
use crate::value::{Hash, Value};

/// Reason why an expression has no value. `has` and `default` handle only missing values.
pub(super) enum EvalStop {
    Unknown(EcoString),
    Missing(Box<Failure>),
    Failed(Box<Failure>),
}

pub(super) struct Failure {
    trouble: OperatorError,
    at: At,
}

impl From<EvalStop> for EvalError {
    fn from(stop: EvalStop) -> EvalError {
        match stop {
            EvalStop::Unknown(reason) => EvalError::Unknown(reason),
            EvalStop::Missing(failure) | EvalStop::Failed(failure) => EvalError::Failed {
                message: failure.trouble.message,
                at: failure.at.into(),
                hint: failure.trouble.hint,
            },
        }
    }
}

pub(super) fn failed(trouble: OperatorError, at: At) -> EvalStop {
    EvalStop::Failed(Box::new(Failure { trouble, at }))
}

fn missing(trouble: OperatorError, at: At) -> EvalStop {
    EvalStop::Missing(Box::new(Failure { trouble, at }))
}

fn seal_if(sealed: bool, value: Value) -> Value {
    if sealed { Value::sensitive(value) } else { value }
}

fn is_sealed(value: &Value) -> bool {
    matches!(value, Value::Sensitive(_))
}

pub(super) fn eval(node: &Node, scope: &dyn Scope) -> Result<Value, EvalStop> {
    match &node.kind {
        NodeKind::Literal(value) => Ok(value.clone()),
        NodeKind::List(nodes) => {
            let values: Vec<Value> = nodes.iter().map(|node| eval(node, scope)).collect::<Result<_, _>>()?;
            Ok(Value::Array(Arc::from(values)))
        }
        NodeKind::Map(entries) => map(entries, scope),
        NodeKind::Var(name) => found(scope.var(name), node.at, || {
            no_such("variable", "vars.", name, &scope.var_names()).with_default("it is set under `vars:`")
        }),
        NodeKind::Fact(name) => found(scope.fact(name), node.at, || {
            no_such("fact", "facts.", name, &scope.fact_names()).with_default("`kilter facts` lists the facts")
        }),
        NodeKind::Own(_) => {
            let message =
                trouble("`self` is the resource of a composite type that this belongs to, and it belongs to none");
            Err(failed(message.with("it is known in the resources below `types`"), node.at))
        }
        NodeKind::Each(_) => {
            let message =
                trouble("`each` is an element of `for_each`, and this belongs to no resource with `for_each`");
            Err(failed(message.with("add `for_each` to the resource, such as for_each: [a, b]"), node.at))
        }
        NodeKind::Target(name) => {
            found(scope.target(name), node.at, || trouble(eco_format!("`{name}` is a name of targets of an inventory")))
        }
        NodeKind::Output(output) => {
            let (reference, name) = &**output;
            found(scope.output(reference, name), node.at, || no_output(reference, name))
        }
        NodeKind::Member(inner, name) => {
            let value = eval(inner, scope)?;
            Ok(seal_if(is_sealed(&value), member(&value, name, node)?))
        }
        NodeKind::Index(pair) => index(&pair.0, &pair.1, node, scope),
        NodeKind::Not(inner) => {
            let value = eval(inner, scope)?;
            Ok(seal_if(is_sealed(&value), Value::Boolean(!as_bool(&value, inner)?)))
        }
        NodeKind::Negate(inner) => negate(&eval(inner, scope)?, node),
        NodeKind::Binary(operator @ (Operator::And | Operator::Or), pair) => {
            logic(*operator == Operator::Or, &pair.0, &pair.1, scope)
        }
        NodeKind::Binary(operator, pair) => binary(*operator, &pair.0, &pair.1, node, scope),
        NodeKind::Conditional(parts) => {
            let condition = eval(&parts.0, scope)?;
            let chosen = if as_bool(&condition, &parts.0)? { &parts.1 } else { &parts.2 };
            Ok(seal_if(is_sealed(&condition), eval(chosen, scope)?))
        }
        NodeKind::Call(function, arguments) => call(*function, arguments, node, scope),
    }
}

/// Adds every error that prevents the expression from having a value, in the order of the text. A conditionally
/// evaluated operand counts only if its condition holds.
pub(super) fn errors(node: &Node, scope: &dyn Scope, found: &mut Vec<EvalError>) {
    let Err(stop) = eval(node, scope) else { return };
    let before = found.len();
    match &node.kind {
        // These evaluate their operands themselves.
        NodeKind::Binary(Operator::And | Operator::Or, _) | NodeKind::Call(Function::Has | Function::Default, _) => {}
        NodeKind::Conditional(parts) => errors(&parts.0, scope, found),
        kind => kind.each(&mut |child| errors(child, scope, found)),
    }
    if found.len() == before {
        found.push(stop.into());
    }
}

fn map(entries: &[(Node, Node)], scope: &dyn Scope) -> Result<Value, EvalStop> {
    let mut hash = Hash::default();
    let mut sealed = false;
    for (key_node, value) in entries {
        let key = eval(key_node, scope)?;
        sealed |= is_sealed(&key);
        let Value::String(key) = key.expose() else {
            return Err(failed(trouble("the keys of a map are texts"), key_node.at));
        };
        hash.insert(key, eval(value, scope)?);
    }
    Ok(seal_if(sealed, Value::Hash(Arc::new(hash))))
}

fn found(lookup: Lookup, at: At, nothing: impl FnOnce() -> OperatorError) -> Result<Value, EvalStop> {
    match lookup {
        Lookup::Found(value) => Ok(value),
        Lookup::Unknown(reason) => Err(EvalStop::Unknown(reason)),
        Lookup::Missing => Err(missing(nothing(), at)),
    }
}

fn no_such(what: &str, root: &str, name: &str, known: &[EcoString]) -> OperatorError {
    let message = trouble(eco_format!("there is no {what} `{name}`"));
    match suggest::nearest(name, known.iter().map(EcoString::as_str)) {
        Some(near) => message.with(eco_format!("did you mean `{root}{near}`?")),
        None => message,
    }
}

fn no_output(reference: &ResourceRef, name: &str) -> OperatorError {
    trouble(eco_format!("`{reference}` has no output `{name}`"))
}

impl OperatorError {
    fn with_default(self, hint: &str) -> OperatorError {
        OperatorError { hint: self.hint.or_else(|| Some(hint.into())), ..self }
    }
}

fn member(value: &Value, name: &str, node: &Node) -> Result<Value, EvalStop> {
    let Value::Hash(entries) = value.unwrap_sensitive() else {
        let message = trouble(eco_format!("{} has no `{name}`", kind(value)));
        return Err(match value.unwrap_sensitive() {
            Value::Undef => missing(message.with("default(x, y) gives another value if x is missing"), node.at),
            _ => failed(message, node.at),
        });
    };
    entries.get(name).cloned().ok_or_else(|| {
        let message = trouble(eco_format!("there is no `{name}`"));
        let near = suggest::nearest(name, entries.keys().map(EcoString::as_str)).filter(|_| !is_sealed(value));
        missing(
            match near {
                Some(near) => message.with(eco_format!("did you mean `{near}`?")),
                None => message.with("has(x.name) tests for it, default(x.name, y) replaces it"),
            },
            node.at,
        )
    })
}

fn index(base: &Node, index: &Node, node: &Node, scope: &dyn Scope) -> Result<Value, EvalStop> {
    let (value, key) = (eval(base, scope)?, eval(index, scope)?);
    let sealed = is_sealed(&value) || is_sealed(&key);
    let element = match (value.unwrap_sensitive(), key.unwrap_sensitive()) {
        (Value::Hash(_), Value::String(name)) if sealed => {
            let found = value.as_hash().and_then(|entries| entries.get(name)).cloned();
            found.ok_or_else(|| missing(trouble("there is no such entry"), node.at))?
        }
        (Value::Hash(_), Value::String(name)) => member(&value, name, node)?,
        (Value::Array(values), Value::Integer(n)) => {
            let found = usize::try_from(*n).ok().and_then(|n| values.get(n)).cloned();
            found.ok_or_else(|| {
                missing(trouble(eco_format!("the list has {} elements, counted from 0", values.len())), node.at)
            })?
        }
        (Value::Array(_), _) => return Err(failed(trouble("a list is indexed by a whole number"), index.at)),
        (Value::Hash(_), _) => return Err(failed(trouble("a map is indexed by a text"), index.at)),
        (Value::Undef, _) => return Err(missing(trouble("null has no elements"), base.at)),
        (other, _) => return Err(failed(trouble(eco_format!("{} has no elements", kind(other))), base.at)),
    };
    Ok(seal_if(sealed, element))
}

fn as_bool(value: &Value, node: &Node) -> Result<bool, EvalStop> {
    value.as_bool().ok_or_else(|| {
        failed(
            trouble(eco_format!("{} is not a boolean", kind(value))).with("compare it: x == \"…\", x != null"),
            node.at,
        )
    })
}

fn negate(value: &Value, node: &Node) -> Result<Value, EvalStop> {
    let negative = match value.unwrap_sensitive() {
        Value::Integer(number) => number.checked_neg().map(Value::Integer),
        Value::Float(number) => Some(Value::Float(-number)),
        _ => None,
    };
    let negative =
        negative.ok_or_else(|| failed(trouble(eco_format!("`-` takes a number, not {}", kind(value))), node.at))?;
    Ok(seal_if(is_sealed(value), negative))
}

/// Evaluates `||` and `&&`. A `decisive` operand on either side determines the result, even if the other
/// operand is unknown.
fn logic(decisive: bool, left: &Node, right: &Node, scope: &dyn Scope) -> Result<Value, EvalStop> {
    let unknown = match eval(left, scope) {
        Ok(value) => {
            if as_bool(&value, left)? == decisive {
                return Ok(value);
            }
            let second = eval(right, scope)?;
            as_bool(&second, right)?;
            return Ok(seal_if(is_sealed(&value), second));
        }
        Err(EvalStop::Unknown(reason)) => reason,
        Err(stop) => return Err(stop),
    };
    let second = eval(right, scope)?;
    if as_bool(&second, right)? == decisive { Ok(second) } else { Err(EvalStop::Unknown(unknown)) }
}

fn binary(operator: Operator, left: &Node, right: &Node, node: &Node, scope: &dyn Scope) -> Result<Value, EvalStop> {
    let (left, right) = (eval(left, scope)?, eval(right, scope)?);
    if !left.holds_sensitive() && !right.holds_sensitive() {
        return apply(operator, &left, &right).map_err(|trouble| failed(trouble, node.at));
    }
    let inside = matches!(
        (operator, left.unwrap_sensitive(), right.unwrap_sensitive()),
        (Operator::In, _, Value::Hash(_)) | (Operator::Add, Value::Array(_), Value::Array(_))
    );
    if inside {
        // Keys are not secret, and the elements of a longer list stay sensitive individually.
        let sealed = is_sealed(&left) || is_sealed(&right);
        let result = apply(operator, left.unwrap_sensitive(), right.unwrap_sensitive());
        return Ok(seal_if(sealed, result.map_err(|trouble| failed(trouble, node.at))?));
    }
    let result = apply(operator, &left.expose(), &right.expose()).map_err(|trouble| failed(trouble, node.at))?;
    Ok(Value::sensitive(result))
}

fn call(function: Function, arguments: &[Node], node: &Node, scope: &dyn Scope) -> Result<Value, EvalStop> {
    match function {
        Function::Has => has(&arguments[0], scope),
        Function::Default => match eval(&arguments[0], scope) {
            Ok(Value::Undef) | Err(EvalStop::Missing(_)) => eval(&arguments[1], scope),
            other => other,
        },
        function => {
            let values: Vec<Value> = arguments.iter().map(|node| eval(node, scope)).collect::<Result<_, _>>()?;
            let sealed = match function {
                // The number of elements is not secret, but the length of a text may be.
                Function::Size => values.iter().any(is_sealed),
                _ => values.iter().any(Value::holds_sensitive),
            };
            let clear: Vec<Value> = values.iter().map(Value::expose).collect();
            let value = function.call(&clear).map_err(|trouble| failed(trouble, node.at))?;
            Ok(seal_if(sealed, value))
        }
    }
}

fn has(argument: &Node, scope: &dyn Scope) -> Result<Value, EvalStop> {
    let named = matches!(
        argument.kind,
        NodeKind::Var(_)
            | NodeKind::Fact(_)
            | NodeKind::Own(_)
            | NodeKind::Each(_)
            | NodeKind::Output(_)
            | NodeKind::Member(..)
            | NodeKind::Index(_)
    );
    if !named {
        return Err(failed(trouble("has() takes a name, such as has(facts.os.family)"), argument.at));
    }
    match eval(argument, scope) {
        Ok(value) => Ok(Value::Boolean(!value.unwrap_sensitive().is_undef())),
        Err(EvalStop::Missing(_)) => Ok(Value::Boolean(false)),
        Err(stop) => Err(stop),
    }
}
