//! Schema of the type `archive`, its declared values and their problems.

use ecow::EcoString;
use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::ValidationError;

use crate::accounts::number_problem;
use crate::file::{atomic_rewrite, unpack};

const DESC: &str = "\
Unpacked tar and zip archives, from this machine or from a server.

```yaml
resources:
  file[/opt/tool]:
    ensure: directory
  archive[/var/cache/tool-1.2.tar.gz]:
    source: https://example.org/tool-1.2.tar.gz
    checksum: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
    extract_path: /opt/tool
    strip_components: 1
    cleanup: false
```

kilter unpacks zip, and tar alone or compressed by gzip, xz or zstd. It needs no program for that. It recognises the \
format by the content. `extract_path` must exist.

Without `creates`, each check reads the archive and compares its members with the files: kind, content, mode, target \
of a link. An archive from a server then needs `cleanup: false`: kilter keeps it at `path`. With `creates`, the \
resource is in sync if that path exists, and the archive is neither read nor downloaded. kilter writes all members \
again if one of them differs. It never removes files that the archive does not have. `file` resources below \
`extract_path`, or below `creates` if that is declared, come after the archive.

The files belong to `user` and `group`, not to the owners in the archive. They get the modes in the archive without \
setuid, setgid and sticky bits and without write access for others, and inherit no access list. A list that gives \
more than the mode is a difference. kilter refuses an archive with absolute paths, `..`, devices, FIFOs, sparse files, \
or links that leave the directory, and writes through no link. An archive has at most 1,000,000 members and 16 GiB.

**Zip.** Members may be stored or deflated. kilter refuses encrypted members, other compression methods, two members \
of one name, and the extension for more than 4 GiB or 65,534 members (zip64). Members without a mode of Unix get the \
modes 0644 and 0755.";

