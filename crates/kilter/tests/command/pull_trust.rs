//! Versions of a source that must not be used, and sources that must not run anything.

use crate::pull::{Repository, out, store};
use crate::remote::run;
use crate::run::wait;
use crate::status::status;
use crate::support::*;

/// Creates a key of ssh, and returns its path and a line that allows its signatures.
fn key(place: &Place, name: &str) -> (String, String) {
    let path = place.path().join(name).display().to_string();
    run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &path]);
    let public = std::fs::read_to_string(format!("{path}.pub")).unwrap();
    (path, format!("{name}@example.com {public}"))
}

#[test]
fn rewritten_history_is_refused() {
    let place = Place::new();
    let repository = Repository::new(&place, "zero");
    let old = repository.declare("one");
    let running = repository.run(&place, &[]);
    wait("the first version", || out(&place) == "one");
    // Back to an earlier commit, and then a force push.
    for rewrite in [&["reset", "--quiet", "--hard", "HEAD~1"][..], &["commit", "--quiet", "--amend", "-m", "other"]] {
        repository.git(rewrite);
        let commit = repository.git(&["rev-parse", "--short=12", "HEAD"]);
        let is_told = |why: &str| why.starts_with(&format!("commit {commit} is not used: it does not descend from"));
        wait("the refusal", || status(&place, &[])["source"]["failure"]["why"].as_str().is_some_and(is_told));
        let shown = place.run(&["status"]);
        assert!(shown.code == 4 && shown.stdout.contains("--allow-rewind accepts it"), "{}", shown.stdout);
        assert_eq!(status(&place, &[])["source"]["version"], old.as_str());
        let metrics = place.run(&["status", "--format", "prometheus"]).stdout;
        assert!(metrics.contains("\nkilter_source_failed{reason=\"rejected\"} 1\n"), "{metrics}");
    }
    drop(running);
    let url = repository.url();
    let applied = place.run(&["apply", "--from", &url]);
    assert_eq!((applied.code, out(&place).as_str()), (4, "one"), "{}", applied.stderr);
    let planned = place.run(&["plan", "--from", &url]);
    assert!(planned.code == 1 && planned.stderr.contains("it does not descend from"), "{}", planned.stderr);
    // Lost files do not permit it either.
    std::fs::remove_dir_all(store(&place).join("versions")).unwrap();
    let applied = place.run(&["apply", "--from", &url]);
    assert!(applied.code == 1 && applied.stderr.contains("it does not descend from"), "{}", applied.stderr);
    let applied = place.run(&["apply", "--from", &url, "--allow-rewind"]);
    assert_eq!((applied.code, out(&place).as_str()), (0, "zero"), "{}", applied.stderr);
    // The accepted commit counts from now on.
    assert_eq!(place.run(&["apply", "--from", &url]).code, 0);
}

#[test]
fn only_signed_commits_are_used() {
    let place = Place::new();
    let repository = Repository::new(&place, "unsigned");
    let (good, line) = key(&place, "good");
    let (bad, bad_line) = key(&place, "bad");
    let signers = place.file("signers", &line);
    let url = repository.url();
    let apply = || place.run(&["apply", "--from", &url, "--signed-by", &signers]);
    let signed = |key: &str, content: &str| {
        repository.write("site.yaml", repository.manifest(content));
        repository.commit(&["-S", &format!("--gpg-sign={key}")])
    };
    let refused = apply();
    assert!(refused.code == 1 && refused.stderr.contains("it has no signature (--signed-by"), "{}", refused.stderr);
    assert_eq!(out(&place), "");

    signed(&good, "good");
    let running = repository.run(&place, &["--signed-by", &signers]);
    wait("the signed version", || out(&place) == "good");
    let is_refused = |text: &str| {
        wait("the refusal", || status(&place, &[])["source"]["failure"]["why"].to_string().contains(text));
        assert_eq!((place.run(&["status"]).code, out(&place).as_str()), (4, "good"));
    };
    signed(&bad, "bad");
    is_refused("its signature is not valid: ");
    repository.declare("unsigned again");
    is_refused("it has no signature");
    // Only the newest commit must be signed.
    signed(&good, "better");
    wait("the signed version", || out(&place) == "better");
    wait("the end of the failure", || status(&place, &[])["source"]["failure"].is_null());
    // A changed commit.
    let text = repository.git(&["cat-file", "commit", "HEAD"]).replace("Test <test", "Eve <test");
    place.file("commit", text + "\n");
    let path = place.path().join("commit").display().to_string();
    let changed = repository.git(&["hash-object", "-t", "commit", "-w", "--", &path]);
    let head = repository.git(&["rev-parse", "HEAD"]);
    repository.git(&["update-ref", "refs/heads/main", &changed]);
    wait("the refusal", || status(&place, &[])["source"]["failure"]["why"].to_string().contains("is not valid"));
    repository.git(&["update-ref", "refs/heads/main", &head]);
    wait("the end of the failure", || status(&place, &[])["source"]["failure"].is_null());
    drop(running);

    // A signature whose key has left the file no longer counts, not even for the stored version.
    place.file("signers", &bad_line);
    let revoked = apply();
    assert!(revoked.code == 1 && revoked.stderr.contains("the stored commit "), "{}", revoked.stderr);
    signed(&bad, "the other key");
    assert_eq!((apply().code, out(&place).as_str()), (0, "the other key"));
}

