//! Schema of the type `apt_repository`, and the fields of its attributes.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::ValidationError;

use super::{key, stanza};
use crate::builtin::is_absent;
use crate::file::{atomic_rewrite, unpack};
use crate::value_text::{sealed_like, texts};

const DESC: &str = "\
Repositories of packages for apt, as files in deb822 format.

```yaml
resources:
  apt_repository[vendor]:
    uris: https://packages.vendor.example/debian
    suites: stable
    components: main
    key_source: https://packages.vendor.example/key.asc
    key_checksum: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
  apt_repository[backports]:
    uris: https://deb.debian.org/debian
    suites: bookworm-backports
    components: [main, contrib]
    signed_by: /usr/share/keyrings/debian-archive-keyring.gpg
  apt_repository[old]:
    ensure: absent
```

A repository is the file `/etc/apt/sources.list.d/NAME.sources` with one stanza. kilter changes the declared fields \
and keeps all other fields and comments. It refuses a file with several stanzas or in the one-line format, and a \
repository for which there is a file `NAME.list`. A list of all repositories omits such files.

**Keys.** kilter checks that `key` or the file of `key_source` is an OpenPGP public key, and writes it to \
`/etc/apt/keyrings/NAME.asc`, or `NAME.gpg` if it is binary. The key in `signed_by` stays in the stanza. With \
`ensure: absent`, kilter removes `NAME.sources`, a file `NAME.list` in the one-line format, and the key in \
`/etc/apt/keyrings/NAME.asc` or `NAME.gpg` that they name.

**Package lists.** After a change, kilter runs `apt-get update` once for all changes of a batch. If that fails, \
kilter updates each repository alone, and only those fail that apt cannot use. A repository whose update has failed \
is out of sync.

**Automatic edges.** All packages of apt come after the repositories, except packages that a repository requires. A \
repository comes after the file of its key.";

/// Form of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepositoryForm {
    /// Words.
    List,
    /// `yes` or `no`.
    Flag,
    /// Any text, perhaps of several lines.
    Text,
}

/// Attributes, their fields, and the form of the values, in the order of a new file.
pub(super) const FIELDS: [(&str, &str, RepositoryForm); 10] = [
    ("enabled", "Enabled", RepositoryForm::Flag),
    ("types", "Types", RepositoryForm::List),
    ("uris", "URIs", RepositoryForm::List),
    ("suites", "Suites", RepositoryForm::List),
    ("components", "Components", RepositoryForm::List),
    ("architectures", "Architectures", RepositoryForm::List),
    ("trusted", "Trusted", RepositoryForm::Flag),
    ("allow_insecure", "Allow-Insecure", RepositoryForm::Flag),
    ("check_valid_until", "Check-Valid-Until", RepositoryForm::Flag),
    ("signed_by", SIGNED_BY, RepositoryForm::Text),
];

pub(super) const SIGNED_BY: &str = "Signed-By";

