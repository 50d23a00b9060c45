//! Predictions of a plan about users and groups.

use kilter_model::Change;
use kilter_provider::{Account, Effect};

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
