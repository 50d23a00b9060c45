//! Misbehaviour with processes, descriptors and files.

use super::{DAMAGE, LEFT, Row, TRIED, all, bad, died, fine, later, row, warned};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("error-on-stderr", all(warned("v=1", "it has failed")), all(warned("v=2 again", "it has failed"))),
        row(
            "last-words-that-move-the-cursor",
            all(died("it failed with exit code 1")),
            all(died("it failed with exit code 1")),
        ),
        row("last-words-of-bytes", all(died("it failed with exit code 1")), all(died("it failed with exit code 1"))),
        row("no-last-words", all(died("it failed with exit code 1")), all(died("it failed with exit code 1"))),
        row("dies-after-writing", all(died("it failed with exit code 3")), all(died("it failed with exit code 3"))),
        row("exits-with-126", all(died("it failed with exit code 126")), all(died("it failed with exit code 126"))),
        row("exits-with-127", all(died("it failed with exit code 127")), all(died("it failed with exit code 127"))),
        row("exits-with-255", all(died("it failed with exit code 255")), all(died("it failed with exit code 255"))),
        row("is-killed-after-writing", all(died("it failed with signal 9")), all(died("it failed with signal 9"))),
        row("crashes", all(died("it failed with signal 11")), all(died("it failed with signal 11"))),
        row("aborts", all(died("it failed with signal 6")), all(died("it failed with signal 6"))),
        row("ignores-stdin", all(fine("v=1")), all(fine("v=2 again"))),
        row("closes-stdin", all(fine("v=1")), all(fine("v=2 again"))),
        row(
            "closes-stdout",
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
        ),
        row("forks-and-leaks", all(warned("v=1", LEFT)), all(warned("v=2 again", LEFT))),
        row("daemon", all(warned("v=1", LEFT)), all(warned("v=2 again", LEFT))),
        row(
            "keeps-the-channel",
            [fine("v=1"), fine("v=1"), warned("v=1", LEFT)],
            [fine("v=2 again"), fine("v=2 again"), warned("v=2 again", LEFT)],
        ),
        row("many-children", all(warned("v=1", LEFT)), all(warned("v=2 again", LEFT))),
        row("writes", all(warned("v=1", TRIED)), all(fine("v=2 again"))),
        row("uses-the-network", all(fine("v=1")), all(fine("v=2 again"))),
        row("removes-itself", all(warned("v=1", TRIED)), all(later("cannot start"))),
        row("changes-its-metadata", all(warned("v=1", TRIED)), all(fine("v=2 again"))),
        row("loses-its-directory", all(fine("v=1")), all(fine("v=2 again"))),
        row(
            "damaged-channel",
            [fine("v=1"), fine("v=1"), warned("v=1", DAMAGE)],
            [fine("v=2 again"), fine("v=2 again"), warned("v=2 again", DAMAGE)],
        ),
        row(
            "half-a-message",
            [fine("v=1"), fine("v=1"), warned("v=1", DAMAGE)],
            [fine("v=2 again"), fine("v=2 again"), warned("v=2 again", DAMAGE)],
        ),
    ]
}
