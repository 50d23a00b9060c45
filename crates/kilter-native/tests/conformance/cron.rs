use std::path::PathBuf;
use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{CronProvider, Runner, System};
use kilter_process::{Cancel, Captured, Invocation, Output, SpawnError, Status};

use crate::{assert_edges, assert_held_but, need_root, tree};

/// Replaces crontabs below a directory as crontab(1) does.
struct FakeCrontab(PathBuf);

impl Runner for FakeCrontab {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        let args: Vec<&str> = invocation.args.iter().map(|word| word.to_str().expect("users are texts")).collect();
        let (user, action) = match args[..] {
            ["-u", user, action] => (user, action),
            [action] => ("root", action),
            _ => unreachable!("crontab has no other arguments: {args:?}"),
        };
        let path = self.0.join(user);
        let text = invocation.stdin.clone().unwrap_or_default();
        if text.windows(6).any(|part| part == b"refuse") {
            let stderr = Captured { bytes: b"errors in crontab file".to_vec(), dropped: 0 };
            return Ok(Output { stderr, ..Output::of(Status::Code(1)) });
        }
        let done = if action == "-r" { std::fs::remove_file(path) } else { std::fs::write(path, text) };
        done.expect("the directory is ours");
        Ok(Output::of(Status::Code(0)))
    }
}

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    let spool = root.join("var/spool/cron/crontabs");
    for path in [root.join("etc"), spool.clone()] {
        std::fs::create_dir_all(path).expect("the directory is new");
    }
    std::fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\neve:x:1000:1000::/home/eve:/bin/sh\n")
        .expect("the directory is new");
    std::fs::write(spool.join("root"), "# mine\n1 2 3 4 5 /bin/date\n").expect("the directory is new");
    let below = root.clone();
    let one = Sample::new("one")
        .present([("command", "/bin/echo 'a b' $HOME"), ("minute", "5"), ("user", "root")])
        .changed([("hour", "3"), ("minute", "*/10")])
        .changed([("special", "daily")])
        .changed([("environment", Value::strings(["MAILTO=root"]))]);
    let two = Sample::new("two of them")
        .present([("command", "/bin/true"), ("special", "reboot"), ("user", "eve")])
        .changed([("command", "/bin/false")]);
    let system = move || System::new(&root, Arc::new(FakeCrontab(spool.clone())));
    Subject::new(move || CronProvider::new(system()), move || tree::fingerprint(&below))
        .specimen(one)
        .specimen(two)
        .unknown(["nothing", "root:nothing", "nosuch:x"])
        .failing(Sample::new("bad").present([("command", "refuse")]))
        .without(Unsupported::Slow, "a small crontab is written at once")
        .sparing("user", "every text but the name of a user is refused alike")
        .sparing("special", "it takes the place of `minute`, which the first specimen has")
        .keeping(directory)
}

#[test]
fn cron_conforms() {
    need_root();
    let report = Suite::new(subject).run();
    assert_held_but(
        &report,
        &[
            ("titles-fit-namevars", "the type has one namevar"),
            ("a-refresh-is-served", "the provider does not have the feature `refresh`"),
            ("an-interrupt-ends-a-call", "a small crontab is written at once"),
        ],
    );
    assert_edges(
        &report,
        300,
        "user (every text but the name of a user is refused alike), special (it takes the place of `minute`, which the \
         first specimen has)",
    );
}
