use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use kilter_model::{Because, Difference, ResourceRef, Value};
use kilter_provider::{Account, PreviewContext, check, get_checked};

use super::*;
use crate::accounts::fake::Fake;

const ONE: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh";
const TWO: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIGtleXMgYXJlIG1hZGUgb2YgMzIgYnl0ZXMgYXQgbGVh";
const THREE: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIHRoaXMgb25lIGlzIGFub3RoZXIga2V5IG9mIDMyIGI0";

/// Two users with homes, and one whose home is missing.
struct SshKeyBench {
    fake: Fake,
    provider: SshAuthorizedKeyProvider,
}

impl SshKeyBench {
    fn new() -> SshKeyBench {
        assert!(rustix::process::geteuid().is_root(), "run this test as root: it makes files of other users");
        let fake = Fake::new("", "", "");
        let home = |name: &str| fake.root.path().join("home").join(name);
        let mut passwd = String::new();
        for (name, id) in [("eve", 5001), ("ada", 5002), ("lost", 5003)] {
            passwd += &format!("{name}:x:{id}:{id}::{}:/bin/sh\n", home(name).display());
            if name != "lost" {
                std::fs::create_dir_all(home(name)).unwrap();
                chown(home(name), Some(id), Some(id)).unwrap();
            }
        }
        passwd += &format!("root:x:0:0::{}:/bin/sh\n", home("root").display());
        fake.write("passwd", &passwd);
        let provider = SshAuthorizedKeyProvider::new(fake.system());
        SshKeyBench { fake, provider }
    }

    fn home(&self, user: &str) -> PathBuf {
        self.fake.root.path().join("home").join(user)
    }

    fn file(&self, user: &str) -> PathBuf {
        self.home(user).join(".ssh/authorized_keys")
    }

    fn read(&self, user: &str) -> String {
        std::fs::read_to_string(self.file(user)).unwrap_or_else(|_| "(none)".to_owned())
    }

    fn write(&self, user: &str, text: impl AsRef<[u8]>) {
        let (path, id) = (self.file(user), self.home(user).metadata().unwrap().uid());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        for path in [path.parent().unwrap(), &path] {
            chown(path, Some(id), Some(id)).unwrap();
        }
    }

    fn check(&self, name: &str, should: &Attributes) -> Result<Vec<Difference>, ProviderError> {
        let name = name.into();
        let found = check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0);
        found.map(|found| found.differences)
    }

    fn set(&self, name: &str, should: &Attributes) -> Outcome {
        let (name, is) = (name.into(), State::absent(name));
        let change = Change::new(&name, &is, Some(should), &[]);
        self.provider.set(&Context::empty(), &[change], Mode::Apply).remove(0)
    }

    /// Changes a resource that is out of sync, and expects that it is in sync afterwards.
    #[track_caller]
    fn converges(&self, name: &str, should: &Attributes) {
        assert_ne!(self.check(name, should).unwrap(), [], "{name}");
        assert_eq!(self.set(name, should), Outcome::done());
        assert_eq!(self.check(name, should).unwrap(), [], "{name}");
    }

    fn names(&self) -> Vec<String> {
        let states = get_checked(&self.provider, &Context::empty(), Query::All).unwrap();
        states.into_iter().map(|state| state.name.to_string()).collect()
    }

    /// Expects that a check and a change fail, and that the change has no effect on the user's home.
    #[track_caller]
    fn refuses(&self, why: &str) {
        let should = key("eve", ONE);
        let seen = |path: &Path| path.symlink_metadata().map(|found| (found.ino(), found.size(), found.mode())).ok();
        let before = (seen(&self.home("eve").join(".ssh")), seen(&self.file("eve")));
        let found = self.check("new", &should).unwrap_err().to_string();
        assert!(found.contains(why), "{found}");
        let failed = self.set("new", &should).failure.unwrap();
        assert!(failed.contains(why), "{failed}");
        assert_eq!((seen(&self.home("eve").join(".ssh")), seen(&self.file("eve"))), before);
    }
}

fn should(attributes: &[(&str, &str)]) -> Attributes {
    let ensure = [("ensure", "present")].into_iter().filter(|_| !attributes.iter().any(|(name, _)| *name == "ensure"));
    ensure.chain(attributes.iter().copied()).map(|(name, value)| (name, Value::from(value))).collect()
}