pub(super) fn schema() -> TypeSchema {
    let (property, parameter) = (Behaviour::Property, Behaviour::Parameter);
    let list = "Variant[String[1], Array[String[1]]]";
    TypeSchema::new("apt_repository", DESC)
        .attribute("ensure", "Enum[present, absent]", property, "State: `present`, `absent`.")
        .default("present")
        .attribute(
            "name",
            r"Pattern[/\A[A-Za-z0-9_][A-Za-z0-9_.-]*\z/]",
            Behaviour::Namevar,
            "Name of the file without `.sources`: `vendor`.",
        )
        .attribute("types", list, property, "`deb` for packages, `deb-src` for sources.")
        .default(Value::strings(["deb"]))
        .attribute("uris", list, property, "Addresses: `https://deb.debian.org/debian`. Required.")
        .attribute(
            "suites",
            list,
            property,
            "Suites: `bookworm`. A path that ends with `/` names a repository without components. Required.",
        )
        .attribute("components", list, property, "Components: `[main, contrib]`.")
        .attribute("architectures", list, property, "Architectures: `[amd64]`. Default: those of dpkg.")
        .attribute("enabled", "Boolean", property, "False to keep the file, but not to use the repository.")
        .default(true)
        .attribute("trusted", "Boolean", property, "True to use the repository without a valid signature.")
        .attribute("allow_insecure", "Boolean", property, "True to use the repository without a signature.")
        .attribute("check_valid_until", "Boolean", property, "False to use a repository whose index has expired.")
        .attribute(
            "signed_by",
            "String[1]",
            property,
            "Keys that may sign the repository: the path of a keyring, fingerprints, or an armored key.",
        )
        .attribute("key", "String[1]", property, "Armored key, which kilter writes to `/etc/apt/keyrings`.")
        .attribute(
            "key_source",
            "String[1]",
            property,
            "Path or address of a file with the key, armored or binary. Without `key_checksum`, kilter downloads a key \
             only if there is none.",
        )
        .attribute("key_checksum", "String[1]", parameter, "Digits of the SHA-256 or SHA-512 of that file.")
        .attribute("comment", "String", property, "Comment at the begin of the file.")
        .attribute(
            "options",
            "Hash[String[1], String]",
            property,
            "Other fields: `{ Languages: none, By-Hash: force }`. An empty text removes a field.",
        )
        .attribute("notify_update", "Boolean", parameter, "False to run no `apt-get update` after a change.")
        .default(true)
        .attribute("updated", "Boolean", Behaviour::ReadOnly, "False if the update after the last change has failed.")
        .features(&[Feature::Canonicalize, Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Makes lists of single words.
pub(super) fn expand(should: &mut Attributes) {
    for (attribute, _, form) in FIELDS {
        let Some(value) = should.get(attribute).filter(|_| form == RepositoryForm::List).cloned() else { continue };
        if let Some(word) = value.as_str() {
            should.set(attribute, sealed_like(&value, Value::strings([word])));
        }
    }
}

/// Returns the declared other fields.
pub(super) fn options(should: &Attributes) -> Vec<(EcoString, EcoString)> {
    let Some(options) = should.get("options").and_then(Value::as_hash) else { return Vec::new() };
    options.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.into()))).collect()
}

/// Returns the checksum that the key must have: `{sha256}…`.
pub(super) fn expected_checksum(should: &Attributes) -> Option<EcoString> {
    unpack::canonical_checksum(should.text("key_checksum")?)
}

/// Returns the problems of a declaration.
pub(super) fn problems(should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
    let mut found = Vec::new();
    let mut report = |attribute: &str, problem: EcoString, hint: &str| {
        found.push(ValidationError::with(attribute, problem).hint(hint));
    };
    if let Some((name, _)) = should.iter().find(|(_, value)| value.holds_sensitive()) {
        let hint = "put user names and passwords into a file below /etc/apt/auth.conf.d";
        report(name.as_str(), "every user can read the files of repositories".into(), hint);
        return found;
    }
    if is_absent(should) {
        return found;
    }
    let is_given = |attribute: &str| should.get(attribute).is_some() || deferred.contains(&attribute);
    for (attribute, example) in [("uris", "https://deb.debian.org/debian"), ("suites", "bookworm")] {
        if !is_given(attribute) || should.get(attribute).is_some_and(|value| texts(Some(value)).is_empty()) {
            report(
                attribute,
                eco_format!("a repository needs `{attribute}`"),
                &format!("add `{attribute}: {example}`"),
            );
        }
    }
    for (attribute, _, form) in FIELDS {
        let words = texts(should.get(attribute).filter(|_| form == RepositoryForm::List));
        if let Some(word) = words.iter().find(|word| word.is_empty() || word.contains(is_separator)) {
            report(attribute, eco_format!("`{}` is not one word", word.escape_debug()), "write a list: `[one, two]`");
        }
    }
    let is_uri =
        |uri: &EcoString| uri.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty());
    if let Some(uri) = texts(should.get("uris")).iter().find(|uri| !is_uri(uri)) {
        report("uris", eco_format!("`{uri}` is no address"), "write an address such as https://deb.debian.org/debian");
    }
    if let Some(kind) = texts(should.get("types")).iter().find(|kind| !matches!(&***kind, "deb" | "deb-src")) {
        report("types", eco_format!("`{kind}` is no type of repositories"), "write `deb` or `deb-src`");
    }
    let suites = texts(should.get("suites"));
    let paths = suites.iter().filter(|suite| suite.ends_with('/')).count();
    let has_components = !texts(should.get("components")).is_empty();
    match suites.len() {
        0 => {}
        _ if paths > 0 && has_components => {
            let problem = "a suite that ends with `/` has no components";
            report("components", problem.into(), "remove them, or the `/`");
        }
        count if paths < count && !has_components && !deferred.contains(&"components") => {
            report("components", "the suites need components".into(), "add `components: main`");
        }
        _ => {}
    }
    for (name, value) in options(should) {
        let known = FIELDS.iter().find(|(_, field, _)| field.eq_ignore_ascii_case(&name));
        if let Some((attribute, ..)) = known {
            report("options", eco_format!("`{name}` has an attribute of its own"), &format!("write `{attribute}`"));
        } else if !stanza::is_field(&name) || value.contains(char::is_control) {
            report("options", eco_format!("`{name}` is no field with one line"), "write `Name: value`");
        }
    }
    if should.text("comment").is_some_and(|text| text.contains(|c: char| c.is_control() && c != '\n')) {
        report("comment", "a comment has no control characters".into(), "remove them");
    }
    key_problems(should, &is_given, &mut report);
    found
}

