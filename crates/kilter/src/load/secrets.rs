//! Secrets of a compilation.

use std::cell::RefCell;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ecow::EcoString;
use kilter_manifest::{EncryptedSecret, EncryptionProgram, SecretSource, Secrets};
use kilter_model::Value;
use kilter_process::Capture;

use super::sources::LiveIncludes;
use super::{InputFiles, executable};
use crate::session::Session;
use crate::{paths, trust};

/// Maximum size of a secret in bytes.
const LARGEST_SECRET: usize = 1 << 20;

/// Maximum size of an encrypted secret in bytes, with its header and encoding.
const LARGEST_ENCRYPTED: usize = 2 * LARGEST_SECRET;

/// Secrets from files, the environment and commands.
pub(super) struct SecretsFrom<'a> {
    pub(super) session: &'a Session,
    /// Timeout of a command.
    pub(super) timeout: Duration,
    /// Receiver of the secrets, for another host.
    pub(super) kept: Option<&'a KeptSecrets>,
    /// Receiver of the files that contain secrets.
    pub(super) noted: Option<&'a InputFiles>,
}

/// Secrets of a compilation, each with the description of its source.
pub(super) type KeptSecrets = RefCell<Vec<(serde_json::Value, Value)>>;

impl Secrets for SecretsFrom<'_> {
    fn resolve(&self, source: &SecretSource) -> Result<Value, String> {
        if let Some(received) = self.session.received() {
            return received.secret(&about(source));
        }
        let secret = self.session.record.record_or_replay("secret", || about(source), || self.fetch(source));
        self.session
            .record
            .register_secrets(secret.iter().map(|secret| Value::sensitive(secret.clone())).collect::<Vec<_>>().iter());
        if let (Ok(secret), Some(kept)) = (&secret, self.kept) {
            kept.borrow_mut().push((about(source), secret.clone()));
        }
        secret
    }
}

fn program_name(program: EncryptionProgram) -> &'static str {
    match program {
        EncryptionProgram::Age => "age",
        EncryptionProgram::SystemdCreds => "systemd-creds",
    }
}

/// Returns the source of a secret as JSON.
fn about(source: &SecretSource) -> serde_json::Value {
    match source {
        SecretSource::File(path) => serde_json::json!({ "file": path.as_str() }),
        SecretSource::Env(name) => serde_json::json!({ "env": name.as_str() }),
        SecretSource::Command(argv) => {
            serde_json::json!({ "command": argv.iter().map(EcoString::as_str).collect::<Vec<_>>() })
        }
        SecretSource::Encrypted(EncryptedSecret { program, from, path, option }) => serde_json::json!({
            "encrypted": program_name(*program),
            "from": from.as_str(),
            "file": path.as_str(),
            "option": option.as_deref(),
        }),
    }
}

/// Returns the source of a secret that is described as JSON; none if it is no description.
pub(super) fn source_of(about: &serde_json::Value) -> Option<SecretSource> {
    let text = |key: &str| about[key].as_str().map(EcoString::from);
    if let Some(program) = about["encrypted"].as_str() {
        let program = [EncryptionProgram::Age, EncryptionProgram::SystemdCreds]
            .into_iter()
            .find(|known| program_name(*known) == program)?;
        let (from, path, option) = (text("from")?, text("file")?, text("option"));
        return Some(SecretSource::Encrypted(EncryptedSecret { program, from, path, option }));
    }
    let words = || -> Option<_> {
        about["command"].as_array()?.iter().map(|word| word.as_str().map(EcoString::from)).collect()
    };
    text("file")
        .map(SecretSource::File)
        .or_else(|| text("env").map(SecretSource::Env))
        .or_else(|| words().map(SecretSource::Command))
}

impl SecretsFrom<'_> {
    /// Records a file as an input of the manifests. A pipe or a device has no content to compare later.
    fn note(&self, file: &Path) {
        if let Some(noted) = self.noted.filter(|_| !std::fs::metadata(file).is_ok_and(|found| !found.is_file())) {
            noted.note(file);
        }
    }

    fn fetch(&self, source: &SecretSource) -> Result<Value, String> {
        let bytes = match source {
            SecretSource::File(path) => {
                let path = Path::new(path.as_str());
                if is_named_pipe(path) {
                    return Err(format!(
                        "{} is a named pipe, which may never get a writer; `command: [cat, {0}]` waits for a while",
                        path.display()
                    ));
                }
                self.note(path);
                super::bounded(path, &trust::open_as(&self.session.trust, "", path)?, LARGEST_SECRET as u64)?
            }
            SecretSource::Env(name) => std::env::var_os(name.as_str())
                .map(std::os::unix::ffi::OsStringExt::into_vec)
                .ok_or_else(|| format!("the environment variable {name} is not set"))?,
            SecretSource::Command(argv) => self.output(argv)?,
            SecretSource::Encrypted(secret) => self.decrypted(secret)?,
        };
        if bytes.len() > LARGEST_SECRET {
            return Err(format!("it is larger than {} MiB", LARGEST_SECRET >> 20));
        }
        Ok(Value::from_bytes(bytes.strip_suffix(b"\n").unwrap_or(&bytes)))
    }
}

/// Returns true if a path is a pipe that another process must open first. A pipe of this process is open already.
fn is_named_pipe(path: &Path) -> bool {
    let is_own = path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd") || path == Path::new("/dev/stdin");
    !is_own && std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

impl SecretsFrom<'_> {
    /// Returns the content of an encrypted file. The program reads the file from its standard input, and its arguments
    /// contain no secret.
    fn decrypted(&self, secret: &EncryptedSecret) -> Result<Vec<u8>, String> {
        let file = LiveIncludes::resolve(&secret.from, &secret.path);
        self.note(&file);
        let opened = trust::open_as(&self.session.trust, "", &file)?;
        let content = super::bounded(&file, &opened, LARGEST_ENCRYPTED as u64)?;
        let program = program_name(secret.program);
        let mut invocation = executable::invocation(self.session, program, self.timeout);
        invocation.args = match secret.program {
            EncryptionProgram::Age => {
                let identity = secret.option.as_deref().map(PathBuf::from).or_else(paths::age_identity);
                let identity = identity.ok_or("no identity is named, and HOME is not set")?;
                vec!["--decrypt".into(), "--identity".into(), identity.into()]
            }
            EncryptionProgram::SystemdCreds => {
                let name = secret.option.as_deref().map(Into::into);
                let name = name.or_else(|| file.file_stem().map(std::ffi::OsStr::to_owned)).unwrap_or_default();
                let mut option = std::ffi::OsString::from("--name=");
                option.push(name);
                vec!["decrypt".into(), option, "-".into(), "-".into()]
            }
        };
        invocation.stdin = Some(content);
        invocation.stdout = Capture::AtMost(LARGEST_SECRET);
        invocation.stderr = Capture::Last(2048);
        let finished = executable::run(self.session, "secret", &invocation);
        finished.map(|finished| finished.stdout.bytes).map_err(|why| format!("{program} {}: {why}", file.display()))
    }

    /// Returns the output of a command. Its error output is discarded, because it may contain the secret.
    fn output(&self, argv: &[EcoString]) -> Result<Vec<u8>, String> {
        let (program, args) = argv.split_first().ok_or("the command is empty")?;
        let mut invocation = executable::invocation(self.session, program.as_str(), self.timeout);
        invocation.args = args.iter().map(|arg| arg.as_str().into()).collect();
        invocation.stdout = Capture::AtMost(LARGEST_SECRET);
        executable::run(self.session, "secret", &invocation).map(|finished| finished.stdout.bytes)
    }
}
