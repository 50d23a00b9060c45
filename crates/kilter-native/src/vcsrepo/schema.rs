//! Schema of the type `vcsrepo`, its declared values and their problems.

use ecow::EcoString;
use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::ValidationError;

use crate::accounts::number_problem;
use crate::file::atomic_rewrite;

const DESC: &str = "\
Checkouts of git repositories.

```yaml
resources:
  vcsrepo[/srv/site]:
    source: https://git.example.org/site.git
    revision: v1.4.2
    owner: www-data
  vcsrepo[/srv/tools]:
    ensure: latest
    source: git@git.example.org:tools.git
    revision: main
    user: deploy
    identity: /home/deploy/.ssh/id_ed25519
  vcsrepo[/srv/git/site.git]:
    ensure: bare
  vcsrepo[/srv/old]:
    ensure: absent
```

With `present`, the checkout is at `revision` as last fetched: kilter contacts the source only if it does not have \
the revision. With `latest`, each check asks the source for the commit of `revision` (`git ls-remote`). A plan shows \
the present and the new commit. Without `revision`, `latest` follows the default branch of the source, and `present` \
accepts every commit. A `bare` repository is fetched once.

kilter checks the commit, the address of the source, deleted files and submodules. It restores deleted files. It \
never discards local changes unless `force` is `true`. Changed and untracked files stay. An update fails if it would \
overwrite them, or if the checkout has commits that the source does not have. Local commits on top of the \
declared branch are in sync. With `force`, changed files are differences. Untracked files stay, unless they are in \
the way.

A plan predicts the refusal of a removal, and of a commit that the checkout or a source on this machine has. For \
other new commits it names the changed files, which only a fetch compares with the commit.

git runs as `user`, without hooks and without questions: keys and credentials must work without a terminal. As root, \
kilter runs git only in a checkout of root or of `user`, below directories that no other user can change, because \
the configuration of a repository can contain commands. A foreign checkout is replaced if `force` is `true`. kilter \
lets `user` read a checkout or a local source of root in spite of git's `safe.directory`. git keeps the address of \
the source in the checkout, where others may read it: name no password there. Submodules with addresses in the file \
system are refused, as by git itself.";