#[test]
fn signed_tag_vouches_for_its_commit_and_name() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let (good, line) = key(&place, "good");
    let signers = place.file("signers", &line);
    repository.git(&["-c", &format!("user.signingKey={good}"), "tag", "-s", "-m", "release", "v1"]);
    repository.git(&["tag", "-a", "-m", "release", "unsigned"]);
    repository.git(&["update-ref", "refs/tags/v2", "refs/tags/v1"]);
    let url = repository.url();
    let apply = |tag: &str| place.run(&["apply", "--from", &url, "--ref", tag, "--signed-by", &signers]);
    for tag in ["v1", "v1", "refs/tags/v1"] {
        assert_eq!(apply(tag).code, 0, "{tag}: {}", apply(tag).stderr);
    }
    assert_eq!(out(&place), "one");
    for (tag, why) in [("v2", "for a tag of another name"), ("unsigned", "it has no signature")] {
        let refused = apply(tag);
        assert!(refused.code == 1 && refused.stderr.contains(why), "{tag}: {}", refused.stderr);
    }
}

#[test]
fn file_of_the_signers_is_checked() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let url = repository.url();
    let signers = place.file("signers", "# nobody\n\n");
    let missing = place.path().join("missing").display().to_string();
    for (path, why) in [(&signers, "has no signer"), (&missing, "cannot read the file of the signers")] {
        let refused = place.run(&["apply", "--from", &url, "--signed-by", path]);
        assert!(refused.code == 1 && refused.stderr.contains(why), "{}", refused.stderr);
    }
    if is_root() {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&signers, mode).unwrap();
        let refused = place.run(&["apply", "--from", &url, "--signed-by", &signers]);
        assert!(refused.code == 1 && refused.stderr.contains("can be written by everybody"), "{}", refused.stderr);
    }
    let directory = place.path().display().to_string();
    let refused = place.run(&["apply", "--from", &directory, "--signed-by", &signers]);
    assert!(refused.code == 1 && refused.stderr.contains("needs a git repository"), "{}", refused.stderr);
}

#[test]
fn repository_starts_no_program_and_changes_no_content() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let started = place.path().join("started");
    let script = format!("#!/bin/sh\ntouch {}\ncat\n", started.display());
    let text = "a $Id$ \u{fc}\nb\n";
    repository.write("plain.txt", text);
    repository.write(
        ".gitattributes",
        "* text eol=crlf ident filter=evil\n*.txt working-tree-encoding=UTF-16 export-ignore\n",
    );
    repository.write(".gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = ext::sh -c touch% x\n");
    let head = repository.git(&["rev-parse", "HEAD"]);
    repository.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},s")]);
    // git refuses to add a file with this encoding: the text is UTF-8.
    let object = repository.git(&["hash-object", "-w", "--no-filters", "plain.txt"]);
    repository.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{object},plain.txt")]);
    repository.git(&["add", ".gitattributes", ".gitmodules"]);
    repository.git(&["commit", "--quiet", "-m", "attributes"]);
    let url = repository.url();
    let applied = place.run(&["apply", "--from", &url]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    let store = store(&place);
    let tree = |commit: &str| store.join("versions").join(commit).join("tree");
    let commit = repository.git(&["rev-parse", "HEAD"]);
    assert_eq!(std::fs::read_to_string(tree(&commit).join("plain.txt")).unwrap(), text);
    assert_eq!(std::fs::read_dir(tree(&commit).join("s")).unwrap().count(), 0);

    // Hooks and a filter as a configuration of the user could have them.
    let program = |path: &std::path::Path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &script).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    for hook in ["post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman"] {
        program(&store.join("repo.git/hooks").join(hook));
    }
    let filter = place.path().join("filter");
    program(&filter);
    let config = store.join("repo.git/config");
    let settings = std::fs::read_to_string(&config).unwrap();
    let evil = format!("[filter \"evil\"]\n\tsmudge = {0}\n\trequired = true\n", filter.display());
    std::fs::write(&config, settings + &evil).unwrap();
    repository.git(&["commit", "--quiet", "--allow-empty", "-m", "again"]);
    let applied = place.run(&["apply", "--from", &url]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    let commit = repository.git(&["rev-parse", "HEAD"]);
    assert_eq!(std::fs::read_to_string(tree(&commit).join("plain.txt")).unwrap(), text);
    assert!(!started.exists());
}

