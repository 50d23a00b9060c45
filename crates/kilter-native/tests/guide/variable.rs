//! The type `variable`: the variables of an environment directory.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use kilter_model::{Attributes, Behaviour, Feature, State, TypeSchema, Value};
use kilter_provider::{
    ChangeLog, Context, Declaration, Failure, InScope, Name, ProviderError, Query, SimpleProvider, ValidationError,
};

const DESC: &str = "\
Variables of an environment directory, as `envdir` of daemontools and `chpst -e` of runit read it:
one file per variable, with the value on the first line.";

/// The variables of one directory.
pub struct Variables {
    schema: TypeSchema,
    directory: PathBuf,
}

impl Variables {
    /// Returns the provider of a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Variables {
        let schema = TypeSchema::new("variable", DESC)
            .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "Desired existence.")
            .default("present")
            .attribute("name", r"Pattern[/\A[A-Za-z_]\w{0,99}\z/]", Behaviour::Namevar, "Name.")
            .attribute("value", "String", Behaviour::Property, "Value of the variable.")
            .features(&[Feature::Canonicalize, Feature::SimpleGetFilter, Feature::SupportsNoop]);
        Variables { schema, directory: directory.into() }
    }

    /// Reads a variable. Returns none if it does not exist.
    fn read(&self, name: &str) -> Result<Option<State>, ProviderError> {
        let path = self.directory.join(name);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if is_none(&error) => return Ok(None),
            Err(error) => return Err(ProviderError::new(cannot("read", &path, &error))),
        };
        let text = String::from_utf8_lossy(&bytes);
        let line = text.split('\n').next().unwrap_or_default();
        let mut attributes = Attributes::new();
        attributes.push("ensure", "present");
        attributes.push("name", name);
        attributes.push("value", trimmed(line).replace('\0', "\n"));
        Ok(Some(State::present(name, attributes)))
    }

    /// Returns the names of all variables.
    fn names(&self) -> Result<Vec<String>, ProviderError> {
        let failed = |error| ProviderError::new(cannot("list", &self.directory, &error));
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            let namevar = self.schema.namevars().next().expect("the schema has a namevar");
            if namevar.data_type.check(&Value::from(name.as_str())).is_ok() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Writes a variable atomically: a reader of the file gets the old value or the new value.
    fn write(&self, name: &str, should: &Attributes) -> Result<(), Failure> {
        let line = should.text("value").unwrap_or_default().replace('\n', "\0");
        let (new, path) = (self.directory.join(format!(".{name}.new")), self.directory.join(name));
        let written = fs::write(&new, format!("{line}\n")).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| {
            // The file may not exist, and only the first error counts.
            let _ = fs::remove_file(&new);
            Failure::new(cannot("write", &path, &error))
        })
    }
}

/// Returns the message of a failed operation.
fn cannot(operation: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {operation} {}: {error}", path.display())
}

/// Returns true if the variable does not exist or the path is not a variable.
fn is_none(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory)
}

/// Removes blanks at the end, as `envdir` does.
fn trimmed(line: &str) -> &str {
    line.trim_end_matches([' ', '\t'])
}

impl SimpleProvider for Variables {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "envdir"
    }

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let names = match query {
            Query::All => self.names()?,
            Query::Named(wanted) => wanted.iter().map(|wanted| wanted.name.to_string()).collect(),
        };
        names.iter().filter_map(|name| self.read(name).transpose()).collect()
    }

    fn create(&self, _: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        self.write(&name.to_string(), should)
    }

    fn update(&self, log: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        let Some(value) = should.get("value") else { return Ok(()) };
        let name = name.to_string();
        if name == "PATH" {
            log.warning("programs that use this directory may find other commands in the new PATH");
        }
        let found = self.read(&name)?.and_then(|state| state.attributes.get("value").cloned());
        self.write(&name, should)?;
        log.attribute_changed(InScope, "value", found.unwrap_or_default(), value.clone(), None);
        Ok(())
    }

    fn delete(&self, _: &mut ChangeLog<'_>, name: Name<'_>) -> Result<(), Failure> {
        let path = self.directory.join(name.to_string());
        Ok(fs::remove_file(&path).map_err(|error| cannot("remove", &path, &error))?)
    }

    fn validate(&self, _: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let is_present = should.text("ensure") != Some("absent");
        match should.get("value") {
            None if is_present && !deferred.contains(&"value") => {
                vec![ValidationError::with("value", "the value is missing").hint("add `value`, or `ensure: absent`")]
            }
            Some(value) if value.as_str().is_some_and(|text| text.contains('\0')) => {
                vec![ValidationError::with("value", "a variable cannot contain a NUL byte")]
            }
            _ => Vec::new(),
        }
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            if let Some(given) = should.get("value")
                && let Some(text) = given.as_str()
            {
                let value = Value::from(trimmed(text));
                let value = if given.holds_sensitive() { Value::sensitive(value) } else { value };
                should.set("value", value);
            }
        }
        vec![Vec::new(); resources.len()]
    }
}

#[cfg(test)]
mod tests {
    use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
    use kilter_provider::Simple;

    use super::*;

    /// Describes every file of the directory, which is all that the provider can change.
    fn fingerprint(directory: &Path) -> String {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut lines: Vec<String> =
            entries.map(|path| format!("{:?}: {:?}", path.file_name(), fs::read(&path).ok())).collect();
        lines.sort();
        lines.join("\n")
    }

    fn subject() -> Subject {
        let directory = tempfile::tempdir().unwrap();
        let (made, seen) = (directory.path().to_owned(), directory.path().to_owned());
        fs::create_dir(made.join("TAKEN")).unwrap();
        let home = Sample::new("HOME").present([("value", "/srv/app ")]).changed([("value", "/srv/app2")]);
        let lang = Sample::new("LANG").present([("value", "C")]).changed([("value", "")]);
        Subject::new(move || Simple::new(Variables::new(&made)).unwrap(), move || fingerprint(&seen))
            .specimen(home)
            .specimen(lang)
            .unknown(["NOTHING"])
            .failing(Sample::new("TAKEN").present([("value", "by a directory")]))
            .without(Unsupported::Slow, "one small file is written")
            .keeping(directory)
    }

    #[test]
    fn variables_keep_every_law_that_applies() {
        let report = Suite::new(subject).run();
        println!("{report}");
        report.assert();
        let not_applicable =
            ["titles-fit-namevars", "other-attributes-stay", "a-refresh-is-served", "an-interrupt-ends-a-call"];
        assert_eq!(report.not_applicable(), not_applicable);
    }
}
