//! Outputs: values that a resource sends to others.

use ecow::EcoString;

use crate::data_type::DataType;

/// Schema of an output: `${exec[token].stdout}`.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSchema {
    /// Name of the output.
    pub name: EcoString,
    /// Data type of the values. With [`DataType::Any`], the type was not declared, and the receiving attribute
    /// checks the value.
    pub data_type: DataType,
    /// Description in Markdown.
    pub desc: EcoString,
}
