//! Simulated journal of pending refreshes.

use std::collections::BTreeSet;

use kilter_engine::RefreshToken;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// These refreshes become pending.
    Owe(Vec<RefreshToken>),
    /// These refreshes are no longer pending.
    Paid(Vec<RefreshToken>),
}

/// Records of one run, on top of the refreshes that earlier runs left pending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    before: BTreeSet<RefreshToken>,
    records: Vec<Record>,
    now: BTreeSet<RefreshToken>,
    /// Number of records up to the last `Owe`.
    owing: usize,
    /// Number of records that survive a crash.
    durable: usize,
}

impl Journal {
    /// Starts a run with the currently pending refreshes.
    pub(crate) fn begin(&mut self) {
        self.before = self.now.clone();
        self.records.clear();
        self.owing = 0;
        self.durable = 0;
    }

    /// Returns the pending refreshes, as input for a machine.
    pub(crate) fn owed(&self) -> Vec<RefreshToken> {
        self.now.iter().copied().collect()
    }

    /// Returns true if exactly these refreshes are pending. They must be in ascending order.
    pub(crate) fn is_exactly(&self, tokens: &[RefreshToken]) -> bool {
        self.now.iter().eq(tokens)
    }

    /// Returns true if a refresh is pending.
    pub(crate) fn owes(&self, token: RefreshToken) -> bool {
        self.now.contains(&token)
    }

    /// Loses a token, to simulate a bug. Returns true if there was a token.
    pub(crate) fn forget_one(&mut self) -> bool {
        self.now.pop_first().is_some()
    }

    pub(crate) fn write(&mut self, record: Record) {
        replay(&mut self.now, &record);
        let owing = matches!(record, Record::Owe(_));
        self.records.push(record);
        if owing {
            self.owing = self.records.len();
        }
    }

    /// Marks all records up to the last `Owe` as durable, before the next command starts. A `Paid` record may become
    /// durable at any later time.
    pub(crate) fn rely(&mut self) {
        self.durable = self.owing;
    }

    /// Simulates a crash: loses all records that are not durable, except the first `kept` of them.
    pub(crate) fn crash(&mut self, kept: impl FnOnce(usize) -> usize) {
        let loose = self.records.len() - self.durable;
        self.records.truncate(self.durable + kept(loose));
        self.now = self.before.clone();
        for record in &self.records {
            replay(&mut self.now, record);
        }
    }
}

fn replay(owed: &mut BTreeSet<RefreshToken>, record: &Record) {
    match record {
        Record::Owe(tokens) => owed.extend(tokens),
        Record::Paid(tokens) => tokens.iter().for_each(|token| {
            owed.remove(token);
        }),
    }
}
