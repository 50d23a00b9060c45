//! What a provider can do.

use ecow::eco_format;
use kilter_model::suggest::nearest;

use super::node::{Kind, Node};
use super::read::Reader;
use crate::convention::ConventionName;

/// What a provider can do, in the words of `simple`. A provider of the `json` convention that can `get`
/// can list and find; one that can `set` can update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actions {
    /// It lists all resources.
    pub list: bool,
    /// It finds one by its name.
    pub find: bool,
    /// It changes them.
    pub update: bool,
}

impl Actions {
    /// All of them: what is taken for granted where nothing is said.
    pub const ALL: Actions = Actions { list: true, find: true, update: true };
}

/// Reads the key `actions`.
pub(super) fn read(provider: &Node, convention: ConventionName, reader: &mut Reader) -> Actions {
    let Some(node) = provider.get("actions") else { return Actions::ALL };
    let words: Vec<&Node> = match &node.kind {
        Kind::Sequence(nodes) => nodes.iter().collect(),
        Kind::Scalar { .. } => vec![node],
        Kind::Mapping(_) => {
            reader.fault(node, "`actions` is a list of words, not a mapping");
            return Actions::ALL;
        }
    };
    let mut actions = Actions { list: false, find: false, update: false };
    for word in words {
        match word.text().map(|text| text.as_str()) {
            Some("list") => actions.list = true,
            Some("find") => actions.find = true,
            Some("update") => actions.update = true,
            Some("get") if convention == ConventionName::Json => (actions.list, actions.find) = (true, true),
            Some("set") if convention == ConventionName::Json => actions.update = true,
            Some("describe") => {}
            Some(other) => {
                let known: &[&str] = match convention {
                    ConventionName::Simple => &["list", "find", "update"],
                    ConventionName::Json => &["get", "set"],
                };
                let near = nearest(other, known.iter().copied());
                let hint = near.map_or(eco_format!("there are {}", known.join(", ")), |near| {
                    eco_format!("did you mean `{near}`?")
                });
                reader.fault_with(word, eco_format!("`{other}` is no action of the convention {convention}"), hint);
            }
            None => reader.fault(word, "an action is a word"),
        }
    }
    if !actions.list && !actions.find {
        reader.fault(node, "nothing can be read without one of `list` and `find` (with json: `get`)");
    }
    actions
}
