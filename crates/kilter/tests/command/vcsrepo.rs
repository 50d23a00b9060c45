//! Checkouts of git repositories.

use std::path::Path;

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

const CHECKOUT: &str = "resources:\n  file[DIR/site/local]: {content: \"below\\n\"}\n  \
                        vcsrepo[DIR/site]: {source: DIR/source, revision: main, ensure: latest}\n";

#[track_caller]
fn git(directory: &Path, args: &[&str]) -> String {
    let settings = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
    let mut command = std::process::Command::new("git");
    let output = command.current_dir(directory).args(settings).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Adds a commit to the source, and returns its first digits.
#[track_caller]
fn commit(place: &Place, file: &str) -> String {
    let source = place.path().join("source");
    std::fs::write(source.join(file), file).unwrap();
    git(&source, &["add", file]);
    git(&source, &["commit", "-qm", file]);
    git(&source, &["rev-parse", "HEAD"])[..10].to_owned()
}

fn with_source() -> Place {
    let place = Place::new();
    let source = place.path().join("source");
    std::fs::create_dir(&source).unwrap();
    git(&source, &["init", "-q", "-b", "main"]);
    place
}

#[test]
fn checkout_is_planned_with_its_commits_and_applied() {
    let place = with_source();
    let old = commit(&place, "old");
    let path = manifest(&place, CHECKOUT);
    let plan = place.run(&["plan", &path]);
    assert_eq!(plan.code, 2, "{plan:?}");
    assert!(plan.stdout.contains(&format!("ensure: absent → latest at {old} (main)")), "{}", plan.stdout);
    assert!(!place.path().join("site").exists(), "a plan changes nothing");
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert_eq!(content(&place.path().join("site/local")), "below\n", "the file comes after the checkout");
    assert_eq!(place.run(&["plan", &path]).code, 0);
    let new = commit(&place, "new");
    let plan = place.run(&["plan", "-o", &format!("{}/saved", place.path().display()), &path]);
    assert!(plan.stdout.contains(&format!("revision: {old} → {new} (main)")), "{}", plan.stdout);
    commit(&place, "newest");
    let stale = place.run(&["apply", &format!("{}/saved", place.path().display())]);
    assert!(stale.stdout.contains("its step of the plan is stale"), "{}", stale.stdout);
    assert!(!place.path().join("site/new").exists(), "a stale plan changes nothing");
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert!(place.path().join("site/newest").exists());
}

#[test]
fn damaged_checkout_is_repaired_by_run() {
    let place = with_source();
    commit(&place, "old");
    let running = Running::begin(&place, &[&manifest(&place, CHECKOUT)]);
    let site = place.path().join("site");
    wait("the checkout", || site.join("local").exists());
    std::fs::remove_file(site.join("old")).unwrap();
    wait("the deleted file", || site.join("old").exists());
    git(&site, &["remote", "set-url", "origin", "/elsewhere"]);
    let address = place.path().join("source");
    wait("the address", || git(&site, &["remote", "get-url", "origin"]) == address.to_str().unwrap());
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143), "{err}");
}

#[test]
fn removed_and_updated_checkouts_are_undone_to_their_commit() {
    let place = with_source();
    commit(&place, "old");
    let (site, declared) =
        (place.path().join("site"), CHECKOUT.replace("  file[DIR/site/local]: {content: \"below\\n\"}\n", ""));
    assert_eq!(place.run(&["apply", &manifest(&place, &declared)]).code, 0);
    commit(&place, "new");
    assert_eq!(place.run(&["apply", &manifest(&place, &declared)]).code, 0);
    assert!(site.join("new").exists());
    let ended = place.run(&["undo", "last"]);
    assert!(ended.code == 0 && site.join("old").exists() && !site.join("new").exists(), "{ended:?}");
    let removal = "resources:\n  vcsrepo[DIR/site]: {ensure: absent}\n";
    assert_eq!(place.run(&["apply", &manifest(&place, removal)]).code, 0);
    assert!(!site.exists());
    let ended = place.run(&["undo", "last"]);
    assert!(ended.code == 0 && site.join("old").exists() && !site.join("new").exists(), "{ended:?}");
    // A checkout without a source cannot be restored.
    git(&site, &["remote", "remove", "origin"]);
    let removal = "resources:\n  vcsrepo[DIR/site]: {ensure: absent, force: true}\n";
    assert_eq!(place.run(&["apply", &manifest(&place, removal)]).code, 0);
    let refused = place.run(&["undo", "last"]);
    let why = "it has no source, and its commits are not saved";
    assert!(refused.code == 1 && format!("{}{}", refused.stdout, refused.stderr).contains(why), "{refused:?}");
}
