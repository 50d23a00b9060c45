use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_native::NotifyProvider;

use crate::{assert_edges, assert_held_but};

fn subject() -> Subject {
    Subject::new(NotifyProvider::new, || "a message leaves nothing on the system".to_owned())
        .specimen(Sample::new("greeting").present([("message", "hello")]).changed([("message", "goodbye")]))
        .specimen(Sample::new("just this"))
        .without(Unsupported::Unknown, "whatever is asked for can be said")
        .without(Unsupported::Failing, "nothing can fail")
        .without(Unsupported::Slow, "it takes no time")
        .without(Unsupported::Listing, "messages are not on the system")
        .without(Unsupported::Removal, "what was said cannot be taken back")
}

#[test]
fn notify_conforms() {
    let report = Suite::new(subject).run();
    let trace = "making the specimens leaves no trace in the fingerprint of the sandbox";
    assert_held_but(
        &report,
        &[
            ("get-changes-nothing", trace),
            (
                "wanted-is-not-echoed",
                "no specimen has an attribute that is read back and has another value when it is changed",
            ),
            ("unknown-is-absent", "whatever is asked for can be said"),
            ("some-are-among-all", "messages are not on the system"),
            ("each-is-listed-once", "messages are not on the system"),
            ("titles-fit-namevars", "the type has one namevar"),
            ("set-makes-what-was-asked", "the type has no attribute that a set could bring to another value"),
            ("other-attributes-stay", "the type has fewer than two attributes that can be changed"),
            ("absence-in-any-form", "the specimens exist before the trial creates them"),
            ("ensure-absent-removes", "what was said cannot be taken back"),
            ("absent-stays-absent", "the type has no `ensure: absent`"),
            ("a-batch-is-one-by-one", trace),
            ("one-failure-is-alone", "nothing can fail"),
            ("preview-changes-nothing", trace),
            ("an-interrupt-ends-a-call", "it takes no time"),
        ],
    );
    assert_edges(&report, 30, "");
}
