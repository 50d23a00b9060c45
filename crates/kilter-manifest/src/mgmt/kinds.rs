//! Translation of mgmt's kinds to types.

use ecow::{EcoString, eco_format};

use super::convert::{STATES, copy, word};
use super::emit::{Lowered, Piece};
use super::fields::{Fields, Shape};
use super::{GraphReader, commands, containers, files, json_edits, machines, timers, trees};
use crate::diagnostic::Diagnostic;

use Shape::{Any, Historical, Number, Text, Texts, Truth, Unsupported, Words};

pub(super) struct MgmtKind {
    pub(super) name: &'static str,
    /// Type in kilter.
    pub(super) type_name: &'static str,
    pub(super) fields: &'static [(&'static str, Shape)],
    /// True if a notification has an effect.
    pub(super) refreshes: bool,
    /// Adds the given fields to the resource.
    pub(super) lower: fn(&mut GraphReader, &Fields, &mut Lowered),
}

/// Kinds of mgmt without a type in kilter.
pub(super) const LATER: [&str; 32] = [
    "aws:ec2",
    "bmc:firmware",
    "bmc:power",
    "consul:kv",
    "deploy:tar",
    "dhcp:host",
    "dhcp:range",
    "dhcp:server",
    "exit",
    "firewalld",
    "fwattr",
    "fwupd:device",
    "fwupd:remote",
    "fwupd:system",
    "gsettings",
    "gzip",
    "hetzner:vm",
    "http:client",
    "http:server",
    "http:server:file",
    "http:server:flag",
    "http:server:proxy",
    "http:server:ui",
    "remote",
    "schedule",
    "tar",
    "tftp:file",
    "tftp:server",
    "virt:builder",
    "virt:network",
    "virt:network:host",
    "virt:network:range",
];

static KINDS: [MgmtKind; 27] = [
    MgmtKind { name: "augeas", type_name: "augeas", fields: trees::FIELDS, refreshes: false, lower: trees::lower },
    MgmtKind { name: "cron", type_name: "service", fields: timers::FIELDS, refreshes: true, lower: timers::lower },
    MgmtKind {
        name: "docker:container",
        type_name: "container",
        fields: containers::CONTAINER,
        refreshes: false,
        lower: containers::container,
    },
    MgmtKind {
        name: "docker:image",
        type_name: "image",
        fields: containers::IMAGE,
        refreshes: false,
        lower: containers::image,
    },
    MgmtKind { name: "exec", type_name: "exec", fields: EXEC, refreshes: false, lower: commands::lower },
    MgmtKind { name: "file", type_name: "file", fields: FILE, refreshes: false, lower: files::lower },
    MgmtKind { name: "group", type_name: "group", fields: GROUP, refreshes: false, lower: group },
    MgmtKind { name: "hostname", type_name: "hostname", fields: HOSTNAME, refreshes: false, lower: hostname },
    MgmtKind {
        name: "json:edit",
        type_name: "structured",
        fields: json_edits::FIELDS,
        refreshes: false,
        lower: json_edits::lower,
    },
    MgmtKind { name: "kv", type_name: "kv", fields: KV, refreshes: true, lower: kv },
    MgmtKind { name: "line", type_name: "line", fields: LINE, refreshes: false, lower: line },
    MgmtKind { name: "mount", type_name: "mount", fields: MOUNT, refreshes: true, lower: mount },
    MgmtKind { name: "msg", type_name: "notify", fields: MSG, refreshes: true, lower: msg },
    MgmtKind { name: "net", type_name: "net", fields: NET, refreshes: false, lower: net },
    MgmtKind { name: "noop", type_name: "noop", fields: &[("comment", Text)], refreshes: true, lower: same },
    MgmtKind {
        name: "nspawn",
        type_name: "nspawn",
        fields: containers::NSPAWN,
        refreshes: true,
        lower: containers::nspawn,
    },
    MgmtKind { name: "password", type_name: "password", fields: PASSWORD, refreshes: true, lower: same },
    MgmtKind { name: "pkg", type_name: "package", fields: PKG, refreshes: false, lower: pkg },
    MgmtKind { name: "print", type_name: "notify", fields: PRINT, refreshes: true, lower: print },
    MgmtKind { name: "ssh:authorized_key", type_name: "ssh_authorized_key", fields: KEY, refreshes: false, lower: key },
    MgmtKind { name: "svc", type_name: "service", fields: SVC, refreshes: true, lower: svc },
    MgmtKind { name: "sysctl", type_name: "sysctl", fields: SYSCTL, refreshes: false, lower: sysctl },
    MgmtKind { name: "test", type_name: "test", fields: TEST, refreshes: true, lower: same },
    MgmtKind { name: "timer", type_name: "timer", fields: &[("interval", Number)], refreshes: true, lower: same },
    MgmtKind { name: "user", type_name: "user", fields: USER, refreshes: false, lower: user },
    MgmtKind { name: "value", type_name: "value", fields: &[("any", Any)], refreshes: false, lower: same },
    MgmtKind { name: "virt", type_name: "virt", fields: machines::VIRT, refreshes: false, lower: machines::virt },
];

