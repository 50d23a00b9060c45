//! A file in a directory of its own, for the tests of the types.

use std::path::Path;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Difference, Outcome, State, Value};
use kilter_provider::{Context, Mode, Provider, Wanted, check};

use super::{PartProvider, PartType};

/// A file and a provider.
pub(crate) struct EditBench<T> {
    scratch: tempfile::TempDir,
    pub(crate) path: String,
    pub(crate) provider: PartProvider<T>,
}

impl<T: PartType> EditBench<T> {
    pub(crate) fn new(content: &str) -> EditBench<T> {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("conf").to_str().unwrap().to_owned();
        std::fs::write(&path, content).unwrap();
        EditBench { scratch, path, provider: PartProvider::default() }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn content(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap()
    }

    /// Returns a declaration with the defaults of the schema that matter here.
    pub(crate) fn should(&self, attributes: &[(&str, Value)]) -> Attributes {
        let given = attributes.iter().map(|(name, value)| (*name, value.clone()));
        let mut should: Attributes = [("ensure", Value::from("present")), ("path", self.path.as_str().into())]
            .into_iter()
            .filter(|(name, _)| !attributes.iter().any(|(given, _)| given == name))
            .collect();
        given.for_each(|(name, value)| should.set(name, value));
        should
    }

    pub(crate) fn differences(&self, should: &Attributes) -> Result<Vec<Difference>, String> {
        let name = "x".into();
        let found = check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0);
        found.map(|found| found.differences).map_err(|error| error.to_string())
    }

    pub(crate) fn set(&self, shoulds: &[&Attributes]) -> Vec<Outcome> {
        let name = |n| if shoulds.len() == 1 { "x".into() } else { eco_format!("{n}") };
        let names: Vec<EcoString> = (0..shoulds.len()).map(name).collect();
        let is = State::absent("x");
        let changes: Vec<Change<'_>> =
            names.iter().zip(shoulds).map(|(name, should)| Change::new(name, &is, Some(should), &[])).collect();
        self.provider.set(&Context::empty(), &changes, Mode::Apply)
    }

    /// Applies a declaration that differs, and checks that it is in sync afterwards.
    #[track_caller]
    pub(crate) fn converge(&self, attributes: &[(&str, Value)]) -> String {
        let should = self.should(attributes);
        assert!(!self.differences(&should).unwrap().is_empty(), "it is in sync already");
        assert_eq!(self.set(&[&should]), [Outcome::done()]);
        assert_eq!(self.differences(&should), Ok(Vec::new()));
        self.content()
    }

    #[track_caller]
    pub(crate) fn is_in_sync(&self, attributes: &[(&str, Value)]) {
        assert_eq!(self.differences(&self.should(attributes)), Ok(Vec::new()));
    }
}
