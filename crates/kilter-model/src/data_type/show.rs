//! Data types as text.

use std::fmt::{self, Display};

use super::DataType;

impl DataType {
    /// The type as part of a sentence: `an Integer value`, `a value of type …`.
    pub(super) fn described(&self) -> String {
        match self {
            DataType::Variant(_)
            | DataType::Pattern(_)
            | DataType::Integer(Some(_), _)
            | DataType::Integer(_, Some(_)) => {
                format!("a value of type {self}")
            }
            DataType::Optional(inner) => match &**inner {
                DataType::Variant(_) => format!("a value of type {self}"),
                inner => format!("a value of type Undef or {}", inner.name()),
            },
            _ => {
                let name = self.name();
                let article = if name.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
                format!("{article} {name} value")
            }
        }
    }

    /// The name without its parameters.
    fn name(&self) -> &'static str {
        match self {
            DataType::Any => "Any",
            DataType::Undef => "Undef",
            DataType::Boolean(_) => "Boolean",
            DataType::Integer(..) => "Integer",
            DataType::Float(..) => "Float",
            DataType::Numeric => "Numeric",
            DataType::String(..) => "String",
            DataType::Enum(_) => "Enum",
            DataType::Pattern(_) => "Pattern",
            DataType::Binary => "Binary",
            DataType::Array(..) => "Array",
            DataType::Hash(..) => "Hash",
            DataType::Struct(_) => "Struct",
            DataType::Tuple(_) => "Tuple",
            DataType::Variant(_) => "Variant",
            DataType::Optional(_) => "Optional",
            DataType::NotUndef(_) => "NotUndef",
            DataType::Scalar => "Scalar",
            DataType::Data => "Data",
            DataType::Sensitive(_) => "Sensitive",
        }
    }
}

impl Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let parameters = parameters(self);
        if parameters.is_empty() { Ok(()) } else { write!(f, "[{}]", parameters.join(", ")) }
    }
}

fn parameters(data_type: &DataType) -> Vec<String> {
    match data_type {
        DataType::Boolean(Some(truth)) => vec![truth.to_string()],
        DataType::Integer(from, to) => range(from, to),
        DataType::Float(from, to) => range(&from.map(Shown), &to.map(Shown)),
        DataType::String(from, to) => range(from, to),
        DataType::Enum(words) => words.iter().map(|word| format!("'{word}'")).collect(),
        DataType::Pattern(patterns) => patterns.iter().map(|p| format!("/{}/", p.replace("/", "\\/"))).collect(),
        DataType::Array(of, None, None) if **of == DataType::Any => Vec::new(),
        DataType::Array(of, from, to) => [vec![of.to_string()], range(from, to)].concat(),
        DataType::Hash(keys, of, from, to) => [vec![keys.to_string(), of.to_string()], range(from, to)].concat(),
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| match field.optional {
                    true => format!("Optional['{}'] => {}", field.name, field.data_type),
                    false => format!("'{}' => {}", field.name, field.data_type),
                })
                .collect();
            vec![format!("{{{}}}", fields.join(", "))]
        }
        DataType::Tuple(types) | DataType::Variant(types) => types.iter().map(ToString::to_string).collect(),
        DataType::Optional(inner) | DataType::NotUndef(inner) | DataType::Sensitive(inner) => match &**inner {
            DataType::Any => Vec::new(),
            inner => vec![inner.to_string()],
        },
        _ => Vec::new(),
    }
}

struct Shown(f64);

impl Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

fn range<T: Display>(from: &Option<T>, to: &Option<T>) -> Vec<String> {
    match (from, to) {
        (None, None) => Vec::new(),
        (Some(from), None) => vec![from.to_string()],
        (None, Some(to)) => vec!["default".to_owned(), to.to_string()],
        (Some(from), Some(to)) => vec![from.to_string(), to.to_string()],
    }
}
