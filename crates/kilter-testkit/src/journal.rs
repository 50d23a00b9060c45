//! The journal of owed refreshes, as a driver keeps it.

use std::collections::BTreeSet;

use kilter_engine::Token;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// These are owed from here on.
    Owe(Vec<Token>),
    /// These are not.
    Paid(Vec<Token>),
}

/// The records of one run on top of what earlier ones owe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    before: BTreeSet<Token>,
    records: Vec<Record>,
    now: BTreeSet<Token>,
    /// How many records there are up to the last owing one.
    owing: usize,
    /// How many records no crash can take.
    durable: usize,
}

impl Journal {
    /// Starts a run over what is owed now.
    pub(crate) fn begin(&mut self) {
        self.before = self.now.clone();
        self.records.clear();
        self.owing = 0;
        self.durable = 0;
    }

    /// What is owed, as given to a machine.
    pub(crate) fn owed(&self) -> Vec<Token> {
        self.now.iter().copied().collect()
    }

    /// Whether exactly these, in ascending order, are owed.
    pub(crate) fn is_exactly(&self, tokens: &[Token]) -> bool {
        self.now.iter().eq(tokens)
    }

    /// Whether a refresh is owed.
    pub(crate) fn owes(&self, token: Token) -> bool {
        self.now.contains(&token)
    }

    /// Forgets one token, as only a bug would; whether there was one.
    pub(crate) fn forget_one(&mut self) -> bool {
        self.now.pop_first().is_some()
    }

    /// Writes a record.
    pub(crate) fn write(&mut self, record: Record) {
        replay(&mut self.now, &record);
        let owing = matches!(record, Record::Owe(_));
        self.records.push(record);
        if owing {
            self.owing = self.records.len();
        }
    }

    /// The next command begins: what it may rely on, which is every record up to the last owing
    /// one, is on the disk by now. A record of payment may reach it at any later time.
    pub(crate) fn rely(&mut self) {
        self.durable = self.owing;
    }

    /// A crash takes all but `kept` of the records that were not on the disk.
    pub(crate) fn crash(&mut self, kept: impl FnOnce(usize) -> usize) {
        let loose = self.records.len() - self.durable;
        self.records.truncate(self.durable + kept(loose));
        self.now = self.before.clone();
        for record in &self.records {
            replay(&mut self.now, record);
        }
    }
}

fn replay(owed: &mut BTreeSet<Token>, record: &Record) {
    match record {
        Record::Owe(tokens) => owed.extend(tokens),
        Record::Paid(tokens) => tokens.iter().for_each(|token| {
            owed.remove(token);
        }),
    }
}