fn key_problems(should: &Attributes, is_given: &dyn Fn(&str) -> bool, report: &mut dyn FnMut(&str, EcoString, &str)) {
    let given: Vec<&str> = ["signed_by", "key", "key_source"].into_iter().filter(|name| is_given(name)).collect();
    if let [one, other, ..] = given[..] {
        report(other, eco_format!("`{one}` and `{other}` exclude each other"), "remove one of them");
    }
    if let Some(Err(why)) = should.text("key").map(|text| key::form(text.as_bytes())) {
        report("key", why.into(), "write the armored public key, `-----BEGIN PGP PUBLIC KEY BLOCK-----` and so on");
    }
    if let Some(Err(why)) = should.text("signed_by").map(signed_by) {
        report("signed_by", why, "write the absolute path of a keyring, a fingerprint, or an armored key");
    }
    if let Some(checksum) = should.text("key_checksum") {
        if expected_checksum(should).is_none() {
            let hint = "write the 64 digits of SHA-256 or the 128 digits of SHA-512";
            report("key_checksum", eco_format!("`{checksum}` is no such checksum"), hint);
        }
        if !is_given("key_source") {
            report("key_checksum", "a checksum needs a `key_source`".into(), "add `key_source`");
        }
    }
    match should.text("key_source") {
        Some(url) if kilter_fetch::is_url(url) => {
            if let Err(problem) = kilter_fetch::check_url(url) {
                report("key_source", problem.into(), "write an address such as https://example.org/key.asc");
            } else if !is_given("key_checksum") && !kilter_fetch::is_protected(url) {
                let problem = "anyone on the way can change a key from http://";
                report("key_source", problem.into(), "write https://, or add `key_checksum`");
            }
        }
        Some(path) if !atomic_rewrite::is_normal(path) => {
            let problem = eco_format!("`{path}` is neither an address nor an absolute path without `.`, `..` and `//`");
            report("key_source", problem, "write a path such as /srv/keys/vendor.asc");
        }
        _ => {}
    }
}

/// Checks a value of `Signed-By`.
fn signed_by(text: &str) -> Result<(), EcoString> {
    if text.contains(key::ARMOR) {
        return match key::form(text.as_bytes()) {
            Ok(_) if text.trim_start().starts_with(key::ARMOR) => Ok(()),
            Ok(_) => Err("the text begins before the key".into()),
            Err(why) => Err(why.into()),
        };
    }
    if text.starts_with('/') {
        return match atomic_rewrite::is_normal(text) && !text.contains(is_separator) {
            true => Ok(()),
            false => Err(eco_format!("`{text}` is no absolute path without `.`, `..`, `//` and spaces")),
        };
    }
    let is_fingerprint = |word: &str| {
        let digits = word.trim_end_matches('!');
        digits.len() >= 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match text.split([' ', ',']).filter(|word| !word.is_empty()).all(is_fingerprint) {
        true => Ok(()),
        false => Err(eco_format!("`{}` is neither a path, nor a fingerprint, nor a key", text.escape_debug())),
    }
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
}
