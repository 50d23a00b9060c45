//! Values on their way through the decoders that scripts use: bash, Python and Ruby get each byte for byte,
//! and none is run.

use std::process::Command;

use kilter_model::{Attributes, Value};
use kilter_process::Invocation;
use kilter_provider::Mode;
use kilter_script::{Convention, Request, Simple, Update};

/// The lines of the guide. Each then prints the values of the attributes `a` to `h`, a NUL behind each.
const BASH: &str = r#"
eval "$@"
for key in name a b c d e f g h; do printf '%s\0' "${!key}"; done
"#;
const PYTHON: &str = r#"
import shlex, sys
args = dict(x.split('=', 1) for x in shlex.split(" ".join(sys.argv[1:])))
for key in ["name"] + list("abcdefgh"):
    sys.stdout.buffer.write(args[key].encode("utf-8", "surrogateescape") + b"\0")
"#;
const RUBY: &str = r#"
require 'shellwords'
args = Hash[Shellwords.shellsplit(ARGV.join(' ')).map { |x| x.split("=", 2) }]
(["name"] + ("a".."h").to_a).each { |key| print args[key], "\0" }
"#;

/// The lines of libral's text, which lose what is behind an `=`, and in Ruby what is empty.
const PYTHON_OF_THE_TEXT: &str = r#"
import shlex, sys
args=dict(x.split('=') for x in shlex.split(" ".join(sys.argv[1:])))
for key in ["name"] + list("abcdefgh"):
    sys.stdout.buffer.write(args[key].encode("utf-8", "surrogateescape") + b"\0")
"#;
const RUBY_OF_THE_TEXT: &str = r#"
require 'shellwords'
args = Hash[Shellwords.shellsplit(ARGV.join(' ')).map { |x| x.split("=") }]
(["name"] + ("a".."h").to_a).each { |key| print args[key], "\0" }
"#;

/// What values are made of: everything that means something to a shell, to Python's or to Ruby's splitter.
const PIECES: [&str; 44] = [
    "'",
    "''",
    "\"",
    "\\",
    "\\'",
    "'\\''",
    "$",
    "$(touch PWNED)",
    "`touch PWNED`",
    "; touch PWNED;",
    "\ntouch PWNED\n",
    "&& touch PWNED",
    "| touch PWNED",
    ">PWNED",
    "<(touch PWNED)",
    "${x}",
    "$((1+1))",
    "!",
    "!!",
    "~",
    "*",
    "?",
    "[a-z]",
    "{a,b}",
    "#",
    " # ",
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "é",
    "\u{1f600}",
    "\u{a0}",
    "\u{7f}",
    "\u{1b}[0m",
    "-n",
    "--",
    "%s",
    "word",
    "0",
    ",",
    "]",
];

fn value(random: &mut fastrand::Rng, with_equals: bool) -> String {
    let mut text = String::new();
    for _ in 0..random.usize(0..8) {
        match random.u8(0..12) {
            0 if with_equals => text.push('='),
            1 => text.push(random.char('\u{1}'..='\u{7f}')),
            2 => text.push(random.char('\u{1}'..)),
            _ => text += PIECES[random.usize(0..PIECES.len())],
        }
    }
    if with_equals { text } else { text.replace('=', "") }
}

fn words(name: &str, values: &[String]) -> Vec<std::ffi::OsString> {
    let keys = ('a'..='h').map(|key| key.to_string());
    let should: Attributes = keys.zip(values.iter().map(|value| Value::from(value.as_str()))).collect();
    let update = [Update { name, is: None, should: &should, received: &[] }];
    Simple::new(Invocation::new("/x")).encode(&Request::Update(&update, Mode::Apply)).unwrap().args
}

/// What a decoder makes of the words.
fn decoded(program: &str, script: &str, words: &[std::ffi::OsString], directory: &std::path::Path) -> Vec<Vec<u8>> {
    let flag = if program == "ruby" { "-e" } else { "-c" };
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C.UTF-8").current_dir(directory);
    command.arg(flag).arg(script);
    // What follows the script is $0 in bash; ruby would take words that begin with a dash for its own.
    match program {
        "bash" => command.arg("bash"),
        "ruby" => command.arg("--"),
        _ => &mut command,
    };
    let output = command.args(words).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed (`cargo xtask test` installs it): {error}"));
    assert!(output.status.success(), "{program}: {}\n{words:?}", String::from_utf8_lossy(&output.stderr));
    let mut values: Vec<Vec<u8>> = output.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    assert_eq!(values.pop().as_deref(), Some(&b""[..]));
    values
}

fn hold(decoders: &[(&str, &str)], rounds: usize, with_equals: bool, may_be_empty: bool) {
    let directory = tempfile::tempdir().unwrap();
    for (program, script) in decoders {
        let mut random = fastrand::Rng::with_seed(0x5eed);
        for round in 0..rounds {
            let mut values: Vec<String> = (0..9).map(|_| value(&mut random, with_equals)).collect();
            if !may_be_empty {
                values.iter_mut().filter(|value| value.is_empty()).for_each(|value| value.push('x'));
            }
            let words = words(&values[0], &values[1..]);
            let got = decoded(program, script, &words, directory.path());
            let expected: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
            assert_eq!(got, expected, "{program}, round {round}: {values:?}");
        }
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "{program} has run a part of a value: {left:?}");
    }
}

#[test]
fn every_value_comes_back_as_it_was_from_bash() {
    hold(&[("bash", BASH)], 400, true, true);
}

#[test]
fn every_value_comes_back_as_it_was_from_python() {
    hold(&[("python3", PYTHON)], 150, true, true);
}

#[test]
fn every_value_comes_back_as_it_was_from_ruby() {
    hold(&[("ruby", RUBY)], 100, true, true);
}

#[test]
fn the_lines_of_the_text_carry_every_value_that_they_can() {
    hold(&[("python3", PYTHON_OF_THE_TEXT)], 60, false, true);
    hold(&[("ruby", RUBY_OF_THE_TEXT)], 60, false, false);
}

#[test]
fn bytes_that_are_no_text_reach_bash() {
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (1..=255).collect();
    let should: Attributes = ('a'..='h').map(|key| (key.to_string(), Value::Binary(bytes.as_slice().into()))).collect();
    let update = [Update { name: "x", is: None, should: &should, received: &[] }];
    let words = Simple::new(Invocation::new("/x")).encode(&Request::Update(&update, Mode::Apply)).unwrap().args;
    // The locale of scripts is UTF-8; bash keeps bytes that are none.
    let got = decoded("bash", BASH, &words, directory.path());
    assert!(got[1..].iter().all(|value| *value == bytes));
}
