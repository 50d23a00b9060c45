//! Bad input: one clear message with its place, exit 1, nothing touched.
//!
//! The table of `kilter-manifest` covers problems *within* a manifest. This file covers problems around a manifest,
//! through the command, and a sample of the former.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

struct Case {
    /// Description of the problem.
    name: &'static str,
    /// Files to make: name, mode, text. `@` stands for the directory.
    files: &'static [(&'static str, u32, &'static str)],
    /// The arguments after `kilter apply`.
    args: &'static [&'static str],
    /// Required parts of the message.
    says: &'static [&'static str],
}

const TOUCH: &str = "resources:\n  file[@/touched]: { content: x }\n";

const CASES: &[Case] = &[
    Case {
        name: "no such file",
        files: &[],
        args: &["m.yaml"],
        says: &["cannot read the manifest m.yaml", "No such file"],
    },
    Case {
        name: "a directory",
        files: &[("d/m.yaml", 0o644, TOUCH)],
        args: &["d"],
        says: &["the manifest d is a directory", "d/*.yaml"],
    },
    Case {
        name: "not UTF-8",
        files: &[("m.yaml", 0o644, "vars:\n  a: \u{1}BAD\n")],
        args: &["m.yaml"],
        says: &["m.yaml:3", "not UTF-8"],
    },
    Case {
        name: "syntax",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: x\n")],
        args: &["m.yaml"],
        says: &["m.yaml:", "error"],
    },
    Case {
        name: "a tab",
        files: &[("m.yaml", 0o644, "resources:\n\tfile[@/touched]: {}\n")],
        args: &["m.yaml"],
        says: &["m.yaml:2"],
    },
    Case {
        name: "JSON syntax",
        files: &[("m.json", 0o644, "{\"resources\": {\"file[@/touched]\": {\"content\": \"x\" \"mode\": 1}}}")],
        args: &["m.json"],
        says: &["m.json:1"],
    },
    Case {
        name: "unknown section",
        files: &[("m.yaml", 0o644, "resource:\n  file[@/touched]: { content: x }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:1:1", "resource", "resources"],
    },
    Case {
        name: "unknown type",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: x }\n  fiel[@/b]: {}\n")],
        args: &["m.yaml"],
        says: &["m.yaml:3:3", "fiel", "`file`"],
    },
    Case {
        name: "unknown attribute",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]:\n    content: x\n    ower: root\n")],
        args: &["m.yaml"],
        says: &["m.yaml:4:5", "ower", "`owner`"],
    },
    Case {
        name: "wrong value",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]:\n    content: x\n    ensure: presnt\n")],
        args: &["m.yaml"],
        says: &["m.yaml:4:13", "presnt", "present"],
    },
    Case {
        name: "wrong kind",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]:\n    content: x\n    recurse: [1]\n")],
        args: &["m.yaml"],
        says: &["m.yaml:4:14", "Boolean"],
    },
    Case {
        name: "duplicate key",
        files: &[(
            "m.yaml",
            0o644,
            "resources:\n  file[@/touched]: { content: x }\n  file[@/touched]: { content: y }\n",
        )],
        args: &["m.yaml"],
        says: &["m.yaml:3:3", "first"],
    },
    Case {
        name: "duplicate over two files",
        files: &[("a.yaml", 0o644, TOUCH), ("b.yaml", 0o644, TOUCH)],
        args: &["a.yaml", "b.yaml"],
        says: &["a.yaml", "b.yaml"],
    },
    Case {
        name: "one file under two titles",
        files: &[(
            "m.yaml",
            0o644,
            "resources:\n  file[@/touched]: { content: x }\n  file[b]: { path: @/touched, content: y }\n",
        )],
        args: &["m.yaml"],
        says: &["m.yaml:3", "file[b]"],
    },
    Case {
        name: "dangling reference",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: x, require: 'file[@/touche]' }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:2", "file[@/touche]", "did you mean"],
    },
    Case {
        name: "cycle",
        files: &[(
            "m.yaml",
            0o644,
            "resources:\n  file[@/touched]: { content: x, require: 'file[@/b]' }\n  file[@/b]:\n    content: x\n    \
             require: file[@/touched]\n",
        )],
        args: &["m.yaml"],
        says: &[
            "wait for each other",
            "m.yaml:5",
            "file[@/b] comes before file[@/touched] (require)",
            "file[@/touched] → file[@/b] → file[@/touched]",
        ],
    },
    Case {
        name: "cycle with an automatic edge",
        files: &[(
            "m.yaml",
            0o644,
            "resources:\n  file[@/d]: { ensure: directory, require: 'exec[x]' }\n  file[@/d/f]: { content: x }\n  \
             exec[x]: { command: [/bin/true], require: 'file[@/d/f]' }\n",
        )],
        args: &["m.yaml"],
        says: &["wait for each other", "automatic", "autoedge: false"],
    },
    Case {
        name: "unknown variable",
        files: &[("m.yaml", 0o644, "vars: { port: 1 }\nresources:\n  file[@/touched]: { content: \"${vars.prt}\" }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:3", "prt", "port"],
    },
    Case {
        name: "unknown fact",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: \"${facts.oss.family}\" }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:2", "oss", "os"],
    },
    Case {
        name: "a shell's variable",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: \"${HOME}/x\" }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:2", "HOME", "$${HOME}"],
    },
    Case {
        name: "unknown output",
        files: &[(
            "m.yaml",
            0o644,
            "resources:\n  file[@/touched]: { content: \"${exec[e].stdot}\" }\n  exec[e]: { command: [/bin/true] }\n",
        )],
        args: &["m.yaml"],
        says: &["m.yaml:2", "stdot", "stdout"],
    },
    Case {
        name: "unreadable include",
        files: &[("m.yaml", 0o644, "include: [other.yaml]\nresources:\n  file[@/touched]: { content: x }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:1:11", "other.yaml"],
    },
    Case {
        name: "include cycle",
        files: &[
            ("m.yaml", 0o644, "include: [n.yaml]\nresources:\n  file[@/touched]: { content: x }\n"),
            ("n.yaml", 0o644, "include: [m.yaml]\n"),
        ],
        args: &["m.yaml"],
        says: &["n.yaml", "includes itself"],
    },
    Case {
        name: "problem in an include",
        files: &[
            ("m.yaml", 0o644, "include: [n.yaml]\nresources:\n  file[@/touched]: { content: x }\n"),
            ("n.yaml", 0o644, "resources:\n  file[@/b]: { mod: '1' }\n"),
        ],
        args: &["m.yaml"],
        says: &["n.yaml:2:", "mod", "`mode`"],
    },
    Case {
        name: "secret without file",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: { sensitive: { file: @/none } } }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:2", "@/none"],
    },
    Case {
        name: "secret without variable",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: { sensitive: { env: NOT_SET } } }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:2", "NOT_SET"],
    },
    Case {
        name: "secret of a failing command",
        files: &[(
            "m.yaml",
            0o644,
            "resources:\n  file[@/touched]: { content: { sensitive: { command: [/bin/false] } } }\n",
        )],
        args: &["m.yaml"],
        says: &["m.yaml:2", "/bin/false", "exit code 1"],
    },
    Case {
        name: "relative path",
        files: &[(
            "m.yaml",
            0o644,
            "resources:\n  file[@/touched]: { content: x }\n  file[etc/motd]: { content: x }\n",
        )],
        args: &["m.yaml"],
        says: &["m.yaml:3", "absolute"],
    },
    Case {
        name: "content and source",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: x, source: /etc/motd }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:2", "content", "source"],
    },
    Case {
        name: "bad mode",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: x, mode: '9999' }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:2", "9999"],
    },
    Case {
        name: "shell text without a shell",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: x }\n  exec[e]: { command: 'a | b' }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:3", "shell: true"],
    },
    Case {
        name: "bad user name",
        files: &[(
            "m.yaml",
            0o644,
            "resources:\n  file[@/touched]: { content: x }\n  user['a:b']: { ensure: present }\n",
        )],
        args: &["m.yaml"],
        says: &["m.yaml:3", "a:b"],
    },
    Case {
        name: "when that is no boolean",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: x, when: '1 + 1' }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:2"],
    },
    Case {
        name: "unknown metaparameter",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { content: x, meta: { nop: true } }\n")],
        args: &["m.yaml"],
        says: &["m.yaml:2", "nop", "noop"],
    },
    Case {
        name: "executable that fails",
        files: &[("m", 0o755, "#!/bin/sh\necho 'no luck today' >&2\nexit 3\n")],
        args: &["m"],
        says: &["executable manifest m", "exit code 3", "no luck today"],
    },
    Case {
        name: "executable that is killed",
        files: &[("m", 0o755, "#!/bin/sh\nkill -9 $$\n")],
        args: &["m"],
        says: &["executable manifest m", "signal 9"],
    },
    Case {
        name: "executable that hangs",
        files: &[("m", 0o755, "#!/bin/sh\nsleep 600\n")],
        args: &["m", "--timeout", "1"],
        says: &["executable manifest m", "within 1 s"],
    },
    Case {
        name: "executable that floods",
        files: &[("m", 0o755, "#!/bin/sh\nyes resources\n")],
        args: &["m", "--timeout", "60"],
        says: &["executable manifest m"],
    },
    Case {
        name: "executable that prints garbage",
        files: &[("m", 0o755, "#!/bin/sh\necho 'resources: [1, 2]'\n")],
        args: &["m"],
        says: &["m (output):1:12"],
    },
    Case {
        name: "executable without interpreter",
        files: &[("m", 0o755, "#!/no/such/interpreter\n")],
        args: &["m"],
        says: &["executable manifest m", "cannot start"],
    },
    Case {
        name: "problems of all kinds at once",
        files: &[(
            "m.yaml",
            0o644,
            "resources:\n  file[@/touched]: { content: x, mode: '99x' }\n  file[@/b]: { ower: x }\n  exec[x]: { \
             command: 'a | b' }\n  file[@/c]: { content: x, require: 'file[@/d]' }\n  file[@/d]: { content: x, \
             require: 'file[@/c]' }\n  file[@/e]: { require: 'file[@/f]' }\n",
        )],
        args: &["m.yaml"],
        says: &["5 problems", "99x", "m.yaml:3", "ower", "m.yaml:4", "shell: true", "wait for each other", "m.yaml:7"],
    },
    Case {
        name: "one path under two names",
        files: &[(
            "m.yaml",
            0o644,
            "resources:\n  file[@/touched]: { content: x }\n  file[@/touched/]: { content: y }\n",
        )],
        args: &["m.yaml"],
        says: &["m.yaml:3", "manages the same"],
    },
    Case {
        name: "a plan among manifests",
        files: &[("m.yaml", 0o644, "{ \"kilter_plan\": 1 }\n"), ("n.yaml", 0o644, TOUCH)],
        args: &["m.yaml", "n.yaml"],
        says: &["m.yaml is a plan"],
    },
    Case {
        name: "a damaged plan",
        files: &[("m.yaml", 0o644, "{ \"kilter_plan\": 1, \"sources\": \n")],
        args: &["m.yaml"],
        says: &["m.yaml is damaged"],
    },
    Case {
        name: "a variable without value",
        files: &[("m.yaml", 0o644, TOUCH)],
        args: &["m.yaml", "--var", "port"],
        says: &["--var", "NAME=VALUE"],
    },
    Case {
        name: "an option that does not exist",
        files: &[("m.yaml", 0o644, TOUCH)],
        args: &["m.yaml", "--nopo"],
        says: &["--nopo", "--noop"],
    },
    Case {
        name: "a state directory for all",
        files: &[("m.yaml", 0o644, TOUCH), ("state/x", 0o644, "")],
        args: &["m.yaml"],
        says: &["state", "0700"],
    },
    Case {
        name: "a damaged journal",
        files: &[("m.yaml", 0o644, TOUCH), ("private/journal", 0o600, "rubbish\n")],
        args: &["m.yaml", "--state-dir", "private"],
        says: &["journal", "line 1"],
    },
];

