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

use super::bench::{Harness, Trial};

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
        "The schema is the same whenever it is asked for, and says what the type and each attribute is for.",
        schema::is_described,
    ),
    law(
        "schema-is-sound",
        "There is a namevar, no attribute is declared twice, every default is of its type, and `ensure` has words, \
         `present` and `absent` both or neither.",
        schema::is_sound,
    ),
    law(
        "get-changes-nothing",
        "A get, of whatever and of nothing, never changes the system.",
        reading::changes_nothing,
    ),
    law("what-is-there-is-returned", "A resource that has been made exists by the next get.", reading::returns_what_is),
    law("get-is-steady", "Two gets in a row tell the same.", reading::is_steady),
    law("one-and-many-agree", "A resource is told alike whether one is asked for or many.", reading::one_and_many),
    law("wanted-is-not-echoed", "A get tells what is, whatever is wanted.", reading::does_not_echo),
    law(
        "state-is-on-the-system",
        "Another provider on the same system tells the same: what a get knows is not kept in the provider.",
        reading::is_on_the_system,
    ),
    law("unknown-is-absent", "A get of a name that does not exist is absent and no error.", listing::unknown_is_absent),
    law("none-is-no-error", "A get of no names is no error.", listing::none_is_no_error),
    law("some-are-among-all", "What can be asked for by name is among all, and told alike.", listing::some_among_all),
    law("each-is-listed-once", "A get of all names each resource once, and each can be asked for.", listing::once),
    law(
        "values-fit-the-schema",
        "What get returns are attributes and outputs of the type, with values of theirs.",
        listing::fits,
    ),
    law(
        "titles-fit-namevars",
        "A resource with several namevars is returned with a title that a pattern takes apart into them.",
        listing::titles_fit,
    ),
    law("canonical-is-final", "To canonicalize twice is to canonicalize once.", canonical::is_final),
    law(
        "what-is-read-is-canonical",
        "To canonicalize what get returned changes nothing.",
        canonical::read_is_canonical,
    ),
    law(
        "what-is-read-can-be-declared",
        "What get returned is valid when it is declared, and nothing differs from it.",
        canonical::read_can_be_declared,
    ),
    law(
        "deferred-is-not-missed",
        "An attribute that is only known during the run is not missed by validate.",
        canonical::deferred_is_not_missed,
    ),
    law(
        "differences-are-of-the-type",
        "Every difference names an attribute of the type or an entry of the resource.",
        canonical::differences_are_named,
    ),
    law(
        "set-makes-what-was-asked",
        "After a set without failure the next get shows what was asked for.",
        setting::makes_what_was_asked,
    ),
    law(
        "set-again-changes-nothing",
        "A set of what is already so succeeds and changes nothing.",
        setting::again_changes_nothing,
    ),
    law("others-are-left-alone", "A change of one resource leaves every other one as it was.", setting::leaves_others),
    law(
        "other-attributes-stay",
        "A change of one attribute leaves the attributes that are not declared with it as they were.",
        setting::leaves_other_attributes,
    ),
    law(
        "absence-in-any-form",
        "A resource is created whether its absence is told by nothing or by `ensure: absent`.",
        setting::absence_in_any_form,
    ),
    law(
        "a-refresh-is-served",
        "A refresh of a resource that is as declared succeeds and is served.",
        setting::refreshes,
    ),
    law("ensure-absent-removes", "After `ensure: absent` the resource is gone.", removal::ensure_absent),
    law(
        "no-should-removes",
        "A change without `should` removes the resource, or fails and leaves it as it was.",
        removal::no_should,
    ),
    law("absent-stays-absent", "The absence of what is not there is in sync.", removal::absent_stays),
    law(
        "each-change-is-answered",
        "There are as many outcomes as changes, in their order, and each tells the truth.",
        batch::each_is_answered,
    ),
    law(
        "a-batch-is-one-by-one",
        "Changes made in one call come to the same as one after the other.",
        batch::one_by_one,
    ),
    law("one-failure-is-alone", "A change that fails does not take the others with it.", batch::failure_is_alone),
    law(
        "preview-changes-nothing",
        "A preview changes neither the system nor what get tells.",
        preview::changes_nothing,
    ),
    law("preview-foresees-rightly", "A preview fails only where the change would.", preview::foresees_rightly),
    law(
        "edge-values-survive",
        "A value at the edge of its type is taken as it is or refused with a reason: never mangled, never a panic, never \
         something else beside it.",
        edges::values_survive,
    ),
    law(
        "edge-names-survive",
        "A name at the edge of its type is taken as it is or refused with a reason.",
        edges::names_survive,
    ),
    law(
        "secrets-stay-secret",
        "A sensitive value appears in no line of the log, no problem, no outcome and no difference.",
        secrets::stay_secret,
    ),
    law("an-interrupt-ends-a-call", "An interrupt ends a set that is under way.", interrupts::ends_a_call),
    law(
        "an-interrupt-leaves-the-truth",
        "After an interrupted set a get tells the true state, and the same change can be made again.",
        interrupts::leaves_the_truth,
    ),
];
