//! Values on their way through the decoders that scripts use: bash, Python and Ruby get each byte for byte,
//! and none is run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use kilter_model::{Attributes, Value};
use kilter_process::Invocation;
use kilter_provider::Mode;
use kilter_script::{Convention, Request, Simple, Update};

/// A decoder, and which values it can carry. It prints those of `name` and of the attributes `v000` to `v198`, a NUL
/// behind each.
struct Decoder {
    program: &'static str,
    script: &'static str,
    carries: fn(&str) -> bool,
    seed: u64,
}

/// The lines of the guide.
const BASH: Decoder = Decoder {
    program: "bash",
    script: r#"
eval "$@"
for key in name v{000..198}; do printf '%s\0' "${!key}"; done
"#,
    carries: |_| true,
    seed: 0xba5,
};
const PYTHON: Decoder = Decoder {
    program: "python3",
    script: r#"
import shlex, sys
args = dict(x.split('=', 1) for x in shlex.split(" ".join(sys.argv[1:])))
for key in ["name"] + ["v%03d" % number for number in range(199)]:
    sys.stdout.buffer.write(args[key].encode("utf-8", "surrogateescape") + b"\0")
"#,
    carries: |_| true,
    seed: 0x9071,
};
const RUBY: Decoder = Decoder {
    program: "ruby",
    script: r#"
require 'shellwords'
args = Hash[Shellwords.shellsplit(ARGV.join(' ')).map { |x| x.split("=", 2) }]
(["name"] + (0..198).map { |number| "v%03d" % number }).each { |key| print args[key], "\0" }
"#,
    carries: |_| true,
    seed: 0x2b9,
};

/// The lines of libral's text, which lose the text after an `=`, and in Ruby empty values.
const PYTHON_OF_THE_TEXT: Decoder = Decoder {
    program: "python3",
    script: r#"
import shlex, sys
args=dict(x.split('=') for x in shlex.split(" ".join(sys.argv[1:])))
for key in ["name"] + ["v%03d" % number for number in range(199)]:
    sys.stdout.buffer.write(args[key].encode("utf-8", "surrogateescape") + b"\0")
"#,
    carries: |value| !value.contains('='),
    seed: 0x9072,
};
const RUBY_OF_THE_TEXT: Decoder = Decoder {
    program: "ruby",
    script: r#"
require 'shellwords'
args = Hash[Shellwords.shellsplit(ARGV.join(' ')).map { |x| x.split("=") }]
(["name"] + (0..198).map { |number| "v%03d" % number }).each { |key| print args[key], "\0" }
"#,
    carries: |value| !value.contains('=') && !value.is_empty(),
    seed: 0x2ba,
};

/// Number of values per process; one of them is the name.
const AT_ONCE: usize = 200;
/// Number of different values per decoder.
const VALUES: usize = 10_000;

/// Pieces of values: all special characters of a shell and of Python's and Ruby's splitters.
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

fn value(random: &mut fastrand::Rng) -> String {
    let mut text = String::new();
    for _ in 0..random.usize(0..8) {
        match random.u8(0..12) {
            0 => text.push('='),
            1 => text.push(random.char('\u{1}'..='\u{7f}')),
            2 => text.push(random.char('\u{1}'..)),
            _ => text += PIECES[random.usize(0..PIECES.len())],
        }
    }
    text
}

/// Values that a decoder can carry, no two of them alike.
fn values(decoder: &Decoder) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(decoder.seed);
    let mut known = BTreeSet::new();
    let mut values = Vec::with_capacity(VALUES);
    while values.len() < VALUES {
        let value = value(&mut random);
        if (decoder.carries)(&value) && known.insert(value.clone()) {
            values.push(value);
        }
    }
    values
}

/// The words of an update of this name: as many values as there are attributes.
fn words(name: &str, values: impl Iterator<Item = Value>) -> Vec<OsString> {
    let keys = (0..AT_ONCE - 1).map(|number| format!("v{number:03}"));
    let should: Attributes = keys.zip(values).collect();
    let update = [Update { name, is: None, should: &should, received: &[] }];
    Simple::new(Invocation::new("/x")).encode(&Request::Update(&update, Mode::Apply)).unwrap().args
}

impl Decoder {
    /// Returns the values that the decoder read from the words.
    fn decoded(&self, words: &[OsString], directory: &Path) -> Vec<Vec<u8>> {
        let program = self.program;
        let flag = if program == "ruby" { "-e" } else { "-c" };
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C.UTF-8").current_dir(directory);
        command.arg(flag).arg(self.script);
        // What follows the script is $0 in bash; ruby would take words that begin with a dash for its own.
        match program {
            "bash" => command.arg("bash"),
            "ruby" => command.arg("--"),
            _ => &mut command,
        };
        let output = command.args(words).output();
        let output =
            output.unwrap_or_else(|error| panic!("{program} is needed (`cargo xtask test` installs it): {error}"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}, seed {:#x}: {error}\n{words:?}", self.seed);
        let mut values: Vec<Vec<u8>> = output.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        assert_eq!(values.pop().as_deref(), Some(&b""[..]));
        values
    }

    /// All values come back from it, byte for byte, and no part of any is run.
    #[track_caller]
    fn holds(&self) {
        let directory = tempfile::tempdir().unwrap();
        let (values, mut seen) = (values(self), BTreeSet::new());
        for (call, values) in values.chunks(AT_ONCE).enumerate() {
            let words = words(&values[0], values[1..].iter().map(|value| Value::from(value.as_str())));
            let got = self.decoded(&words, directory.path());
            assert_eq!(got.len(), values.len());
            for (value, got) in values.iter().zip(got) {
                let place = format_args!("{}, seed {:#x}, call {call}", self.program, self.seed);
                assert!(got == value.as_bytes(), "{place}: {value:?} is {:?}", String::from_utf8_lossy(&got));
                seen.insert(got);
            }
        }
        assert_eq!(seen.len(), VALUES);
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "{}, seed {:#x}: a part of a value was run: {left:?}", self.program, self.seed);
    }
}

#[test]
fn values_round_trip_through_bash() {
    BASH.holds();
}

#[test]
fn values_round_trip_through_python() {
    PYTHON.holds();
}

#[test]
fn values_round_trip_through_ruby() {
    RUBY.holds();
}

#[test]
fn documented_python_line_carries_values() {
    PYTHON_OF_THE_TEXT.holds();
}

#[test]
fn documented_ruby_line_carries_values() {
    RUBY_OF_THE_TEXT.holds();
}

#[test]
fn binary_values_reach_bash() {
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (1..=255).collect();
    let words = words("x", std::iter::repeat_with(|| Value::Binary(bytes.as_slice().into())));
    // The locale of scripts is UTF-8; bash keeps bytes that are none.
    let got = BASH.decoded(&words, directory.path());
    assert_eq!(got.len(), AT_ONCE);
    assert!(got[1..].iter().all(|value| *value == bytes));
}
