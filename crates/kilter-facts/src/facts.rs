//! Facts by name, each gathered on first use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ecow::EcoString;
use kilter_model::{Hash, Value};

use crate::builtin;
use crate::external::{ExternalFacts, FactProblem, Gathered};
use crate::system::FactSource;

/// Facts of a machine.
///
/// Several sources can define a fact. The order of precedence is: [`Facts::with_fact`], an external *file*, the
/// built-in fact, an external *executable*. Values are not merged: a file that defines `os` replaces the whole
/// fact.
///
/// The value of a fact does not depend on earlier queries. Files are read at the first query, which costs two
/// system calls if there are none. Executables run only for a query of all facts, or of a fact that no other
/// source defines.
pub struct Facts {
    system: FactSource,
    given: Hash,
    /// True if there are no other facts than `given`.
    is_complete: bool,
    external: ExternalFacts,
    builtin: Mutex<HashMap<&'static str, Option<Value>>>,
    files: Mutex<Option<Gathered>>,
    executables: Mutex<Option<Gathered>>,
}

impl Facts {
    /// Creates the facts of `system`. Reads nothing yet.
    pub fn new(system: FactSource) -> Facts {
        Facts {
            system,
            given: Hash::default(),
            is_complete: false,
            external: ExternalFacts::none(),
            builtin: Mutex::default(),
            files: Mutex::default(),
            executables: Mutex::default(),
        }
    }

    /// Creates the facts that another machine has. It reads nothing of this machine.
    pub fn of_another_machine(facts: Hash) -> Facts {
        Facts { given: facts, is_complete: true, ..Facts::new(FactSource::live()) }
    }

    /// Adds external facts.
    #[must_use]
    pub fn with_external(mut self, external: ExternalFacts) -> Facts {
        self.external = external;
        self
    }

    /// Adds a fact of the program. It overrides all other sources.
    #[must_use]
    pub fn with_fact(mut self, name: impl Into<EcoString>, value: Value) -> Facts {
        self.given.insert(name.into(), value);
        self
    }

    /// Returns the value of a top-level fact. None if the machine does not have it.
    pub fn get(&self, name: &str) -> Option<Value> {
        if self.is_complete {
            return self.given.get(name).cloned();
        }
        if let Some(value) = self.top_level(name) {
            return Some(value);
        }
        match builtin::find(name) {
            Some(builtin) => self.builtin_fact(builtin),
            None => self.executable_facts(|gathered| gathered.facts.get(name).cloned()),
        }
    }

    /// Returns the value of a top-level fact from the program or from a file.
    pub(crate) fn top_level(&self, name: &str) -> Option<Value> {
        let given = self.given.get(name).cloned();
        given.or_else(|| self.file_facts(|gathered| gathered.facts.get(name).cloned()))
    }

    /// Returns the sorted names of all facts that may have a value, including external facts.
    pub fn names(&self) -> Vec<EcoString> {
        let mut names: Vec<EcoString> = self.given.keys().cloned().collect();
        if self.is_complete {
            names.sort_unstable();
            return names;
        }
        names.extend(builtin::names().map(EcoString::from));
        names.extend(self.file_facts(|gathered| gathered.facts.keys().cloned().collect::<Vec<_>>()));
        names.extend(self.executable_facts(|gathered| gathered.facts.keys().cloned().collect::<Vec<_>>()));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns all facts, sorted by name.
    pub fn all(&self) -> Hash {
        self.names().into_iter().filter_map(|name| Some((name.clone(), self.get(&name)?))).collect()
    }

    /// Returns the problems with external facts so far.
    pub fn problems(&self) -> Vec<FactProblem> {
        let both = [&self.files, &self.executables];
        both.into_iter()
            .flat_map(|kind| lock(kind).iter().flat_map(|g| g.problems.clone()).collect::<Vec<_>>())
            .collect()
    }

    fn builtin_fact(&self, builtin: &'static builtin::Builtin) -> Option<Value> {
        match lock(&self.builtin).entry(builtin.name) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(unknown) => unknown.insert((builtin.gather)(&self.system)).clone(),
        }
    }

    fn file_facts<T>(&self, answer: impl FnOnce(&Gathered) -> T) -> T {
        let mut files = lock(&self.files);
        let gathered = files.get_or_insert_with(|| {
            let mut gathered = self.external.read_files(self.system.kernel().ids());
            gathered.reject(|name| self.given.contains_key(name).then_some("the name is kilter's own"));
            gathered
        });
        answer(gathered)
    }

    fn executable_facts<T>(&self, answer: impl FnOnce(&Gathered) -> T) -> T {
        let mut executables = lock(&self.executables);
        let gathered = executables.get_or_insert_with(|| {
            let mut gathered = self.external.run_executables(self.system.kernel().ids());
            gathered.reject(|name| {
                let taken = self.given.contains_key(name) || builtin::find(name).is_some();
                taken.then_some("the name is that of a built-in fact, which only a .json or .txt file can replace")
            });
            gathered
        });
        answer(gathered)
    }
}

/// Locks a mutex, also after a panic. A panic while gathering a fact does not affect the others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
