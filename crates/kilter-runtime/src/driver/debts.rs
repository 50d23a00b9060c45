//! Refreshes that are owed: as the machine knows them, and as the journal does.

use ecow::eco_format;
use kilter_engine::{Graph, Input, Token, VertexId};
use kilter_model::ResourceRef;

use super::Driver;
use crate::journal::{Debt, Journal, JournalError};
use crate::lookup::Lookup;

/// What earlier runs still owe to resources of this one.
pub(super) fn owed(lookup: &Lookup<'_>, journal: Option<&Journal>, graph: &Graph) -> Vec<Token> {
    journal.into_iter().flat_map(Journal::owed).filter_map(|debt| token_of(lookup, debt, graph)).collect()
}

/// Who is owed a refresh by a resource, as far as it is declared here.
pub(super) fn owed_for(lookup: &Lookup<'_>, journal: Option<&Journal>, first: &ResourceRef) -> Vec<VertexId> {
    let debts = journal.into_iter().flat_map(Journal::owed).filter(|debt| debt.0 == *first);
    debts.filter_map(|(_, second)| lookup.referred(second)).collect()
}

/// A debt as the machine knows it; none when it is owed to a resource that is not declared here.
fn token_of(lookup: &Lookup<'_>, (first, second): &Debt, graph: &Graph) -> Option<Token> {
    let second = lookup.referred(second)?;
    let first = lookup.referred(first).filter(|first| graph.find(*first, second).is_some());
    Some(first.map_or(Token::inherited(second), |first| Token { first, second }))
}

impl Driver<'_, '_, '_, '_> {
    pub(super) fn journalled(
        &mut self,
        tokens: &[Token],
        write: impl FnOnce(&mut Journal, Vec<Debt>) -> Result<(), JournalError>,
    ) {
        let debts = self.debts(tokens);
        let Some(journal) = &mut self.journal else { return };
        if let Err(error) = write(journal, debts) {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            self.broken = Some(eco_format!("{error}{}; nothing further was changed", cause.unwrap_or_default()));
            self.machine.input(self.now, Input::Interrupt);
        }
    }

    /// The resources whose changes a vertex is still to be refreshed for, or is being.
    pub(super) fn owed_by(&self, vertex: VertexId) -> Vec<ResourceRef> {
        self.debts(&self.machine.owed_to(vertex)).into_iter().map(|(first, _)| first).collect()
    }

    /// Tokens as the journal names them. What a vertex inherited is owed to it by whoever no longer
    /// comes before it.
    pub(super) fn debts(&self, tokens: &[Token]) -> Vec<Debt> {
        let reference = |vertex: VertexId| &self.prepared.resource(vertex).reference;
        let mut debts = Vec::with_capacity(tokens.len());
        for token in tokens {
            if token.first != token.second {
                debts.push((reference(token.first).clone(), reference(token.second).clone()));
                continue;
            }
            let owed = self.journal.iter().flat_map(Journal::owed);
            debts
                .extend(owed.filter(|debt| token_of(self.lookup, debt, self.machine.graph()) == Some(*token)).cloned());
        }
        debts
    }
}
