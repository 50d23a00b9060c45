//! Answers that are odd as a whole, and names.

use super::{OTHERS, Row, UNDECLARED, all, bad, fine, none, row, warned};

/// A scenario that prints nothing that counts.
fn nothing(scenario: &'static str) -> Row {
    row(
        scenario,
        [
            bad("it printed nothing, where `# simple` is expected"),
            bad("it printed nothing, where a JSON object is expected"),
            bad("it printed nothing, where an observation document is expected"),
        ],
        [
            bad("it printed nothing, where `# simple` is expected"),
            bad("it printed nothing, where a JSON object is expected"),
            fine("again"),
        ],
    )
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        nothing("nothing"),
        nothing("spaces"),
        row(
            "half-a-line",
            [
                bad("line 4 of its output is `na`: a line is `KEY: VALUE`, but this line has no `:`"),
                bad("its output is not JSON: EOF while parsing a list"),
                bad("its output is not JSON: EOF while parsing a string"),
            ],
            [
                bad("line 2 of its output is `ral_derive: tr`: `ral_derive` is true or false"),
                bad("its output is not JSON: EOF while parsing a value"),
                bad("its output is not JSON: EOF while parsing an object"),
            ],
        ),
        row(
            "trailing",
            [
                bad("line 4 of its output is `# simple`: a line is `KEY: VALUE`, but this line has no `:`"),
                bad("its output is not JSON: trailing characters"),
                bad("its output is not JSON: trailing characters"),
            ],
            [
                bad("line 3 of its output is `# simple`: a line is `KEY: VALUE`, but this line has no `:`"),
                bad("its output is not JSON: trailing characters"),
                bad("its output is not JSON: trailing characters"),
            ],
        ),
        row(
            "bad-utf8",
            [
                bad("line 2 of its output is not UTF-8 (byte 0xff)"),
                bad("line 1 of its output is not UTF-8 (byte 0xff)"),
                bad("line 1 of its output is not UTF-8 (byte 0xff)"),
            ],
            [
                bad("line 2 of its output is not UTF-8 (byte 0xff)"),
                bad("line 1 of its output is not UTF-8 (byte 0xff)"),
                bad("line 1 of its output is not UTF-8 (byte 0xff)"),
            ],
        ),
        row(
            "utf16",
            all(bad("line 1 of its output holds a NUL byte")),
            all(bad("line 1 of its output holds a NUL byte")),
        ),
        row(
            "bom",
            all(bad("its output begins with a byte order mark")),
            all(bad("its output begins with a byte order mark")),
        ),
        row("crlf", all(fine("v=1")), all(fine("v=2 again"))),
        row(
            "nul",
            [
                bad("line 2 of its output holds a NUL byte"),
                bad("line 1 of its output holds a NUL byte"),
                bad("line 1 of its output holds a NUL byte"),
            ],
            [
                bad("line 2 of its output holds a NUL byte"),
                bad("line 1 of its output holds a NUL byte"),
                bad("line 1 of its output holds a NUL byte"),
            ],
        ),
        row(
            "wrong-shape",
            [
                bad("line 1 of its output is `name: a`: the first line must be `# simple`"),
                bad("its output does not follow the convention json: the reply: an object is expected, not a"),
                bad("its document is not as it should be: an object is expected, not `[]`"),
            ],
            [
                bad("line 1 of its output is `name: a`: the first line must be `# simple`"),
                bad("its output does not follow the convention json: the reply: an object is expected, not a"),
                fine("again"),
            ],
        ),
        row(
            "deep-document",
            [
                bad("line 1 of its output is `[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["),
                bad("its output is not JSON: recursion limit exceeded"),
                bad("its output is not JSON: recursion limit exceeded"),
            ],
            [
                bad("line 1 of its output is `[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["),
                bad("its output is not JSON: recursion limit exceeded"),
                fine("again"),
            ],
        ),
        row(
            "another-action",
            [
                bad("line 2 of its output is `ral_derive: true`: attributes come after the `name:` of their res"),
                bad("its output does not follow the convention json: the reply: `resources` is missing"),
                fine(""),
            ],
            [fine("v=1 again"), fine("again"), fine("again")],
        ),
        row(
            "another-convention",
            [
                bad("line 1 of its output is `{\"resources\":[]}`: the first line must be `# simple`"),
                bad("its output is not JSON: expected value"),
                bad("its output is not JSON: expected value"),
            ],
            [
                bad("line 1 of its output is `{\"resources\":[]}`: the first line must be `# simple`"),
                bad("its output is not JSON: expected value"),
                fine("again"),
            ],
        ),
        row(
            "wrong-name",
            [
                bad("it returned `other` for the request for `a`"),
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
            "wrong-kind",
            [
                none("answers name no type"),
                none("answers name no type"),
                bad("its document is not as it should be: `kind` is `\"other\"`, but the request was for `tt`"),
            ],
            [
                none("answers name no type"),
                none("answers name no type"),
                bad("its document is not as it should be: `kind` is `\"other\"`, but the request was for `tt`"),
            ],
        ),
        row(
            "null-name",
            [
                bad("it returned `null` for the request for `a`"),
                bad("its output does not follow the convention json: resources[0].name: a text is expected, "),
                bad("its document is not as it should be: `name` is `null`, but the request was for `a`"),
            ],
            [
                bad("it returned `null` for the request for `a`"),
                bad("its output does not follow the convention json: changes[0].name: a text is expected, no"),
                bad("its document is not as it should be: `name` is `null`, but the request was for `a`"),
            ],
        ),
        row(
            "empty-name",
            [
                bad("line 2 of its output is `name:`: a resource has no name"),
                bad("its output does not follow the convention json: resources[0].name: it is empty"),
                bad("its document is not as it should be: `name` is `\"\"`, but the request was for `a`"),
            ],
            [
                bad("it returned `` for the request for `a`"),
                bad("its output does not follow the convention json: changes[0].name: it is empty"),
                bad("its document is not as it should be: `name` is `\"\"`, but the request was for `a`"),
            ],
        ),
        row(
            "long-name",
            [
                bad("it returned `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
                fine("absent"),
                bad("its document is not as it should be: `name` is `\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
            ],
            [
                bad("it returned `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
                warned("again", OTHERS),
                bad("its document is not as it should be: `name` is `\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
            ],
        ),
        row(
            "control-name",
            [
                bad("it returned `\u{fffd}[2J\u{fffd}gone` for the request for `a`"),
                fine("absent"),
                bad("its document is not as it should be: `name` is `\"\\u001b[2J\\u0007gone\"`, but the request "),
            ],
            [
                bad("it returned `\u{fffd}[2J\u{fffd}gone` for the request for `a`"),
                warned("again", OTHERS),
                bad("its document is not as it should be: `name` is `\"\\u001b[2J\\u0007gone\"`, but the request "),
            ],
        ),
        row(
            "bidi-name",
            [
                bad("it returned `\u{fffd}a\u{fffd}` for the request for `a`"),
                fine("absent"),
                bad("its document is not as it should be: `name` is `\"\u{fffd}a\u{fffd}\"`, but the request was for \
                     `a`"),
            ],
            [
                bad("it returned `\u{fffd}a\u{fffd}` for the request for `a`"),
                warned("again", OTHERS),
                bad("its document is not as it should be: `name` is `\"\u{fffd}a\u{fffd}\"`, but the request was for \
                     `a`"),
            ],
        ),
        row(
            "many-others",
            [
                bad("it returned `other0` for the request for `a`"),
                fine("absent"),
                bad("its document is not as it should be: `name` is `\"other999\"`, but the request was for `a`"),
            ],
            [
                bad("it returned `other0` for the request for `a`"),
                warned("again", OTHERS),
                bad("its document is not as it should be: `name` is `\"other999\"`, but the request was for `a`"),
            ],
        ),
        row(
            "many-with-it",
            all(fine("v=1")),
            [bad("it returned `other0` for the request for `a`"), warned("v=1 again", OTHERS), fine("v=1 again")],
        ),
        row(
            "duplicates",
            [
                bad("it gave two different resources the name `a`"),
                bad("it gave two different resources the name `a`"),
                none("a document is about one resource"),
            ],
            [fine("v=2 again"), fine("v=1 v=2 again"), none("a document is about one resource")],
        ),
        row(
            "twice",
            [
                warned("v=1", "listed `a` more than once"),
                warned("v=1", "listed `a` more than once"),
                none("a document is about one resource"),
            ],
            [fine("v=1 again"), fine("v=1 v=1 again"), none("a document is about one resource")],
        ),
        row(
            "duplicate-keys",
            [
                warned("v=1", "more than once: the last value counts"),
                warned("v=1", "more than once: the last value counts"),
                fine("v=1"),
            ],
            all(fine("v=1 again")),
        ),
        row(
            "unknown-keys",
            [warned("v=1", UNDECLARED), warned("v=1", UNDECLARED), fine("v=1")],
            all(fine("v=1 nosuch=x again")),
        ),
        row(
            "many-unknown-keys",
            [
                bad("line 1003 of its output is `nosuch1000: x`: a resource has at most 1000 attributes"),
                warned("", UNDECLARED),
                fine(""),
            ],
            [
                bad("line 2003 of its output is `nosuch1000: x`: a resource has at most 1000 attributes"),
                fine("nosuch0=x nosuch1=x nosuch2=x again"),
                fine("nosuch0=x nosuch1=x nosuch2=x again"),
            ],
        ),
        row(
            "empty-attribute",
            [
                bad("line 4 of its output is `: x`: the key before the `:` is missing"),
                warned("v=1", UNDECLARED),
                fine("v=1"),
            ],
            [
                bad("line 5 of its output is `: x`: the key before the `:` is missing"),
                bad("its output does not follow the convention json: changes[0].: an attribute has no name"),
                bad("its document is not as it should be: an attribute has no name"),
            ],
        ),
        row(
            "long-attribute",
            [warned("v=1", UNDECLARED), warned("v=1", UNDECLARED), fine("v=1")],
            [
                bad("line 5 of its output is `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
                bad("its output does not follow the convention json: changes[0].xxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
                bad("its document is not as it should be: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
            ],
        ),
        row(
            "control-attribute",
            [warned("v=1", UNDECLARED), warned("v=1", UNDECLARED), fine("v=1")],
            [
                bad("line 5 of its output is `\u{fffd}[2J\u{fffd}gone: x`: `\u{fffd}[2J\u{fffd}gone` cannot be the \
                     name of an attribute"),
                bad("its output does not follow the convention json: changes[0].\u{fffd}[2J\u{fffd}gone: \
                     `\u{fffd}[2J\u{fffd}gone` canno"),
                bad(
                    "its document is not as it should be: `\u{fffd}[2J\u{fffd}gone` cannot be the name of an attribute",
                ),
            ],
        ),
        row(
            "reserved-attribute",
            [warned("", UNDECLARED), warned("", UNDECLARED), fine("")],
            all(fine("ral_x=x ral=x __proto__=x again")),
        ),
    ]
}
