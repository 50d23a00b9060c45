//! Predictions of a plan about users and groups.

use std::path::Path;

use ecow::{EcoString, eco_format};
use kilter_model::Change;
use kilter_provider::{Account, Content, Effect, Footprint, PathState};

use super::number;

/// Returns the effect of a change on the number of a user or a group, which the attribute `id` declares.
pub(crate) fn account(type_name: &'static str, id: &str, change: &Change<'_>) -> Effect {
    let should = change.should.filter(|should| should.text("ensure") != Some("absent"));
    let account = match should {
        Some(should) if !change.is.exists => match should.get(id).and_then(number) {
            Some(id) => Account::Id(id),
            None => Account::New,
        },
        // The change does not affect files of the account.
        Some(_) if !change.differs(id) => match change.is.attributes.get(id).and_then(number) {
            Some(id) => Account::Id(id),
            None => Account::Unknown,
        },
        // The files of the account get another owner, or lose their owner.
        _ => Account::Unknown,
    };
    Effect::Account { type_name, name: change.name.clone(), account }
}

/// The files below `/etc` that the tools for users write.
pub(crate) const USER_FILES: &[&str] = &["passwd", "shadow", "group", "gshadow", "subuid", "subgid"];
/// The files below `/etc` that the tools for groups write: another number of a group is another one of its users.
pub(crate) const GROUP_FILES: &[&str] = &["group", "gshadow", "passwd"];

/// The path of a file that holds accounts.
fn file(root: &Path, name: &str) -> EcoString {
    below(root, &format!("/etc/{name}"))
}

/// A path of the system whose root is that directory.
pub(crate) fn below(root: &Path, path: &str) -> EcoString {
    eco_format!("{}{path}", root.display().to_string().trim_end_matches('/'))
}

/// The effects on the files that hold accounts. The tools give a new file the owner and the mode of the old one.
pub(crate) fn written(root: &Path, names: &'static [&str]) -> impl Iterator<Item = Effect> {
    let paths = names.iter().map(move |name| file(root, name));
    let there = paths.filter(|path| std::fs::symlink_metadata(path.as_str()).is_ok());
    there.map(|path| Effect::Path { path, node: PathState::File { content: Content::Unknown, mode: None } })
}

/// Lists the files that hold accounts.
pub(crate) fn footprint(root: &Path, names: &[&str], say: &mut dyn FnMut(Footprint<'_>)) {
    for name in names {
        say(Footprint::Writes { path: &file(root, name), is_whole: false });
    }
}
