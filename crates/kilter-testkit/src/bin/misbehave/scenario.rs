//! All scenarios.

use std::time::Duration;

use super::answer::{ScriptRequest, good, print, right};
use super::flood::{self, GIGABYTE};
use super::processes::{hang, leak, shell, signal_itself};
use super::shapes;

/// Scenarios with their descriptions.
pub(crate) const ALL: &[(&str, &str)] = &[
    ("hang", "never answers"),
    ("half-then-hang", "answers half, and never goes on"),
    ("trickle", "prints an empty line now and then, for ever"),
    ("ignores-sigterm", "never answers, and does not heed SIGTERM"),
    ("stops-itself", "stops as if by Ctrl-Z"),
    ("closes-outputs-and-hangs", "closes its outputs, and never ends"),
    ("flood", "prints without line breaks and without end"),
    ("flood-of-blank-lines", "prints empty lines without end"),
    ("flood-of-resources", "prints resources, or changes, without end"),
    ("flood-on-stderr", "writes 8 MB on standard error, and answers"),
    ("flood-on-the-channel", "writes 8 MB of damage to descriptor 3, and answers"),
    ("flood-of-messages", "writes 1 MB of whole messages to descriptor 3, and answers"),
    ("gigabyte-on-stderr", "writes a gigabyte on standard error, and answers"),
    ("gigabyte-on-the-channel", "writes a gigabyte of damage to descriptor 3, and answers"),
    ("gigabyte-of-messages", "writes a gigabyte of whole messages to descriptor 3, and answers"),
    ("dense", "answers with as many values as 3 MB of text can have"),
    ("dense-list", "answers with as many values as 12 MB of text can have"),
    ("long-line", "prints a line of 3 MB"),
    ("long-value", "answers with a value of 100 MB"),
    ("large-value", "answers with a value of 1 MB"),
    ("nothing", "prints nothing"),
    ("spaces", "prints nothing but space"),
    ("half-a-line", "ends in the middle of its answer"),
    ("trailing", "prints more behind its answer"),
    ("bad-utf8", "prints bytes that are no UTF-8"),
    ("utf16", "answers in UTF-16"),
    ("bom", "answers with a byte order mark in front"),
    ("crlf", "ends lines as Windows does"),
    ("nul", "prints a NUL byte"),
    ("wrong-shape", "prints something of another form"),
    ("deep-document", "prints a hundred thousand brackets"),
    ("another-action", "answers what it was not asked"),
    ("another-convention", "answers in another convention"),
    ("wrong-name", "answers for another resource"),
    ("wrong-kind", "answers for another type"),
    ("null-name", "gives the name null"),
    ("empty-name", "gives an empty name"),
    ("long-name", "gives a name of 1 MB"),
    ("control-name", "gives a name that moves the cursor"),
    ("bidi-name", "gives a name that is shown backwards"),
    ("many-others", "answers for a thousand others"),
    ("many-with-it", "answers for a thousand others as well"),
    ("duplicates", "gives two different resources one name"),
    ("twice", "gives the same resource twice"),
    ("duplicate-keys", "tells an attribute twice"),
    ("unknown-keys", "tells an attribute that it has not declared"),
    ("many-unknown-keys", "tells ten thousand attributes that it has not declared"),
    ("empty-attribute", "tells an attribute without a name"),
    ("long-attribute", "tells an attribute whose name has 1 MB"),
    ("control-attribute", "tells an attribute whose name moves the cursor"),
    ("reserved-attribute", "tells attributes whose names are reserved"),
    ("wrong-type", "gives a text for a number"),
    ("huge-integer", "gives a whole number of 26 digits"),
    ("endless-number", "gives 1e400"),
    ("not-a-number", "gives NaN"),
    ("largest-number", "gives 1e308"),
    ("minus-zero", "gives -0"),
    ("deep-value", "gives a list of a hundred thousand lists"),
    ("misspelled-truth", "gives yes for true"),
    ("misspelled-word", "gives a word that is none of the enum"),
    ("no-ensure", "gives nonsense for ensure, or for exists"),
    ("control-value", "gives a value that moves the cursor, for a number"),
    ("read-only", "changes what can only be read"),
    ("lies", "says that it has done it"),
    ("claims-others", "tells of changes to another resource as well"),
    ("error-of-another", "tells an error of another resource"),
    ("error-of-it", "tells an error of the resource itself"),
    ("was-first", "tells what was before it tells of what"),
    ("end-without-error", "ends an error message that it has not begun"),
    ("odd-derive", "wants changes derived, perhaps"),
    ("error", "tells an error"),
    ("error-without-end", "tells an error of another form"),
    ("error-and-status", "tells an error, and fails"),
    ("error-that-moves-the-cursor", "tells an error with terminal escapes"),
    ("long-error", "tells an error of 1 MB"),
    ("error-on-stderr", "says that it has failed, and has not"),
    ("last-words-that-move-the-cursor", "fails with terminal escapes on standard error"),
    ("last-words-of-bytes", "fails with bytes that are not text on standard error"),
    ("no-last-words", "fails with a megabyte of space on standard error"),
    ("dies-after-writing", "answers, and exits with 3"),
    ("exits-with-126", "answers, and exits with 126"),
    ("exits-with-127", "answers, and exits with 127"),
    ("exits-with-255", "answers, and exits with 255"),
    ("is-killed-after-writing", "answers, and kills itself"),
    ("crashes", "answers, and ends by SIGSEGV"),
    ("aborts", "answers, and ends by SIGABRT"),
    ("ignores-stdin", "never reads its input"),
    ("closes-stdin", "closes its input unread"),
    ("closes-stdout", "closes its output, and ends well"),
    ("forks-and-leaks", "leaves a process behind that keeps its outputs"),
    ("daemon", "leaves a daemon of a session of its own behind that keeps its outputs"),
    ("keeps-the-channel", "leaves a process behind that keeps descriptor 3 alone"),
    ("many-children", "leaves fifty processes behind"),
    ("writes", "writes a file beside itself, and says when it could not"),
    ("uses-the-network", "listens and connects on the loopback device"),
    ("removes-itself", "removes its own script"),
    ("changes-its-metadata", "writes nonsense into its metadata"),
    ("loses-its-directory", "makes its working directory vanish"),
    ("damaged-channel", "writes damaged netstrings to descriptor 3"),
    ("half-a-message", "begins a netstring on descriptor 3 that never ends"),
];

