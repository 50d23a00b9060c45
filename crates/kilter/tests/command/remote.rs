//! Commands on other hosts, over a real sshd on the loopback interface.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::run::{Running, content, wait};
use crate::support::*;

/// A server for logins as the user of the tests. All names of hosts that start with `h` lead to it.
pub(crate) struct Sshd {
    server: Child,
    pub(crate) place: Place,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

pub(crate) fn run(program: &str, args: &[&str]) {
    let status = Command::new(program).args(args).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{program} {args:?}");
}

/// Returns a port that no program uses at this moment.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns the directory in which all tests keep the program that they send, so that they send it once.
pub(crate) fn cache() -> PathBuf {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE
        .get_or_init(|| {
            let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("remote-cache");
            std::fs::create_dir_all(&cache).unwrap();
            std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o700)).unwrap();
            // Sent once, before tests run at the same time.
            let place = Place::new();
            let mut command = place.command(&["--on", "local://", "facts", "kernel"]);
            assert_eq!(place.end(command.env("KILTER_CACHE_DIR", &cache)).code, 0);
            cache
        })
        .clone()
}

impl Sshd {
    pub(crate) fn start() -> Sshd {
        Sshd::start_with("")
    }

    /// Starts a server with these lines in its configuration.
    fn start_with(lines: &str) -> Sshd {
        let place = Place::new();
        let directory = place.path();
        let at = |name: &str| directory.join(name).display().to_string();
        for key in ["hostkey", "id"] {
            run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]);
        }
        std::fs::copy(at("id.pub"), at("authorized_keys")).unwrap();
        if is_root() {
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let port = free_port();
        let (cache, state) = (cache(), directory.join("host-state"));
        let config = format!(
            "{lines}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             UsePAM no\nPidFile none\nPermitRootLogin yes\nSetEnv KILTER_CACHE_DIR={} KILTER_STATE_DIR={}\n",
            at("hostkey"),
            at("authorized_keys"),
            cache.display(),
            state.display(),
        );
        std::fs::write(at("sshd_config"), config).unwrap();
        let key = content(&directory.join("hostkey.pub"));
        std::fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {key}")).unwrap();
        let client = format!(
            "Host h*\n HostName 127.0.0.1\n Port {port}\n IdentityFile {}\n UserKnownHostsFile {}\n",
            at("id"),
            at("known_hosts")
        );
        std::fs::write(at("ssh_config"), client).unwrap();
        let mut server = Command::new("/usr/sbin/sshd");
        server.args(["-D", "-e", "-f", &at("sshd_config")]).stderr(Stdio::null());
        let server = server.spawn().unwrap();
        crate::run::wait("sshd", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Sshd { server, place }
    }

    /// Runs kilter with `--on`.
    pub(crate) fn kilter(&self, on: &str, args: &[&str]) -> Ended {
        let config = self.place.path().join("ssh_config").display().to_string();
        let all = [&["--ssh-config", &config, "--on", on], args].concat();
        self.place.run(&all)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.place.path().join(name).display().to_string()
    }
}

#[test]
fn host_answers_as_this_machine_does() {
    let sshd = Sshd::start();
    let there = sshd.kilter("h1", &["get", "user", "root"]);
    let here = sshd.place.run(&["get", "user", "root"]);
    assert_eq!((there.code, there.stdout), (0, here.stdout), "{}", there.stderr);
    let unknown = sshd.kilter("h1", &["get", "usr"]);
    assert_eq!((unknown.code, unknown.stderr), (1, sshd.place.run(&["get", "usr"]).stderr));
    let file = sshd.path("quotes");
    let hostile = "a'b\"c\\ $(id) `id`\n!*?{x,y} ü";
    let set = sshd.kilter("h1", &["set", "file", &file, &format!("content={hostile}")]);
    assert_eq!((set.code, content(file.as_ref())), (0, hostile.to_owned()), "{}", set.stderr);
    let history = sshd.kilter("h1", &["history", &format!("file[{file}]")]);
    assert!(history.stdout.contains("quotes") || history.stdout.contains("content"), "{}", history.stdout);
}

