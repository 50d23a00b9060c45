//! The type `ca_certificate`: certificates of authorities that programs on the machine trust.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema};
use kilter_process::Invocation;
use kilter_provider::{
    AutoEdge, Context, Effect, Footprint, Insync, Match, Mode, PathState, Predict, Provider, ProviderError, Query,
    Redactor, Relations, Scope, SideEffects, Suitability, ValidationError, Watch, WatchSource, redacted_outcome,
};

use crate::accounts::System;
use crate::builtin::is_absent;
use crate::file::atomic_rewrite::{self, AtomicRewrite};
use crate::file::lone;
use crate::tool;

const PROGRAM: &str = "update-ca-certificates";
/// Directory of the certificates that the administrator adds, and its suffix.
const LOCAL: &str = "/usr/local/share/ca-certificates/";
const SUFFIX: &str = ".crt";
/// Directory that [`PROGRAM`] writes.
const TRUSTED: &str = "/etc/ssl/certs/";
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Maximum duration of [`PROGRAM`]. Its hooks may rebuild the stores of other programs, such as Java's.
const DEADLINE: Duration = Duration::from_secs(300);

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

const DESC: &str = "\
Certificates of authorities that programs on the machine trust.

```yaml
resources:
  ca_certificate[example-root]:
    source: /srv/pki/example-root.pem
  ca_certificate[old-root]:
    ensure: absent
```

The certificate is the file `/usr/local/share/ca-certificates/NAME.crt`. kilter checks that the text is one PEM \
certificate, writes the file, and runs `update-ca-certificates` once for all changes of a batch. A certificate that is \
not in `/etc/ssl/certs/ca-certificates.crt` is out of sync. With `ensure: absent`, kilter removes the file; it does \
not remove the certificates of packages.

kilter does not check signatures and dates. Programs that have started before may still use the earlier certificates.";

/// Provides the type `ca_certificate`.
pub struct CaCertificateProvider {
    system: System,
    turn: Mutex<()>,
}

impl CaCertificateProvider {
    /// Creates a provider for the certificates of a system.
    pub fn new(system: System) -> CaCertificateProvider {
        CaCertificateProvider { system, turn: Mutex::new(()) }
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, EcoString> {
        atomic_rewrite::read(&self.system.path(path)).map_err(|error| eco_format!("{error}"))
    }

    /// Returns the declared text.
    fn declared(&self, should: &Attributes) -> Result<EcoString, EcoString> {
        let text = match (should.text("content"), should.text("source")) {
            (Some(text), _) => text.into(),
            (None, Some(source)) => {
                let bytes = self.read(source)?.ok_or_else(|| eco_format!("there is no {source}"))?;
                EcoString::from(String::from_utf8_lossy(&bytes))
            }
            (None, None) => return Err("a certificate needs a `content` or a `source`".into()),
        };
        certificate(&text).map_err(|why| match should.text("source") {
            Some(source) => eco_format!("{source}: {why}"),
            None => why.into(),
        })?;
        Ok(text)
    }

    fn state(&self, name: &EcoString, bundle: &[u8]) -> Result<State, EcoString> {
        let Some(bytes) = self.read(&file_of(name))? else { return Ok(State::absent(name.clone())) };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let is_trusted = certificate(&text).is_ok_and(|body| memchr::memmem::find(bundle, body.as_bytes()).is_some());
        let mut attributes = Attributes::from_iter([("ensure", "present".into()), ("name", name.clone())]);
        attributes.push("content", text);
        attributes.push("trusted", is_trusted);
        Ok(State::present(name.clone(), attributes))
    }

    fn names(&self) -> Result<Vec<EcoString>, EcoString> {
        let path = self.system.path(LOCAL);
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| eco_format!("cannot read {path}: {error}"))?,
        };
        let name = |entry: std::fs::DirEntry| {
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let name = entry.file_name().to_str()?.strip_suffix(SUFFIX).map(EcoString::from)?;
            Some(name).filter(|name| is_file && is_name(name))
        };
        let mut names: Vec<EcoString> = entries.filter_map(|entry| name(entry.ok()?)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Writes or removes the file of a certificate. Returns true if it removed it.
    fn place(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<bool, EcoString> {
        if !is_name(change.name) {
            return Err(eco_format!("{}", bad_name(change.name)));
        }
        let path = self.system.path(&file_of(change.name));
        let Some(should) = change.should.filter(|should| !is_absent(should)) else {
            lone::remove(&path, cx).map_err(|error| eco_format!("{error}"))?;
            return Ok(true);
        };
        let text = self.declared(should)?;
        let directory = self.system.path(LOCAL);
        std::fs::create_dir_all(&directory).map_err(|error| eco_format!("cannot create {directory}: {error}"))?;
        atomic_rewrite::rewritten(|| {
            let file = AtomicRewrite::open(&path)?;
            if !file.exists() || file.bytes() != text.as_bytes() {
                file.replace(text.as_bytes(), 0o644, cx)?;
            }
            Ok(())
        })?;
        Ok(false)
    }

    fn change(&self, cx: &Context<'_>, changes: &[Change<'_>]) -> Vec<Outcome> {
        let placed: Vec<Result<bool, EcoString>> = changes.iter().map(|change| self.place(cx, change)).collect();
        let update = match placed.iter().flatten().max() {
            None => Ok(()),
            Some(is_removal) => {
                // Without `--fresh`, links to removed certificates stay.
                let tool = Invocation::new(PROGRAM).args(is_removal.then_some("--fresh"));
                tool::run(self.system.runner(), cx, tool, DEADLINE)
            }
        };
        placed
            .into_iter()
            .map(|one| one.and(update.clone()).map_or_else(Outcome::failed, |()| Outcome::done()))
            .collect()
    }
}

fn file_of(name: &str) -> String {
    format!("{LOCAL}{name}{SUFFIX}")
}

/// Returns true for names that [`PROGRAM`] does not change, and that are single file names.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && !name.starts_with(['.', '-'])
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+@".contains(&byte))
}