/// Plays a scenario and returns the exit code.
pub(crate) fn play(scenario: &str, request: &ScriptRequest) -> u8 {
    match scenario {
        "hang" => hang(),
        "half-then-hang" => {
            print(&right(request)[..12]);
            hang()
        }
        "trickle" => loop {
            print("\n");
            std::thread::sleep(Duration::from_millis(20));
        },
        "flood" => flood::forever(b"x"),
        "flood-of-blank-lines" => flood::forever(b"\n"),
        "flood-of-resources" => flood::of_resources(request),
        "flood-on-stderr" => flood::of_errors(request, "x", 8 << 20),
        "flood-on-the-channel" => flood::of_channel(request, "nonsense 12:[,", 8 << 20),
        "flood-of-messages" => flood::of_channel(request, MESSAGE, 1 << 20),
        "gigabyte-on-stderr" => flood::of_errors(request, "all is well\n", GIGABYTE),
        "gigabyte-on-the-channel" => flood::of_channel(request, "nonsense 12:[,", GIGABYTE),
        "gigabyte-of-messages" => flood::of_channel(request, MESSAGE, GIGABYTE),
        "dense" => flood::dense(request, 3 << 20),
        "dense-list" => flood::dense(request, 12 << 20),
        "long-value" => flood::of_a_value(request, 100 << 20),
        "lies" | "ignores-stdin" => good(request),
        "dies-after-writing" => return ends(request, 3),
        "exits-with-126" => return ends(request, 126),
        "exits-with-127" => return ends(request, 127),
        "exits-with-255" => return ends(request, 255),
        "is-killed-after-writing" | "crashes" | "aborts" | "stops-itself" => {
            good(request);
            signal_itself(match scenario {
                "crashes" => "SEGV",
                "aborts" => "ABRT",
                "stops-itself" => "STOP",
                _ => "KILL",
            })
        }
        "forks-and-leaks" => leak(request, 1),
        "many-children" => leak(request, 50),
        "damaged-channel" => {
            flood::to_channel(request, "999:[null, \"a\", 1],07:[],x 5:[1],,18:[null, \"spawn\", 1]!");
        }
        "half-a-message" => flood::to_channel(request, "999999:[null, "),
        other => match in_shell(other) {
            Some(script) => return shell(request, script),
            None => return shapes::play(other, request),
        },
    }
    0
}

const MESSAGE: &str = "26:[null, \"note\", {\"a\": \"b\"}],";

fn ends(request: &ScriptRequest, code: u8) -> u8 {
    good(request);
    code
}

/// Returns the shell script of a scenario with processes and files; `$1` is the correct answer.
fn in_shell(scenario: &str) -> Option<&'static str> {
    Some(match scenario {
        "ignores-sigterm" => "trap '' TERM; while :; do sleep 1; done",
        "closes-outputs-and-hangs" => "exec >&- 2>&- 3>&-; exec sleep 1000",
        "closes-stdin" => "exec <&-; printf '%s' \"$1\"",
        "closes-stdout" => "exec >&-; exit 0",
        "daemon" => "setsid sleep 5 & printf '%s' \"$1\"",
        "keeps-the-channel" => "sleep 5 >/dev/null 2>&1 </dev/null & printf '%s' \"$1\"",
        "writes" => "cd \"$KILTER_TEST_PLACE\" 2>/dev/null; echo x > written; printf '%s' \"$1\"",
        "uses-the-network" => "echo x 2>/dev/null >/dev/udp/127.0.0.1/9; printf '%s' \"$1\"",
        "removes-itself" => "rm -f \"$KILTER_TEST_SCRIPT\"; printf '%s' \"$1\"",
        "changes-its-metadata" => "echo nonsense > \"$KILTER_TEST_METADATA\"; printf '%s' \"$1\"",
        "loses-its-directory" => {
            "gone=${TMPDIR:-/tmp}/gone.$$; mkdir \"$gone\"; cd \"$gone\"; rmdir \"$gone\"; printf '%s' \"$1\""
        }
        _ => return None,
    })
}