const EXEC: &[(&str, Shape)] = &[
    ("cmd", Text),
    ("args", Texts),
    ("cwd", Text),
    ("shell", Text),
    ("env", Words),
    ("sig", Text),
    ("watchcmd", Text),
    ("watchcwd", Text),
    ("watchshell", Text),
    ("watchfiles", Texts),
    ("ifcmd", Text),
    ("ifcwd", Text),
    ("ifshell", Text),
    ("ifequals", Text),
    ("ifequals_stdout", Text),
    ("nifcmd", Text),
    ("nifcwd", Text),
    ("nifshell", Text),
    ("creates", Text),
    ("mtimes", Texts),
    ("donecmd", Text),
    ("donecwd", Text),
    ("doneshell", Text),
    ("user", Text),
    ("group", Text),
    ("send_output", Text),
    ("send_stdout", Text),
    ("send_stderr", Text),
    ("timeout", Historical(&["0"])),
    ("pollint", Historical(&[])),
    ("state", Historical(&["present"])),
];
const FILE: &[(&str, Shape)] = &[
    ("path", Text),
    ("dirname", Text),
    ("basename", Text),
    ("state", Text),
    ("content", Text),
    ("source", Text),
    ("fragments", Texts),
    ("owner", Text),
    ("group", Text),
    ("mode", Text),
    ("recurse", Truth),
    ("force", Truth),
    ("purge", Truth),
    ("symlink", Truth),
    ("selinux", Unsupported),
];
const GROUP: &[(&str, Shape)] = &[("state", Text), ("gid", Number)];
const HOSTNAME: &[(&str, Shape)] =
    &[("hostname", Text), ("pretty_hostname", Text), ("static_hostname", Text), ("transient_hostname", Text)];
const LINE: &[(&str, Shape)] = &[("file", Text), ("state", Text), ("content", Text), ("trim", Unsupported)];
const MOUNT: &[(&str, Shape)] =
    &[("state", Text), ("device", Text), ("type", Text), ("options", Words), ("freq", Number), ("passno", Number)];
const NET: &[(&str, Shape)] = &[("state", Text), ("addrs", Texts), ("gateway", Text), ("ip_forward", Unsupported)];
const KV: &[(&str, Shape)] =
    &[("key", Text), ("value", Text), ("mapped", Truth), ("skiplessthan", Truth), ("skipcmpstyle", Number)];
const MSG: &[(&str, Shape)] =
    &[("body", Text), ("priority", Text), ("fields", Words), ("journal", Truth), ("syslog", Truth)];
const PASSWORD: &[(&str, Shape)] = &[("length", Number), ("saved", Truth), ("check_recovery", Truth)];
const PKG: &[(&str, Shape)] = &[
    ("state", Text),
    ("allowdowngrade", Unsupported),
    ("allowuntrusted", Unsupported),
    ("allownonfree", Unsupported),
    ("allowunsupported", Unsupported),
];
const PRINT: &[(&str, Shape)] = &[("msg", Text), ("refresh_only", Truth)];
const SVC: &[(&str, Shape)] = &[("state", Text), ("startup", Text), ("session", Unsupported)];
const KEY: &[(&str, Shape)] = &[
    ("state", Text),
    ("file", Unsupported),
    ("user", Text),
    ("content", Text),
    ("options", Texts),
    ("type", Text),
    ("key", Text),
    ("comment", Text),
    ("mkdir", Truth),
];
const SYSCTL: &[(&str, Shape)] = &[("value", Text), ("runtime", Truth), ("persist", Truth), ("path", Unsupported)];
const TEST: &[(&str, Shape)] = &[
    ("bool", Truth),
    ("str", Text),
    ("int", Number),
    ("int8", Number),
    ("int16", Number),
    ("int32", Number),
    ("int64", Number),
    ("uint", Number),
    ("uint8", Number),
    ("uint16", Number),
    ("uint32", Number),
    ("uint64", Number),
    ("byte", Number),
    ("rune", Number),
    ("float32", Any),
    ("float64", Any),
    ("complex64", Unsupported),
    ("complex128", Unsupported),
    ("bool_ptr", Truth),
    ("string_ptr", Text),
    ("int64ptr", Number),
    ("int8ptr", Number),
    ("uint8ptr", Number),
    ("int8ptrptrptr", Number),
    ("slicestring", Texts),
    ("mapintfloat", Any),
    ("mixedstruct", Any),
    ("interface", Any),
    ("anotherstr", Text),
    ("func1", Unsupported),
    ("validate_bool", Truth),
    ("validate_error", Text),
    ("always_group", Truth),
    ("compare_fail", Truth),
    ("send_value", Text),
    ("expect_recv", Texts),
    ("only_show", Texts),
    ("waitforerror", Number),
    ("comment", Text),
];
const USER: &[(&str, Shape)] = &[
    ("state", Text),
    ("uid", Number),
    ("gid", Number),
    ("group", Text),
    ("groups", Texts),
    ("homedir", Text),
    ("shell", Text),
    ("allowduplicateuid", Truth),
];

