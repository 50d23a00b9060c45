//! Outputs of resources: of this run, and stored by earlier runs.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_engine::{ResourceId, Timestamp};
use kilter_model::expr::Name;
use kilter_model::{Attributes, ReceivedValue, Value};
use kilter_provider::Context;

use rustc_hash::FxHashMap;

use super::routes::Routes;
use crate::driver::calls::CallTarget;
use crate::driver::resolve::{self, Resolution, sources};
use crate::options::{Mode, Options};
use crate::outputs::{OutputDeclaration, Outputs};
use crate::prepare::Prepared;
use crate::state_dir::StateDir;
use crate::step::ResolvedInputs;

/// Maximum number of changed outputs per receiver without a count against its repair budget, and the period in
/// milliseconds.
const RENEWED_MOST: u32 = 120;
const RENEWED_WITHIN: u64 = 60_000;

/// Outputs that resources have sent, and the inputs that receivers have made of them.
pub(in super::super) struct OutputStore<'run> {
    routes: Routes,
    /// Stored outputs of the senders.
    kept: Option<Outputs<'run>>,
    /// Mode of the run.
    mode: Mode,
    /// True while a state is held: receivers of changed outputs need another check.
    is_held: bool,
    /// Reason why stored outputs cannot be used.
    unavailable: FxHashMap<ResourceId, EcoString>,
    /// Outputs of this run.
    outputs: FxHashMap<ResourceId, Attributes>,
    /// Declared attributes with the received outputs filled in.
    resolved: FxHashMap<ResourceId, Arc<ResolvedInputs>>,
    /// Outputs that a resource had received when it was last in sync.
    accepted: FxHashMap<ResourceId, Arc<ResolvedInputs>>,
    /// Received outputs that a resource cannot accept.
    refused: FxHashMap<ResourceId, Box<[ReceivedValue]>>,
    /// Resources whose received outputs have changed while the state is held.
    changed_inputs: Vec<ResourceId>,
    /// Number of such changes, and the start of the count.
    renewals: FxHashMap<ResourceId, (Timestamp, u32)>,
}

/// Result of storing outputs that a resource has sent.
#[derive(Default)]
pub(super) struct SentOutputs {
    /// Secrets among the outputs: other secrets may be derived from them.
    pub(super) secrets: Vec<Value>,
    /// Note about outputs that could not be stored.
    pub(super) note: Option<EcoString>,
}

