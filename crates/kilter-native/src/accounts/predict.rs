//! Predictions of a plan about users and groups.

use kilter_model::Change;
use kilter_provider::{Account, Effect};

use super::number;

/// What a change makes of the number of a user or a group, which its attribute `id` declares.
pub(crate) fn account(type_name: &'static str, id: &str, change: &Change<'_>) -> Effect {
    let should = change.should.filter(|should| should.text("ensure") != Some("absent"));
    let account = match should {
        Some(should) if !change.is.exists => match should.get(id).and_then(number) {
            Some(id) => Account::Id(id),
            None => Account::New,
        },
        // Nothing that a file could have of it changes.
        Some(_) if !change.differs(id) => match change.is.attributes.get(id).and_then(number) {
            Some(id) => Account::Id(id),
            None => Account::Unknown,
        },
        // Its files get another owner with it, or lose theirs.
        _ => Account::Unknown,
    };
    Effect::Account { type_name, name: change.name.clone(), account }
}
