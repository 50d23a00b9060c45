use std::path::PathBuf;

use kilter_model::Difference;
use kilter_process::{Cancel, Captured, Invocation, Output, SpawnError, Status};
use kilter_provider::{canonicalize_one, check, get_checked};

use super::*;
use crate::accounts::Runner;

/// Runs `crontab` on the files below a directory. It refuses a text that contains `refused`.
struct FakeCrontab {
    root: PathBuf,
    calls: Mutex<Vec<String>>,
}

impl Runner for FakeCrontab {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        assert_eq!(invocation.program, "crontab");
        let args: Vec<&str> = invocation.args.iter().map(|word| word.to_str().unwrap()).collect();
        self.calls.lock().unwrap().push(args.join(" "));
        let (user, action) = match args[..] {
            ["-u", user, action] => (user, action),
            [action] => ("root", action),
            _ => panic!("{args:?}"),
        };
        let spool = self.root.join("var/spool/cron/crontabs");
        std::fs::create_dir_all(&spool).unwrap();
        let stdin = invocation.stdin.clone().unwrap_or_default();
        let failed = |said: &str| {
            let stderr = Captured { bytes: said.as_bytes().to_vec(), dropped: 0 };
            Ok(Output { stderr, ..Output::of(Status::Code(1)) })
        };
        match action {
            "-" if stdin.windows(7).any(|part| part == b"refused") => return failed("errors in crontab file"),
            "-" => std::fs::write(spool.join(user), stdin).unwrap(),
            "-r" => std::fs::remove_file(spool.join(user)).unwrap(),
            "-l" => return failed("no crontab for root"),
            _ => panic!("{args:?}"),
        }
        Ok(Output::of(Status::Code(0)))
    }
}

struct CronBench {
    root: tempfile::TempDir,
    crontab: Arc<FakeCrontab>,
    provider: CronProvider,
}

impl CronBench {
    fn new() -> CronBench {
        assert!(rustix::process::geteuid().is_root(), "run this test as root: only root reads crontabs of others");
        let root = tempfile::tempdir().unwrap();
        for directory in ["etc", "var/spool/cron/crontabs"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        let passwd =
            "root:x:0:0::/root:/bin/sh\neve:x:1000:1000::/home/eve:/bin/sh\nada:x:1001:1001::/home/ada:/bin/sh\n";
        std::fs::write(root.path().join("etc/passwd"), passwd).unwrap();
        let crontab = Arc::new(FakeCrontab { root: root.path().to_owned(), calls: Mutex::default() });
        let provider = CronProvider::new(System::new(root.path(), crontab.clone()));
        CronBench { root, crontab, provider }
    }

    fn path(&self, user: &str) -> PathBuf {
        self.root.path().join("var/spool/cron/crontabs").join(user)
    }

    fn write(&self, user: &str, text: &str) {
        std::fs::write(self.path(user), text).unwrap();
    }

    fn read(&self, user: &str) -> String {
        std::fs::read_to_string(self.path(user)).unwrap_or_else(|_| "(none)".to_owned())
    }

    fn check(&self, name: &str, should: &Attributes) -> Result<Vec<Difference>, ProviderError> {
        let name = name.into();
        let found = check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0);
        found.map(|found| found.differences)
    }

    fn set(&self, changes: &[(&str, &Attributes)]) -> Vec<Outcome> {
        let is = State::absent("x");
        let names: Vec<EcoString> = changes.iter().map(|(name, _)| EcoString::from(*name)).collect();
        let changes = names.iter().zip(changes).map(|(name, (_, should))| Change::new(name, &is, Some(should), &[]));
        self.provider.set(&Context::empty(), &changes.collect::<Vec<_>>(), Mode::Apply)
    }

    /// Changes a resource that is out of sync, and expects that it is in sync afterwards.
    #[track_caller]
    fn converges(&self, name: &str, should: &Attributes) {
        assert_ne!(self.check(name, should).unwrap(), [], "{name}");
        assert_eq!(self.set(&[(name, should)]), [Outcome::done()]);
        assert_eq!(self.check(name, should).unwrap(), [], "{name}");
    }
}

fn should(attributes: &[(&str, &str)]) -> Attributes {
    let ensure = [("ensure", "present")].into_iter().filter(|_| !attributes.iter().any(|(name, _)| *name == "ensure"));
    ensure.chain(attributes.iter().copied()).map(|(name, value)| (name, Value::from(value))).collect()
}

