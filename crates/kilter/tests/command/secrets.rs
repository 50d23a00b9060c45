//! Secrets in whatever a run leaves behind or says (docs/reference/secrets.md).

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kilter_model::base64;

use crate::otlp::Collector;
use crate::support::{Ended, Place};

/// Output of the command, long enough to be found in every encoding.
const SECRET: &str = "Tr0ub4dor&3/ü+ %7e";

/// A place in which a command prints a secret once, and a file gets it.
struct SecretCommand {
    place: Place,
}

impl SecretCommand {
    fn new() -> SecretCommand {
        let secrets = SecretCommand { place: Place::new() };
        secrets.place.file("source", SECRET);
        secrets.place.file("pin", "4711-pin\n");
        secrets.manifest(
            "  exec[token]:\n    command: [sh, -c, 'cat DIR/source && touch DIR/done']\n    creates: DIR/done\n    \
             environment: { PIN: { sensitive: { file: DIR/pin } } }\n  \
             file[DIR/app]: { content: '${exec[token].stdout}' }\n",
        );
        secrets
    }

    /// A manifest that has never been run.
    fn manifest(&self, resources: &str) {
        let resources = resources.replace("DIR", &self.place.path().display().to_string());
        self.place.file("m.yaml", format!("resources:\n{resources}"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn key(&self) -> PathBuf {
        self.path("state/sealing.key")
    }

    /// The files with what resources have sent.
    fn kept(&self) -> Vec<PathBuf> {
        files(&self.path("state/outputs"))
    }

    /// Runs the command, and sees to it that it ends so, and that the secret is nowhere.
    #[track_caller]
    fn ends(&self, code: i32, args: &[&str]) -> Ended {
        let ended = self.place.run(args);
        assert_eq!(ended.code, code, "{args:?} {ended:?}");
        let meant = [self.path("source"), self.path("app"), self.path("pin")];
        for text in [&ended.stdout, &ended.stderr] {
            is_nowhere_in(text.as_bytes(), &format!("what {args:?} says"));
        }
        for path in files(self.place.path()).iter().filter(|path| !meant.contains(path)) {
            is_nowhere_in(&fs::read(path).unwrap(), &path.display().to_string());
        }
        ended
    }

    /// Applies the manifest after the stored outputs have become unusable.
    #[track_caller]
    fn is_lost(&self, why: &str) {
        fs::write(self.path("app"), "drifted").unwrap();
        let ended = self.ends(4, &["apply", "m.yaml"]);
        assert!(ended.stdout.contains("what exec[token] sent before counts as not kept: "), "{}", ended.stdout);
        assert!(ended.stdout.contains(why), "{why}: {}", ended.stdout);
        assert!(ended.stdout.contains("Undo what its guard looks for, so that it runs again"), "{}", ended.stdout);
        assert_eq!(fs::read_to_string(self.path("app")).unwrap(), "drifted");
        let planned = self.ends(2, &["plan", "m.yaml"]);
        assert!(planned.stdout.contains(why), "{}", planned.stdout);
        // The way on that was told.
        fs::remove_file(self.path("done")).unwrap();
    }

    #[track_caller]
    fn is_sent(&self) {
        assert_eq!(fs::read_to_string(self.path("app")).unwrap(), SECRET);
    }
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The secrets as they are, and in the forms in which programs hand on what they are given.
fn forms() -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for secret in [SECRET, "4711-pin", "l1teral-s3cret"] {
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        let percent: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let url = secret.bytes().map(|byte| if plain(byte) { (byte as char).into() } else { format!("%{byte:02X}") });
        let json = serde_json::to_string(secret).unwrap();
        forms.extend([secret.to_owned(), hex.to_uppercase(), hex, percent.to_uppercase(), percent]);
        forms.extend([url.collect::<String>(), json.trim_matches('"').to_owned()]);
        for before in 0..3 {
            // Within a longer text: without the digits that its neighbours have a part in.
            let text = [&vec![b'x'; before], secret.as_bytes()].concat();
            let digits = base64(&text[..text.len() / 3 * 3]);
            forms.push(digits[if before == 0 { 0 } else { 4 }..].to_owned());
            forms.push(digits[if before == 0 { 0 } else { 4 }..].replace('+', "-").replace('/', "_"));
        }
    }
    forms.into_iter().map(String::into_bytes).collect()
}

#[track_caller]
fn is_nowhere_in(bytes: &[u8], what: &str) {
    for form in forms() {
        let is_there = bytes.windows(form.len()).any(|window| window == form);
        assert!(!is_there, "{what} tells {}: {}", String::from_utf8_lossy(&form), String::from_utf8_lossy(bytes));
    }
}

#[test]
fn secret_search_finds_every_encoding() {
    for form in forms() {
        let told = [b"before ", &form[..], b" after"].concat();
        assert!(std::panic::catch_unwind(|| is_nowhere_in(&told, "it")).is_err());
    }
    for before in ["", "x", "yz"] {
        let told = base64(format!("{before}{SECRET} and more").as_bytes());
        assert!(std::panic::catch_unwind(|| is_nowhere_in(told.as_bytes(), "it")).is_err(), "{before}");
    }
}

#[test]
fn secret_output_is_stored_encrypted_and_reused() {
    let secrets = SecretCommand::new();
    secrets.ends(2, &["plan", "m.yaml", "-o", "before.plan"]);
    secrets.ends(2, &["plan", "m.yaml", "--format", "json"]);
    secrets.ends(0, &["apply", "before.plan"]);
    secrets.is_sent();
    assert_eq!(fs::metadata(secrets.key()).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(secrets.kept().len(), 1);
    // From here on it is known from the state directory only.
    fs::remove_file(secrets.path("source")).unwrap();
    let again = secrets.ends(0, &["apply", "m.yaml", "--format", "json"]);
    assert!(again.stdout.contains("\"in_sync\": 2") && again.stdout.contains("\"changed\": 0"), "{}", again.stdout);
    fs::write(secrets.path("app"), "drifted").unwrap();
    secrets.ends(2, &["plan", "m.yaml"]);
    secrets.ends(2, &["plan", "m.yaml", "--format", "json", "-o", "after.plan"]);
    secrets.ends(0, &["apply", "m.yaml", "--format", "json", "--verbose"]);
    secrets.is_sent();
    fs::write(secrets.path("app"), "drifted").unwrap();
    secrets.ends(0, &["apply", "after.plan", "--verbose"]);
    secrets.is_sent();
    for format in ["human", "json", "dot", "mermaid", "svg"] {
        secrets.ends(0, &["graph", "m.yaml", "--format", format]);
    }
    secrets.ends(0, &["get", "exec", "token", "--format", "json"]);
    secrets.ends(0, &["facts", "--format", "json"]);
    secrets.ends(0, &["schema"]);
    fs::remove_file(secrets.path("done")).unwrap();
    secrets.ends(4, &["apply", "m.yaml"]);
}

#[test]
fn output_used_as_secret_is_stored_encrypted() {
    let secrets = SecretCommand::new();
    secrets.manifest(
        "  exec[token]:\n    command: [sh, -c, 'cat DIR/source && touch DIR/done']\n    creates: DIR/done\n  \
         file[DIR/app]: { content: { sensitive: '${exec[token].stdout}' } }\n",
    );
    secrets.ends(0, &["apply", "m.yaml"]);
    fs::write(secrets.path("app"), "drifted").unwrap();
    secrets.ends(0, &["apply", "m.yaml", "--format", "json"]);
    secrets.is_sent();
    secrets.ends(0, &["apply", "m.yaml"]);
}

#[test]
fn key_is_created_only_for_secrets_or_plans() {
    let secrets = SecretCommand::new();
    secrets.manifest(
        "  exec[hello]:\n    command: [sh, -c, 'echo hello && touch DIR/done']\n    creates: DIR/done\n  \
         file[DIR/greeting]: { content: '${exec[hello].stdout}' }\n",
    );
    secrets.ends(2, &["plan", "m.yaml"]);
    secrets.ends(0, &["apply", "m.yaml"]);
    secrets.ends(0, &["apply", "m.yaml"]);
    assert_eq!(secrets.kept().len(), 1);
    assert!(!secrets.key().exists());
    secrets.ends(0, &["plan", "m.yaml", "-o", "m.plan"]);
    assert!(secrets.key().exists(), "the digest of a plan is keyed");
    assert!(fs::read_to_string(&secrets.kept()[0]).unwrap().contains(r#""stdout":"hello""#));
}

#[test]
fn outputs_of_missing_or_other_key_are_discarded() {
    let secrets = SecretCommand::new();
    secrets.ends(0, &["apply", "m.yaml"]);
    fs::remove_file(secrets.key()).unwrap();
    secrets.is_lost("the key DIR/state/sealing.key is gone");
    assert!(!secrets.key().exists(), "reading makes none");
    secrets.ends(0, &["apply", "m.yaml"]);
    secrets.is_sent();
    fs::write(secrets.key(), [7; 32]).unwrap();
    secrets.is_lost("cannot be opened with the key DIR/state/sealing.key");
    secrets.ends(0, &["apply", "m.yaml"]);
    secrets.is_sent();
}

#[test]
fn a_key_that_others_may_know_is_refused() {
    let secrets = SecretCommand::new();
    secrets.ends(0, &["apply", "m.yaml"]);
    let key = fs::read(secrets.key()).unwrap();
    fs::set_permissions(secrets.key(), Permissions::from_mode(0o640)).unwrap();
    secrets.is_lost("the key DIR/state/sealing.key has mode 0640; if nobody else has seen it, give it mode 0600");
    // Nothing is sealed with it either: what is sent reaches who waits for it, and is not kept.
    let applied = secrets.ends(0, &["apply", "m.yaml"]);
    let note = "its outputs could not be kept for later runs: the key DIR/state/sealing.key has mode 0640";
    assert!(applied.stdout.contains(note), "{}", applied.stdout);
    secrets.is_sent();
    assert_eq!(fs::read(secrets.key()).unwrap(), key);
    let planned = secrets.place.run(&["plan", "m.yaml", "-o", "m.plan"]);
    assert_eq!(planned.code, 1, "{planned:?}");
    assert!(planned.stderr.contains("has mode 0640"), "{planned:?}");
    assert!(!secrets.path("m.plan").exists());
}

#[test]
fn stored_outputs_are_bound_to_their_resource() {
    let secrets = SecretCommand::new();
    secrets.ends(0, &["apply", "m.yaml"]);
    let stolen = fs::read_to_string(&secrets.kept()[0]).unwrap();
    fs::remove_dir_all(secrets.path("state/outputs")).unwrap();
    let manifest = fs::read_to_string(secrets.path("m.yaml")).unwrap().replace("exec[token]", "exec[other]");
    fs::remove_file(secrets.path("done")).unwrap();
    secrets.place.file("m.yaml", manifest);
    secrets.ends(0, &["apply", "m.yaml"]);
    let own = secrets.kept().remove(0);
    let forged = stolen[9..].trim_end().replace("exec[token]", "exec[other]");
    // As it is, and with a checksum that fits.
    for text in [stolen, forged] {
        fs::write(&own, text).unwrap();
        fs::write(secrets.path("app"), "drifted").unwrap();
        let ended = secrets.ends(4, &["apply", "m.yaml"]);
        assert!(ended.stdout.contains("is known only after exec[other] has run"), "{}", ended.stdout);
        assert_eq!(fs::read_to_string(secrets.path("app")).unwrap(), "drifted");
    }
}

#[test]
fn damaged_stored_outputs_are_discarded() {
    let secrets = SecretCommand::new();
    secrets.ends(0, &["apply", "m.yaml"]);
    let whole = fs::read(&secrets.kept()[0]).unwrap();
    for cut in [0, 8, whole.len() / 2, whole.len() - 1] {
        fs::write(&secrets.kept()[0], &whole[..cut]).unwrap();
        secrets.is_lost("is damaged");
        secrets.ends(0, &["apply", "m.yaml"]);
        secrets.is_sent();
    }
    let mut flipped = fs::read(&secrets.kept()[0]).unwrap();
    let at = flipped.len() - 100;
    flipped[at] ^= 1;
    fs::write(&secrets.kept()[0], flipped).unwrap();
    secrets.is_lost("is damaged");
}

#[test]
fn plan_with_secrets_is_encrypted_for_its_machine() {
    let secrets = SecretCommand::new();
    for content in ["{ sensitive: l1teral-s3cret }", "'x'\n  # sensitive", "{ \"s\\x65nsitive\": l1teral-s3cret }"] {
        secrets.manifest(&format!("  file[DIR/app]:\n    content: {content}\n"));
        let manifest = fs::read_to_string(secrets.path("m.yaml")).unwrap();
        let planned = secrets.place.run(&["plan", "m.yaml", "-o", "m.plan"]);
        assert_eq!(planned.code, 2, "{planned:?}");
        fs::remove_file(secrets.path("m.yaml")).unwrap();
        let plan = fs::read_to_string(secrets.path("m.plan")).unwrap();
        is_nowhere_in(plan.as_bytes(), "the plan");
        assert!(!plan.contains("\"sources\"") && plan.contains("would_change"), "{plan}");

        let elsewhere = secrets.place.run(&["apply", "m.plan", "--state-dir", "elsewhere"]);
        assert_eq!(elsewhere.code, 1, "{elsewhere:?}");
        assert!(elsewhere.stderr.contains("is not DIR/elsewhere/sealing.key"), "{elsewhere:?}");
        let (before, sealed) = plan.split_once("\"sealed\": \"").unwrap();
        secrets.place.file("damaged.plan", format!("{before}\"sealed\": \"AAAA{}", &sealed[4..]));
        let refused = secrets.ends(1, &["apply", "damaged.plan"]);
        assert!(refused.stderr.contains("was changed after it was made"), "{refused:?}");

        assert!(!secrets.path("app").exists());
        secrets.ends(0, &["apply", "m.plan"]);
        assert!(manifest.contains(&fs::read_to_string(secrets.path("app")).unwrap()));
        fs::remove_file(secrets.path("app")).unwrap();
    }
}

#[test]
fn concurrent_plans_use_the_same_key() {
    let secrets = SecretCommand::new();
    let names: Vec<String> = (0..6).map(|n| format!("{n}.plan")).collect();
    let start = |name: &String| secrets.place.command(&["plan", "m.yaml", "-q", "-o", name]).spawn().unwrap();
    let plans: Vec<_> = names.iter().map(start).collect();
    assert!(plans.into_iter().all(|mut plan| plan.wait().unwrap().code() == Some(2)));
    for name in &names {
        secrets.ends(2, &["apply", "--noop", name]);
    }
    let left = files(&secrets.path("state"));
    assert_eq!(left, [secrets.key()]);
}

#[test]
fn former_secret_is_not_backed_up() {
    let secrets = SecretCommand::new();
    secrets.manifest("  file[DIR/app]: { content: { sensitive: { file: DIR/source } }, backup: true }\n");
    let refused = secrets.ends(1, &["apply", "m.yaml"]);
    assert!(refused.stderr.contains("because the backup is not encrypted"), "{refused:?}");
    assert!(!secrets.path("app").exists());
}

#[test]
fn values_derived_from_secret_variable_are_redacted() {
    let place = Place::new();
    place.file("pin", "Zq7hunter99\n");
    let manifest = |resources: &str| {
        let resources = resources.replace("DIR", &place.path().display().to_string());
        place.file(
            "m.yaml",
            format!(
                "vars: {{ t: {{ sensitive: {{ file: {}/pin }} }} }}\nresources:\n{resources}",
                place.path().display()
            ),
        );
    };
    for resource in [
        "exec[g]: { command: [\"true\"], unless: \"/opt/${vars.t}/check now\" }",
        "exec[g]: { command: [\"true\"], onlyif: \"${vars.t} a\" }",
        "exec[g]: { command: [sh, -c, 'echo bad password: $${P#*:} >&2; exit 1'], environment: { P: \
         \"user:${vars.t}\" } }",
        "exec[g]: { command: [sh, -c, 'echo $${0#* }', \"Bearer ${vars.t}\"], logoutput: true }",
    ] {
        manifest(&format!("  {resource}\n"));
        for args in [&["plan", "m.yaml"][..], &["apply", "m.yaml"], &["apply", "m.yaml", "--format", "json"]] {
            let ended = place.run(args);
            assert!(!format!("{ended:?}").contains("Zq7hunter99"), "{resource} {args:?} {ended:?}");
        }
    }
}

#[test]
fn outdated_stored_outputs_are_not_reused() {
    let place = Place::new();
    place.file("m.yaml", format!(
        "resources:\n  exec[t]:\n    command: [sh, -c, 'date +%N | tee done']\n    creates: {0}/done\n    cwd: {0}\n  \
         file[{0}/app]: {{ content: {{ sensitive: \"${{exec[t].stdout}}\" }} }}\n",
        place.path().display()
    ));
    assert_eq!(place.run(&["apply", "m.yaml"]).code, 0);
    let key = place.path().join("state/sealing.key");
    fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    fs::remove_file(place.path().join("done")).unwrap();
    let ended = place.run(&["apply", "m.yaml"]);
    assert!(ended.code == 0 && ended.stdout.contains("could not be kept"), "{ended:?}");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let ended = place.run(&["apply", "m.yaml"]);
    assert!(ended.code == 4 && ended.stdout.contains("the run was cut short"), "{ended:?}");
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    assert_eq!(read("app").trim(), read("done").trim(), "nothing old has come back");
}

#[test]
fn escaped_sensitive_key_encrypts_plan() {
    let place = Place::new();
    let text = "vars: { t: { \"\\u0073ensitive\": Zq7hunter99 } }\nresources:\n  notify[x]: { when: vars.t == 'x' }\n  \
                file[DIR/new]: { ensure: file }\n";
    place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()));
    let ended = place.run(&["plan", "m.yaml", "-o", "kept"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(!fs::read_to_string(place.path().join("kept")).unwrap().contains("Zq7hunter99"));
}

#[test]
fn fifo_as_secret_source_is_refused() {
    let place = Place::new();
    let pipe = place.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    place.file(
        "m.yaml",
        format!(
            "resources:\n  file[{0}/app]: {{ content: {{ sensitive: {{ file: {0}/pipe }} }} }}\n",
            place.path().display()
        ),
    );
    let ended = place.run(&["plan", "m.yaml"]);
    assert!(ended.code == 1 && ended.stderr.contains("is a named pipe"), "{ended:?}");
}

#[test]
fn reports_show_no_secret() {
    let secrets = SecretCommand::new();
    // Content, argument, environment, output of a command, error, diff.
    secrets.manifest(
        "  file[DIR/app]: { content: { sensitive: { file: DIR/source } } }\n  \
         exec[argument]: { command: { sensitive: { file: DIR/script } }, shell: true }\n  \
         exec[environment]:\n    command: [sh, -c, 'echo \"$PIN\"; echo \"$PIN\" >&2; exit 3']\n    \
         environment: { PIN: { sensitive: { file: DIR/pin } } }\n  \
         exec[token]:\n    command: [sh, -c, 'cat DIR/source && touch DIR/done']\n    creates: DIR/done\n    \
         environment: { PIN: { sensitive: { file: DIR/pin } } }\n  \
         file[DIR/copy]: { content: '${exec[token].stdout}' }\n",
    );
    secrets.place.file("app", "former\n");
    secrets.place.file("copy", "former\n");
    let script = secrets.place.file("script", format!("echo '{SECRET}'; exit 4"));
    let reports = ["--report", "r.html", "--report", "r.xml", "--report", "r.json"];
    let ends = |code: i32, args: &[&str]| {
        let collector = Collector::new(&[("200 OK", "{}"); 2]);
        let ended = secrets.place.run(&[args, &reports, &["--otlp", &collector.url]].concat());
        assert_eq!(ended.code, code, "{args:?} {ended:?}");
        let requests = collector.requests();
        assert!(requests.len() == 2 && requests[0].1.contains("exec[argument]"));
        requests.iter().for_each(|(_, body)| is_nowhere_in(body.as_bytes(), "a request"));
        for name in ["r.html", "r.xml", "r.json"] {
            let bytes = fs::read(secrets.path(name)).unwrap();
            is_nowhere_in(&bytes, name);
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains("redacted") || text.contains("sensitive"), "{name} {args:?}: {text}");
        }
    };
    ends(2, &["plan", "m.yaml"]);
    ends(4, &["apply", "m.yaml"]);
    assert_eq!(fs::read_to_string(secrets.path("app")).unwrap(), SECRET);
    fs::write(secrets.path("app"), "drifted\n").unwrap();
    ends(4, &["run", "m.yaml", "--converged-exit", "--converged-timeout", "0"]);
    fs::remove_file(script).unwrap();
    assert_eq!(secrets.place.run(&["history", "report", "-o", "period.html"]).code, 0);
    is_nowhere_in(&fs::read(secrets.path("period.html")).unwrap(), "the report of a period");
    for words in [
        &["history", "show", "last", "--processes"][..],
        &["history", "export"],
        &["history", "export", "--format", "csv"],
        &["history", "export", "--format", "junit"],
        &["history", "export", "--format", "netstrings"],
        &["history", "diff", "1h"],
        &["undo", "--to", "1h", "--noop"],
    ] {
        let ended = secrets.place.run(words);
        assert!(ended.stdout.contains("exec[") || ended.stdout.contains("/app"), "{words:?} {ended:?}");
        is_nowhere_in(format!("{}{}", ended.stdout, ended.stderr).as_bytes(), &words.join(" "));
    }
    let state = files(&secrets.path("state"));
    assert!(state.iter().any(|path| path.ends_with("history.db")), "{state:?}");
    for path in state {
        is_nowhere_in(&fs::read(&path).unwrap(), &path.display().to_string());
    }
}

#[test]
fn no_core_file_has_the_memory_of_kilter() {
    use std::os::unix::process::ExitStatusExt as _;

    let place = Place::new();
    let held = place.path().join("held");
    let manifest = place.file("m.yaml", format!("resources:\n  file[{}]: {{content: x}}\n", held.display()));
    let run = place.command(&["run", &manifest]);
    let limited = |script: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("ulimit -c unlimited; {script}")]).arg(run.get_program()).args(run.get_args());
        shell.env_clear().envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.current_dir(place.path()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        shell.spawn().unwrap()
    };
    let other = limited("kill -SEGV $$").wait().unwrap();
    assert!(other.core_dumped(), "this system writes no core files, so the test shows nothing: {other}");
    let mut kilter = limited("exec \"$0\" \"$@\"");
    crate::run::wait("the first change", || held.exists());
    let pid = rustix::process::Pid::from_child(&kilter);
    // The first SIGSEGV from outside only ends the handler of Rust's runtime.
    rustix::process::kill_process(pid, rustix::process::Signal::ABORT).unwrap();
    let ended = kilter.wait().unwrap();
    assert!(ended.signal().is_some() && !ended.core_dumped(), "{ended}");
}
