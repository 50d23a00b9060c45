//! Reads a checkout: its commit, its local changes, and the commit that the declaration asks for.

use ecow::{EcoString, eco_format};

use super::git::{Git, GitSource, RepositoryGit};
use super::schema::{is_commit, is_whole_commit};

/// Namespace of references to the commits that kilter has checked out. They came from the source, so they are no local
/// commits, even if the source has dropped them.
pub(super) const DEPLOYED: &str = "refs/kilter/deployed";

/// Meaning of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Revision {
    Branch(EcoString),
    Tag(EcoString),
    Commit,
}

/// A revision and its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) revision: Revision,
    pub(super) commit: EcoString,
}

/// Commit and local changes of a work tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WorkTree {
    /// Commit that is checked out; none in an empty repository.
    pub(super) commit: Option<EcoString>,
    /// Branch that is checked out.
    pub(super) branch: Option<EcoString>,
    /// Tracked files that are deleted.
    pub(super) deleted: Vec<EcoString>,
    /// Tracked files with other changes.
    pub(super) changed: Vec<EcoString>,
    /// Files that are neither tracked nor ignored. Directories count once.
    pub(super) untracked: usize,
}

impl WorkTree {
    /// Reads the work tree. Untracked files are found only on request.
    ///
    /// # Errors
    /// If git fails.
    pub(super) fn read(git: &RepositoryGit<'_>, with_untracked: bool) -> Result<WorkTree, EcoString> {
        let untracked = if with_untracked { "--untracked-files=normal" } else { "--untracked-files=no" };
        let options = ["--porcelain=v2", "--branch", "-z", "--no-renames", "--ignore-submodules=all", untracked];
        let output = git.ask(&[&["status"], &options[..]].concat())?;
        Ok(WorkTree::parse(&output.unwrap_or_default()))
    }

    /// Parses the output of git-status(1), "Porcelain Format Version 2" with `-z`.
    fn parse(output: &[u8]) -> WorkTree {
        let mut tree = WorkTree::default();
        for record in output.split(|&byte| byte == 0) {
            let record = String::from_utf8_lossy(record);
            if let Some(commit) = record.strip_prefix("# branch.oid ").filter(|oid| *oid != "(initial)") {
                tree.commit = Some(commit.into());
            } else if let Some(branch) = record.strip_prefix("# branch.head ").filter(|name| *name != "(detached)") {
                tree.branch = Some(branch.into());
            } else if let Some(fields) = record.strip_prefix("1 ") {
                let (codes, path) = (fields.get(..2).unwrap_or_default(), fields.splitn(8, ' ').nth(7));
                let list = if codes == ".D" { &mut tree.deleted } else { &mut tree.changed };
                list.extend(path.map(EcoString::from));
            } else if record.starts_with("u ") {
                tree.changed.extend(record.splitn(11, ' ').nth(10).map(EcoString::from));
            } else if record.starts_with("? ") {
                tree.untracked += 1;
            }
        }
        tree
    }
}

/// Returns the submodules that are missing or not at the commit of the checkout.
///
/// # Errors
/// If git fails.
pub(super) fn changed_submodules(git: &RepositoryGit<'_>) -> Result<Vec<EcoString>, EcoString> {
    let output = git.ask(&["submodule", "status", "--recursive"])?.unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    let changed = output.lines().filter(|line| line.starts_with(['-', '+', 'U']));
    let path = |line: &str| {
        let path = line.get(1..)?.split_once(' ')?.1;
        Some(path.rsplit_once(" (").map_or(path, |(path, _)| path).into())
    };
    Ok(changed.filter_map(path).collect())
}

/// Returns the meaning of a revision by what the repository has; none if it does not have it.
///
/// # Errors
/// If git fails.
pub(super) fn local_target(
    git: &RepositoryGit<'_>,
    remote: Option<&str>,
    revision: &str,
) -> Result<Option<Target>, EcoString> {
    let (branch, tag) = names_of(revision);
    if let Some(branch) = branch {
        let fetched = remote.map(|remote| format!("refs/remotes/{remote}/{branch}"));
        for name in fetched.into_iter().chain([format!("refs/heads/{branch}")]) {
            if let Some(commit) = git.commit(&name)? {
                return Ok(Some(Target { revision: Revision::Branch(branch.into()), commit }));
            }
        }
    }
    if let Some(tag) = tag
        && let Some(commit) = git.commit(&format!("refs/tags/{tag}"))?
    {
        return Ok(Some(Target { revision: Revision::Tag(tag.into()), commit }));
    }
    match is_commit(revision) {
        true => Ok(git.commit(revision)?.map(|commit| Target { revision: Revision::Commit, commit })),
        false => Ok(None),
    }
}

/// Returns the names of a revision as a branch and as a tag.
fn names_of(revision: &str) -> (Option<&str>, Option<&str>) {
    match (revision.strip_prefix("refs/heads/"), revision.strip_prefix("refs/tags/")) {
        (Some(branch), _) => (Some(branch), None),
        (_, Some(tag)) => (None, Some(tag)),
        _ => (Some(revision), Some(revision)),
    }
}

