//! The trust rule on real files; a part of it needs root, which gives files to other users.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use kilter_process::trust::{Changer, Distrust, TrustPolicy};
use kilter_process::{Invocation, SpawnError, run};

/// A user other than root and the user of the tests.
const STRANGER: u32 = 4711;

struct TrustTree(tempfile::TempDir);

impl TrustTree {
    /// A directory of this process's user, below one that only it can write to.
    fn new() -> TrustTree {
        let tree = TrustTree(tempfile::tempdir().unwrap());
        tree.mode("", 0o755);
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.path().to_owned() } else { self.0.path().join(name) }
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "text").unwrap();
        self.mode(name, 0o644);
        path
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    fn give(&self, name: &str) {
        lchown(self.path(name), Some(STRANGER), Some(STRANGER)).unwrap();
    }
}

/// The rule for root, for a process of whichever user: its files count as root's.
fn root() -> TrustPolicy {
    TrustPolicy::root().with_user(rustix::process::geteuid().as_raw())
}

fn need_root() {
    assert!(rustix::process::geteuid().is_root(), "run this test as root: it gives files to other users and groups");
}

/// The component that another user can change, and who.
fn refused(policy: &TrustPolicy, path: &Path) -> Option<(PathBuf, Changer)> {
    match policy.read(path, 100) {
        Ok(bytes) => {
            assert_eq!(bytes, b"text");
            None
        }
        Err(Distrust::Changeable { component, by, .. }) => Some((component, by)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let tree = TrustTree::new();
    let path = tree.file("a");
    assert_eq!(refused(&root(), &path), None);
    tree.mode("a", 0o646);
    assert_eq!(refused(&root(), &path), Some((path.clone(), Changer::Everybody(0o646))));
    let text = root().open(&path).unwrap_err().to_string();
    let shown = path.display();
    let expected = format!(
        "not used by root: it can be written by everybody (mode 0646); change that (chmod o-w {shown}) or accept it \
         (--trust {shown})"
    );
    assert_eq!(text, expected);
    let user = TrustPolicy::of(STRANGER).with_user(rustix::process::geteuid().as_raw());
    assert_eq!(refused(&user, &path), None, "who is not root decides for herself");
}

#[test]
fn a_directory_on_the_way_that_others_can_write_is_refused_unless_it_is_sticky() {
    let tree = TrustTree::new();
    let path = tree.file("shared/below/a");
    tree.mode("shared", 0o757);
    assert_eq!(refused(&root(), &path), Some((tree.path("shared"), Changer::Everybody(0o757))));
    tree.mode("shared", 0o1777);
    assert_eq!(refused(&root(), &path), None);
    let listed = root().directory(&tree.path("shared")).unwrap_err();
    assert!(listed.to_string().starts_with("not used by root: it can be written by everybody (mode 1777)"), "{listed}");
    assert!(root().directory(&tree.path("shared/below")).is_ok());
}

#[test]
fn a_second_hard_link_in_a_sticky_directory_is_refused() {
    let tree = TrustTree::new();
    let path = tree.file("shared/a");
    tree.mode("shared", 0o1777);
    fs::hard_link(&path, tree.path("other")).unwrap();
    assert_eq!(refused(&root(), &path), Some((path.clone(), Changer::Linked(2))));
    assert_eq!(refused(&root(), &tree.path("other")), None, "nobody else can link anything there");
}

#[test]
fn files_directories_and_links_of_another_user_are_refused() {
    need_root();
    let tree = TrustTree::new();
    let path = tree.file("below/a");
    tree.give("below/a");
    assert_eq!(refused(&root(), &path), Some((path.clone(), Changer::Owner(STRANGER, 0o644))));
    assert_eq!(refused(&root().with_user(STRANGER), &path), None);
    chown(&path, Some(0), Some(0)).unwrap();
    tree.give("below");
    assert_eq!(refused(&root(), &path), Some((tree.path("below"), Changer::Owner(STRANGER, 0o755))));
    chown(tree.path("below"), Some(0), Some(0)).unwrap();
    symlink("below/a", tree.path("link")).unwrap();
    assert_eq!(refused(&root(), &tree.path("link")), None);
    tree.give("link");
    assert_eq!(refused(&root(), &tree.path("link")), Some((tree.path("link"), Changer::Owner(STRANGER, 0o777))));
    symlink(tree.path("shared/on"), tree.path("to-shared")).unwrap();
    fs::create_dir(tree.path("shared")).unwrap();
    tree.mode("shared", 0o777);
    symlink("../below", tree.path("shared/on")).unwrap();
    let through = tree.path("to-shared/a");
    assert_eq!(refused(&root(), &through), Some((tree.path("shared"), Changer::Everybody(0o777))));
    tree.mode("shared", 0o1777);
    assert_eq!(refused(&root(), &through), None);
    tree.give("shared/on");
    assert_eq!(refused(&root(), &through), Some((tree.path("shared/on"), Changer::Owner(STRANGER, 0o777))));
}

#[test]
fn entry_of_third_user_in_sticky_directory_is_refused() {
    need_root();
    let tree = TrustTree::new();
    let path = tree.file("shared/a");
    tree.mode("shared", 0o1777);
    tree.give("shared/a");
    assert_eq!(refused(&TrustPolicy::of(STRANGER), &path), None);
    assert_eq!(refused(&TrustPolicy::of(STRANGER + 1), &path), Some((path.clone(), Changer::Intruder(STRANGER))));
    tree.mode("shared", 0o755);
    assert_eq!(refused(&TrustPolicy::of(STRANGER + 1), &path), None, "the owner of the directory wants it there");
}

#[test]
fn a_group_may_write_if_it_is_roots_and_no_access_control_list_names_others() {
    need_root();
    let tree = TrustTree::new();
    let path = tree.file("a");
    chown(&path, None, Some(0)).unwrap();
    tree.mode("a", 0o664);
    assert_eq!(refused(&root(), &path), None);
    chown(&path, None, Some(STRANGER)).unwrap();
    assert_eq!(refused(&root(), &path), Some((path.clone(), Changer::Group(STRANGER, 0o664))));
    chown(&path, None, Some(0)).unwrap();
    // user::rw- user:4711:rw- group::r-- mask::rw- other::r--
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in
        [(1u16, 6u16, u32::MAX), (2, 6, STRANGER), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 4, u32::MAX)]
    {
        list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    let set = |list: &[u8]| {
        rustix::fs::setxattr(&path, "system.posix_acl_access", list, rustix::fs::XattrFlags::empty()).unwrap();
    };
    set(&list);
    assert_eq!(refused(&root(), &path), Some((path.clone(), Changer::Listed)));
    list[4 + 8 + 2] = 4;
    set(&list);
    assert_eq!(refused(&root(), &path), None, "an entry that only reads");
}

#[test]
fn accepted_path_covers_only_its_tree() {
    let tree = TrustTree::new();
    let (path, outside) = (tree.file("home/site/below/a"), tree.file("home/outside"));
    for name in ["home", "home/site", "home/site/below", "home/site/below/a", "home/outside"] {
        tree.mode(name, 0o777);
    }
    symlink("below/../../outside", tree.path("home/site/leaves")).unwrap();
    symlink("below/../below/a", tree.path("home/site/stays")).unwrap();
    let policy = root().with_path(&tree.path("home/site")).unwrap();
    assert_eq!(refused(&policy, &path), None);
    assert_eq!(refused(&policy, &tree.path("home/site/stays")), None);
    assert!(policy.directory(&tree.path("home/site/below")).is_ok());
    let home = Some((tree.path("home"), Changer::Everybody(0o777)));
    assert_eq!(refused(&policy, &outside), home);
    assert_eq!(refused(&policy, &tree.path("home/site/../outside")), home);
    let leaves = refused(&policy, &tree.path("home/site/leaves"));
    assert!(leaves.is_some(), "{leaves:?}");
    assert!(root().with_path(&tree.path("nothing")).is_err());
}

#[test]
fn link_out_of_accepted_path_is_checked() {
    let tree = TrustTree::new();
    let (path, beside, safe) = (tree.file("open/home/site/a"), tree.file("open/home/beside"), tree.file("safe"));
    symlink(&safe, tree.path("open/home/site/link")).unwrap();
    tree.mode("open", 0o777);
    let policy = root().with_path(&tree.path("open/home/site")).unwrap();
    let open = Some((tree.path("open"), Changer::Everybody(0o777)));
    assert_eq!(refused(&policy, &beside), open);
    assert_eq!(refused(&policy, &tree.path("open/home/site/../beside")), open);
    assert_eq!(refused(&policy, &tree.path("open/home/site/../site/a")), None);
    assert_eq!(refused(&policy, &path), None);
    assert_eq!(refused(&policy, &tree.path("open/home/site/link")), None, "the link is accepted");
}

#[test]
fn missing_or_irregular_file_has_own_error() {
    let tree = TrustTree::new();
    assert!(root().open(&tree.path("none/a")).unwrap_err().is_missing());
    assert!(root().open(&tree.file("a").join("b")).unwrap_err().is_missing());
    assert!(root().directory(&tree.path("a")).unwrap_err().is_missing());
    symlink("loop", tree.path("loop")).unwrap();
    let looped = root().open(&tree.path("loop")).unwrap_err().to_string();
    assert!(looped.contains("symbolic link"), "{looped}");
    let pipe = tree.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let told = root().read(&pipe, 100).unwrap_err().to_string();
    assert_eq!(told, "it is not a regular file");
    assert!(root().read(&tree.path("a"), 3).unwrap_err().to_string().contains("longer than 3 bytes"));
    assert!(root().read(Path::new("/"), 3).unwrap_err().to_string().contains("directory"));
}

#[test]
fn inherited_descriptor_is_trusted() {
    let tree = TrustTree::new();
    let path = tree.file("a");
    tree.mode("a", 0o666);
    let open = fs::File::open(&path).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&open);
    for path in [format!("/proc/self/fd/{number}"), format!("/dev/fd/{number}")] {
        let file = root().open(Path::new(&path)).unwrap();
        assert!(file.is_inherited());
        assert_eq!(file.read(100).unwrap(), b"text");
    }
}

#[test]
fn a_program_that_others_can_change_is_not_started() {
    let tree = TrustTree::new();
    let path = tree.file("program");
    fs::write(&path, "#!/bin/sh\nexit 3\n").unwrap();
    tree.mode("program", 0o755);
    let invocation = Invocation::new(&path).trusted(&root());
    assert_eq!(run(&invocation, None).unwrap().status.code(), Some(3));
    tree.mode("program", 0o757);
    let refused = run(&invocation, None).unwrap_err();
    assert!(matches!(refused, SpawnError::Untrusted { .. }), "{refused:?}");
    assert!(refused.with_sources().contains("was not started: not used by root: it can be written by everybody"));
}