impl<'run> OutputStore<'run> {
    pub(super) fn new(routes: Routes, options: &'run Options) -> OutputStore<'run> {
        OutputStore {
            routes,
            kept: options.state_dir.as_ref().map(StateDir::path).map(Outputs::new),
            mode: options.mode,
            is_held: false,
            unavailable: FxHashMap::default(),
            outputs: FxHashMap::default(),
            resolved: FxHashMap::default(),
            accepted: FxHashMap::default(),
            refused: FxHashMap::default(),
            changed_inputs: Vec::new(),
            renewals: FxHashMap::default(),
        }
    }

    /// Starts to hold a state.
    pub(super) fn holds(&mut self) {
        self.is_held = true;
    }

    /// Takes the routes of another catalog, and forgets the resources that have changed or been removed.
    pub(super) fn edit(&mut self, routes: Routes, gone: &[ResourceId]) {
        self.routes = routes;
        for vertex in gone {
            self.outputs.remove(vertex);
            self.resolved.remove(vertex);
            self.accepted.remove(vertex);
        }
        self.unavailable.clear();
        self.refused.clear();
        self.changed_inputs.clear();
        self.renewals.clear();
    }

    /// Returns true if no resource uses an output.
    pub(super) fn is_unused(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns true if other resources use outputs of a resource.
    pub(super) fn is_sender(&self, vertex: ResourceId) -> bool {
        self.routes.has(vertex)
    }

    /// Returns true if the outputs of a sender are known, and none has become a secret or stopped to be one.
    pub(super) fn is_known(&self, vertex: ResourceId, is_secret: bool) -> bool {
        self.outputs.contains_key(&vertex) && self.routes.is_secret(vertex) == Some(is_secret)
    }

    /// Returns the declared attributes of a resource with its received outputs; none if it has received none.
    pub(super) fn resolved(&self, vertex: ResourceId) -> Option<&Arc<ResolvedInputs>> {
        self.resolved.get(&vertex)
    }

    /// Returns the declared attributes of a resource, with received outputs as far as they are known.
    pub(super) fn attributes<'a>(&'a self, prepared: &'a Prepared, vertex: ResourceId) -> &'a Attributes {
        match self.resolved.get(&vertex) {
            Some(resolved) => &resolved.attributes,
            None => &prepared.resource(vertex).attributes,
        }
    }

    /// Fills the received outputs into the attributes of a resource.
    pub(super) fn resolve(&self, prepared: &Prepared, cx: &Context<'_>, vertex: ResourceId) -> Resolution {
        resolve::resolve(prepared, cx, vertex, &self.outputs)
    }

    /// Takes the outputs of a resource that is in sync: reported ones, stored ones or the default.
    pub(super) fn sent_before(&mut self, prepared: &Prepared, vertex: ResourceId, said: Attributes) -> SentOutputs {
        if !self.routes.has(vertex) {
            return SentOutputs::default();
        }
        let kept = match (said.is_empty(), &self.kept) {
            (true, Some(outputs)) => outputs.kept(&self.declared(prepared, vertex), self.mode == Mode::Apply),
            _ => Ok(Some(said)),
        };
        match kept {
            Ok(kept) => {
                let kept = kept.filter(|outputs| !outputs.is_empty());
                if let Some(outputs) = kept.or_else(|| self.default_outputs(prepared, vertex)) {
                    return SentOutputs { secrets: self.sends(prepared, vertex, outputs), note: None };
                }
            }
            Err(why) => {
                self.unavailable.insert(vertex, eco_format!("{why}"));
            }
        }
        SentOutputs::default()
    }

    /// Returns the default outputs of a resource that has never sent any.
    ///
    /// If another declaration of the resource has sent outputs, the default may be wrong, and there is none.
    fn default_outputs(&self, prepared: &Prepared, vertex: ResourceId) -> Option<Attributes> {
        let was_sent = |kept: &Outputs<'_>| kept.has(&prepared.resource(vertex).reference);
        if self.outputs.contains_key(&vertex) || self.kept.as_ref().is_some_and(was_sent) {
            return None;
        }
        let attributes = self.attributes(prepared, vertex);
        let fallback = prepared.provider(vertex).capabilities().outputs().default_outputs(attributes);
        Some(fallback).filter(|outputs| !outputs.is_empty())
    }

    /// Takes the outputs of a change or a refresh.
    pub(super) fn send(&mut self, prepared: &Prepared, vertex: ResourceId, sent: Attributes) -> SentOutputs {
        // A later receiver cannot recreate a secret, so that secrets are always stored.
        let is_sent = self.routes.has(vertex);
        if sent.is_empty() || !is_sent && !sent.iter().any(|(_, value)| value.holds_sensitive()) {
            return SentOutputs::default();
        }
        let kept = self.kept.as_ref().map(|outputs| outputs.keep(&self.declared(prepared, vertex), &sent));
        let failure = kept.and_then(Result::err);
        let note = failure.map(|error| eco_format!("its outputs could not be kept for later runs: {error}"));
        let secrets = if is_sent { self.sends(prepared, vertex, sent) } else { Vec::new() };
        SentOutputs { secrets, note }
    }

    /// Makes outputs available to receivers. Returns the secrets among them.
    fn sends(&mut self, prepared: &Prepared, vertex: ResourceId, sent: Attributes) -> Vec<Value> {
        let confidential = self.routes.is_secret(vertex) == Some(true);
        let secret = |value: &Value| match confidential && !value.holds_sensitive() {
            true => Value::sensitive(value.clone()),
            false => value.clone(),
        };
        let secrets = sent.iter().map(|(_, value)| secret(value)).filter(Value::holds_sensitive).collect();
        if let (Some(before), true) = (self.outputs.get(&vertex), self.is_held) {
            let is_other = |name: &str| before.get(name) != sent.get(name);
            let receivers = self.routes.receivers(vertex).iter().copied();
            let changed_inputs_now: Vec<_> =
                receivers.filter(|receiver| takes(prepared, *receiver, vertex, &is_other)).collect();
            self.changed_inputs.extend(changed_inputs_now);
        }
        self.outputs.insert(vertex, sent);
        secrets
    }

    /// Takes the resources whose received outputs have changed while the state is held. They need a check.
    pub(in super::super) fn take_renewed(&mut self) -> Vec<ResourceId> {
        std::mem::take(&mut self.changed_inputs)
    }

    /// Returns true if the received outputs of a resource change within the permitted rate.
    pub(in super::super) fn may_be_renewed(&mut self, vertex: ResourceId, now: Timestamp) -> bool {
        let (since, count) = self.renewals.entry(vertex).or_insert((now, 0));
        if now.0.saturating_sub(since.0) >= RENEWED_WITHIN {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= RENEWED_MOST
    }

    /// Records the received outputs of a resource as its declared state.
    pub(super) fn receive(
        &mut self,
        prepared: &Prepared,
        vertex: ResourceId,
        attributes: Attributes,
        sent: Box<[Value]>,
    ) {
        self.refused.remove(&vertex);
        let accepted = self.accepted.get(&vertex).map(|accepted| &accepted.attributes);
        let receipts = prepared.resource(vertex).deferred().iter().map(|deferred| {
            let name = deferred.attribute.as_str();
            let changed = accepted.is_none_or(|accepted| accepted.get(name) != attributes.get(name));
            ReceivedValue { attribute: deferred.attribute.clone(), from: sources(&deferred.template), changed }
        });
        let receipts = receipts.collect();
        self.resolved.insert(vertex, Arc::new(ResolvedInputs { attributes, receipts, sent }));
    }

    /// Records received outputs that cannot be used. All attributes that differ from the accepted ones stay
    /// pending.
    pub(super) fn refuse(&mut self, prepared: &Prepared, vertex: ResourceId, sent: &[Value]) {
        let accepted = self.accepted.get(&vertex).map(|accepted| &accepted.sent);
        let receipts = prepared.resource(vertex).deferred().iter().enumerate().map(|(at, deferred)| {
            let is_accepted =
                accepted.is_some_and(|accepted| sent.get(at).is_some_and(|sent| accepted.get(at) == Some(sent)));
            ReceivedValue {
                attribute: deferred.attribute.clone(),
                from: sources(&deferred.template),
                changed: !is_accepted,
            }
        });
        self.refused.insert(vertex, receipts.collect());
    }

    /// Records that a resource is in sync with its received outputs.
    pub(super) fn accept(&mut self, vertex: ResourceId) {
        if let Some(received) = self.resolved.get(&vertex) {
            self.accepted.insert(vertex, Arc::clone(received));
        }
    }

    /// Returns the received outputs as of the last check, with true for those that the resource has not applied
    /// yet.
    pub(in super::super) fn received(&self, vertex: ResourceId) -> Vec<ReceivedValue> {
        if let Some(refused) = self.refused.get(&vertex) {
            return refused.to_vec();
        }
        let Some(received) = self.resolved.get(&vertex) else { return Vec::new() };
        let is_accepted = self.accepted.get(&vertex).is_some_and(|accepted| Arc::ptr_eq(accepted, received));
        let receipts = received.receipts.iter().cloned();
        receipts.map(|receipt| ReceivedValue { changed: receipt.changed && !is_accepted, ..receipt }).collect()
    }

    /// Returns the reason why stored outputs for a resource cannot be used.
    pub(super) fn lost_to(&self, prepared: &Prepared, vertex: ResourceId) -> Option<EcoString> {
        let deferred = prepared.resource(vertex).deferred().iter();
        let references = deferred.flat_map(|deferred| deferred.template.references());
        let lost = references.filter_map(|reference| prepared.lookup().referred(&reference));
        lost.into_iter().find_map(|sender| {
            let reference = &prepared.resource(sender).reference;
            let why = self.unavailable.get(&sender)?;
            Some(eco_format!("what {reference} sent before counts as not kept: {why}"))
        })
    }

    /// Removes the stored outputs before the resource runs again, so that an interrupted run leaves no outdated
    /// ones.
    pub(super) fn forget(&self, prepared: &Prepared, vertex: ResourceId) {
        if let (true, Some(outputs)) = (self.routes.has(vertex), &self.kept) {
            outputs.forget(&prepared.resource(vertex).reference);
        }
    }

    /// Returns the declared attributes of a resource with receivers, and true if an output is used as a secret.
    pub(in super::super) fn sends_as(&self, prepared: &Prepared, vertex: ResourceId) -> Option<(Attributes, bool)> {
        let confidential = self.routes.is_secret(vertex)?;
        Some((self.attributes(prepared, vertex).clone(), confidential))
    }

    /// Stores the outputs of a resource as it was declared before, for a resource with the same declaration.
    pub(in super::super) fn keep_superseded(
        &self,
        prepared: &Prepared,
        former: &CallTarget,
        sent: &Attributes,
    ) -> Result<(), EcoString> {
        let (Some((attributes, confidential)), Some(outputs)) = (&former.sends, &self.kept) else { return Ok(()) };
        let provider = prepared.registry.at(usize::from(former.of.0));
        let (reference, confidential, apart) =
            (&former.reference, *confidential, provider.capabilities().outputs().output_independent_attributes());
        let kept = outputs.keep(&OutputDeclaration { reference, attributes, confidential, apart }, sent);
        kept.map_err(|error| eco_format!("its outputs could not be kept: {error}"))
    }

    fn declared<'a>(&'a self, prepared: &'a Prepared, vertex: ResourceId) -> OutputDeclaration<'a> {
        let resource = prepared.resource(vertex);
        OutputDeclaration {
            reference: &resource.reference,
            attributes: self.attributes(prepared, vertex),
            confidential: self.routes.is_secret(vertex) == Some(true),
            apart: prepared.provider(vertex).capabilities().outputs().output_independent_attributes(),
        }
    }
}

/// Returns true if a resource uses one of these outputs of a sender.
fn takes(prepared: &Prepared, receiver: ResourceId, sender: ResourceId, is_meant: &dyn Fn(&str) -> bool) -> bool {
    let mut takes = false;
    for deferred in prepared.resource(receiver).deferred() {
        deferred.template.names(&mut |name, _| {
            if let Name::Output(reference, output) = name {
                takes |= is_meant(output) && prepared.lookup().referred(reference) == Some(sender);
            }
        });
    }
    takes
}