/// Answer of a source about a revision.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RemoteTarget {
    At(Target),
    /// The first digits of a commit, which only a fetch resolves.
    Digits,
    /// The source has no commits.
    Empty,
}

/// Asks the source for a revision, or for its default branch.
///
/// # Errors
/// If the source does not answer, or does not have the revision.
pub(super) fn remote_target(
    git: &Git<'_>,
    source: &GitSource<'_>,
    revision: Option<&str>,
) -> Result<RemoteTarget, EcoString> {
    let names = match revision.map(names_of) {
        None => vec!["HEAD".to_owned()],
        Some((branch, tag)) => {
            let tags = tag.map(|tag| [format!("refs/tags/{tag}"), format!("refs/tags/{tag}^{{}}")]);
            branch.map(|branch| format!("refs/heads/{branch}")).into_iter().chain(tags.into_iter().flatten()).collect()
        }
    };
    let output = git.ls_remote(source, &names)?;
    answer(&output, revision)
}

fn answer(output: &str, revision: Option<&str>) -> Result<RemoteTarget, EcoString> {
    let lines = || output.lines().filter_map(|line| line.split_once('\t'));
    let commit = |wanted: &str| {
        let mut found = lines().filter(|(object, name)| *name == wanted && is_whole_commit(object));
        found.next().map(|(object, _)| EcoString::from(object))
    };
    let at = |revision, commit| RemoteTarget::At(Target { revision, commit });
    let Some(revision) = revision else {
        let Some(commit) = commit("HEAD") else { return Ok(RemoteTarget::Empty) };
        let branch =
            lines().find_map(|(object, name)| object.strip_prefix("ref: refs/heads/").filter(|_| name == "HEAD"));
        return Ok(at(branch.map_or(Revision::Commit, |branch| Revision::Branch(branch.into())), commit));
    };
    let (branch, tag) = names_of(revision);
    if let Some(branch) = branch
        && let Some(commit) = commit(&format!("refs/heads/{branch}"))
    {
        return Ok(at(Revision::Branch(branch.into()), commit));
    }
    if let Some(tag) = tag
        && let Some(commit) = commit(&format!("refs/tags/{tag}^{{}}")).or_else(|| commit(&format!("refs/tags/{tag}")))
    {
        return Ok(at(Revision::Tag(tag.into()), commit));
    }
    match (is_whole_commit(revision), is_commit(revision)) {
        (true, _) => Ok(at(Revision::Commit, revision.to_ascii_lowercase().into())),
        (false, true) => Ok(RemoteTarget::Digits),
        (false, false) => Err(eco_format!("the source has no branch and no tag `{revision}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    #[test]
    fn status_lists_deleted_changed_and_untracked_files() {
        let output = format!(
            "# branch.oid {A}\0# branch.head main\0# branch.upstream origin/main\0\
             1 .D N... 100644 100644 000000 {A} {A} a file\0\
             1 .M N... 100644 100644 100644 {A} {A} b\0\
             1 D. N... 100644 000000 000000 {A} {A} c\0\
             u UU N... 100644 100644 100644 100644 {A} {A} {A} d\0? e/\0"
        );
        let tree = WorkTree::parse(output.as_bytes());
        assert_eq!((tree.commit.as_deref(), tree.branch.as_deref()), (Some(A), Some("main")));
        assert_eq!(
            (&tree.deleted[..], &tree.changed[..]),
            (&["a file".into()][..], &["b", "c", "d"].map(Into::into)[..])
        );
        assert_eq!(tree.untracked, 1);
        assert_eq!(WorkTree::parse(b"# branch.oid (initial)\0# branch.head main\0").commit, None);
    }

    #[test]
    fn source_answers_with_branches_before_tags() {
        let output =
            format!("{A}\trefs/heads/v1\n{B}\trefs/tags/v1\n{A}\trefs/tags/v1^{{}}\n{B}\trefs/x/refs/heads/v2\n");
        let branch = Target { revision: Revision::Branch("v1".into()), commit: A.into() };
        assert_eq!(answer(&output, Some("v1")), Ok(RemoteTarget::At(branch)));
        let tag = Target { revision: Revision::Tag("v1".into()), commit: A.into() };
        assert_eq!(answer(&output, Some("refs/tags/v1")), Ok(RemoteTarget::At(tag)));
        assert!(answer(&output, Some("v2")).is_err());
        assert_eq!(answer(&output, Some("abcd")), Ok(RemoteTarget::Digits));
    }

    #[test]
    fn source_answers_with_its_default_branch() {
        let output = format!("ref: refs/heads/main\tHEAD\n{A}\tHEAD\n");
        let target = Target { revision: Revision::Branch("main".into()), commit: A.into() };
        assert_eq!(answer(&output, None), Ok(RemoteTarget::At(target)));
        assert_eq!(answer("", None), Ok(RemoteTarget::Empty));
    }
}
