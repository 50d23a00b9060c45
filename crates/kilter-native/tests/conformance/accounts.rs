//! Users and groups on a made-up system, through the real shadow tools.
//!
//! Each tool starts in its own mount namespace, in which directories of a made-up system cover those of the machine. So
//! the accounts of the machine do not change, and every trial has its own system.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite};
use kilter_model::Value;
use kilter_native::{GroupProvider, Runner, System, UserProvider};
use kilter_process::{Cancel, Invocation, Output, SpawnError};

use crate::{assert_edges, assert_held_but};

const NOT_APPLICABLE: [(&str, &str); 2] = [
    ("titles-fit-namevars", "the type has one namevar"),
    ("a-refresh-is-served", "the provider does not have the feature `refresh`"),
];

/// The directories of the machine that the tools may write in.
const WRITTEN: [&str; 4] = ["etc", "home", "var/mail", "var/log"];

const FILES: [(&str, &str); 6] = [
    ("passwd", "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000:Alice:/home/alice:/bin/sh\n"),
    ("group", "root:x:0:\nstaff:x:50:\nusers:x:100:\nalice:x:1000:\n"),
    ("shadow", "root:*:19000:0:99999:7:::\nalice:!:19000:0:99999:7:::\n"),
    ("gshadow", "root:*::\nstaff:!::\nusers:!::\nalice:!::\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\ngshadow: files\n"),
    (
        "login.defs",
        "MAIL_DIR /var/mail\nUID_MIN 1000\nUID_MAX 60000\nSYS_UID_MIN 100\nSYS_UID_MAX 999\nGID_MIN 1000\nGID_MAX \
         60000\n\
         SYS_GID_MIN 100\nSYS_GID_MAX 999\nUSERGROUPS_ENAB yes\nENCRYPT_METHOD YESCRYPT\nPASS_MAX_DAYS 99999\n\
         PASS_MIN_DAYS 0\nPASS_WARN_AGE 7\n",
    ),
];

/// Starts a tool on the fake system below a directory. Homes elsewhere cannot be made: other tests see them. A change
/// of `slow` takes time.
const SCRIPT: &str = "set -e; root=$1; shift; \
    for each in etc home var/mail var/log; do mount --bind \"$root/$each\" \"/$each\"; done; \
    mount -o remount,bind,ro /; \
    case \"$*\" in *' slow') touch \"$root/begun\"; sleep 100;; esac; \
    exec \"$@\"";

struct InNamespace(PathBuf);

impl Runner for InNamespace {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError> {
        let mut inside = invocation.clone();
        inside.program = "unshare".into();
        inside.args = ["--mount", "--propagation", "private", "--", "sh", "-c", SCRIPT, "sh"].map(Into::into).into();
        inside.args.push(self.0.clone().into());
        inside.args.push(invocation.program.clone());
        inside.args.extend(invocation.args.iter().cloned());
        kilter_process::run(&inside, Some(cancel))
    }
}

/// In memory: the tools flush every file that they write, each of them several times.
fn made_up() -> tempfile::TempDir {
    let directory = tempfile::tempdir_in("/dev/shm").expect("Linux has a file system in memory there");
    for each in WRITTEN {
        std::fs::create_dir_all(directory.path().join(each)).expect("the directory is new");
    }
    for (name, text) in FILES {
        std::fs::write(directory.path().join("etc").join(name), text).expect("the directory is new");
    }
    directory
}

/// Returns the account files and the homes; the tools keep older versions of the files in the same directory.
fn fingerprint(root: &Path) -> String {
    let file = |name: &&str| std::fs::read_to_string(root.join("etc").join(name)).expect("the tools leave it there");
    let files: Vec<String> = ["passwd", "group", "shadow", "gshadow"].iter().map(file).collect();
    format!("{}\n{}", files.join("\n"), crate::tree::fingerprint(&root.join("home")))
}

fn need_root_and_tools() {
    crate::need_root();
    let path = kilter_process::DEFAULT_PATH.as_ref();
    for (tool, package) in
        [("unshare", "util-linux"), ("useradd", "passwd"), ("chage", "passwd"), ("gpasswd", "passwd")]
    {
        assert!(kilter_process::which(tool.as_ref(), path).is_some(), "{tool} is missing: apt install {package}");
    }
}

fn users() -> Subject {
    let directory = made_up();
    let root = directory.path().to_owned();
    let (seen, begun) = (root.clone(), root.join("begun"));
    let deploy = Sample::new("deploy")
        .present([
            ("uid", Value::Integer(1500)),
            ("gid", "users".into()),
            ("groups", Value::strings(["staff", "alice"])),
            ("home", "/home/deploy".into()),
            ("managehome", true.into()),
            ("shell", "/bin/sh".into()),
            ("comment", "Deployment, really".into()),
            ("password", Value::sensitive("$6$salt$deployment".into())),
            ("expiry", "2040-02-29".into()),
            ("password_min_age", Value::Integer(1)),
            ("password_max_age", Value::Integer(80)),
            ("password_warn_days", Value::Integer(9)),
        ])
        .changed([("uid", Value::Integer(1200)), ("comment", "".into()), ("shell", "/usr/sbin/nologin".into())])
        .changed([("groups", Value::array([])), ("membership", "inclusive".into()), ("gid", "staff".into())])
        .changed([("password", Value::sensitive("*".into())), ("expiry", "absent".into())])
        .changed([("home", Value::from("/home/moved")), ("managehome", true.into())]);
    let plain = Sample::new("plain").changed([("comment", "Plain")]);
    Subject::new(
        move || UserProvider::new(System::new(&root, Arc::new(InNamespace(root.clone())))),
        move || fingerprint(&seen),
    )
    .specimen(deploy)
    .specimen(plain)
    .unknown(["nobody-here"])
    .failing(Sample::new("second").present([("uid", Value::Integer(0))]))
    .slow(Sample::new("slow"), move || begun.exists())
    .keeping(directory)
}

fn groups() -> Subject {
    let directory = made_up();
    let root = directory.path().to_owned();
    let (seen, begun) = (root.clone(), root.join("begun"));
    let deploy = Sample::new("deploy")
        .present([("gid", Value::Integer(1500)), ("members", Value::strings(["root", "alice"]))])
        .changed([("gid", Value::Integer(1501)), ("members", Value::array([]))])
        .changed([("members", Value::strings(["root"])), ("auth_membership", false.into())]);
    let plain = Sample::new("plain").present([("system", true)]).changed([("gid", Value::Integer(1600))]);
    Subject::new(
        move || GroupProvider::new(System::new(&root, Arc::new(InNamespace(root.clone())))),
        move || fingerprint(&seen),
    )
    .specimen(deploy)
    .specimen(plain)
    .unknown(["nobody-here"])
    .failing(Sample::new("second").present([("gid", Value::Integer(0))]))
    .slow(Sample::new("slow"), move || begun.exists())
    .keeping(directory)
}

#[test]
fn user_conforms() {
    need_root_and_tools();
    let report = Suite::new(users).run();
    assert_held_but(&report, &NOT_APPLICABLE);
    assert_edges(&report, 150, "");
}

#[test]
fn group_conforms() {
    need_root_and_tools();
    let report = Suite::new(groups).run();
    assert_held_but(&report, &NOT_APPLICABLE);
    assert_edges(&report, 30, "");
}