pub(super) fn schema() -> TypeSchema {
    TypeSchema::new("archive", DESC)
        .attribute(
            "ensure",
            "Enum[present, absent]",
            Behaviour::Property,
            "`present`: the files are unpacked. `absent`: there is no file at `path`; unpacked files stay, unless \
             `remove_files` is `true`.",
        )
        .default("present")
        .attribute(
            "remove_files",
            "Boolean",
            Behaviour::Parameter,
            "With `ensure: absent`, remove the unpacked files that are as in the archive, and directories of the \
             archive that are empty then. The archive itself stays, unless kilter downloaded it.",
        )
        .default(false)
        .attribute(
            "path",
            "String[1]",
            Behaviour::Namevar,
            "Absolute path of the archive. With `cleanup: false`, kilter keeps a downloaded archive there.",
        )
        .attribute(
            "source",
            "String[1]",
            Behaviour::Parameter,
            "Path or address of the archive: `/srv/tool.tar.gz`, `https://example.org/tool.tar.gz`. Default: `path`.",
        )
        .attribute("extract_path", "String[1]", Behaviour::Parameter, "Directory to unpack to: `/opt/tool`.")
        .attribute(
            "creates",
            "String[1]",
            Behaviour::Parameter,
            "Path that exists if the archive is unpacked: `/opt/tool/bin/tool`. kilter then checks this path only.",
        )
        .attribute(
            "checksum",
            "String[1]",
            Behaviour::Parameter,
            "Digits of the SHA-256 or SHA-512 of the archive. kilter unpacks no other archive.",
        )
        .attribute(
            "checksum_type",
            "Enum[sha256, sha512]",
            Behaviour::Parameter,
            "Method of the checksum. The number of digits gives it too.",
        )
        .attribute(
            "strip_components",
            "Integer[0]",
            Behaviour::Parameter,
            "Number of directories to drop at the start of each path.",
        )
        .default(0)
        .attribute("cleanup", "Boolean", Behaviour::Parameter, "False to keep a downloaded archive at `path`.")
        .default(true)
        .attribute(
            "user",
            "Variant[String[1], Integer[0]]",
            Behaviour::Parameter,
            "User that the files belong to, by name or number. Default: the user of kilter.",
        )
        .attribute(
            "group",
            "Variant[String[1], Integer[0]]",
            Behaviour::Parameter,
            "Group that the files belong to, by name or number. Default: the primary group of the user.",
        )
        .attribute("differing_files", "Array[String[1]]", Behaviour::ReadOnly, "First members that differ.")
        .features(&[Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Declared values of an archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeclaredArchive<'a> {
    pub(super) is_absent: bool,
    /// True if the unpacked files are absent, and not only the archive.
    pub(super) removes_files: bool,
    /// Path of the archive.
    pub(super) path: &'a str,
    source: Option<&'a str>,
    pub(super) extract_path: &'a str,
    pub(super) creates: Option<&'a str>,
    checksum: Option<&'a str>,
    checksum_type: Option<&'a str>,
    pub(super) strip: usize,
    pub(super) cleanup: bool,
    pub(super) user: Option<&'a Value>,
    pub(super) group: Option<&'a Value>,
}

impl<'a> DeclaredArchive<'a> {
    pub(super) fn of(path: &'a str, should: &'a Attributes) -> DeclaredArchive<'a> {
        let strip = should.get("strip_components").and_then(|strip| strip.unwrap_sensitive().as_integer());
        DeclaredArchive {
            is_absent: should.text("ensure") == Some("absent"),
            removes_files: should.text("ensure") == Some("absent") && should.get_bool("remove_files") == Some(true),
            path: path.trim_end_matches('/'),
            source: should.text("source"),
            extract_path: should.text("extract_path").map_or("", |path| path.trim_end_matches('/')),
            creates: should.text("creates"),
            checksum: should.text("checksum"),
            checksum_type: should.text("checksum_type"),
            strip: strip.and_then(|strip| usize::try_from(strip).ok()).unwrap_or(0),
            cleanup: should.get_bool("cleanup") != Some(false),
            user: should.get("user"),
            group: should.get("group"),
        }
    }

    /// Returns the address of an archive on a server.
    pub(super) fn url(&self) -> Option<&'a str> {
        self.source.filter(|source| kilter_fetch::is_url(source))
    }

    /// Returns the path that the archive is read from; none if it is downloaded and not kept.
    pub(super) fn local(&self) -> Option<&'a str> {
        match self.url() {
            Some(_) => (!self.cleanup).then_some(self.path),
            None => Some(self.source.unwrap_or(self.path)),
        }
    }

    /// Returns the declared checksum: `{sha256}…`.
    pub(super) fn expected(&self) -> Option<EcoString> {
        self.checksum.and_then(unpack::canonical_checksum)
    }

    pub(super) fn problems(&self, deferred: &[&str]) -> Vec<ValidationError> {
        let mut found = Vec::new();
        let paths = [
            ("path", Some(self.path)),
            ("source", self.source.filter(|source| !kilter_fetch::is_url(source))),
            (
                "extract_path",
                Some(self.extract_path)
                    .filter(|_| (!self.is_absent || self.removes_files) && !deferred.contains(&"extract_path")),
            ),
            ("creates", self.creates),
        ];
        for (attribute, path) in paths {
            if let Some(path) = path.filter(|path| !atomic_rewrite::is_normal(path)) {
                let problem = format!("`{path}` is no absolute path without `.`, `..` and `//`");
                found.push(ValidationError::with(attribute, problem).hint("write a path such as /opt/tool"));
            }
        }
        if let Some(checksum) = self.checksum {
            let expected = unpack::canonical_checksum(checksum);
            let fits = |expected: &EcoString| self.checksum_type.is_none_or(|kind| expected[1..].starts_with(kind));
            if !expected.as_ref().is_some_and(fits) {
                let problem = ValidationError::with("checksum", format!("`{checksum}` is no such checksum"));
                found.push(problem.hint("write the 64 digits of SHA-256 or the 128 digits of SHA-512"));
            }
        }
        if let Some(url) = self.url() {
            if let Err(problem) = kilter_fetch::check_url(url) {
                found.push(ValidationError::with("source", problem));
            } else if self.checksum.is_none() && !deferred.contains(&"checksum") && !kilter_fetch::is_protected(url) {
                let problem = ValidationError::with("source", "anyone on the way can change an archive from http://");
                found.push(problem.hint("write https://, or add `checksum`"));
            }
            if !self.is_absent && self.creates.is_none() && !deferred.contains(&"creates") && self.cleanup {
                let problem = "without `creates`, each check needs the archive, which `cleanup` removes";
                found.push(ValidationError::with("cleanup", problem).hint("add `creates`, or `cleanup: false`"));
            }
        }
        for (attribute, account) in [("user", self.user), ("group", self.group)] {
            found.extend(account.and_then(|account| number_problem(attribute, account)));
        }
        found
    }
}
