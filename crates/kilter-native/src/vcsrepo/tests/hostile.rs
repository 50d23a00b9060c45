//! Authors of repositories and users of the machine who want the rights of the user of git.

use super::*;

fn need_root() {
    assert!(rustix::process::geteuid().is_root(), "this test acts as other users and needs root");
}

#[test]
fn program_in_a_hostile_repository_does_not_run() {
    let bench = VcsrepoBench::new();
    let mark = bench.home.path().join("mark");
    let hook = format!("#!/bin/sh\ntouch {}\n", mark.display());
    // A work tree that looks like a bare repository, for the time when `.git` is gone.
    let source = bench.source();
    fs::create_dir_all(source.join("objects")).unwrap();
    fs::create_dir_all(source.join("refs")).unwrap();
    for (file, content) in [
        ("HEAD", "ref: refs/heads/main\n".to_owned()),
        ("objects/x", String::new()),
        ("refs/x", String::new()),
        ("config", format!("[core]\nbare = true\nfsmonitor = touch {}\n", mark.display())),
        (".gitmodules", "[submodule \"x\"]\npath = x\nurl = ext::sh -c touch\nupdate = !touch\n".to_owned()),
    ] {
        fs::write(source.join(file), content).unwrap();
    }
    git(
        &source,
        &["update-index", "--add", "--cacheinfo", &format!("160000,{},x", git(&source, &["rev-parse", "HEAD"]))],
    );
    git(&source, &["add", "HEAD", "objects", "refs", "config", ".gitmodules"]);
    git(&source, &["commit", "-qm", "hostile"]);
    let with_submodules = bench.should(&[("revision", "main".into()), ("submodules", true.into())]);
    bench.refuses(&with_submodules, "git submodule failed");
    let should = bench.should(&[("revision", "main".into()), ("submodules", false.into())]);
    assert_eq!(bench.differences(&should), []);
    for name in ["post-checkout", "post-merge", "reference-transaction", "post-index-change"] {
        let path = bench.path().join(".git/hooks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &hook).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    git(&bench.path(), &["config", "core.fsmonitor", path_of(&mark)]);
    fs::remove_file(bench.path().join("a")).unwrap();
    bench.converge(&should);
    bench.converge(&bench.should(&[("revision", "v1".into()), ("submodules", false.into())]));
    fs::remove_dir_all(bench.path().join(".git")).unwrap();
    assert!(!bench.found(&should, false).unwrap().state.exists);
    assert!(!mark.exists());
}

fn path_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn checkout_belongs_to_its_user() {
    need_root();
    let bench = VcsrepoBench::new();
    let should = bench.should(&[("revision", "main".into()), ("owner", "nobody".into()), ("group", "nogroup".into())]);
    bench.converge(&should);
    for path in ["", "a", ".git", ".git/HEAD", ".git/objects"] {
        let found = fs::metadata(bench.path().join(path)).unwrap();
        assert_eq!((found.uid(), found.gid()), (65534, 65534), "{path}");
    }
    // Files of another owner are given back, links included.
    symlink("/etc/shadow", bench.path().join("link")).unwrap();
    chown(bench.path(), Some(0), Some(0)).unwrap();
    std::os::unix::fs::lchown(bench.path().join("link"), Some(0), Some(0)).unwrap();
    bench.converge(&should);
    assert_eq!(fs::symlink_metadata(bench.path().join("link")).unwrap().uid(), 65534);
    assert_eq!(fs::metadata("/etc/shadow").unwrap().uid(), 0);
    // Without a declared user, git runs as the owner.
    assert_eq!(bench.differences(&bench.should(&[("revision", "main".into())])), []);
    commit(&bench.source(), "c", "three");
    bench.converge(&bench.should(&[("ensure", "latest".into()), ("revision", "main".into())]));
    assert_eq!(fs::metadata(bench.path().join("c")).unwrap().uid(), 65534);
    let other = bench.should(&[("revision", "main".into()), ("owner", "root".into())]);
    let error = bench.found(&other, false).unwrap_err();
    assert!(error.contains("belongs to nobody, and git runs as root"), "{error}");
    bench.converge(&bench.should(&[("revision", "main".into()), ("owner", "root".into()), ("force", true.into())]));
    assert_eq!(fs::metadata(bench.path().join(".git/config")).unwrap().uid(), 0);
}

#[test]
fn repository_that_git_refuses_is_reported_with_its_owner_and_the_remedy() {
    need_root();
    let bench = VcsrepoBench::new();
    let should = bench.should(&[("revision", "main".into())]);
    bench.converge(&should);
    chown(bench.path(), Some(65534), None).unwrap();
    let (path, error) = (bench.path().display().to_string(), bench.found(&should, false).unwrap_err());
    let expected = format!(
        "git does not run as nobody in {path}, because {path}/.git belongs to root: run `chown -R nobody {path}`, or \
         declare `user: root` if all its files belong to root"
    );
    assert_eq!(error, expected);
}

#[test]
fn local_source_of_another_user_is_refused() {
    need_root();
    let bench = VcsrepoBench::new();
    let should = bench.should(&[("revision", "main".into())]);
    bench.converge(&should);
    for part in [bench.source().join(".git"), bench.source()] {
        chown(&part, Some(65534), None).unwrap();
    }
    let latest = bench.should(&[("ensure", "latest".into()), ("revision", "main".into())]);
    let error = bench.found(&latest, false).unwrap_err();
    assert!(error.starts_with("git does not run as root in ") && error.contains("belongs to nobody"), "{error}");
}

#[test]
fn hard_link_in_a_checkout_does_not_change_its_other_name() {
    need_root();
    let bench = VcsrepoBench::new();
    bench.converge(&bench.should(&[("revision", "main".into())]));
    let secret = bench.home.path().join("secret");
    fs::write(&secret, "").unwrap();
    fs::hard_link(&secret, bench.path().join("linked")).unwrap();
    bench.refuses(&bench.should(&[("revision", "main".into()), ("owner", "nobody".into())]), "has 2 hard links");
    assert_eq!(fs::metadata(&secret).unwrap().uid(), 0);
}

#[test]
fn directory_above_of_another_user_is_refused() {
    need_root();
    let bench = VcsrepoBench::new();
    chown(bench.home.path(), Some(65534), None).unwrap();
    bench.refuses(&bench.should(&[("revision", "main".into())]), "belongs to user 65534");
    assert!(!bench.path().exists());
    bench.converge(&bench.should(&[("revision", "main".into()), ("user", "nobody".into())]));
    chown(bench.home.path(), Some(0), None).unwrap();
    fs::remove_dir_all(bench.path()).unwrap();
    // An empty directory that others can write to could get a hostile repository.
    fs::create_dir(bench.path()).unwrap();
    fs::set_permissions(bench.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    for user in ["root", "nobody"] {
        bench.refuses(
            &bench.should(&[("revision", "main".into()), ("user", user.into())]),
            "can be written by everybody",
        );
    }
}
