//! Values that a resource sends to others.

use ecow::EcoString;

use crate::data_type::DataType;

/// What a resource sends to others under a name: `${exec[token].stdout}`.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSchema {
    /// Its name.
    pub name: EcoString,
    /// The values that are sent; [`DataType::Any`] where nobody has said it: such a value is checked where it arrives.
    pub data_type: DataType,
    /// What it holds, in Markdown.
    pub desc: EcoString,
}