/// Returns the kind with this name.
pub(super) fn find(name: &str) -> Option<&'static MgmtKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Returns the names of the known kinds.
pub(super) fn names() -> [&'static str; KINDS.len()] {
    std::array::from_fn(|at| KINDS[at].name)
}

/// Copies all fields to attributes with the same names.
fn same(_: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    let Some(kind) = find(lowered.kind) else { return };
    for (name, _) in kind.fields {
        copy(fields, name, lowered, name);
    }
}

fn state(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    if fields.text("state").is_none() {
        let problem = Diagnostic::new(eco_format!("a `{}` needs a state", lowered.kind)).at(fields.at);
        return reader.report(problem.hint("state: exists, or state: absent"));
    }
    word(reader, fields, "state", &STATES, lowered, "ensure");
}

fn group(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    state(reader, fields, lowered);
    copy(fields, "gid", lowered, "gid");
}

fn user(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    state(reader, fields, lowered);
    copy(fields, "uid", lowered, "uid");
    match (fields.get("gid"), fields.text("group")) {
        (Some((_, at)), Some(_)) => {
            let problem = Diagnostic::new("`gid` and `group` are the same attribute").at(at);
            reader.report(problem.hint("give one of them"));
        }
        (Some(_), None) => copy(fields, "gid", lowered, "gid"),
        (None, Some(_)) => copy(fields, "group", lowered, "gid"),
        (None, None) => {}
    }
    if fields.get("groups").is_some() {
        copy(fields, "groups", lowered, "groups");
        lowered.imply("membership", "inclusive");
    }
    if let Some((home, at)) = fields.text("homedir") {
        lowered.push("home", at, Piece::Text(files::without_slash(home), at));
    }
    copy(fields, "shell", lowered, "shell");
    copy(fields, "allowduplicateuid", lowered, "allowdupe");
}

fn hostname(_: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    copy(fields, "hostname", lowered, "name");
    copy(fields, "pretty_hostname", lowered, "pretty");
    copy(fields, "static_hostname", lowered, "static");
    copy(fields, "transient_hostname", lowered, "transient");
}

fn kv(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    for name in ["key", "mapped", "skiplessthan"] {
        copy(fields, name, lowered, name);
    }
    match fields.get("value") {
        Some(_) => copy(fields, "value", lowered, "value"),
        None => lowered.imply("ensure", "absent"),
    }
    match fields.get("skipcmpstyle") {
        None => {}
        Some((Piece::Plain(style, at), _)) if style == "0" => {
            lowered.push("skipcmpstyle", *at, Piece::Text("int".into(), *at))
        }
        Some((Piece::Plain(style, at), _)) if style == "1" => {
            lowered.push("skipcmpstyle", *at, Piece::Text("str".into(), *at))
        }
        Some((_, at)) => reader.report(Diagnostic::new("`skipcmpstyle` is 0 for numbers, or 1 for texts").at(at)),
    }
}

fn print(_: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    copy(fields, "msg", lowered, "message");
    copy(fields, "refresh_only", lowered, "refreshonly");
}

const PRIORITIES: [(&str, &str); 8] = [
    ("Emerg", "emerg"),
    ("Alert", "alert"),
    ("Crit", "critical"),
    ("Err", "err"),
    ("Warning", "warning"),
    ("Notice", "notice"),
    ("Info", "info"),
    ("Debug", "debug"),
];

fn msg(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    copy(fields, "body", lowered, "message");
    if fields.text("priority").is_none() {
        let known = PRIORITIES.map(|(word, _)| word).join(", ");
        let problem = Diagnostic::new("a `msg` needs a priority").at(fields.at);
        reader.report(problem.hint(eco_format!("one of {known}")));
    }
    word(reader, fields, "priority", &PRIORITIES, lowered, "level");
    for name in ["fields", "journal", "syslog"] {
        copy(fields, name, lowered, name);
    }
}

