//! Values of a wrong type, and malformed reports of changes and errors.

use super::{OTHERS, Row, UNDECLARED, all, bad, died, ended, fine, none, row, warned};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row(
            "wrong-type",
            [
                bad("it returned a value that is not of its type: n expects an Integer value, got String"),
                bad("it returned a value that is not of its type: n expects an Integer value, got String"),
                bad("its document is not as it should be: it is not of its type: n expects an Integer value, go"),
            ],
            all(fine("n=many again")),
        ),
        row(
            "huge-integer",
            [
                bad("it returned a value that is not of its type: n is too large: an integer is from \
                     -9223372036854775808"),
                bad("it returned a value that is not of its type: n is too large: an integer is from \
                     -9223372036854775808"),
                bad("its document is not as it should be: it is not of its type: n is too large"),
            ],
            [fine("n=99999999999999999999999999 again"), fine("n=1e26 again"), fine("n=1e26 again")],
        ),
        row(
            "endless-number",
            [
                bad("it returned a value that is not of its type: f expects a Float value, got String"),
                bad("its output is not JSON: number out of range"),
                bad("its output is not JSON: number out of range"),
            ],
            [
                fine("f=1e400 again"),
                bad("its output is not JSON: number out of range"),
                bad("its output is not JSON: number out of range"),
            ],
        ),
        row(
            "not-a-number",
            [
                bad("it returned a value that is not of its type: f expects a Float value, got String"),
                bad("its output is not JSON: expected value"),
                bad("its output is not JSON: expected value"),
            ],
            [
                fine("f=NaN again"),
                bad("its output is not JSON: expected value"),
                bad("its output is not JSON: expected value"),
            ],
        ),
        row("largest-number", all(fine("f=1e308")), all(fine("f=1e308 again"))),
        row("minus-zero", all(fine("f=-0.0")), all(fine("f=-0.0 again"))),
        row(
            "deep-value",
            [
                bad("it returned a value that is not of its type: list it is no list: [a, b], or an array of JSON"),
                bad("its output is not JSON: recursion limit exceeded"),
                bad("its output is not JSON: recursion limit exceeded"),
            ],
            [
                fine("list=[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[ again"),
                bad("its output is not JSON: recursion limit exceeded"),
                bad("its output is not JSON: recursion limit exceeded"),
            ],
        ),
        row(
            "misspelled-truth",
            [
                bad("it returned a value that is not of its type: b expects a Boolean value, got String"),
                bad("it returned a value that is not of its type: b expects a Boolean value, got String"),
                bad("its document is not as it should be: it is not of its type: b expects a Boolean value, got"),
            ],
            all(fine("b=yes again")),
        ),
        row(
            "misspelled-word",
            [
                bad("it returned a value that is not of its type: mode expects a match for Enum['a', 'b'], got 'c'"),
                bad("it returned a value that is not of its type: mode expects a match for Enum['a', 'b'], got 'c'"),
                bad("its document is not as it should be: it is not of its type: mode expects a match for Enum["),
            ],
            all(fine("mode=c again")),
        ),
        row(
            "no-ensure",
            [
                bad("it returned a value that is not of its type: ensure expects a match for Enum['absent', \
                     'present'],"),
                bad("it returned a value that is not of its type: ensure expects a match for Enum['absent', \
                     'present'],"),
                bad("its document is not as it should be: `exists` is true or false, not `\"perhaps\"`"),
            ],
            [fine("ensure=perhaps again"), fine("ensure=perhaps again"), fine("again")],
        ),
        row(
            "control-value",
            [
                bad("it returned a value that is not of its type: n expects an Integer value, got String"),
                bad("it returned a value that is not of its type: n expects an Integer value, got String"),
                bad("its document is not as it should be: it is not of its type: n expects an Integer value, go"),
            ],
            all(fine("n=\u{1b}[2J\u{7}gone again")),
        ),
        row("read-only", all(fine("r=2")), all(fine("r=2 again"))),
        row("lies", all(fine("v=1")), all(fine("v=2 again"))),
        row(
            "claims-others",
            all(fine("v=2")),
            [bad("it returned `other` for the request for `a`"), warned("v=2 again", OTHERS), fine("v=2 again")],
        ),
        row(
            "error-of-another",
            [
                fine("absent"),
                fine("absent"),
                bad("its document is not as it should be: `name` is `\"other\"`, but the request was for `a`"),
            ],
            [
                bad("it returned `other` for the request for `a`"),
                warned("again", OTHERS),
                bad("its document is not as it should be: `name` is `\"other\"`, but the request was for `a`"),
            ],
        ),
        row(
            "error-of-it",
            [fine("absent"), bad("it is broken"), bad("it says: it is broken")],
            [bad("`a` does not exist and cannot be created"), bad("it is broken"), bad("it says: it is broken")],
        ),
        row(
            "was-first",
            [warned("v=1", UNDECLARED), none("there is no such line"), none("there is no such line")],
            [
                bad("line 3 of its output is `ral_was: 1`: `ral_was` comes after the attribute it is about"),
                none("there is no such line"),
                none("there is no such line"),
            ],
        ),
        row(
            "end-without-error",
            [
                bad("line 4 of its output is `ral_eom`: a line is `KEY: VALUE`, but this line has no `:`"),
                none("there is no such line"),
                none("there is no such line"),
            ],
            [
                bad("line 4 of its output is `ral_eom`: a line is `KEY: VALUE`, but this line has no `:`"),
                none("there is no such line"),
                none("there is no such line"),
            ],
        ),
        row(
            "odd-derive",
            [
                bad("line 2 of its output is `ral_derive: perhaps`: attributes come after the `name:` of their "),
                bad("its output does not follow the convention json: the reply: `resources` is missing"),
                none("nothing is derived"),
            ],
            [
                bad("line 2 of its output is `ral_derive: perhaps`: `ral_derive` is true or false"),
                bad("its output does not follow the convention json: derive: true or false is expected, not "),
                none("nothing is derived"),
            ],
        ),
        row(
            "error",
            [bad("said"), bad("said"), bad("it says: said")],
            [bad("said"), bad("said"), bad("it says: said")],
        ),
        row(
            "error-without-end",
            [
                bad("half\nmore (the message does not end with ral_eom)"),
                bad("its output does not follow the convention json: error: an object with `message` and `ki"),
                bad("it says: [\"half\"]"),
            ],
            [
                bad("half\nmore (the message does not end with ral_eom)"),
                bad("its output does not follow the convention json: error: an object with `message` and `ki"),
                bad("it says: [\"half\"]"),
            ],
        ),
        row(
            "error-and-status",
            [ended("said", "exit code 1"), died("it failed with exit code 1"), died("it failed with exit code 1")],
            [ended("said", "exit code 1"), died("it failed with exit code 1"), died("it failed with exit code 1")],
        ),
        row(
            "error-that-moves-the-cursor",
            [bad("\u{fffd}[2J\u{fffd}gone"), bad("\u{fffd}[2J\u{fffd}gone"), bad("it says: \u{fffd}[2J\u{fffd}gone")],
            [bad("\u{fffd}[2J\u{fffd}gone"), bad("\u{fffd}[2J\u{fffd}gone"), bad("it says: \u{fffd}[2J\u{fffd}gone")],
        ),
        row(
            "long-error",
            [
                bad("long and \u{20ac} long and \u{20ac} long and \u{20ac} long and \u{20ac} long and \u{20ac} long \
                     and \u{20ac} long and \u{20ac} long and \u{20ac} lo"),
                bad("long and \u{20ac} long and \u{20ac} long and \u{20ac} long and \u{20ac} long and \u{20ac} long \
                     and \u{20ac} long and \u{20ac} long and \u{20ac} lo"),
                bad("it says: long and \u{20ac} long and \u{20ac} long and \u{20ac} long and \u{20ac} "),
            ],
            [
                bad("long and \u{20ac} long and \u{20ac} long and \u{20ac} long and \u{20ac} long and \u{20ac} long \
                     and \u{20ac} long and \u{20ac} long and \u{20ac} lo"),
                bad("long and \u{20ac} long and \u{20ac} long and \u{20ac} long and \u{20ac} long and \u{20ac} long \
                     and \u{20ac} long and \u{20ac} long and \u{20ac} lo"),
                bad("it says: long and \u{20ac} long and \u{20ac} long and \u{20ac} long and \u{20ac} "),
            ],
        ),
    ]
}
