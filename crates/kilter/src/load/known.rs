//! Compilation of texts that are known: from a plan, or from another machine.

use ecow::EcoString;
use indexmap::IndexMap;
use kilter_manifest::Source;
use kilter_model::Value;

use super::Texts;
use super::sources::{KnownFacts, KnownIncludes};

/// Inputs of a compilation that reads no file and no fact.
pub(crate) struct KnownInputs {
    /// Manifests of the command line, in order.
    pub(crate) sources: Vec<Source>,
    /// Origin of these manifests, if resources have to be restored, now or later.
    pub(crate) origin: EcoString,
    /// Included texts, by the including file and the written path.
    pub(crate) includes: IndexMap<(EcoString, EcoString), Source>,
    /// Facts that the manifests use.
    pub(crate) facts: IndexMap<EcoString, Value>,
    /// Variables of the command line.
    pub(crate) vars: Vec<(EcoString, Value)>,
}

/// Hands known texts to `compile`.
pub(super) fn compile_known<T>(inputs: KnownInputs, compile: impl FnOnce(Texts<'_>) -> T) -> T {
    let KnownInputs { sources, origin, includes, facts, vars } = inputs;
    let (facts, includes) = (KnownFacts::new(&facts), KnownIncludes::new(&includes));
    compile(Texts { origin, vars, ..Texts::new(sources, &facts, &includes) })
}