fn key(user: &str, key: &str) -> Attributes {
    should(&[("user", user), ("type", "ssh-ed25519"), ("key", key)])
}

fn absent(attributes: &[(&str, &str)]) -> Attributes {
    should(&[&[("ensure", "absent")], attributes].concat())
}

#[test]
fn key_is_added_for_its_user_alone() {
    let bench = SshKeyBench::new();
    bench.converges("me@laptop", &key("eve", ONE));
    assert_eq!(bench.read("eve"), format!("ssh-ed25519 {ONE} me@laptop\n"));
    for (path, mode) in [(bench.file("eve"), 0o600), (bench.home("eve").join(".ssh"), 0o700)] {
        let found = path.metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), found.permissions().mode() & 0o7777), (5001, 5001, mode));
    }
    let entries = |path: PathBuf| std::fs::read_dir(path).unwrap().count();
    assert_eq!((entries(bench.home("eve")), entries(bench.home("eve").join(".ssh"))), (1, 1));
    let states = get_checked(&bench.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(states[0].attributes.text("target"), bench.file("eve").to_str());
    bench.converges("me@laptop", &absent(&[("user", "eve")]));
    assert_eq!(bench.read("eve"), "");
}

#[test]
fn foreign_lines_stay_and_the_mode_is_repaired() {
    let bench = SshKeyBench::new();
    let foreign = format!("# mine\n\nfrom=\"a,b\" ssh-ed25519 {TWO} second key\nssh-ed25519 {THREE}\n nonsense");
    let foreign = foreign.into_bytes();
    bench.write("eve", [&foreign[..], b"\xff"].concat());
    std::fs::set_permissions(bench.file("eve"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut declared = key("eve", ONE);
    declared.push("options", Value::strings(["no-pty", "from=\"10.0.0.*\""]));
    bench.converges("new", &declared);
    let wanted = format!("\nno-pty,from=\"10.0.0.*\" ssh-ed25519 {ONE} new\n").into_bytes();
    assert_eq!(std::fs::read(bench.file("eve")).unwrap(), [&foreign[..], b"\xff", &wanted].concat());
    assert_eq!(bench.file("eve").metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(bench.names(), ["second key", "new"]);
    bench.converges("second key", &Attributes::from_iter([("options", Value::strings(["no-pty"]))]));
    let read = String::from_utf8_lossy(&std::fs::read(bench.file("eve")).unwrap()).into_owned();
    assert!(read.contains(&format!("\nno-pty ssh-ed25519 {TWO} second key\n")));
}

#[test]
fn absent_key_is_removed_under_every_comment() {
    let bench = SshKeyBench::new();
    bench.write(
        "eve",
        format!("ssh-ed25519 {ONE} bob\nssh-ed25519 {ONE} innocent\nssh-ed25519 {ONE}\nssh-ed25519 {TWO} bob\n"),
    );
    bench.write("ada", format!("ssh-ed25519 {ONE} bob\n"));
    bench.converges("bob", &absent(&[("user", "eve"), ("type", "ssh-ed25519"), ("key", ONE)]));
    assert_eq!(bench.read("eve"), format!("ssh-ed25519 {TWO} bob\n"));
    assert_eq!(bench.read("ada"), format!("ssh-ed25519 {ONE} bob\n"));
    bench.converges("bob", &absent(&[]));
    assert_eq!((bench.read("eve").as_str(), bench.read("ada").as_str()), ("", ""));
}

#[test]
fn same_comment_of_several_users_needs_the_user() {
    let bench = SshKeyBench::new();
    for user in ["eve", "ada"] {
        bench.converges("x", &key(user, ONE));
    }
    assert_eq!(bench.names(), ["ada:x", "eve:x"]);
    let why = bench.check("x", &should(&[("type", "ssh-ed25519")])).unwrap_err().to_string();
    assert!(why.contains("`x` is there 2 times, among the keys of ada, eve: write it with its user, ada:x"), "{why}");
    assert_eq!(bench.check("ada:x", &should(&[("key", ONE)])).unwrap(), []);
    bench.converges("root:eve:deploy", &{
        std::fs::create_dir_all(bench.home("root")).unwrap();
        key("root", TWO)
    });
    let why = bench.check("eve:deploy", &key("root", TWO)).unwrap_err().to_string();
    assert!(why.contains("is written root:eve:deploy"), "{why}");
}

#[test]
fn links_and_foreign_files_are_refused() {
    let bench = SshKeyBench::new();
    let precious = bench.fake.root.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    bench.write("eve", "");
    std::fs::remove_file(bench.file("eve")).unwrap();
    symlink(&precious, bench.file("eve")).unwrap();
    bench.refuses("is not a regular file but a link");
    std::fs::remove_file(bench.file("eve")).unwrap();
    std::fs::hard_link(&precious, bench.file("eve")).unwrap();
    bench.refuses("has 2 names");
    std::fs::remove_file(bench.file("eve")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, bench.file("eve"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    bench.refuses("is not a regular file but a fifo");
    std::fs::remove_file(bench.file("eve")).unwrap();
    bench.write("eve", "x");
    chown(bench.file("eve"), Some(5002), None).unwrap();
    bench.refuses("does not belong to the user");
    chown(bench.file("eve"), Some(5001), None).unwrap();
    chown(bench.home("eve").join(".ssh"), Some(5002), None).unwrap();
    bench.refuses(".ssh does not belong to the user");
    std::fs::remove_dir_all(bench.home("eve").join(".ssh")).unwrap();
    let victim = bench.fake.root.path().join("victim");
    std::fs::create_dir(&victim).unwrap();
    symlink(&victim, bench.home("eve").join(".ssh")).unwrap();
    bench.refuses("will not follow the symbolic link");
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
}

#[test]
fn unreadable_file_of_a_user_costs_nobody_else_a_key() {
    let bench = SshKeyBench::new();
    bench.write("eve", "#\n".repeat(1 << 20));
    bench.converges("x", &key("ada", ONE));
    assert_eq!(bench.check("x", &should(&[("key", ONE)])).unwrap(), []);
    let why = bench.check("hidden", &absent(&[])).unwrap_err().to_string();
    assert!(why.contains("`hidden` may be in a file that is not known") && why.contains("declare `user`"), "{why}");
    bench.refuses("is larger than 1048576 bytes");
}

#[test]
fn long_lines_are_read_soon() {
    let bench = SshKeyBench::new();
    let many = 100_000;
    let lines = [
        format!("command=\"{} x", "\\\"".repeat(many)),
        format!("command=\"{}", "\\".repeat(many)),
        "\"".repeat(many + 1),
        "ssh-".repeat(many),
        format!("{} x", "a,".repeat(many)),
        format!("ssh-rsa{};", " ".repeat(many)),
    ];
    bench.write("eve", lines.join("\n"));
    assert_eq!(bench.names(), Vec::<String>::new());
}

#[test]
fn refused_change_has_no_effect() {
    let bench = SshKeyBench::new();
    bench.converges("x", &key("eve", ONE));
    let before = bench.read("eve");
    for (name, declared, why) in [
        ("x", should(&[("user", "eve"), ("type", "ssh-rsa")]), "no key of the kind ssh-rsa"),
        ("x", should(&[("user", "eve"), ("key", "AAAA")]), "no key of the kind"),
        ("y", should(&[("user", "eve")]), "a new key needs"),
        ("y", should(&[("type", "ssh-ed25519"), ("key", ONE)]), "a new key needs"),
        ("y\nz", key("eve", TWO), "cannot be the comment"),
        ("y", key("nosuch", TWO), "there is no user nosuch"),
        ("nosuch:y", should(&[("type", "ssh-ed25519"), ("key", TWO)]), "there is no user nosuch"),
        ("y", key("lost", TWO), "home/lost"),
    ] {
        let failed = bench.set(name, &declared).failure.unwrap_or_default();
        assert!(failed.contains(why), "{name}: {failed}");
    }
    let mut options = key("eve", ONE);
    options.push("options", Value::strings(["no pty"]));
    assert!(bench.set("x", &options).failure.unwrap().contains("is no option"));
    assert_eq!((bench.read("eve"), bench.home("lost").exists()), (before, false));
}

#[test]
fn several_keys_of_a_user_are_one_write_and_a_bad_one_stays_alone() {
    let bench = SshKeyBench::new();
    let (one, two, bad) = (key("eve", ONE), key("eve", TWO), key("eve", "AAAA"));
    let (is, names) = (State::absent("x"), ["one", "two", "bad"].map(EcoString::from));
    let changes = names.iter().zip([&one, &two, &bad]);
    let changes: Vec<Change<'_>> = changes.map(|(name, should)| Change::new(name, &is, Some(should), &[])).collect();
    let outcomes = bench.provider.set(&Context::empty(), &changes, Mode::Apply);
    assert_eq!(outcomes.iter().map(Outcome::is_done).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(bench.read("eve"), format!("ssh-ed25519 {ONE} one\nssh-ed25519 {TWO} two\n"));
}

#[test]
fn wrong_type_of_a_key_names_the_right_one() {
    let bench = SshKeyBench::new();
    let declared = should(&[("user", "eve"), ("type", "ssh-rsa"), ("key", ONE)]);
    let problem = bench.provider.validate("x", &declared, &[]).remove(0).to_string();
    assert!(problem.contains("write `type: ssh-ed25519`"), "{problem}");
}

#[test]
fn preview_predicts_missing_users_and_attributes() {
    let bench = SshKeyBench::new();
    let preview = |declared: &Attributes| {
        let (name, is) = ("x".into(), State::absent("x"));
        let change = Change::new(&name, &is, Some(declared), &[]);
        bench.provider.set(&Context::empty(), &[change], Mode::Preview).remove(0).failure
    };
    assert_eq!(preview(&key("eve", ONE)), None);
    assert!(preview(&key("nosuch", ONE)).unwrap().contains("there is no user nosuch"));
    assert!(preview(&should(&[("user", "eve")])).unwrap().contains("a new key needs"));
    assert!(preview(&should(&[("type", "ssh-ed25519"), ("key", ONE)])).unwrap().contains("a new key needs"));
    assert_eq!(preview(&absent(&[("user", "nosuch")])), None);
    let (name, is) = ("nosuch:x".into(), State::absent("nosuch:x"));
    let declared = should(&[("type", "ssh-ed25519"), ("key", ONE)]);
    let change = Change::new(&name, &is, Some(&declared), &[]);
    let failed = bench.provider.set(&Context::empty(), &[change], Mode::Preview).remove(0).failure;
    assert!(failed.unwrap().contains("there is no user nosuch"));
}

/// An earlier resource of the plan creates the user `new`.
struct NewUser(Attributes);

impl PreviewContext for NewUser {
    fn may_change_before(&self, _: &str) -> bool {
        false
    }

    fn declared(&self, type_name: &str, name: &str) -> Option<&Attributes> {
        (type_name == "user" && name == "new").then_some(&self.0)
    }

    fn account(&self, _: &str, _: &str, _: &str) -> Forecast<Account> {
        let because = Because { resource: ResourceRef::new("user", "new"), is_ordered: true };
        Forecast::Changed(Account::New, because)
    }
}

#[test]
fn plan_does_not_know_the_keys_in_the_home_of_a_removed_user() {
    let bench = SshKeyBench::new();
    let catalog = NewUser(Attributes::from_iter([("home", bench.home("new").to_string_lossy().as_ref())]));
    let planned = |title: &str, declared: &Attributes| {
        let cx = Context::empty().with_noop(true).with_preview_context(&catalog);
        let mut found = bench.provider.get(&cx, Query::Named(&[Wanted::new(&title.into(), Some(declared))])).unwrap();
        found.remove(0).unknown
    };
    assert_eq!(planned("work", &key("new", ONE)), []);
    std::fs::create_dir_all(bench.home("new").join(".ssh")).unwrap();
    std::fs::write(bench.file("new"), format!("ssh-ed25519 {ONE} work\n")).unwrap();
    for title in ["work", "new:work"] {
        let unknown = planned(title, &key("new", ONE));
        assert_eq!(unknown.len(), 1, "{title}");
        assert_eq!(unknown[0].attribute, "ensure");
    }
    assert_eq!(planned("work", &key("ada", ONE)), []);
}

#[test]
fn keys_with_the_same_comment_are_listed_once_and_removed_together() {
    let bench = SshKeyBench::new();
    bench.write("eve", format!("ssh-ed25519 {ONE} same\nssh-ed25519 {TWO} same\n"));
    bench.write("ada", format!("ssh-ed25519 {THREE} work\n"));
    assert_eq!(bench.names(), ["work", "eve:same"]);
    bench.converges("eve:same", &absent(&[]));
    assert_eq!(bench.names(), ["work"]);
}
