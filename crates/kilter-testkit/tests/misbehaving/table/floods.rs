//! Scripts that do not end, or print too much.

use super::{DAMAGE, LATE, Row, TOO_MUCH, all, bad, ended, fine, row, warned};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("hang", all(ended(LATE, "signal 15")), all(ended(LATE, "signal 15"))),
        row("half-then-hang", all(ended(LATE, "signal 15")), all(ended(LATE, "signal 15"))),
        row("trickle", all(ended(LATE, "signal 15")), all(ended(LATE, "signal 15"))),
        row("ignores-sigterm", all(ended(LATE, "signal 9")), all(ended(LATE, "signal 9"))),
        row("stops-itself", all(ended(LATE, "signal 15")), all(ended(LATE, "signal 15"))),
        row("closes-outputs-and-hangs", all(ended(LATE, "signal 15")), all(ended(LATE, "signal 15"))),
        row("flood", all(ended(TOO_MUCH, "signal 15")), all(ended(TOO_MUCH, "signal 15"))),
        row("flood-of-blank-lines", all(ended(TOO_MUCH, "signal 15")), all(ended(TOO_MUCH, "signal 15"))),
        row("flood-of-resources", all(ended(TOO_MUCH, "signal 15")), all(ended(TOO_MUCH, "signal 15"))),
        row(
            "flood-on-stderr",
            [
                warned("v=1", "bytes more on standard error than kilter logs"),
                warned("v=1", "bytes more on standard error than kilter logs"),
                fine("v=1"),
            ],
            [
                warned("v=2 again", "bytes more on standard error than kilter logs"),
                warned("v=2 again", "bytes more on standard error than kilter logs"),
                fine("v=2 again"),
            ],
        ),
        row(
            "flood-on-the-channel",
            [fine("v=1"), fine("v=1"), warned("v=1", DAMAGE)],
            [fine("v=2 again"), fine("v=2 again"), warned("v=2 again", DAMAGE)],
        ),
        row("flood-of-messages", all(fine("v=1")), all(fine("v=2 again"))),
        row(
            "dense",
            all(bad("it replied with too many values, which would need more than 14 MiB of memory (")),
            [
                bad("line 1003 of its output is `1000:`: a resource has at most 1000 attributes"),
                bad("it replied with too many values, which would need more than 14 MiB of memory ("),
                bad("it replied with too many values, which would need more than 14 MiB of memory ("),
            ],
        ),
        row("dense-list", all(ended(TOO_MUCH, "signal 15")), all(ended(TOO_MUCH, "signal 15"))),
        row(
            "long-line",
            [
                bad("line 1 of its output is `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
                bad("its output is not JSON: expected value"),
                bad("its output is not JSON: expected value"),
            ],
            [
                bad("line 1 of its output is `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
                bad("its output is not JSON: expected value"),
                fine("again"),
            ],
        ),
        row("long-value", all(ended(TOO_MUCH, "signal 15")), all(ended(TOO_MUCH, "signal 15"))),
        row(
            "large-value",
            all(fine("v=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")),
            all(fine("v=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx again")),
        ),
    ]
}
