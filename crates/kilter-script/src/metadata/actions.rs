//! What a provider can do.

use ecow::{EcoString, eco_format};
use kilter_model::suggest::nearest;

use super::mold;
use super::node::{Kind, Node};
use super::read::Reader;
use crate::convention::ConventionName;

/// What a provider can do, in the words of `simple`. A provider of the `json` convention that can `get`
/// can list and find; one that can `set` can update; both may `refresh` and `watch`. One of mold's always finds, by `inspect`; it updates by `conform`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actions {
    /// It lists all resources.
    pub list: bool,
    /// It finds one by its name.
    pub find: bool,
    /// It changes them.
    pub update: bool,
    /// It acts on a refresh.
    pub refresh: bool,
    /// It tells what changes, for as long as somebody listens.
    pub watch: bool,
}

impl Actions {
    /// The actions of metadata without the key `actions`. Scripts for libral know neither `refresh` nor `watch`.
    pub const ALL: Actions = Actions { list: true, find: true, update: true, refresh: false, watch: false };
}

/// Reads the key `actions`: what a provider can do, and its one-time actions. Other conventions than mold's have none.
pub(super) fn read(
    provider: &Node,
    convention: ConventionName,
    reader: &mut Reader,
) -> (Actions, Option<Vec<EcoString>>) {
    let node = provider.get("actions");
    if convention != ConventionName::Mold {
        return (node.map_or(Actions::ALL, |node| named(node, convention, reader)), Some(Vec::new()));
    }
    let words = node.map(|node| {
        let word = |node: &&Node| match node.text() {
            Some(word) if mold::is_word(word) => Some(word.clone()),
            _ => {
                let message =
                    eco_format!("{} is no action: it is one word of letters, digits, `_` and `-`", node.what());
                reader.fault(node, message);
                None
            }
        };
        words(node).iter().filter_map(word).collect::<Vec<_>>()
    });
    mold::of_words(words.as_deref())
}

/// The words of a list, or the only one.
fn words(node: &Node) -> Vec<&Node> {
    match &node.kind {
        Kind::Sequence(nodes) => nodes.iter().collect(),
        _ => vec![node],
    }
}

/// What a provider of the other conventions can do.
fn named(node: &Node, convention: ConventionName, reader: &mut Reader) -> Actions {
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