fn bad_name(name: &str) -> ValidationError {
    let problem = ValidationError::with("name", format!("`{name}` cannot be the name of a certificate"));
    problem.hint("use letters, digits and the characters . _ - + @, without .crt and without a directory")
}

/// Returns the encoded certificate between the lines of a PEM file.
///
/// # Errors
/// The reason why the text is not exactly one certificate.
fn certificate(text: &str) -> Result<&str, &'static str> {
    if text.contains("PRIVATE KEY-----") {
        return Err("it contains a private key, which every user could read: give the certificate alone");
    }
    let (_, rest) =
        text.split_once(BEGIN).ok_or("it is not a PEM certificate: it has no line `-----BEGIN CERTIFICATE-----`")?;
    let (body, rest) = rest.split_once(END).ok_or("the certificate has no line `-----END CERTIFICATE-----`")?;
    if rest.contains(BEGIN) {
        return Err("it has several certificates: declare each one alone");
    }
    let encoded: String = body.split_ascii_whitespace().collect();
    let bytes = kilter_model::from_base64(&encoded).ok_or("the certificate is not valid base64")?;
    match is_sequence(&bytes) {
        true => Ok(body.trim()),
        false => Err("the certificate is damaged: its length does not match its content"),
    }
}

/// Returns true if the bytes are a single DER sequence, as a certificate is (X.690).
fn is_sequence(bytes: &[u8]) -> bool {
    let [0x30, first, rest @ ..] = bytes else { return false };
    let (length, content) = match usize::from(*first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let Some((length, content)) = rest.split_at_checked(long - 0x80).filter(|(length, _)| length.len() <= 4)
            else {
                return false;
            };
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), content)
        }
    };
    length > 0 && content.len() == length
}