#[test]
fn ralsh_works_on_a_target() {
    let cache = cache();
    let place = Place::new();
    let there = |args: &[&str]| {
        let mut command = place.command(&[&["ralsh", "-t", "local://"], args].concat());
        place.end(command.env("KILTER_CACHE_DIR", &cache))
    };
    for args in [&["user", "root"][..], &["-j", "user", "root"], &["-a", "user", "nosuch"], &["nosuch"]] {
        assert_eq!(there(args), crate::ralsh::ralsh(&place, args), "{args:?}");
    }
    let file = place.path().join("quotes").display().to_string();
    let set = there(&["file", &file, "ensure=file", "content=a 'b' $(id)"]);
    assert_eq!((set.code, content(file.as_ref())), (0, "a 'b' $(id)".to_owned()), "{}", set.stderr);
}

/// Writes the provider `note`, which keeps the last state of each note in a file of this directory.
fn note_script(place: &Place, directory: &str) {
    std::fs::create_dir_all(place.path().join(directory).join("lib")).unwrap();
    let notes = place.path().join("notes");
    let helper = format!("file={}/$name\n", notes.display());
    place.file(&format!("{directory}/lib/file.sh"), helper);
    let script = "#!/bin/sh\neval \"$@\"\n. \"$(dirname \"$0\")/lib/file.sh\"\ncase $ral_action in\n\
                  update) mkdir -p \"${file%/*}\"; printf %s \"$text\" >\"$file\";;\nesac\n\
                  printf '# simple\\nname: %s\\ntext: %s\\n' \"$name\" \"$(cat \"$file\" 2>/dev/null)\"\n";
    let path = place.file(&format!("{directory}/note.prov"), script);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let metadata = "provider:\n  type: note\n  invoke: simple\n  actions: [find, update]\n  suitable: true\n  \
                    attributes:\n    name:\n    text:\n";
    place.file(&format!("{directory}/note.yaml"), metadata);
}

#[test]
fn included_scripts_are_sent_to_hosts() {
    let sshd = Sshd::start();
    let place = &sshd.place;
    note_script(place, "scripts");
    let manifest = place.file("notes.yaml", "resources:\n  note[a]: {text: 'x $(id) \"y\"'}\n");
    let scripts = sshd.path("scripts");
    let there = |args: &[&str]| sshd.kilter("h1", &[&["-I", &scripts], args].concat());
    let read = there(&["get", "note", "a"]);
    assert_eq!((read.code, read.stdout.starts_with("note[a]\n")), (0, true), "{} {}", read.stdout, read.stderr);
    let applied = there(&["apply", "--yes", &manifest]);
    assert_eq!(applied.code, 0, "{} {}", applied.stdout, applied.stderr);
    assert_eq!(content(&place.path().join("notes/a")), "x $(id) \"y\"");
    assert_eq!(there(&["plan", &manifest]).code, 0);
    let undone = there(&["undo", "last"]);
    assert_eq!((undone.code, content(&place.path().join("notes/a")).as_str()), (0, ""), "{}", undone.stderr);
    let missing = sshd.kilter("h1", &["get", "note"]);
    assert_eq!(missing.code, 1, "{} {}", missing.stdout, missing.stderr);
    // A changed file is sent again.
    place.file("scripts/note.yaml", content(&place.path().join("scripts/note.yaml")) + "    colour:\n");
    let described = there(&["types", "note"]);
    assert!(described.stdout.contains("colour"), "{} {}", described.stdout, described.stderr);
    let path = place.path().join("scripts/note.prov");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = there(&["get", "note"]);
    assert!(refused.code == 1 && refused.stderr.contains("note.prov"), "{}", refused.stderr);
    let trusted = there(&["--trust", &scripts, "get", "note", "a"]);
    assert_eq!(trusted.code, 0, "{}", trusted.stderr);
}

