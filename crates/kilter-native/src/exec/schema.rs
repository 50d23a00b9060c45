//! Attributes of an exec.

use kilter_model::{Behaviour, Feature, TypeSchema, Value};
use kilter_process::Signal;

const DESC: &str = "\
Runs commands, where nothing else can bring a state about.

```yaml
resources:
  exec[token]:
    command: openssl rand -out /var/lib/app/token -hex 16
    creates: /var/lib/app/token
  exec[create database]:
    command: [createdb, --owner, app, app]
    unless: [[psql, -d, app, -c, \"\"]]
    user: postgres
  exec[upgrade]:
    command: ./upgrade
    cwd: /srv/app
    unless: { command: cat version, stdout: \"1.2\" }
  exec[reload]:
    command: systemctl list-units | grep -q app && systemctl reload app
    shell: true
    refreshonly: true
    subscribe: file[/etc/app.conf]
```

**When it runs.** Always, unless a guard says that it need not: `creates`, `unless`, `onlyif`, `refreshonly`. All of those given must ask \
for it. After the command the guards are \
asked again: one that still asks for the command makes the resource a failure. Without a guard the exit code is trusted.

**Guards in a plan.** Guards also run for `plan`, for `--noop` and for resources with `meta: { noop: true }` or a `policy` that does not repair. \
There the kernel confines them, and the command of `watch`, as it [confines scripts that only read](../provider-environment.md#confinement). A guard \
can read files, keep temporary files in `TMPDIR`, write to `/dev/null`, and connect to sockets and the network (`systemctl is-active`, `docker`, `psql`). It \
cannot write elsewhere, signal other processes (`kill -0`: use `test -d /proc/PID`), or read what the kernel shows only to a process that may change it \
(`iptables -C`, `lvs`). A guard that was refused something has no answer, whatever its exit code: the resource is *not known yet*, with the guard and the file that it tried to write, and a \
warning says the same. Another guard can still decide that the command does not run. `confine: false` lifts the confinement for a guard that has to write. \
In a run that changes the resource, guards are not confined.

**More of one command.** `unless`, `onlyif`, `done`, `refresh` and `watch` take, in the place of a text or a list of words, a mapping as well: \
its `command`, and a `cwd` and a `shell` of its own where they are not those of the resource (`shell: false` for none). That of a guard may also say what is \
to be printed, beside returning 0: `stdout` or `output` (with the error output) is the text, `not_stdout` or `not_output` is what it must not be. Line \
breaks at the end of either do not count, unless it says `exact: true`.

**How it runs.** Without a shell: a text is split into words as a shell would, with quotes and backslashes, but nothing is expanded; \
what only a shell understands (`| & ; < > ( ) $ * ?` and backquotes, outside of quotes) is refused until `shell: true` says that a shell is meant. \
In a process group of its own, which is ended as a whole, with what it has started in other groups, when the time is up or the run is interrupted: by `stop_signal`, and two seconds later by SIGKILL; as another user in a session of its own, without \
terminal. Its environment holds `PATH`, `LANG` and `LC_ALL` (`C.UTF-8`) \
and what `environment` adds, nothing else; its standard input is empty.

**Order.** It comes after the files of each `cwd` (or the nearest managed directory above) and of the programs it names by absolute path, and \
after `user` and `group`.

**Secrets.** A sensitive command is not shown, nor are sensitive words within it; where they turn up in its output, reports \
show `[redacted]`, and the outputs of a command with secrets are sensitive. The beginning of what a guard prints is shown where it is held against a text, unless that or the \
guard is sensitive, or `logoutput` is `false`.";

const COMMAND: &str = "Variant[String[1], Array[Variant[String, Integer], 1]]";
const WORDS: &str = "Array[Variant[String, Integer], 1]";
const SHELL: &str = "Variant[Boolean, Pattern[/\\A\\//]]";
/// Output that is not text is binary.
const PRINTED: &str = "Variant[String, Binary]";
const SECONDS: &str = "Variant[Integer[0], Float[0]]";

/// Returns the type of a command with its own settings.
fn other_command() -> String {
    format!("Variant[String[1], {WORDS}, Struct[{{{}}}]]", own_surroundings())
}

/// Returns the type of a guard or a list of guards.
fn guard() -> String {
    let printed = ["stdout", "output", "not_stdout", "not_output"].map(|key| format!("Optional[{key}] => String"));
    let mapping = format!("Struct[{{{}, {}, Optional[exact] => Boolean}}]", own_surroundings(), printed.join(", "));
    format!("Variant[String[1], {mapping}, Array[Variant[String[1], {WORDS}, {mapping}], 1]]")
}

fn own_surroundings() -> String {
    format!("command => {COMMAND}, Optional[cwd] => String[1], Optional[shell] => {SHELL}")
}

pub(super) fn schema() -> TypeSchema {
    let schema = surroundings(watching(guards(commands(TypeSchema::new("exec", DESC)))));
    limits(schema)
        .attribute("due", "String", Behaviour::ReadOnly, "Why the command has to run; not there when it need not.")
        .features(&[Feature::CustomInsync, Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
        .output("stdout", PRINTED, "What the command wrote, without the line breaks at its end: its first 1 MiB.")
        .output("stderr", PRINTED, "What it wrote to its error output: the last 64 KiB.")
        .output(
            "output",
            PRINTED,
            "Both together, in the order in which they were read: their first 1088 KiB. What is written to both within the same instant may \
             change places; a shell keeps to the order with `2>&1`.",
        )
        .output("exit_code", "Integer", "Its exit code.")
}

fn commands(schema: TypeSchema) -> TypeSchema {
    let parameter = Behaviour::Parameter;
    schema
        .attribute("name", "String[1]", Behaviour::Namevar, "What it is called.")
        .attribute(
            "command",
            COMMAND,
            parameter,
            "What runs; by default the title. A text, `tar -xf 'my archive.tar'`, or a list of words that are passed on as they \
             are: `[tar, -xf, my archive.tar]`. The program is an absolute path or found in `path`.",
        )
        .attribute(
            "shell",
            SHELL,
            parameter,
            "Whether texts (`command`, `done`, `refresh`, `watch`, `unless`, `onlyif`) are handed to a shell: `true` for `/bin/sh`, or the path of \
             one: `/bin/bash`. Lists of words never are.",
        )
        .default(Value::Boolean(false))
        .attribute(
            "done",
            &other_command(),
            parameter,
            "What runs when `command` has succeeded; if it fails, so has the command: `touch /var/lib/app/done`.",
        )
        .attribute(
            "refresh",
            &other_command(),
            parameter,
            "What runs instead of `command` when another resource refreshes this one: `systemctl reload app`.",
        )
}

fn guards(schema: TypeSchema) -> TypeSchema {
    let parameter = Behaviour::Parameter;
    schema
        .attribute(
            "creates",
            "Variant[String[1], Array[String[1], 1]]",
            parameter,
            "Run only if this file, or none of these, exists: `/var/lib/app/token`. Looking costs no process. A link that \
             leads nowhere does not exist.",
        )
        .attribute(
            "unless",
            &guard(),
            parameter,
            "Run only if this command fails (returns another exit code than 0): `test -e /srv/app`. A list holds several, \
             each a text, a list of words or a mapping, all of which must fail: `[\"id app\", [test, -d, \"/srv/my app\"]]`. \
             They run in the surroundings of `command`, each with its `timeout`. One that cannot be started is an error. One that has \
             to print something fails if it prints something else: `{ command: cat version, cwd: /srv/app, stdout: \"1.2\" }`.",
        )
        .attribute(
            "onlyif",
            &guard(),
            parameter,
            "Run only if this command succeeds: `test -e /srv/app`. Several, and mappings, as for `unless`: all must succeed, and print what \
             they have to: `{ command: sysctl -n kernel.sysrq, not_stdout: \"0\" }`.",
        )
        .attribute(
            "mtimes",
            "Variant[String[1], Array[String[1], 1]]",
            parameter,
            "Run when one of these files was modified, or another one put in its place, since the command began that last succeeded, whatever \
             `creates`, `unless` and `onlyif` say: `/etc/app.conf`. Each must be there. What is modified while the command runs, by itself too, \
             asks for it once more. Of no effect without another guard; `onlyif: \"false\"` makes it the only one.",
        )
        .attribute(
            "verify",
            "Boolean",
            parameter,
            "Whether the guards are asked again after the command, so that one that still asks for it is a failure.",
        )
        .default(Value::Boolean(true))
        .attribute(
            "confine",
            "Boolean",
            parameter,
            "Whether the kernel keeps the guards and `watch` from changing the machine in a plan and with noop. `false` is for a guard that has to \
             write, such as one that takes a lock, or has to see what only root may change: `iptables -C INPUT -j DROP`.",
        )
        .default(Value::Boolean(true))
        .attribute(
            "refreshonly",
            "Boolean",
            parameter,
            "Run only when another resource refreshes this one (and the other guards agree): `true`.",
        )
        .default(Value::Boolean(false))
}

fn watching(schema: TypeSchema) -> TypeSchema {
    let parameter = Behaviour::Parameter;
    schema
        .attribute(
            "watch",
            &other_command(),
            parameter,
            "A command that goes on for as long as a state is held (`kilter run`). With each line that it writes the resource is looked at, \
             or run if it has no guard: `inotifywait -m /srv/in`. One that ends is begun again, after longer pauses each time.",
        )
        .attribute(
            "watchfiles",
            "Variant[String[1], Array[String[1], 1]]",
            parameter,
            "Files and directories with which the same happens when somebody changes them, or what is directly in them: \
             `[/etc/app.conf, /etc/app.d]`.",
        )
}

fn surroundings(schema: TypeSchema) -> TypeSchema {
    let parameter = Behaviour::Parameter;
    schema
        .attribute(
            "environment",
            "Variant[Hash[String[1], Variant[String, Integer]], Array[String[1]], String[1]]",
            parameter,
            "Variables beside `PATH`, `LANG` and `LC_ALL`: `{HOME: /root, LANG: de_DE.UTF-8}`, or as a list: `[\"HOME=/root\"]`.",
        )
        .attribute(
            "path",
            "Variant[String[1], Array[String[1], 1]]",
            parameter,
            "Where programs are found, a list of directories or a text with colons: `[/opt/app/bin, /usr/bin]`.",
        )
        .default(kilter_process::DEFAULT_PATH)
        .attribute("cwd", "String[1]", parameter, "The directory it runs in, which `user` must be able to enter: `/srv/app`.")
        .default("/")
        .attribute(
            "user",
            "Variant[String[1], Integer[0, 4294967294]]",
            parameter,
            "The user it runs as, with that user's groups: `postgres`, `1500`. Only root may choose. `HOME` is not set.",
        )
        .attribute(
            "group",
            "Variant[String[1], Integer[0, 4294967294]]",
            parameter,
            "The group it runs as, in the place of the user's primary one: `www-data`, `33`.",
        )
        .attribute("umask", "Pattern[/\\A0?[0-7]{1,3}\\z/]", parameter, "The umask it runs with: `\"0027\"`. Otherwise 0022, whatever kilter was started with.")
}

fn limits(schema: TypeSchema) -> TypeSchema {
    let parameter = Behaviour::Parameter;
    schema
        .attribute(
            "returns",
            "Variant[Integer[0, 255], Array[Integer[0, 255], 1]]",
            Behaviour::Property,
            "The exit code, or codes, of success: `[0, 2]`. As long as the command has to run, it has none.",
        )
        .default(Value::Integer(0))
        .attribute(
            "timeout",
            SECONDS,
            parameter,
            "Seconds that one try, or one guard, may take: `30`, `0.5`; `0` for any time. Then it is ended with all it has started, and has failed \
             without another try.",
        )
        .default(Value::Integer(300))
        .attribute(
            "stop_signal",
            &format!("Enum['{}']", Signal::names().collect::<Vec<_>>().join("', '")),
            parameter,
            "What tells any of its commands, with all that they have started, to end when the time is up or the run is interrupted: `SIGINT`. Two seconds \
             later the rest of them gets SIGKILL.",
        )
        .default("SIGTERM")
        .attribute("tries", "Integer[1]", parameter, "How often it is tried until it returns a code of success: `3`.")
        .default(Value::Integer(1))
        .attribute("try_sleep", SECONDS, parameter, "Seconds between two tries: `10`.")
        .default(Value::Integer(0))
        .attribute(
            "logoutput",
            "Variant[Boolean, Enum[on_failure]]",
            parameter,
            "Whether its output is reported: `true`, `false`, or only the end of it when it fails: `on_failure`.",
        )
        .default("on_failure")
        .attribute(
            "fallback",
            "Struct[{Optional[stdout] => String, Optional[stderr] => String, Optional[output] => String, Optional[exit_code] => Integer[0, 255]}]",
            parameter,
            "What it sends to others when it need not run, and nothing is known of what it sent when it ran: `{ stdout: none }`.",
        )
}