pub(super) fn schema() -> TypeSchema {
    TypeSchema::new("vcsrepo", DESC)
        .attribute(
            "ensure",
            "Enum[present, latest, bare, absent]",
            Behaviour::Property,
            "State of the checkout: `present`, `latest`, `bare` (a repository without files), `absent`.",
        )
        .default("present")
        .attribute("path", "String[1]", Behaviour::Namevar, "Absolute path of the checkout: `/srv/site`.")
        .attribute(
            "source",
            "String[1]",
            Behaviour::Property,
            "Repository to fetch from: `https://git.example.org/site.git`, `git@git.example.org:site.git`, \
             `/srv/git/site.git`. Without it, a new repository is empty.",
        )
        .attribute(
            "revision",
            "String[1]",
            Behaviour::Property,
            "Branch, tag or commit: `main`, `v1.4.2`, `1a2b3c4d`. A branch comes before a tag of the same name; \
             `refs/tags/v1` names the tag.",
        )
        .attribute(
            "owner",
            "Variant[String[1], Integer[0]]",
            Behaviour::Property,
            "User that the files belong to, by name or number. Default: `user`.",
        )
        .attribute(
            "group",
            "Variant[String[1], Integer[0]]",
            Behaviour::Property,
            "Group that the files belong to, by name or number. Default: the primary group of the user.",
        )
        .attribute(
            "user",
            "Variant[String[1], Integer[0]]",
            Behaviour::Parameter,
            "User that git runs as. Default: `owner`, then the owner of an existing checkout, then the user of kilter.",
        )
        .attribute("identity", "String[1]", Behaviour::Parameter, "File with the private SSH key: `/root/.ssh/deploy`.")
        .attribute("remote", "String[1]", Behaviour::Parameter, "Name of the source in the repository.")
        .default("origin")
        .attribute(
            "depth",
            "Integer[1]",
            Behaviour::Parameter,
            "Number of commits of a new checkout. kilter then fetches only `revision`.",
        )
        .attribute("submodules", "Boolean", Behaviour::Parameter, "True to check out submodules too.")
        .default(true)
        .attribute(
            "force",
            "Boolean",
            Behaviour::Parameter,
            "True to discard local changes, and to replace other files at the path.",
        )
        .default(false)
        .attribute("commit", "String[1]", Behaviour::ReadOnly, "Commit that is checked out.")
        .attribute(
            "declared_commit",
            "String[1]",
            Behaviour::ReadOnly,
            "Commit of the declared revision, here or at the source.",
        )
        .attribute(
            "deleted_files",
            "Array[String[1]]",
            Behaviour::ReadOnly,
            "Files that are deleted from the checkout.",
        )
        .attribute("changed_files", "Array[String[1]]", Behaviour::ReadOnly, "Files that differ from the commit.")
        .attribute(
            "changed_submodules",
            "Array[String[1]]",
            Behaviour::ReadOnly,
            "Submodules that are not at the commit of the checkout.",
        )
        .features(&[Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ensure {
    Present,
    Latest,
    Bare,
    Absent,
}

/// Declared values of a checkout.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeclaredCheckout<'a> {
    pub(super) path: &'a str,
    pub(super) ensure: Ensure,
    pub(super) source: Option<&'a str>,
    pub(super) revision: Option<&'a str>,
    pub(super) owner: Option<&'a Value>,
    pub(super) group: Option<&'a Value>,
    pub(super) user: Option<&'a Value>,
    pub(super) identity: Option<&'a str>,
    pub(super) remote: &'a str,
    pub(super) depth: Option<i64>,
    pub(super) submodules: bool,
    pub(super) force: bool,
}

impl<'a> DeclaredCheckout<'a> {
    pub(super) fn of(path: &'a str, should: Option<&'a Attributes>) -> DeclaredCheckout<'a> {
        let text = |attribute| should.and_then(|should| should.text(attribute));
        let value = |attribute| should.and_then(|should| should.get(attribute));
        let flag = |attribute| should.and_then(|should| should.get_bool(attribute));
        DeclaredCheckout {
            path: path.trim_end_matches('/'),
            ensure: match text("ensure") {
                Some("absent") => Ensure::Absent,
                Some("latest") => Ensure::Latest,
                Some("bare") => Ensure::Bare,
                _ => Ensure::Present,
            },
            source: text("source"),
            revision: text("revision"),
            owner: value("owner"),
            group: value("group"),
            user: value("user").or(value("owner")),
            identity: text("identity"),
            remote: text("remote").unwrap_or("origin"),
            depth: value("depth").and_then(|depth| depth.unwrap_sensitive().as_integer()),
            submodules: flag("submodules") == Some(true),
            force: flag("force") == Some(true),
        }
    }

    /// Returns true if the source is a path of this machine.
    pub(super) fn local_source(&self) -> Option<&'a str> {
        let source = self.source?;
        let path = source.strip_prefix("file://").unwrap_or(source);
        path.starts_with('/').then_some(path)
    }

    /// Returns the problems of the values, which must be known.
    pub(super) fn problems(&self, deferred: &[&str]) -> Vec<ValidationError> {
        let mut found = Vec::new();
        if !atomic_rewrite::is_normal(self.path) || self.path.is_empty() {
            let problem = format!("`{}` is no absolute path without `.`, `..` and `//`", self.path);
            found.push(ValidationError::with("path", problem).hint("write a path such as /srv/site"));
        }
        if let Some(problem) = self.source.and_then(source_problem) {
            found.push(ValidationError::with("source", problem).hint(
                "write https://HOST/PATH, ssh://USER@HOST/PATH, USER@HOST:PATH, git://HOST/PATH, file:///PATH or /PATH",
            ));
        }
        if let Some(revision) = self.revision.filter(|revision| !is_git_reference(revision)) {
            let problem = ValidationError::with("revision", format!("`{revision}` names no branch, tag or commit"));
            found.push(problem.hint("write a name such as main or v1.4.2, or the digits of a commit"));
        }
        if !is_remote(self.remote) {
            let problem = ValidationError::with("remote", format!("`{}` is no name of a remote", self.remote));
            found.push(problem.hint("write letters, digits, `_`, `-` and `.`"));
        }
        if let Some(identity) = self.identity.filter(|identity| !atomic_rewrite::is_normal(identity)) {
            found.push(ValidationError::with("identity", format!("`{identity}` is no absolute path")));
        }
        if self.ensure == Ensure::Latest && self.source.is_none() && !deferred.contains(&"source") {
            found.push(ValidationError::with("source", "`ensure: latest` needs a source").hint("add `source`"));
        }
        if self.ensure == Ensure::Bare && self.revision.is_some() {
            let problem = ValidationError::with("revision", "a bare repository has no checkout, so no revision");
            found.push(problem.hint("remove `revision`, or write `ensure: present`"));
        }
        for (attribute, account) in [("user", self.user), ("owner", self.owner), ("group", self.group)] {
            found.extend(account.and_then(|account| number_problem(attribute, account)));
        }
        if let (Some(user), Some(owner)) = (self.user, self.owner)
            && user.to_text() != owner.to_text()
        {
            let problem = format!("git runs as `{user}`, so the files cannot belong to `{owner}`");
            found.push(
                ValidationError::with("owner", problem)
                    .hint("declare one of them; `group` lets other users read the files"),
            );
        }
        found
    }
}

