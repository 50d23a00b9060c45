//! Facts by name, each gathered when it is first asked for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ecow::EcoString;
use kilter_model::{Hash, Value};

use crate::builtin;
use crate::external::{ExternalFacts, FactProblem, Gathered};
use crate::system::System;

/// The facts of a machine.
///
/// Of one name, the first of these is taken: what the program gave by [`Facts::with_fact`]; what an
/// external *file* says; the built-in fact; what an external *executable* says. Values are never
/// merged: a file that names `os` replaces all of it.
///
/// So that a fact's value does not depend on what was asked before it, files are read at the first
/// question of all (two system calls when there are none), but executables are only run when
/// something asks for a fact that nobody else has, or for all of them.
pub struct Facts {
    system: System,
    given: Hash,
    external: ExternalFacts,
    builtin: Mutex<HashMap<&'static str, Option<Value>>>,
    files: Mutex<Option<Gathered>>,
    executables: Mutex<Option<Gathered>>,
}

impl Facts {
    /// The facts of `system`; nothing is read yet.
    pub fn new(system: System) -> Facts {
        Facts {
            system,
            given: Hash::default(),
            external: ExternalFacts::none(),
            builtin: Mutex::default(),
            files: Mutex::default(),
            executables: Mutex::default(),
        }
    }

    /// Adds external facts.
    #[must_use]
    pub fn with_external(mut self, external: ExternalFacts) -> Facts {
        self.external = external;
        self
    }

    /// Adds a fact of the program's own. It goes before every other of its name.
    #[must_use]
    pub fn with_fact(mut self, name: impl Into<EcoString>, value: Value) -> Facts {
        self.given.insert(name.into(), value);
        self
    }

    /// The value of a top-level fact; none when the machine has no such fact.
    pub fn get(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.told(name) {
            return Some(value);
        }
        match builtin::find(name) {
            Some(builtin) => self.builtin_fact(builtin),
            None => self.executable_facts(|gathered| gathered.facts.get(name).cloned()),
        }
    }

    /// The value of a top-level fact that was given, or is in a file.
    pub(crate) fn told(&self, name: &str) -> Option<Value> {
        let given = self.given.get(name).cloned();
        given.or_else(|| self.file_facts(|gathered| gathered.facts.get(name).cloned()))
    }

    /// The names of all facts that may have a value, sorted; those of external facts included.
    pub fn names(&self) -> Vec<EcoString> {
        let mut names: Vec<EcoString> = self.given.keys().cloned().collect();
        names.extend(builtin::names().map(EcoString::from));
        names.extend(self.file_facts(|gathered| gathered.facts.keys().cloned().collect::<Vec<_>>()));
        names.extend(self.executable_facts(|gathered| gathered.facts.keys().cloned().collect::<Vec<_>>()));
        names.sort();
        names.dedup();
        names
    }

    /// All facts, by name in alphabetical order.
    pub fn all(&self) -> Hash {
        self.names().into_iter().filter_map(|name| Some((name.clone(), self.get(&name)?))).collect()
    }

    /// What went wrong with external facts so far.
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

/// A fact that panicked while it was gathered leaves the others as they are.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