fn absent(user: &str) -> Attributes {
    should(&[("ensure", "absent"), ("user", user)])
}

#[test]
fn entry_is_added_changed_and_removed() {
    let bench = CronBench::new();
    bench.write("eve", "# mine\n1 2 3 4 5 /bin/true");
    bench.converges("backup", &should(&[("user", "eve"), ("command", "/bin/x"), ("hour", "3")]));
    assert_eq!(bench.read("eve"), "# mine\n1 2 3 4 5 /bin/true\n# Puppet Name: backup\n* 3 * * * /bin/x\n");
    bench.converges("eve:backup", &should(&[("special", "daily")]));
    bench.converges("backup", &should(&[("minute", "*/5")]));
    assert_eq!(bench.check("backup", &should(&[("user", "eve"), ("hour", "*")])).unwrap(), []);
    bench.converges("backup", &absent("eve"));
    assert_eq!(bench.read("eve"), "# mine\n1 2 3 4 5 /bin/true\n");
    assert!(bench.crontab.calls.lock().unwrap().iter().all(|call| call == "-u eve -"));
}

#[test]
fn empty_crontab_is_removed() {
    let bench = CronBench::new();
    bench.converges("a", &should(&[("command", "x")]));
    bench.converges("a", &should(&[("ensure", "absent")]));
    assert_eq!(bench.read("root"), "(none)");
    assert_eq!(*bench.crontab.calls.lock().unwrap(), ["-", "-r"]);
}

#[test]
fn several_entries_of_a_crontab_are_one_write() {
    let bench = CronBench::new();
    let (one, two) = (should(&[("command", "x"), ("user", "eve")]), should(&[("command", "y"), ("user", "eve")]));
    let other = should(&[("command", "z"), ("user", "ada")]);
    let outcomes = bench.set(&[("one", &one), ("two", &two), ("other", &other)]);
    assert!(outcomes.iter().all(Outcome::is_done), "{outcomes:?}");
    let mut calls = bench.crontab.calls.lock().unwrap().clone();
    calls.sort();
    assert_eq!(calls, ["-u ada -", "-u eve -"]);
    assert_eq!(bench.read("eve").matches("Puppet Name").count(), 2);
}

#[test]
fn entry_that_crontab_refuses_does_not_stop_the_others() {
    let bench = CronBench::new();
    let good = should(&[("command", "x"), ("user", "eve")]);
    let bad = should(&[("command", "refused"), ("user", "eve")]);
    let invalid = should(&[("command", "a\nb"), ("user", "eve")]);
    let lost = should(&[("command", "x"), ("user", "nosuch")]);
    let outcomes =
        bench.set(&[("good", &good), ("bad", &bad), ("invalid", &invalid), ("lost", &lost), ("more", &good)]);
    let failures: Vec<&str> = outcomes.iter().map(|outcome| outcome.failure.as_deref().unwrap_or_default()).collect();
    assert!(failures[0].is_empty() && failures[4].is_empty(), "{failures:?}");
    assert!(failures[1].starts_with("crontab of eve: crontab failed"), "{failures:?}");
    assert!(failures[2].contains("a command is one line"), "{failures:?}");
    assert!(failures[3].contains("there is no user nosuch"), "{failures:?}");
    assert_eq!(bench.read("eve"), "# Puppet Name: good\n* * * * * x\n# Puppet Name: more\n* * * * * x\n");
}

#[test]
fn same_name_of_several_users_needs_the_user() {
    let bench = CronBench::new();
    for user in ["eve", "ada"] {
        bench.converges(&format!("{user}:x"), &should(&[("command", "x")]));
    }
    let why = bench.check("x", &should(&[("minute", "1")])).unwrap_err().to_string();
    assert!(why.contains("`x` is there 2 times, in the crontab of ada, eve: write it with its user, ada:x"), "{why}");
    assert_eq!(bench.check("x", &should(&[("user", "eve"), ("command", "x")])).unwrap(), []);
    let states = get_checked(&bench.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["ada:x", "eve:x"]);
    for state in states {
        assert_eq!(bench.provider.validate(&state.name, &state.attributes, &[]), []);
        assert_eq!(bench.check(&state.name, &state.attributes).unwrap(), []);
    }
}

