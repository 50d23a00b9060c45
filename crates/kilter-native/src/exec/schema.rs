//! Attributes of an exec.

use kilter_model::{Behaviour, Feature, TypeSchema, Value};
use kilter_process::Signal;

const DESC: &str = "\
Runs commands. Use it if no other type can make the change.

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

**Guards.** Without a guard the command always runs, and its exit code decides about success. The guards are \
`creates`, `unless`, `onlyif` and `refreshonly`. \
The command runs only if all declared guards require it. kilter checks the guards again after the command; a guard \
that still requires the command makes the \
resource fail.

**Guards in a plan.** Guards also run for `plan`, for `--noop` and for resources with `meta: { noop: true }` or a \
`policy` that does not repair. \
The kernel then confines them, and the command of `watch`, as it [confines scripts that only \
read](../provider-environment.md#confinement). A guard \
can read files, write temporary files in `TMPDIR`, write to `/dev/null`, and connect to sockets and the network \
(`systemctl is-active`, `docker`, `psql`). It \
cannot write elsewhere, signal other processes (`kill -0`: use `test -d /proc/PID`), or read state that the kernel \
shows only to privileged processes \
(`iptables -C`, `lvs`).

If the kernel refuses an operation of a guard, kilter ignores the result of the guard, even \
exit code 0. The resource is then *not known yet*, and the plan and a warning name the guard and the file. \
Another guard can still decide that the command does not run. `confine: false` lifts the confinement for a guard that \
must write. \
In a run that changes the resource, guards are not confined.

**Commands as mappings.** `unless`, `onlyif`, `done`, `refresh` and `watch` accept a text, a list of words, or a \
mapping. The mapping has `command`, and optionally its own \
`cwd` and `shell` (`shell: false` for none). A guard may also declare its output: `stdout` or `output` (with standard \
error) is the required text, `not_stdout` or `not_output` a forbidden \
one. kilter ignores line breaks at the end, except with `exact: true`.

**Process.** Without `shell`, kilter splits a text into words as a shell does, with quotes and backslashes, but \
expands nothing. It refuses \
characters that only a shell interprets (`| & ; < > ( ) $ * ?` and backquotes, outside of quotes); `shell: true` \
accepts them. The environment has `PATH`, `LANG`, `LC_ALL` (`C.UTF-8`) and \
the variables of `environment`. Standard input is empty. As another user, the command runs in a session of its own, \
without a terminal.

**End.** At the timeout or an interrupt, kilter ends the process group of the command and its descendants in other \
groups: by `stop_signal`, and two seconds later by SIGKILL.

**Automatic edges.** The resource runs after the file of each `cwd` (or the nearest managed directory above), after \
the files of programs with an absolute path, and \
after `user` and `group`.

**Secrets.** Reports show neither a sensitive command nor sensitive words in it. They show `[redacted]` for secrets \
in the output, and the outputs of a command with secrets are \
sensitive. Reports show the start of a guard's output if the guard declares an output, unless the output or the guard \
is sensitive, or `logoutput` is `false`.";

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
        .attribute("due", "String", Behaviour::ReadOnly, "Reason why the command must run; missing if it need not.")
        .features(&[Feature::CustomInsync, Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
        .output("stdout", PRINTED, "Standard output without the line breaks at the end: the first 1 MiB.")
        .output("stderr", PRINTED, "Standard error: the last 64 KiB.")
        .output(
            "output",
            PRINTED,
            "Standard output and standard error in the order of reading: the first 1088 KiB. kilter may swap \
             simultaneous writes to both; `2>&1` in a shell keeps the order.",
        )
        .output("exit_code", "Integer", "Exit code.")
}

fn commands(schema: TypeSchema) -> TypeSchema {
    let parameter = Behaviour::Parameter;
    schema
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource.")
        .attribute(
            "command",
            COMMAND,
            parameter,
            "Command; by default the title. A text, `tar -xf 'my archive.tar'`, or a list of literal words: \
             `[tar, -xf, my archive.tar]`. The program is an absolute path, or is searched in `path`.",
        )
        .attribute(
            "shell",
            SHELL,
            parameter,
            "Shell for texts (`command`, `done`, `refresh`, `watch`, `unless`, `onlyif`): `true` for `/bin/sh`, or a \
             path: \
             `/bin/bash`. Lists of words never use a shell.",
        )
        .default(Value::Boolean(false))
        .attribute(
            "done",
            &other_command(),
            parameter,
            "Command that runs after `command` has succeeded; its failure is a failure of the resource: `touch \
             /var/lib/app/done`.",
        )
        .attribute(
            "refresh",
            &other_command(),
            parameter,
            "Command that runs instead of `command` at a refresh: `systemctl reload app`.",
        )
}

fn guards(schema: TypeSchema) -> TypeSchema {
    let parameter = Behaviour::Parameter;
    schema
        .attribute(
            "creates",
            "Variant[String[1], Array[String[1], 1]]",
            parameter,
            "Run only if this file does not exist, or if none of these exists: `/var/lib/app/token`. The check starts \
             no process. A dangling \
             link counts as missing.",
        )
        .attribute(
            "unless",
            &guard(),
            parameter,
            "Run only if this command fails (returns another exit code than 0): `test -e /srv/app`. A list has several \
             commands, each a text, a list of words or a mapping, and all must fail: `[\"id app\", [test, -d, \
             \"/srv/my app\"]]`. \
             They have the environment, user and directory of `command`. `timeout` applies to each of them. A command \
             that cannot be started is an error. A command \
             with a declared output counts as failed if it prints a different text: `{ command: cat version, \
             cwd: /srv/app, stdout: \"1.2\" }`.",
        )
        .attribute(
            "onlyif",
            &guard(),
            parameter,
            "Run only if this command succeeds: `test -e /srv/app`. Lists and mappings as for `unless`: all must \
             succeed, with their declared \
             outputs: `{ command: sysctl -n kernel.sysrq, not_stdout: \"0\" }`.",
        )
        .attribute(
            "mtimes",
            "Variant[String[1], Array[String[1], 1]]",
            parameter,
            "Run if one of these files was modified or replaced after the start of the last successful command, \
             regardless of \
             `creates`, `unless` and `onlyif`: `/etc/app.conf`. Each file must exist. A modification during the \
             command, also by the command, \
             requires another run. No effect without another guard; `onlyif: \"false\"` makes `mtimes` the only one.",
        )
        .attribute(
            "verify",
            "Boolean",
            parameter,
            "Check the guards again after the command; a guard that still requires the command is a failure.",
        )
        .default(Value::Boolean(true))
        .attribute(
            "confine",
            "Boolean",
            parameter,
            "Confine the guards and `watch` in a plan and with noop, so that they cannot change the machine. `false` \
             is for a guard that must \
             write, such as one that takes a lock, or that needs privileges to read: `iptables -C INPUT -j DROP`.",
        )
        .default(Value::Boolean(true))
        .attribute(
            "refreshonly",
            "Boolean",
            parameter,
            "Run only at a refresh by another resource, if the other guards agree: `true`.",
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
            "Command that runs during `kilter run`. After each line of its output kilter checks the resource, \
             or runs the command if it has no guard: `inotifywait -m /srv/in`. kilter restarts a watch that has \
             ended, with a growing delay.",
        )
        .attribute(
            "watchfiles",
            "Variant[String[1], Array[String[1], 1]]",
            parameter,
            "Files and directories. An event on them, or on a direct entry of a directory, has the effect of a line \
             of `watch`: \
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
            "Environment variables in addition to `PATH`, `LANG` and `LC_ALL`: `{HOME: /root, LANG: de_DE.UTF-8}`, or \
             as a list: `[\"HOME=/root\"]`.",
        )
        .attribute(
            "path",
            "Variant[String[1], Array[String[1], 1]]",
            parameter,
            "Directories of programs, a list or a text with colons: `[/opt/app/bin, /usr/bin]`.",
        )
        .default(kilter_process::DEFAULT_PATH)
        .attribute("cwd", "String[1]", parameter, "Working directory; `user` must be able to enter it: `/srv/app`.")
        .default("/")
        .attribute(
            "user",
            "Variant[String[1], Integer[0, 4294967294]]",
            parameter,
            "User of the process, with the groups of that user: `postgres`, `1500`. For root only. `HOME` is not set.",
        )
        .attribute(
            "group",
            "Variant[String[1], Integer[0, 4294967294]]",
            parameter,
            "Group of the process instead of the user's primary group: `www-data`, `33`.",
        )
        .attribute(
            "umask",
            "Pattern[/\\A0?[0-7]{1,3}\\z/]",
            parameter,
            "Umask of the process: `\"0027\"`. The \
                                                            default is 0022, regardless of kilter's own umask.",
        )
}

fn limits(schema: TypeSchema) -> TypeSchema {
    let parameter = Behaviour::Parameter;
    schema
        .attribute(
            "returns",
            "Variant[Integer[0, 255], Array[Integer[0, 255], 1]]",
            Behaviour::Property,
            "Exit code, or list of exit codes, of success: `[0, 2]`.",
        )
        .default(Value::Integer(0))
        .attribute(
            "timeout",
            SECONDS,
            parameter,
            "Timeout of one attempt, or of one guard, in seconds: `30`, `0.5`; `0`: no limit. At the timeout kilter \
             ends the command with all its processes, and the \
             resource fails without another attempt.",
        )
        .default(Value::Integer(300))
        .attribute(
            "stop_signal",
            &format!("Enum['{}']", Signal::names().collect::<Vec<_>>().join("', '")),
            parameter,
            "Signal that ends the commands of the resource and their processes at the timeout or an interrupt: \
             `SIGINT`. Two seconds \
             later the remaining processes get SIGKILL.",
        )
        .default("SIGTERM")
        .attribute("tries", "Integer[1]", parameter, "Maximum number of attempts: `3`.")
        .default(Value::Integer(1))
        .attribute("try_sleep", SECONDS, parameter, "Time between two attempts, in seconds: `10`.")
        .default(Value::Integer(0))
        .attribute(
            "logoutput",
            "Variant[Boolean, Enum[on_failure]]",
            parameter,
            "Report the output: `true`, `false`, or `on_failure` for its end after a failure.",
        )
        .default("on_failure")
        .attribute(
            "fallback",
            "Struct[{Optional[stdout] => String, Optional[stderr] => String, Optional[output] => String, \
             Optional[exit_code] => Integer[0, 255]}]",
            parameter,
            "Outputs to use if the command need not run and no earlier outputs are stored: `{ stdout: none }`.",
        )
}