fn apply(case: &Case, directory: &Path) -> Output {
    let at = directory.to_str().unwrap();
    for (name, mode, text) in case.files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = text.replace('@', at);
        std::fs::write(&path, text.replace("\u{1}BAD", "")).unwrap();
        if text.contains("\u{1}BAD") {
            std::fs::write(&path, text.replace("\u{1}BAD", "").bytes().chain([0xff, b'\n']).collect::<Vec<_>>())
                .unwrap();
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(*mode)).unwrap();
    }
    for (name, mode) in [("private", 0o700), ("state", 0o755)] {
        let path = directory.join(name);
        if path.exists() {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    Command::new(env!("CARGO_BIN_EXE_kilter"))
        .current_dir(directory)
        .env_clear()
        .env("HOME", directory)
        .args(["apply", "--color", "never"])
        .args(case.args)
        .args(if case.args.contains(&"--state-dir") { &[][..] } else { &["--state-dir", "state"][..] })
        .output()
        .unwrap()
}

#[test]
fn bad_input_is_refused_with_place_and_without_changes() {
    let mut wrong = Vec::new();
    for case in CASES {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().to_str().unwrap();
        let output = apply(case, directory.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut missing: Vec<String> =
            case.says.iter().map(|says| says.replace('@', at)).filter(|says| !said.contains(says.as_str())).collect();
        if output.status.code() != Some(1) {
            missing.push(format!("exit code 1, not {:?}", output.status));
        }
        if directory.path().join("touched").exists() {
            missing.push("nothing touched".to_owned());
        }
        if !output.stdout.is_empty() {
            missing.push("nothing on standard output".to_owned());
        }
        if said.matches("error").count() > 6 || said.contains("panicked") {
            missing.push("one clear message".to_owned());
        }
        if !missing.is_empty() {
            wrong.push(format!("== {}: missing {missing:?} in\n{said}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}

#[test]
fn problems_are_available_as_json() {
    let case = Case {
        name: "for programs",
        files: &[("m.yaml", 0o644, "resources:\n  file[@/touched]: { ower: root }\n  fiel[x]: {}\n")],
        args: &["m.yaml", "--format", "json"],
        says: &[],
    };
    let directory = tempfile::tempdir().unwrap();
    let output = apply(&case, directory.path());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json["problems"].as_array().map(Vec::len), Some(2), "{json:#}");
    assert_eq!((&json["problems"][1]["line"], &json["problems"][1]["column"]), (&3.into(), &3.into()));
    assert_eq!(json["problems"][0]["hint"], "did you mean `owner`?");
}

#[test]
fn table_has_at_least_forty_cases() {
    assert!(CASES.len() >= 40, "{}", CASES.len());
}