#[test]
fn name_that_begins_with_a_user_is_written_with_its_own_user() {
    let bench = CronBench::new();
    bench.converges("root:eve:daily", &should(&[("command", "x")]));
    assert_eq!(bench.read("root"), "# Puppet Name: eve:daily\n* * * * * x\n");
    let states = get_checked(&bench.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(states[0].name, "root:eve:daily");
    for should in [should(&[("ensure", "absent")]), should(&[("command", "x"), ("user", "root")]), absent("root")] {
        let why = bench.check("eve:daily", &should).unwrap_err().to_string();
        assert!(why.contains("is written root:eve:daily"), "{why}");
    }
}

#[test]
fn title_of_a_missing_user_is_refused_and_never_an_entry_of_root() {
    let bench = CronBench::new();
    let daily = should(&[("command", "x"), ("special", "daily")]);
    assert_eq!(bench.check("nosuch:x", &daily).unwrap()[0].attribute, "ensure");
    let failure = bench.set(&[("nosuch:x", &daily)]).remove(0).failure.unwrap();
    assert_eq!(failure, "there is no user nosuch: declare `user[nosuch]`, or another user");
    assert!(bench.crontab.calls.lock().unwrap().is_empty());
    bench.converges("nosuch:x", &should(&[("command", "x"), ("user", "root")]));
    let why = bench.check("nosuch:x", &daily).unwrap_err().to_string();
    assert!(why.contains("is written root:nosuch:x"), "{why}");
}

#[test]
fn large_crontab_of_a_user_affects_only_that_user() {
    let bench = CronBench::new();
    bench.write("eve", &"#\n".repeat(1 << 20));
    bench.converges("x", &should(&[("command", "x"), ("user", "ada")]));
    assert_eq!(bench.check("x", &should(&[("command", "x")])).unwrap(), []);
    let why = bench.check("y", &should(&[("command", "x")])).unwrap_err().to_string();
    assert!(why.contains("`y` may be in a file that is not known: the crontab of eve is not read"), "{why}");
}

#[test]
fn files_of_the_spool_without_a_user_are_ignored() {
    let bench = CronBench::new();
    bench.write("former", "# Puppet Name: x\n* * * * * x\n");
    bench.write(".tmp", "# Puppet Name: y\n* * * * * x\n");
    assert_eq!(get_checked(&bench.provider, &Context::empty(), Query::All).unwrap(), []);
}

#[test]
fn times_may_be_numbers_and_lists() {
    let bench = CronBench::new();
    let mut declared = should(&[("command", "x")]);
    declared.push("hour", Value::Integer(3));
    declared.push("minute", Value::array([Value::Integer(15), "45".into()]));
    assert_eq!(bench.provider.validate("a", &declared, &[]), []);
    canonicalize_one(&bench.provider, &Context::empty(), &mut "a".into(), &mut declared).unwrap();
    assert_eq!((declared.text("hour"), declared.text("minute")), (Some("3"), Some("15,45")));
    bench.converges("a", &declared);
    declared.set("hour", Value::Integer(99));
    assert_eq!(bench.provider.validate("a", &declared, &[]).len(), 1);
}

#[test]
fn preview_predicts_missing_users_and_commands() {
    let bench = CronBench::new();
    let preview = |name: &str, should: &Attributes| {
        let (name, is) = (name.into(), State::absent(name));
        let change = Change::new(&name, &is, Some(should), &[]);
        bench.provider.set(&Context::empty(), &[change], Mode::Preview).remove(0).failure
    };
    assert_eq!(preview("a", &should(&[("command", "x"), ("user", "eve")])), None);
    assert!(preview("a", &should(&[("command", "x"), ("user", "nosuch")])).unwrap().contains("no user nosuch"));
    assert!(preview("nosuch:a", &should(&[("command", "x")])).unwrap().contains("no user nosuch"));
    assert!(preview("a", &should(&[("user", "eve")])).unwrap().contains("needs a `command`"));
    assert_eq!(preview("a", &absent("nosuch")), None);
    assert_eq!(bench.crontab.calls.lock().unwrap().len(), 0);
}

#[test]
fn crontab_of_a_known_user_is_watched_alone() {
    let bench = CronBench::new();
    let watched = |name: &str, should: &Attributes| match &bench.provider.watches(name, should)[0] {
        WatchSource::Path { path, scope } => (path.clone(), *scope),
        other => panic!("{other:?}"),
    };
    assert_eq!(watched("a", &should(&[("user", "eve")])), (bench.path("eve"), Scope::This));
    assert_eq!(watched("a", &Attributes::new()).1, Scope::Entries);
    assert_eq!(watched("eve:a", &Attributes::new()), (bench.path("eve"), Scope::This));
}