/// A resource script of mold for services that are files.
const MOLD_SERVICE: &str = r#"#!/bin/bash
document=$(cat)
name=$(sed -n 's/.*"name": *"\([^"]*\)".*/\1/p' <<<"$document")
case "$1" in
inspect)
  [ -e "PLACE/$name" ] && running=true || running=false
  echo "{\"kind\": \"svc\", \"name\": \"$name\", \"exists\": true, \"running\": $running}";;
conform)
  touch "PLACE/$name";;
restart)
  echo "restarted $name";;
esac
"#;

#[test]
fn mold_directory_is_sent_to_hosts() {
    let sshd = Sshd::start();
    let place = &sshd.place;
    let script = |name: &str, text: &str| {
        std::fs::create_dir_all(place.path().join(name).parent().unwrap()).unwrap();
        let path = place.file(name, text.replace("PLACE", &place.path().display().to_string()));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("mold/facts/foo", "#!/bin/sh\necho '{\"cats\": 10}'\n");
    script("mold/resources/svc", MOLD_SERVICE);
    script("mold/actors/prescribe", "#!/bin/sh\necho '[{\"kind\": \"svc\", \"name\": \"one\", \"running\": true}]'\n");
    let mold = sshd.path("mold");
    let there = |args: &[&str]| sshd.kilter("h1,h2", &[&["--mold", &mold], args].concat());
    let facts = there(&["facts", "foo.cats"]);
    assert_eq!((facts.code, facts.stdout.as_str()), (0, "h1, h2:\n  10\n"), "{}", facts.stderr);
    let plan = there(&["plan"]);
    assert!(plan.code == 2 && plan.stdout.contains("~ svc[one]"), "{} {}", plan.stdout, plan.stderr);
    for (args, why) in [
        (&["apply"][..], "a prescription of mold is applied without a question"),
        (&["apply", "--yes", "--stage", "1"], "a prescription of mold has no roll-out"),
        (&["--channel3", "log", "facts"], "--channel3 cannot be used with --on"),
    ] {
        let refused = there(args);
        assert!(refused.code == 1 && refused.stderr.contains(why), "{}", refused.stderr);
    }
    let one = sshd.kilter("h1", &["--mold", &mold, "apply", "--yes"]);
    assert!(one.code == 0 && place.path().join("one").exists(), "{} {}", one.stdout, one.stderr);
    let restarted = there(&["act", "svc[one]", "restart"]);
    assert!(restarted.stdout.contains("    restarted one"), "{} {}", restarted.stdout, restarted.stderr);
    let manifest = place.file("svc.yaml", "resources:\n  svc[n${facts.foo.cats}]: {running: true}\n");
    let applied = there(&["apply", "--yes", "--stage", "1,2", &manifest]);
    assert!(applied.code == 0 && place.path().join("n10").exists(), "{} {}", applied.stdout, applied.stderr);
}

#[test]
fn ralsh_sends_included_scripts() {
    let place = Place::new();
    note_script(&place, "more/providers");
    let mut command = place.command(&["ralsh", "-Imore", "-t", "local://", "note", "a", "text=b"]);
    let set = place.end(command.env("KILTER_CACHE_DIR", cache()));
    assert_eq!((set.code, content(&place.path().join("notes/a")).as_str()), (0, "b"), "{}", set.stderr);
}

#[test]
fn equal_answers_are_shown_once() {
    let sshd = Sshd::start();
    let answer = sshd.kilter("h1,h2", &["facts", "kernel"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "h1, h2:\n  Linux\n"), "{}", answer.stderr);
    let two_words = sshd.kilter("h1,h2", &["--color", "never", "facts", "kernel"]);
    assert_eq!((two_words.code, two_words.stdout), (0, answer.stdout), "{}", two_words.stderr);
    let json = sshd.kilter("h1,h2", &["facts", "kernel", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["h2"], serde_json::json!({ "answer": "finished", "exit": 0, "output": "Linux" }));
}

#[test]
fn host_without_an_answer_is_no_success() {
    let sshd = Sshd::start();
    let answer = sshd.kilter("h1,-oProxyCommand=x", &["facts", "kernel"]);
    assert!(answer.code == 1 && answer.stderr.contains("`-oProxyCommand=x` is not a host"), "{}", answer.stderr);
    let answer = sshd.kilter("h1,local.invalid", &["facts", "kernel"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (4, "h1:\n  Linux\n"));
    assert!(answer.stderr.contains("no answer: local.invalid: ssh: Could not resolve"), "{}", answer.stderr);
    std::fs::write(sshd.path("known_hosts"), "").unwrap();
    let answer = sshd.kilter("h1", &["facts", "kernel"]);
    assert!(answer.code == 4 && answer.stderr.contains("Host key verification failed"), "{}", answer.stderr);
}

/// Bytes that are no UTF-8.
const BYTES: &[u8] = b"\x89PNG\r\n\x00\xff";

/// Returns a manifest with a template, the content of a file, an include, a fact and a secret of this machine.
fn site(sshd: &Sshd) -> String {
    sshd.place.file("pw", "planted-secret\n");
    sshd.place.file("icon", BYTES);
    sshd.place.file("motd.j2", "{{ vars.greeting }} $(id) 'q'\n");
    let root = sshd.path("made");
    sshd.place.file("more.yaml", format!("resources:\n  file[{root}]: {{ensure: directory}}\n"));
    let pw = sshd.path("pw");
    sshd.place.file(
        "site.yaml",
        format!(
            "include: [more.yaml]\nvars: {{greeting: 'Hi ${{facts.kernel}}', pw: {{sensitive: {{file: {pw}}}}}}}\n\
             resources:\n  file[{root}/motd]: {{content: {{template: motd.j2}}}}\n  file[{root}/pw]: {{content: \
             '${{vars.pw}}'}}\n  file[{root}/icon]: {{content: {{file: icon}}}}\n"
        ),
    )
}

#[test]
fn plan_of_hosts_is_applied_exactly() {
    let sshd = Sshd::start();
    let site = site(&sshd);
    let made = sshd.place.path().join("made");
    let plan = sshd.kilter("h1,h2", &["plan", &site]);
    assert_eq!(plan.code, 2, "{}", plan.stderr);
    assert!(plan.stdout.starts_with("h1, h2 (2 hosts):\n  + file["), "{}", plan.stdout);
    assert!(plan.stderr.contains("2 hosts: 2 with changes"), "{}", plan.stderr);
    assert!(!made.exists());
    let json = sshd.kilter("h1,h2", &["plan", &site, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["groups"][0]["hosts"], serde_json::json!(["h1", "h2"]));
    assert_eq!(json["groups"][0]["steps"].as_array().unwrap().len(), 4);
    let asked = sshd.kilter("h1", &["apply", &site]);
    assert!(asked.code == 1 && asked.stderr.contains("there is no terminal to ask"), "{}", asked.stderr);
    assert!(!made.exists());
    let applied = sshd.kilter("h1", &["apply", "--yes", &site]);
    assert_eq!(applied.code, 0, "{} {}", applied.stdout, applied.stderr);
    assert!(applied.stderr.contains("1 host: 1 applied"), "{}", applied.stderr);
    assert_eq!(content(&made.join("motd")), "Hi Linux $(id) 'q'\n");
    assert_eq!(content(&made.join("pw")), "planted-secret");
    assert_eq!(std::fs::read(made.join("icon")).unwrap(), BYTES);
    let again = sshd.kilter("h1,h2", &["apply", "--yes", &site]);
    assert_eq!((again.code, again.stderr.contains("2 hosts: 2 unchanged")), (0, true), "{}", again.stderr);
    let texts = [plan.stdout, applied.stdout, applied.stderr].concat();
    assert!(!texts.contains("planted-secret"));
    let blame = sshd.kilter("h1", &["blame", &format!("file[{}]", made.join("motd").display())]);
    assert!(blame.stdout.contains("site.yaml:"), "{} {}", blame.stdout, blame.stderr);
}

#[test]
fn different_commands_are_shown_and_approved_as_different() {
    let sshd = Sshd::start();
    let site =
        sshd.place.file("command.yaml", "resources:\n  exec[greet]: {command: [echo, \"${facts.inventory.name}\"]}\n");
    let plan = sshd.kilter("h1,h2", &["plan", &site]);
    assert!(plan.stderr.contains("2 hosts: 2 with changes in 2 groups"), "{}", plan.stderr);
    assert!(plan.stdout.contains("  exec[greet]: command is [\"echo\",\"h2\"]"), "{}", plan.stdout);
}

#[test]
fn saved_plan_of_hosts_is_applied_later() {
    let sshd = Sshd::start();
    let site = site(&sshd);
    let made = sshd.place.path().join("made");
    let file = sshd.path("site.plan");
    let plan = sshd.kilter("h1,h2", &["plan", &site, "-o", &file]);
    assert!(plan.code == 2 && plan.stderr.contains("is written to"), "{}", plan.stderr);
    let text = content(file.as_ref());
    assert!(!text.contains("planted-secret"));
    std::fs::write(sshd.path("changed.plan"), text.replacen("h2", "h3", 1)).unwrap();
    let overwritten = sshd.kilter("h1", &["plan", &site, "-o", &site]);
    assert!(overwritten.code == 1 && overwritten.stderr.contains("would overwrite"), "{}", overwritten.stderr);
    let changed = sshd.kilter("h3", &["apply", "--yes", &sshd.path("changed.plan")]);
    assert!(changed.code == 1 && changed.stderr.contains("was changed after it was made"), "{}", changed.stderr);
    let other = sshd.kilter("h3", &["apply", "--yes", &file]);
    assert!(other.code == 1 && other.stderr.contains("has no plan of h3"), "{}", other.stderr);
    assert!(!made.exists());
    // The manifest of the plan counts, not the present one.
    std::fs::write(&site, "resources: {}\n").unwrap();
    let config = sshd.path("ssh_config");
    let applied = sshd.place.run(&["--ssh-config", &config, "--parallel", "1", "apply", "--yes", &file]);
    assert_eq!(applied.code, 0, "{} {}", applied.stdout, applied.stderr);
    assert!(applied.stderr.contains("2 hosts: 2 applied"), "{}", applied.stderr);
    assert_eq!(content(&made.join("pw")), "planted-secret");
}

#[test]
fn problem_of_a_manifest_ends_before_any_change() {
    let sshd = Sshd::start();
    let bad = sshd.place.file("bad.yaml", "resources:\n  file[/x]: {contnt: a}\n");
    let plan = sshd.kilter("h1,h2", &["apply", "--yes", &bad]);
    assert_eq!(plan.code, 4, "{} {}", plan.stdout, plan.stderr);
    assert!(plan.stderr.contains("failed: h1, h2 (2 hosts)") && plan.stderr.contains("contnt"), "{}", plan.stderr);
    std::fs::create_dir(sshd.path("site")).unwrap();
    let outside = sshd.path("site/outside.yaml");
    sshd.place.file("secret.yaml", "vars: {x: 1}\n");
    std::fs::write(&outside, "include: [../secret.yaml]\nresources: {}\n").unwrap();
    let plan = sshd.kilter("h1", &["plan", &outside]);
    assert!(plan.code == 4 && plan.stderr.contains("is not below"), "{} {}", plan.code, plan.stderr);
}

#[test]
fn unconfirmed_changes_of_a_host_are_kept_by_a_new_connection() {
    let sshd = Sshd::start();
    let site = site(&sshd);
    let applied = sshd.kilter("h1", &["apply", "--yes", "--confirm-within", "10m", &site]);
    assert_eq!(applied.code, 0, "{} {}", applied.stdout, applied.stderr);
    assert!(sshd.place.path().join("made/motd").exists());
}

#[test]
fn host_that_accepts_no_connection_after_the_change_reverts_it() {
    let sshd = Sshd::start();
    // The change locks its own login out.
    let keys = sshd.path("authorized_keys");
    let before = content(keys.as_ref());
    let text = format!("resources:\n  file[{keys}]: {{content: '# none'}}\n  note[a]: {{text: x}}\n");
    let site = sshd.place.file("lock.yaml", text);
    note_script(&sshd.place, "scripts");
    let apply = ["-I", &sshd.path("scripts"), "apply", "--yes", "--confirm-within", "3s", &site];
    let applied = sshd.kilter("h1", &apply);
    assert_eq!(applied.code, 5, "{} {}", applied.stdout, applied.stderr);
    assert!(applied.stderr.contains("1 reverted (h1)"), "{}", applied.stderr);
    assert_eq!(content(keys.as_ref()), before);
    let note = sshd.place.path().join("notes/a");
    assert!(note.exists() && content(&note).is_empty(), "the host undoes it with the script");
}

#[test]
fn signal_that_ends_kilter_on_a_host_is_named() {
    let sshd = Sshd::start();
    let manifest = |name: &str, kill: &str| {
        let text = format!("resources:\n  exec[kill]: {{command: {kill:?}, shell: true}}\n");
        sshd.place.file(name, text)
    };
    let command = manifest("command.yaml", "kill -9 $PPID");
    // The parent of the command is the session.
    let session = manifest("session.yaml", "read -r _ _ _ session _ </proc/$PPID/stat; kill -ABRT $session");
    for options in [&[][..], &["--become-method", "su"]] {
        if !options.is_empty() && !is_root() {
            continue;
        }
        for (manifest, signal) in [(&command, "signal 9 (SIGKILL)"), (&session, "signal 6 (SIGABRT)")] {
            let applied = sshd.kilter("h1", &[options, &["apply", "--yes", manifest]].concat());
            let why = format!("failed: h1: kilter on h1 was ended by {signal}\n");
            assert!(applied.code == 4 && applied.stderr.contains(&why), "{options:?} {signal}: {applied:?}");
        }
    }
    let json = sshd.kilter("h1", &["apply", "--yes", "--format", "json", &command]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let result = &json["results"]["h1"];
    assert_eq!(result["result"], "lost", "{json:#}");
    assert_eq!(result["error"], "kilter on h1 was ended by signal 9 (SIGKILL)", "{json:#}");
}

#[test]
fn banner_and_other_login_shell_do_not_confuse_a_session() {
    let banner = Place::new();
    let path = banner.file("banner", "Welcome!\nkilter 0 cached\n".repeat(50));
    let sshd = Sshd::start_with(&format!("Banner {path}"));
    let answer = sshd.kilter("h1", &["facts", "kernel"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "Linux\n"), "{}", answer.stderr);
}

#[test]
fn nothing_stays_on_the_host_without_the_cache() {
    let place = Place::new();
    let cache = place.path().join("cache");
    note_script(&place, "scripts");
    let mut command = place.command(&["--on", "local://", "--no-cache", "-I", "scripts", "set", "note", "a", "text=b"]);
    let answer = place.end(command.env("KILTER_CACHE_DIR", &cache));
    assert_eq!((answer.code, content(&place.path().join("notes/a")).as_str()), (0, "b"), "{}", answer.stderr);
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 0);
    let mode = std::fs::metadata(&cache).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn other_kind_of_machine_gets_its_own_program() {
    let sshd = Sshd::start();
    // The host claims to be another machine, and runs the programs of this one.
    let uname = sshd.place.file("uname", "#!/bin/sh\necho Linux aarch64\n");
    std::fs::set_permissions(&uname, std::fs::Permissions::from_mode(0o755)).unwrap();
    let cache = sshd.place.path().join("other-cache");
    let setting = format!("PATH={}:$PATH KILTER_CACHE_DIR={}", sshd.place.path().display(), cache.display());
    let key = content(&sshd.place.path().join("authorized_keys"));
    let command = format!("command=\"export {setting}; exec sh -c \\\"$SSH_ORIGINAL_COMMAND\\\"\" {key}");
    sshd.place.file("authorized_keys", command);
    let programs = sshd.path("programs");
    let args = ["--programs", &programs, "facts", "kernel"];
    let refused = sshd.kilter("h1", &args);
    let told = format!("the host runs Linux on aarch64: store kilter for such machines at {programs}/kilter-aarch64");
    assert!(refused.code == 4 && refused.stderr.contains(&told.replace(&sshd.path(""), "DIR/")), "{refused:?}");
    std::fs::create_dir(&programs).unwrap();
    let program = sshd.place.copy_of_kilter("programs/kilter-aarch64");
    let other = std::fs::OpenOptions::new().append(true).open(&program);
    std::io::Write::write_all(&mut other.unwrap(), b"of another machine").unwrap();
    for _ in 0..2 {
        let answered = sshd.kilter("h1", &args);
        assert_eq!((answered.code, answered.stdout.as_str()), (0, "Linux\n"), "{answered:?}");
        let cached: Vec<_> = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(cached.len(), 1, "{cached:?}");
        assert_eq!(std::fs::read(&cached[0]).unwrap(), std::fs::read(&program).unwrap());
    }
}

/// Makes a root file system with a shell and the libraries of kilter.
fn image(place: &Place) -> std::path::PathBuf {
    let root = place.path().join("image");
    for directory in ["bin", "dev", "etc", "proc", "run", "sys", "tmp", "var/lib", "var/cache"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    let listed = Command::new("ldd").arg(env!("CARGO_BIN_EXE_kilter")).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let copy = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(library, copy).unwrap();
    }
    let busybox = root.join("bin/busybox");
    std::fs::copy("/bin/busybox", &busybox).unwrap();
    assert!(Command::new(&busybox).args(["--install", "-s"]).arg(root.join("bin")).status().unwrap().success());
    for entry in std::fs::read_dir(root.join("bin")).unwrap().map(|entry| entry.unwrap().path()) {
        if entry != busybox {
            std::fs::remove_file(&entry).unwrap();
            std::os::unix::fs::symlink("busybox", &entry).unwrap();
        }
    }
    root
}

#[test]
fn image_directory_is_changed_and_nothing_is_left_mounted() {
    assert!(is_root(), "run this test as root: it enters a root directory");
    let place = Place::new();
    let root = image(&place);
    let on = format!("chroot://{}", root.display());
    let daemon = "exec[daemon]: {command: 'sleep 3600 & echo $! > /tmp/pid; readlink /proc/self/ns/pid > /tmp/ns', \
                  shell: true, creates: /tmp/pid}";
    let text = format!("resources:\n  file[/etc/motd]: {{content: {{file: motd}}}}\n  {daemon}\n");
    place.file("motd", "of the image\n");
    let applied = place.run(&["--on", &on, "apply", "--yes", &place.file("image.yaml", text)]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(content(&root.join("etc/motd")), "of the image\n");
    assert_eq!(std::fs::read_dir(root.join("run")).unwrap().count(), 0);
    assert!(!content("/proc/self/mountinfo".as_ref()).contains(&root.display().to_string()));
    // The namespace of its processes has ended, and all processes in it.
    let namespace = content(&root.join("tmp/ns"));
    let mut processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("ns/pid"));
    let is_alive = |link: std::path::PathBuf| {
        std::fs::read_link(link).is_ok_and(|found| found.to_string_lossy() == namespace.trim())
    };
    assert!(!namespace.is_empty() && !processes.any(is_alive), "{namespace}");
    let history = place.run(&["--root", &root.display().to_string(), "history"]);
    assert!(history.code == 0 && history.stdout.contains("2 changed"), "{history:?}");
}

#[test]
fn run_holds_hosts_until_the_command_ends() {
    let sshd = Sshd::start();
    let config = sshd.path("ssh_config");
    let held = sshd.place.path().join("held");
    let text = format!("resources:\n  file[{}]: {{content: {{file: text}}}}\n", held.display());
    let manifest = sshd.place.file("site.yaml", text);
    sshd.place.file("text", "it's $(declared)\n");
    let args = ["--ssh-config", &config, "--on", "h1", "run", &manifest];
    let running = Running::of(&sshd.place, &args);
    wait("the first change", || content(&held) == "it's $(declared)\n");
    std::fs::write(&held, "damaged").unwrap();
    wait("the repair", || content(&held) == "it's $(declared)\n");
    let status = sshd.kilter("h1", &["status", "--format", "json"]);
    assert_eq!(status.code, 0, "{status:?}");
    let (code, _, errors) = running.end();
    assert_eq!(code, Some(143), "{errors}");
    let status = sshd.kilter("h1", &["status"]);
    assert!(status.code != 0, "the run on the host has ended: {status:?}");

    let once = sshd.kilter("h1,h2", &["--parallel", "1", "run", "--converged-exit", &manifest]);
    assert!(once.code == 1 && once.stderr.contains("give --parallel 2"), "{once:?}");
    let both = sshd.kilter("h1,h2", &["run", "--noop", "--converged-exit", "--converged-timeout", "0", &manifest]);
    assert!(both.code == 0 && both.stdout.contains("h1: ") && both.stdout.contains("h2: "), "{both:?}");
    let wrong = sshd.place.file("wrong.yaml", "resources:\n  file[/x]: {contents: x}\n");
    let wrong = sshd.kilter("h1", &["run", &wrong]);
    assert!(wrong.code == 4 && wrong.stderr.contains("wrong.yaml:2"), "{wrong:?}");
}

#[test]
fn blame_names_line_and_commit_of_the_time_of_the_plan() {
    const HASH: &str = "0123456789abcdef0123456789abcdef01234567";
    let sshd = Sshd::start();
    std::fs::create_dir(sshd.path(".git")).unwrap();
    sshd.place.file(".git/HEAD", HASH);
    let manifest = sshd.place.file("site.yaml", format!("resources:\n  file[{}]: {{content: x}}\n", sshd.path("a")));
    let applied = sshd.kilter("h1", &["apply", "--yes", &manifest]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let of_controller = sshd.kilter("h1", &["blame", &format!("file[{}]", sshd.path("a")), "--format", "json"]).stdout;
    assert!(of_controller.contains(":DIR/site.yaml:2\"") && of_controller.contains(HASH), "{of_controller}");

    let text = format!("# b\nresources:\n  file[{}]: {{content: x}}\n", sshd.path("b"));
    let manifest = sshd.place.file("b.yaml", text);
    let plan = sshd.path("b.plan");
    assert_eq!(sshd.place.run(&["plan", "-o", &plan, &manifest]).code, 2);
    sshd.place.file(".git/HEAD", HASH.replace('0', "f"));
    sshd.place.file("b.yaml", "# edited");
    let applied = sshd.place.run(&["apply", &plan]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let of_plan = sshd.place.run(&["blame", &format!("file[{}]", sshd.path("b")), "--format", "json"]).stdout;
    assert!(of_plan.contains("\"DIR/b.yaml:3\"") && of_plan.contains(HASH), "{of_plan}");
}

#[test]
fn root_is_a_directory_with_a_root_file_system() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("empty")).unwrap();
    for (root, words, why) in [
        ("missing", &["facts"][..], "--root missing: No such file or directory"),
        ("empty", &["facts"], "--root empty: it is no root file system, because it has no directory `proc`"),
        ("empty", &["--on", "web1", "facts"], "--root selects the system: leave out --on and --failed-of"),
    ] {
        let refused = place.run(&[&["--root", root], words].concat());
        assert!(refused.code == 1 && refused.stderr.contains(why), "{refused:?}");
    }
}