fn svc(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    word(reader, fields, "state", &[("running", "running"), ("stopped", "stopped")], lowered, "ensure");
    word(reader, fields, "startup", &[("enabled", "true"), ("disabled", "false")], lowered, "enable");
}

/// Translates a line. mgmt makes a file that does not exist.
fn line(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    state(reader, fields, lowered);
    copy(fields, "file", lowered, "path");
    copy(fields, "content", lowered, "line");
    lowered.imply("create", "true");
}

/// Translates a mount. Options without a value are written alone.
fn mount(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    word(reader, fields, "state", &[("exists", "mounted"), ("absent", "absent")], lowered, "ensure");
    copy(fields, "device", lowered, "device");
    copy(fields, "type", lowered, "fstype");
    copy(fields, "freq", lowered, "dump");
    copy(fields, "passno", lowered, "pass");
    let Some((Piece::Mapping(options, at), _)) = fields.get("options") else { return };
    let texts = options.iter().filter_map(|(name, value)| match (name, value) {
        (Piece::Text(name, _), Piece::Text(value, _)) if value.is_empty() => Some(name.clone()),
        (Piece::Text(name, _), Piece::Text(value, _)) => Some(eco_format!("{name}={value}")),
        _ => None,
    });
    let texts: Vec<EcoString> = texts.collect();
    if !texts.is_empty() {
        lowered.push("options", *at, Piece::Text(texts.join(",").into(), *at));
    }
}

/// Translates an interface. Without a state it is up or down.
fn net(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    match fields.text("state").filter(|(state, _)| !state.is_empty()) {
        Some(_) => word(reader, fields, "state", &[("up", "up"), ("down", "down")], lowered, "ensure"),
        None => lowered.imply("ensure", "present"),
    }
    copy(fields, "addrs", lowered, "addresses");
    if fields.text("gateway").is_some_and(|(gateway, _)| !gateway.is_empty()) {
        copy(fields, "gateway", lowered, "gateway");
    }
}

fn pkg(_: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    let Some((state, at)) = fields.text("state") else { return };
    let plain = |word: &str| Piece::Plain(word.into(), at);
    match state.as_str() {
        "installed" => lowered.push("ensure", at, plain("present")),
        "uninstalled" => lowered.push("ensure", at, plain("absent")),
        "newest" => {
            lowered.push("ensure", at, plain("present"));
            lowered.push("latest", at, plain("true"));
        }
        version => {
            lowered.push("ensure", at, plain("present"));
            lowered.push("version", at, Piece::Text(version.into(), at));
        }
    }
}

/// Translates a kernel parameter: `runtime` sets its current value, `persist` its value after the next boot.
fn sysctl(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    let is = |name: &str| fields.get(name).is_none() || fields.is(name);
    let attribute = match (is("runtime"), is("persist")) {
        (true, true) => "value",
        (true, false) => "live",
        (false, true) => "kept",
        (false, false) => {
            let problem =
                Diagnostic::new("neither `runtime` nor `persist` is true: there is nothing to set").at(fields.at);
            return reader.report(problem.hint("remove the resource, or set one of them to true"));
        }
    };
    match fields.text("value") {
        Some(_) => copy(fields, "value", lowered, attribute),
        None => reader.report(Diagnostic::new("a `sysctl` needs a value").at(fields.at)),
    }
}

/// Translates an SSH key, which is identified by its comment.
fn key(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    if let Some((_, at)) = fields.get("content") {
        let problem = Diagnostic::new("`content`: kilter needs the parts of the key").at(at);
        return reader.report(problem.hint("write `options`, `type`, `key` and `comment` instead"));
    }
    if let Some((_, at)) = fields.get("mkdir").filter(|_| !fields.is("mkdir")) {
        let problem = Diagnostic::new("`mkdir: false`: kilter makes `~/.ssh` if it is missing").at(at);
        return reader.report(problem.hint("take it out"));
    }
    if let Some((comment, at)) = fields.text("comment") {
        lowered.push("name", at, Piece::Text(comment.clone(), at));
    }
    word(reader, fields, "state", &STATES, lowered, "ensure");
    for name in ["user", "type", "key", "options"] {
        copy(fields, name, lowered, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_name_the_number_and_all_kinds() {
        let document = |name: &str| {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
            std::fs::read_to_string(format!("{root}/{name}")).unwrap()
        };
        let count = format!("done for {} of its kinds", KINDS.len());
        assert!(document("README.md").contains(&count), "README.md: {count}");
        let page = document("docs/reference/mgmt-graphs.md");
        let rows = page.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
        let shown: String = rows.collect();
        let missing: Vec<&str> = names().into_iter().filter(|name| !shown.contains(&format!("`{name}`"))).collect();
        assert_eq!(missing, [""; 0], "docs/reference/mgmt-graphs.md");
    }
}