fn schema() -> TypeSchema {
    TypeSchema::new("ca_certificate", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State: `present`, `absent`.")
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the file without `.crt`: `example-root`.")
        .attribute(
            "content",
            "String[1]",
            Behaviour::Property,
            "Certificate as text, `-----BEGIN CERTIFICATE-----` and so on. Required without `source`.",
        )
        .attribute(
            "source",
            "String[1]",
            Behaviour::Property,
            "Absolute path of a file with the certificate. Required without `content`.",
        )
        .attribute(
            "trusted",
            "Boolean",
            Behaviour::ReadOnly,
            "True if the certificate is in `/etc/ssl/certs/ca-certificates.crt`.",
        )
        .features(&[Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

impl Provider for CaCertificateProvider {
    crate::builtin::describe!("ca_certificate", "debian", schema, [relations, predict, watch]);

    fn suitable(&self) -> Suitability {
        tool::installed(&[PROGRAM], Some("ca-certificates"))
    }

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let bundle = self.read(BUNDLE).map_err(ProviderError::new)?.unwrap_or_default();
        let state = |name: &EcoString| {
            let unreadable = |why| State { unreadable: Some(why), ..State::absent(name.clone()) };
            self.state(name, &bundle).unwrap_or_else(unreadable)
        };
        Ok(match query {
            Query::All => self.names().map_err(ProviderError::new)?.iter().map(state).collect(),
            Query::Named(wanted) => wanted.iter().map(|one| state(one.name)).collect(),
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = match mode {
            Mode::Apply => self.change(cx, changes),
            Mode::Preview => {
                let should = |change: &Change<'_>| match change.should.filter(|should| !is_absent(should)) {
                    Some(should) if !cx.preview_context().may_change_before(change.name) => {
                        self.declared(should).map(drop)
                    }
                    _ => Ok(()),
                };
                changes.iter().map(|one| should(one).map_or_else(Outcome::failed, |()| Outcome::done())).collect()
            }
        };
        outcomes.into_iter().zip(changes).map(|(outcome, change)| redacted_outcome(change, outcome)).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let mut found = Vec::new();
        if !is_name(name) {
            found.push(bad_name(name));
        }
        let is_given = |attribute: &str| should.get(attribute).is_some() || deferred.contains(&attribute);
        match (is_given("content"), is_given("source")) {
            (true, true) => found.push(
                ValidationError::with("source", "`content` and `source` exclude each other").hint("remove one of them"),
            ),
            (false, false) if !is_absent(should) => found.push(
                ValidationError::with("content", "a certificate needs a text")
                    .hint("add `content` or `source`, or `ensure: absent`"),
            ),
            _ => {}
        }
        if let Some(Err(why)) = should.text("content").map(certificate) {
            found.push(ValidationError::with("content", why));
        }
        if should.text("source").is_some_and(|source| !atomic_rewrite::is_normal(source)) {
            found.push(ValidationError::with("source", "the file needs an absolute path without `.`, `..` and `//`"));
        }
        let seal = Redactor::of(should);
        found.into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        if !matches!(attribute, "content" | "source") {
            return Insync::Default;
        }
        match self.declared(should) {
            Err(why) => Insync::Failed(why),
            Ok(text) if is.attributes.text("content") != Some(&text) => {
                Insync::Differs(Some("another certificate".into()))
            }
            Ok(_) if is.attributes.get_bool("trusted") != Some(true) => {
                Insync::Differs(Some(eco_format!("the certificate is not in {BUNDLE}")))
            }
            Ok(_) => Insync::Same,
        }
    }
}

impl Relations for CaCertificateProvider {
    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let paths = [Some(&*file_of(name)), should.text("source")].map(|path| path.map(str::to_owned));
        for path in paths.iter().flatten() {
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", path) });
        }
        add(AutoEdge::require("package", "ca-certificates"));
    }
}

impl Predict for CaCertificateProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let unknown = |path: String| Effect::Path { path: path.into(), node: PathState::Unknown };
        Some(vec![unknown(file_of(change.name)), unknown(TRUSTED.trim_end_matches('/').into())])
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        say(Footprint::Writes { path: &file_of(name), is_whole: false });
        say(Footprint::Writes { path: BUNDLE, is_whole: false });
        if let Some(path) = should.text("source") {
            say(Footprint::Reads { path, below: false });
        }
    }
}

impl Watch for CaCertificateProvider {
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        let watch = |path: &str| WatchSource::Path { path: self.system.path(path).into(), scope: Scope::This };
        let source = should.text("source").map(watch);
        [watch(&file_of(name)), watch(BUNDLE)].into_iter().chain(source).collect()
    }
}

#[cfg(test)]
mod tests;
