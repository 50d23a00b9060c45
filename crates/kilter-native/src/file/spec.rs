//! Desired state of a path, extracted from its attributes in a single pass.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Value};

use super::download::Download;
use super::kind::Kind;
use super::mode::{self, DeclaredMode};

/// Value of `ensure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ensure {
    /// No file.
    Absent,
    /// A file of any kind.
    Present,
    /// A file of this kind.
    Is(Kind),
}

/// Method to compare a copy with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checksum {
    /// By content, shown as SHA-256.
    Sha256,
    /// By content, shown as SHA-512.
    Sha512,
    /// By size and modification time.
    Mtime,
    /// By size.
    Size,
    /// No comparison after the first copy.
    None,
}

/// Desired state of a path. Borrows from the attributes; undef counts as not given.
#[derive(Clone, Debug)]
pub(super) struct Spec<'a> {
    pub(super) ensure: Ensure,
    pub(super) content: Option<&'a Value>,
    /// Path to copy from.
    pub(super) source: Option<&'a str>,
    /// Content to download.
    pub(super) download: Option<Download<'a>>,
    pub(super) target: Option<&'a Value>,
    pub(super) owner: Option<&'a Value>,
    pub(super) group: Option<&'a Value>,
    pub(super) mode: Option<&'a Value>,
    pub(super) acl: Option<&'a Value>,
    pub(super) backup: Option<&'a Value>,
    pub(super) validate_cmd: Option<&'a Value>,
    pub(super) checksum: Checksum,
    pub(super) recurse: bool,
    pub(super) purge: bool,
    pub(super) force: bool,
    pub(super) replace: bool,
    pub(super) show_diff: bool,
}

impl<'a> Spec<'a> {
    /// Reads canonical attributes.
    pub(super) fn of(should: &'a Attributes) -> Spec<'a> {
        let mut spec = Spec {
            ensure: Ensure::Present,
            content: None,
            source: None,
            download: None,
            target: None,
            owner: None,
            group: None,
            mode: None,
            acl: None,
            backup: None,
            validate_cmd: None,
            checksum: Checksum::Sha256,
            recurse: false,
            purge: false,
            force: false,
            replace: true,
            show_diff: true,
        };
        for (name, value) in should.iter().filter(|(_, value)| !value.is_undef()) {
            spec.take(name.as_str(), value);
        }
        if let Some(url) = spec.source.filter(|source| kilter_fetch::is_url(source)) {
            let expected = should.text("checksum").and_then(expected).map(|(_, expected)| expected);
            spec.download = Some(Download { url, expected });
            spec.source = None;
        }
        spec
    }

    fn take(&mut self, name: &str, value: &'a Value) {
        let truth = || value.as_bool().unwrap_or(false);
        match name {
            "ensure" => self.ensure = ensure(value.as_str().unwrap_or_default()),
            "content" => self.content = Some(value),
            "source" => self.source = value.as_str(),
            "target" => self.target = Some(value),
            "owner" => self.owner = Some(value),
            "group" => self.group = Some(value),
            "mode" => self.mode = Some(value),
            "acl" => self.acl = Some(value),
            "backup" => self.backup = Some(value).filter(|value| value.as_bool() != Some(false)),
            "validate_cmd" => self.validate_cmd = Some(value),
            "checksum" => self.checksum = checksum(value.as_str().unwrap_or_default()),
            "recurse" => self.recurse = truth(),
            "purge" => self.purge = truth(),
            "force" => self.force = truth(),
            "replace" => self.replace = truth(),
            "show_diff" => self.show_diff = truth(),
            _ => {}
        }
    }

    /// Returns true if the declaration determines access: a content, an owner, a group or a mode is given.
    pub(super) fn restricts_access(&self) -> bool {
        self.content.is_some()
            || self.source.is_some()
            || self.download.is_some()
            || self.owner.is_some()
            || self.group.is_some()
            || self.mode.is_some()
    }

    /// Returns true if the content comes from a path or a server.
    pub(super) fn reads_source(&self) -> bool {
        self.source.is_some() || self.download.is_some()
    }

    pub(super) fn mode(&self) -> Option<DeclaredMode> {
        DeclaredMode::parse(self.mode?.as_str()?)
    }

    /// Applies the declared mode to the bits `current`; returns none if no mode is declared.
    ///
    /// With `recurse`, readable directories also become searchable.
    pub(super) fn bits(&self, current: u32, kind: Kind) -> Option<u32> {
        let directory = kind == Kind::Directory;
        let declared = self.mode()?;
        let bits = declared.apply(current, directory);
        let exact = matches!(declared, DeclaredMode::Exact(_));
        Some(if self.recurse && directory && exact { mode::searchable(bits) } else { bits })
    }

    /// Returns true if the entries below the path are checked too.
    pub(super) fn has_tree(&self) -> bool {
        self.ensure == Ensure::Is(Kind::Directory) && (self.recurse || self.purge)
    }
}

fn ensure(word: &str) -> Ensure {
    match word {
        "absent" => Ensure::Absent,
        "file" => Ensure::Is(Kind::File),
        "directory" => Ensure::Is(Kind::Directory),
        "link" => Ensure::Is(Kind::Link),
        _ => Ensure::Present,
    }
}

fn checksum(word: &str) -> Checksum {
    match word {
        "sha512" => Checksum::Sha512,
        "mtime" => Checksum::Mtime,
        "size" => Checksum::Size,
        "none" => Checksum::None,
        word => expected(word).map_or(Checksum::Sha256, |(method, _)| method),
    }
}

/// Returns the method and the canonical text of a declared checksum: `{sha256}…`.
pub(super) fn expected(text: &str) -> Option<(Checksum, EcoString)> {
    let prefixed = |name| {
        let rest = text.strip_prefix('{').unwrap_or(text).strip_prefix(name)?;
        rest.strip_prefix(['}', ':'])
    };
    let (digits, only) = match (prefixed("sha256"), prefixed("sha512")) {
        (Some(digits), _) => (digits, Some(64)),
        (_, Some(digits)) => (digits, Some(128)),
        _ => (text, None),
    };
    let (method, name) = match digits.len() {
        64 => (Checksum::Sha256, "sha256"),
        128 => (Checksum::Sha512, "sha512"),
        _ => return None,
    };
    let is_valid = only.is_none_or(|only| only == digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_valid.then(|| (method, eco_format!("{{{name}}}{}", digits.to_ascii_lowercase())))
}

/// Returns the declared source if it is a path.
pub(super) fn source_path(should: &Attributes) -> Option<&str> {
    should.text("source").filter(|source| !kilter_fetch::is_url(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_digits_with_an_optional_method() {
        let (short, long) = ("0A".repeat(32), "b".repeat(128));
        for text in [short.clone(), format!("{{sha256}}{short}"), format!("sha256:{short}")] {
            assert_eq!(expected(&text), Some((Checksum::Sha256, eco_format!("{{sha256}}{}", "0a".repeat(32)))));
        }
        assert_eq!(expected(&long), Some((Checksum::Sha512, eco_format!("{{sha512}}{long}"))));
        for bad in ["", "sha256", "0a", "{sha512}0a", &format!("sha512:{short}"), &"g".repeat(64)] {
            assert_eq!(expected(bad), None, "{bad}");
        }
    }
}
