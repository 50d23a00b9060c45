//! Static types of expressions.

use super::OutputTypeOf;
use super::ast::{Node, NodeKind, Operator};
use super::functions::Function;
use crate::data_type::DataType;

/// Returns the type of the value, or [`DataType::Any`] if it depends on the values of names. The type reveals
/// no literal, because a literal may be a secret.
pub(super) fn data_type(node: &Node, sent: OutputTypeOf<'_>) -> DataType {
    match &node.kind {
        NodeKind::Literal(value) => DataType::infer(value).generalized(),
        NodeKind::List(_) => DataType::Array(Box::new(DataType::Any), None, None),
        NodeKind::Map(_) => DataType::Hash(Box::new(DataType::text()), Box::new(DataType::Any), None, None),
        NodeKind::Var(_)
        | NodeKind::Fact(_)
        | NodeKind::Own(_)
        | NodeKind::Each(_)
        | NodeKind::Target(_)
        | NodeKind::Index(_) => DataType::Any,
        NodeKind::Output(output) => sent(&output.0, &output.1),
        NodeKind::Member(inner, name) => member(inner, name, sent),
        NodeKind::Not(_) => DataType::Boolean(None),
        NodeKind::Negate(_) => DataType::Numeric,
        NodeKind::Binary(Operator::Add, terms) => of_sum(&data_type(&terms.0, sent), &data_type(&terms.1, sent)),
        NodeKind::Binary(operator, _) => of_operator(*operator),
        NodeKind::Conditional(parts) => DataType::either(vec![data_type(&parts.1, sent), data_type(&parts.2, sent)]),
        NodeKind::Call(function, arguments) => of_call(*function, arguments, sent),
    }
}

/// Returns the type of an entry of a map literal. Composite resources pass their outputs this way.
fn member(inner: &Node, name: &str, sent: OutputTypeOf<'_>) -> DataType {
    let NodeKind::Map(entries) = &inner.kind else { return DataType::Any };
    let is_named = |key: &Node| matches!(&key.kind, NodeKind::Literal(key) if key.as_str() == Some(name));
    match &entries[..] {
        [(key, value)] if is_named(key) => data_type(value, sent),
        _ => DataType::Any,
    }
}

fn of_operator(operator: Operator) -> DataType {
    match operator {
        Operator::Or
        | Operator::And
        | Operator::Equal
        | Operator::NotEqual
        | Operator::Less
        | Operator::LessEqual
        | Operator::Greater
        | Operator::GreaterEqual
        | Operator::In => DataType::Boolean(None),
        Operator::Add => DataType::Any,
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => DataType::Numeric,
    }
}

/// Returns the type of `+`, whose operands must be of the same kind.
fn of_sum(one: &DataType, other: &DataType) -> DataType {
    let list = DataType::Array(Box::new(DataType::Any), None, None);
    let summable = [DataType::Numeric, DataType::text(), list];
    let sums: Vec<DataType> = summable.into_iter().filter(|sum| sum.overlaps(one) && sum.overlaps(other)).collect();
    // An invalid sum is reported elsewhere.
    if sums.is_empty() { DataType::Any } else { DataType::either(sums) }
}

fn of_call(function: Function, arguments: &[Node], sent: OutputTypeOf<'_>) -> DataType {
    match function {
        Function::Default => DataType::either(arguments.iter().map(|one| data_type(one, sent)).collect()),
        Function::Size | Function::Int | Function::Versioncmp => DataType::Integer(None, None),
        Function::Double => DataType::Float(None, None),
        Function::Has | Function::StartsWith | Function::EndsWith | Function::Contains | Function::Matches => {
            DataType::Boolean(None)
        }
        Function::String
        | Function::LowerAscii
        | Function::UpperAscii
        | Function::Trim
        | Function::Join
        | Function::Replace => DataType::text(),
        Function::Split => DataType::Array(Box::new(DataType::text()), None, None),
    }
}