#[test]
fn links_out_of_the_source_are_refused() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    place.file("outside.yaml", "vars: {x: 1}\n");
    let link = |name: &str, target: &str| std::os::unix::fs::symlink(target, repository.path.join(name)).unwrap();
    let outside = place.path().join("outside.yaml").display().to_string();
    link("link.yaml", &outside);
    link("up", "..");
    link("inside.yaml", "site.yaml");
    repository.write("include.yaml", "include: [link.yaml]\nresources: {}\n");
    repository.write("content.yaml", "resources:\n  file[/x]: {content: {file: link.yaml}}\n");
    repository.write("above.yaml", "include: [../version.json]\nresources: {}\n");
    repository.write("absolute.yaml", format!("include: ['{outside}', inside.yaml]\nresources: {{}}\n"));
    repository.commit(&[]);
    let url = repository.url();
    for path in ["link.yaml", "up", "up/repo.git/config", "include.yaml", "content.yaml", "above.yaml"] {
        let refused = place.run(&["plan", "--from", &url, "--path", path]);
        assert!(refused.code == 1, "{path}: {} {}", refused.stdout, refused.stderr);
        let is_told = refused.stderr.contains("is outside of the source") || refused.stderr.contains("has no usable");
        assert!(is_told, "{path}: {}", refused.stderr);
    }
    // An absolute path names a file of this machine, as in each manifest.
    for path in ["inside.yaml", "absolute.yaml"] {
        let planned = place.run(&["plan", "--from", &url, "--path", path]);
        assert_eq!(planned.code, 2, "{path}: {}", planned.stderr);
    }
}

#[test]
fn large_repositories_are_refused() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let url = repository.url();
    let apply = || place.run(&["apply", "--from", &url, "--max-size", "1"]);
    assert_eq!(apply().code, 0);
    repository.write("zeros", vec![0; 3 << 20]);
    repository.declare("two");
    let refused = apply();
    assert!(
        refused.code == 4 && refused.stderr.contains("its files have 4 MiB, more than 1 MiB"),
        "{}",
        refused.stderr
    );
    repository.write("zeros", "");
    // Texts that cannot be compressed. git stores more than 100 objects in one file.
    let mut state: u64 = 1;
    for part in 0..150 {
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        repository.write(&format!("random/{part}"), random.take(20_000).collect::<Vec<u8>>());
    }
    repository.declare("three");
    let refused = apply();
    assert!(refused.code == 4 && refused.stderr.contains("the repository is larger than 1 MiB"), "{}", refused.stderr);
    assert_eq!(out(&place), "one");
    assert_eq!(place.run(&["apply", "--from", &url]).code, 0);
    assert_eq!(out(&place), "three");
}

#[test]
fn dangerous_sources_are_refused() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let url = repository.url();
    for (source, why) in [
        ("--upload-pack=touch x", "is no source of manifests"),
        ("ext::sh -c 'touch x'", "is no source of manifests"),
        ("git+ext::sh -c 'touch x'", "is no source of manifests"),
        ("git+http://host/site.git", "is no source of manifests"),
        ("git@host:site.git", "is no source of manifests"),
        ("git+ssh://-oProxyCommand=touch/x", "has no valid host"),
        ("git+https://user:s3cret@host/site.git", "contains a user or a password"),
        ("git+ssh://user:s3cret@host/site.git", "contains a password"),
        ("/nonexistent", "SHA256SUMS does not exist"),
        ("repo", "is a git repository"),
    ] {
        let from = format!("--from={source}");
        let refused = place.run(&["apply", &from]);
        assert!(refused.code == 1 && refused.stderr.contains(why), "{source}: {}", refused.stderr);
        assert!(!refused.stderr.contains("s3cret"), "{}", refused.stderr);
    }
    for reference in ["--upload-pack=touch x", "a..b", "main:refs/heads/x", "HEAD", "+main"] {
        let refused = place.run(&["apply", "--from", &url, &format!("--ref={reference}")]);
        assert!(refused.code == 1 && refused.stderr.contains("is no name of a branch"), "{}", refused.stderr);
    }
    for args in
        [&["apply", "--from", &url, "site.yaml"][..], &["--on", "h", "apply", "--from", &url], &["apply", "--ref", "x"]]
    {
        assert_eq!(place.run(args).code, 1, "{args:?}");
    }
    assert!(!place.path().join("x").exists());
}
