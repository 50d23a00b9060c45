//! Inputs of a compilation besides the texts. The crate gets all external data through these traits.

use ecow::EcoString;
use kilter_model::Value;
use kilter_model::expr::Lookup;

use crate::collect::Collect;
use crate::schemas::Schemas;
use crate::source::Source;

/// The facts of the machine.
pub trait Facts {
    /// Returns a top-level fact. Called only for facts that the manifest names, once for each.
    fn fact(&self, name: &str) -> Lookup;
    /// Returns the names of all top-level facts, for "did you mean".
    fn names(&self) -> Vec<EcoString>;

    /// Returns true if the values of the fact at `path`, such as `os.name`, are always in lower case.
    fn is_lower_case(&self, path: &str) -> bool {
        let _ = path;
        false
    }
}

/// Loads the includes of a manifest.
pub trait Loader {
    /// Loads the text at `path`, an include of the source named `from`. The name of the result identifies the file,
    /// independently of the path that led to it.
    ///
    /// # Errors
    /// The reason why the text cannot be read.
    fn load(&self, from: &str, path: &str) -> Result<Source, String>;

    /// Loads the text at `path` as [`Loader::load`] does. None if there is no file. Without an implementation, a
    /// missing file is an error.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    fn load_if_exists(&self, from: &str, path: &str) -> Result<Option<Source>, String> {
        self.load(from, path).map(Some)
    }

    /// Loads the content of the file at `path`, which a value of the source named `from` names: a text, or bytes if it
    /// is not UTF-8. Without an implementation, only texts can be loaded.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    fn content(&self, from: &str, path: &str) -> Result<Value, String> {
        self.load(from, path).map(|source| Value::from(source.text.as_str()))
    }

    /// Loads the exported resources of other machines that the source named `from` collects.
    ///
    /// The text is a JSON list: `[{"resource": "type[title]", "attributes": {…}}]`. It is empty if there are no
    /// resources.
    ///
    /// # Errors
    /// The reason why they cannot be read.
    fn collect(&self, from: &str, wanted: &Collect) -> Result<Source, String> {
        let _ = (from, wanted);
        Err("nothing is shared with other machines here".to_owned())
    }
}

/// External source of a sensitive value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// Content of a file, without the final line break.
    File(EcoString),
    /// Value of an environment variable.
    Env(EcoString),
    /// Output of a command, without the final line break.
    Command(Vec<EcoString>),
    /// Content of an encrypted file, without the final line break.
    Encrypted(EncryptedSecret),
}

/// A secret in an encrypted file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedSecret {
    /// Program that encrypted it.
    pub program: EncryptionProgram,
    /// Name of the manifest that contains the path.
    pub from: EcoString,
    /// Path of the file, relative to the manifest.
    pub path: EcoString,
    /// `age`: path of the identity. `systemd_creds`: name of the credential. None for the default.
    pub option: Option<EcoString>,
}

/// Program that encrypts secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncryptionProgram {
    /// age.
    Age,
    /// systemd-creds.
    SystemdCreds,
}

impl EncryptionProgram {
    /// Returns the program of a key below `sensitive`, and the name of its option.
    pub(crate) fn of_key(key: &str) -> Option<(EncryptionProgram, &'static str)> {
        match key {
            "age" => Some((EncryptionProgram::Age, "identity")),
            "systemd_creds" => Some((EncryptionProgram::SystemdCreds, "name")),
            _ => None,
        }
    }
}

/// Fetches sensitive values.
pub trait Secrets {
    /// Returns the content of a file, the value of an environment variable, or the output of a command.
    ///
    /// # Errors
    /// The reason why there is no value.
    fn resolve(&self, source: &SecretSource) -> Result<Value, String>;
}

/// Inputs of a compilation.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The resource types.
    pub schemas: &'a dyn Schemas,
    /// The facts.
    pub facts: &'a dyn Facts,
    /// The sensitive values.
    pub secrets: &'a dyn Secrets,
    /// The included files.
    pub loader: &'a dyn Loader,
    /// Variables given from outside. They override those of the manifest.
    pub overrides: &'a [(EcoString, Value)],
}
