//! Actions of a provider.

use ecow::{EcoString, eco_format};
use kilter_model::suggest::nearest;

use super::mold;
use super::read::MetadataReader;
use crate::convention::ConventionName;
use crate::yaml::{Node, YamlKind};

/// Supported actions, named as in `simple`. In the `json` convention, `get` means list and find, and `set`
/// means update. A mold provider always supports find (`inspect`), and `conform` means update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actions {
    /// Lists all resources.
    pub list: bool,
    /// Finds a resource by name.
    pub find: bool,
    /// Changes resources.
    pub update: bool,
    /// Refreshes resources.
    pub refresh: bool,
    /// Reports changes until cancelled.
    pub watch: bool,
}

impl Actions {
    /// Actions of metadata without the key `actions`. Scripts for libral support neither `refresh` nor `watch`.
    pub const ALL: Actions = Actions { list: true, find: true, update: true, refresh: false, watch: false };
}

/// Reads the key `actions`. Returns the supported actions and the one-time actions. Only the mold convention
/// has one-time actions.
pub(super) fn read(
    provider: &Node,
    convention: ConventionName,
    reader: &mut MetadataReader,
) -> (Actions, Option<Vec<EcoString>>) {
    let node = provider.get("actions");
    if convention != ConventionName::Mold {
        return (node.map_or(Actions::ALL, |node| named(node, convention, reader)), Some(Vec::new()));
    }
    let words = node.map(|node| {
        let word = |node: &&Node| match node.text() {
            Some(word) if mold::is_word(word) => Some(word.clone()),
            _ => {
                let message = eco_format!(
                    "{} is not an action: an action is one word of letters, digits, `_` and `-`",
                    node.what()
                );
                reader.fault(node, message);
                None
            }
        };
        words(node).iter().filter_map(word).collect::<Vec<_>>()
    });
    mold::of_words(words.as_deref())
}

/// Returns the elements of a list, or the node itself.
fn words(node: &Node) -> Vec<&Node> {
    match &node.kind {
        YamlKind::Sequence(nodes) => nodes.iter().collect(),
        _ => vec![node],
    }
}

/// Reads the actions of a provider in the `simple` or `json` convention.
fn named(node: &Node, convention: ConventionName, reader: &mut MetadataReader) -> Actions {
    if node.entries().is_some() {
        reader.fault(node, "`actions` is a list of words, not a mapping");
        return Actions::ALL;
    }
    let mut actions = Actions { list: false, find: false, update: false, refresh: false, watch: false };
    for word in words(node) {
        match word.text().map(|text| text.as_str()) {
            Some("list") => actions.list = true,
            Some("find") => actions.find = true,
            Some("update") => actions.update = true,
            Some("get") if convention == ConventionName::Json => (actions.list, actions.find) = (true, true),
            Some("set") if convention == ConventionName::Json => actions.update = true,
            Some("refresh") => actions.refresh = true,
            Some("watch") => actions.watch = true,
            Some("describe") => {}
            Some(other) => {
                let known: &[&str] = match convention {
                    ConventionName::Simple => &["list", "find", "update", "refresh", "watch"],
                    ConventionName::Json | ConventionName::Mold => &["get", "set", "refresh", "watch"],
                };
                let near = nearest(other, known.iter().copied());
                let hint = near.map_or(eco_format!("there are {}", known.join(", ")), |near| {
                    eco_format!("did you mean `{near}`?")
                });
                reader.fault_with(word, eco_format!("`{other}` is not an action of the convention {convention}"), hint);
            }
            None => reader.fault(word, "an action is a word"),
        }
    }
    if !actions.list && !actions.find {
        reader.fault(node, "nothing can be read without one of `list` and `find` (with json: `get`)");
    }
    actions
}
