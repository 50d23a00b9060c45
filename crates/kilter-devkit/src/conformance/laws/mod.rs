//! The laws of the conformance suite.

mod batch;
mod canonical;
mod edges;
mod interrupts;
mod listing;
mod preview;
mod reading;
mod removal;
mod schema;
mod secrets;
mod setting;

use super::harness::{Harness, Trial};

/// A requirement for all providers.
#[derive(Debug)]
pub struct Law {
    /// Name of the law.
    pub name: &'static str,
    /// The requirement in one sentence.
    pub sentence: &'static str,
    pub(super) trial: fn(&Harness) -> Trial,
}

const fn law(name: &'static str, sentence: &'static str, trial: fn(&Harness) -> Trial) -> Law {
    Law { name, sentence, trial }
}

/// All laws, in the order of their trials.
pub static LAWS: &[Law] = &[
    law(
        "schema-is-described",
        "The schema is the same at every call and describes the type and each attribute.",
        schema::is_described,
    ),
    law(
        "schema-is-sound",
        "The schema has a namevar, each attribute once, defaults of the right types, and an `ensure` with both or \
         neither of \
         `present` and `absent`.",
        schema::is_sound,
    ),
    law("get-changes-nothing", "A get never changes the system, for any names and for none.", reading::changes_nothing),
    law("what-is-there-is-returned", "A created resource exists in the next get.", reading::returns_what_is),
    law("get-is-steady", "Two consecutive gets return the same state.", reading::is_steady),
    law(
        "one-and-many-agree",
        "A get of one resource and a get of several return the same state for it.",
        reading::one_and_many,
    ),
    law(
        "wanted-is-not-echoed",
        "A get returns the found state, regardless of the declared one.",
        reading::does_not_echo,
    ),
    law(
        "state-is-on-the-system",
        "A new instance of the provider on the same system returns the same state: the state is not stored in the \
         instance.",
        reading::is_on_the_system,
    ),
    law(
        "unknown-is-absent",
        "A get of a name that does not exist returns an absent resource, not an error.",
        listing::unknown_is_absent,
    ),
    law("none-is-no-error", "A get of an empty list of names is not an error.", listing::none_is_no_error),
    law(
        "some-are-among-all",
        "A get of all contains each resource that a get by name finds, in the same state.",
        listing::some_among_all,
    ),
    law(
        "each-is-listed-once",
        "A get of all returns each resource once, and a get by name finds each of them.",
        listing::once,
    ),
    law(
        "values-fit-the-schema",
        "A get returns only attributes and outputs of the type, with values of their data types.",
        listing::fits,
    ),
    law(
        "titles-fit-namevars",
        "A get returns a resource with several namevars under a title that a title pattern splits into them.",
        listing::titles_fit,
    ),
    law("canonical-is-final", "A second canonicalize changes nothing.", canonical::is_final),
    law(
        "what-is-read-is-canonical",
        "A canonicalize of a state that get returned changes nothing.",
        canonical::read_is_canonical,
    ),
    law(
        "what-is-read-can-be-declared",
        "A state that get returned is a valid declaration and is in sync.",
        canonical::read_can_be_declared,
    ),
    law(
        "deferred-is-not-missed",
        "Validate does not report an attribute as missing if its value is known only during the run.",
        canonical::deferred_is_not_missed,
    ),
    law(
        "differences-are-of-the-type",
        "Every difference names an attribute of the type or an entry of the resource.",
        canonical::differences_are_named,
    ),
    law(
        "set-makes-what-was-asked",
        "After a successful set, the next get returns the declared values.",
        setting::makes_what_was_asked,
    ),
    law(
        "set-again-changes-nothing",
        "A set of a resource that is in sync succeeds and changes nothing.",
        setting::again_changes_nothing,
    ),
    law("others-are-left-alone", "A change of one resource does not change other resources.", setting::leaves_others),
    law(
        "other-attributes-stay",
        "A change of one attribute does not change undeclared attributes.",
        setting::leaves_other_attributes,
    ),
    law(
        "absence-in-any-form",
        "A set creates the resource both if its found state is missing and if it is `ensure: absent`.",
        setting::absence_in_any_form,
    ),
    law(
        "a-refresh-is-served",
        "A refresh of a resource that is in sync succeeds and is reported as done.",
        setting::refreshes,
    ),
    law(
        "ensure-absent-removes",
        "After a set of `ensure: absent`, the resource does not exist.",
        removal::ensure_absent,
    ),
    law(
        "no-should-removes",
        "A change without `should` removes the resource, or fails and changes nothing.",
        removal::no_should,
    ),
    law(
        "absent-stays-absent",
        "A resource that does not exist is in sync with `ensure: absent`.",
        removal::absent_stays,
    ),
    law(
        "each-change-is-answered",
        "A set returns one correct outcome per change, in the order of the changes.",
        batch::each_is_answered,
    ),
    law(
        "a-batch-is-one-by-one",
        "Several changes in one call have the same result as one call each.",
        batch::one_by_one,
    ),
    law(
        "one-failure-is-alone",
        "A failed change does not make other changes of the same call fail.",
        batch::failure_is_alone,
    ),
    law(
        "preview-changes-nothing",
        "A preview changes neither the system nor the result of a get.",
        preview::changes_nothing,
    ),
    law("preview-foresees-rightly", "A preview fails only if the change would fail.", preview::foresees_rightly),
    law(
        "edge-values-survive",
        "The provider uses a value at the edge of its type unchanged, or refuses it with a reason. It does not panic \
         and changes \
         no other value.",
        edges::values_survive,
    ),
    law(
        "edge-names-survive",
        "The provider uses a name at the edge of its type unchanged, or refuses it with a reason.",
        edges::names_survive,
    ),
    law(
        "secrets-stay-secret",
        "No log line, problem, outcome or difference contains a sensitive value.",
        secrets::stay_secret,
    ),
    law("an-interrupt-ends-a-call", "An interrupt ends a running set.", interrupts::ends_a_call),
    law(
        "an-interrupt-leaves-the-truth",
        "After an interrupted set, a get returns the true state, and the same set can be repeated.",
        interrupts::leaves_the_truth,
    ),
];