fn is_remote(name: &str) -> bool {
    !name.starts_with(['-', '.'])
        && !name.ends_with(".lock")
        && !name.contains("..")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Returns true for a name that git accepts (git-check-ref-format(1)) and that is no option and no expression.
pub fn is_git_reference(name: &str) -> bool {
    let is_special = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    !name.is_empty()
        && !name.starts_with(['-', '/', '+'])
        && !name.ends_with(['/', '.'])
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains("//")
        && !matches!(name, "@" | "HEAD")
        && !name.contains(is_special)
        && name.split('/').all(|part| !part.starts_with('.') && !part.ends_with(".lock"))
}

fn source_problem(source: &str) -> Option<String> {
    let is_plain = !source.starts_with('-') && !source.contains(|c: char| c.is_control() || c.is_whitespace());
    let is_known = match source.split_once("://") {
        Some((scheme, rest)) => {
            ["https", "http", "ssh", "git", "file"].contains(&scheme) && !rest.is_empty() && !rest.starts_with('-')
        }
        // `ext::COMMAND` and other helpers of git run programs.
        None => {
            source.starts_with('/')
                || source.split_once(':').is_some_and(|(host, path)| {
                    !host.is_empty() && !host.contains('/') && !path.starts_with(':') && !path.is_empty()
                })
        }
    };
    let is_path_plain = source.strip_prefix('/').is_some() && !source.contains(char::is_control);
    (!(is_known && (is_plain || is_path_plain))).then(|| format!("`{source}` is no address of a repository"))
}

/// Returns true for the digits of a commit, whole or shortened.
pub(super) fn is_commit(revision: &str) -> bool {
    (4..=64).contains(&revision.len()) && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns true for all digits of a commit (SHA-1 or SHA-256).
pub(super) fn is_whole_commit(revision: &str) -> bool {
    matches!(revision.len(), 40 | 64) && is_commit(revision)
}

/// Returns the first digits of a commit, for messages.
pub(super) fn short(commit: &str) -> EcoString {
    commit.get(..10).unwrap_or(commit).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_addresses_and_run_no_program() {
        for good in [
            "https://example.org/a.git",
            "git@example.org:a.git",
            "host:a",
            "ssh://git@example.org:22/a",
            "/srv/with space/a",
            "file:///srv/a",
            "git://127.0.0.1:9418/a",
        ] {
            assert_eq!(source_problem(good), None, "{good}");
        }
        for bad in [
            "",
            "-x",
            "ext::sh -c id",
            "ext::id",
            "fd::7",
            "--upload-pack=id",
            "relative/path",
            "ftp://x/y",
            "ssh://-oProxyCommand=id/x",
            "https://",
            "a\nb:c",
        ] {
            assert!(source_problem(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn revisions_are_names_and_no_expressions() {
        for good in ["main", "v1.2", "feature/x", "refs/tags/v1", "1a2b3c4", "a-b_c", "üb"] {
            assert!(is_git_reference(good), "{good}");
        }
        for bad in [
            "",
            "+a",
            "--upload-pack=x",
            "a//b",
            "-f",
            "HEAD",
            "HEAD~1",
            "main^",
            "a..b",
            "a:b",
            "a b",
            "@{u}",
            "/x",
            "x/",
            "x.lock",
            "a/.b",
            "*",
        ] {
            assert!(!is_git_reference(bad), "{bad}");
        }
    }
}
