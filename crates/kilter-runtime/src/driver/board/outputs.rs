//! Outputs of resources: of this run, and stored by earlier runs.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_engine::{ResourceId, Timestamp};
use kilter_model::expr::Name;
use kilter_model::{Attributes, ReceivedValue, Value};

use super::RunState;
use crate::driver::Mode;
use crate::driver::calls::Target;
use crate::driver::resolve::sources;
use crate::outputs::{Declared, Outputs};
use crate::step::ResolvedInputs;

/// Maximum number of changed outputs per receiver without a count against its repair budget, and the period in
/// milliseconds.
const RENEWED_MOST: u32 = 120;
const RENEWED_WITHIN: u64 = 60_000;

impl RunState<'_> {
    /// Returns the outputs of a resource that is in sync: reported ones, stored ones or the default.
    pub(super) fn sent_before(&mut self, vertex: ResourceId, said: Attributes) {
        if !self.output_producers.contains_key(&vertex) {
            return;
        }
        let kept = match (said.is_empty(), &self.kept) {
            (true, Some(outputs)) => outputs.kept(&self.declared(vertex), self.options.mode == Mode::Apply),
            _ => Ok(Some(said)),
        };
        match kept {
            Ok(kept) => {
                let kept = kept.filter(|outputs| !outputs.is_empty());
                if let Some(outputs) = kept.or_else(|| self.fallback(vertex)) {
                    self.sends(vertex, outputs);
                }
            }
            Err(why) => {
                self.unavailable_outputs.insert(vertex, eco_format!("{why}"));
            }
        }
    }

    /// Returns the default outputs of a resource that has never sent any.
    ///
    /// If another declaration of the resource has sent outputs, the default may be wrong, and there is none.
    fn fallback(&self, vertex: ResourceId) -> Option<Attributes> {
        let was_sent = |kept: &Outputs<'_>| kept.has(&self.prepared.resource(vertex).reference);
        if self.outputs.contains_key(&vertex) || self.kept.as_ref().is_some_and(was_sent) {
            return None;
        }
        let fallback =
            self.prepared.provider(vertex).capabilities().outputs().default_outputs(self.declared(vertex).attributes);
        Some(fallback).filter(|outputs| !outputs.is_empty())
    }

    pub(super) fn send(&mut self, vertex: ResourceId, sent: Attributes) {
        // A later receiver cannot recreate a secret, so that secrets are always stored.
        let is_sent = self.output_producers.contains_key(&vertex);
        if sent.is_empty() || !is_sent && !sent.iter().any(|(_, value)| value.holds_sensitive()) {
            return;
        }
        if let Some(outputs) = &self.kept
            && let Err(error) = outputs.keep(&self.declared(vertex), &sent)
        {
            let note = eco_format!("its outputs could not be kept for later runs: {error}");
            self.draft(vertex).notes.push(note);
        }
        if is_sent {
            self.sends(vertex, sent);
        }
    }

    /// Makes outputs available to receivers.
    fn sends(&mut self, vertex: ResourceId, sent: Attributes) {
        let confidential = self.output_producers.get(&vertex).is_some_and(|confidential| *confidential);
        let secret = |value: &Value| match confidential && !value.holds_sensitive() {
            true => Value::sensitive(value.clone()),
            false => value.clone(),
        };
        let secrets = sent.iter().map(|(_, value)| secret(value)).filter(Value::holds_sensitive);
        for secret in secrets {
            if !self.sent.contains(&secret) {
                self.sent.push(secret);
            }
        }
        self.seals.clear();
        if let (Some(before), true, Some(receivers)) =
            (self.outputs.get(&vertex), self.standing.is_some(), self.receivers.get(&vertex))
        {
            let is_other = |name: &str| before.get(name) != sent.get(name);
            let receivers = receivers.iter().copied();
            let renewed: Vec<_> = receivers.filter(|receiver| self.takes(*receiver, vertex, &is_other)).collect();
            self.changed_inputs.extend(renewed);
        }
        self.outputs.insert(vertex, sent);
    }

    /// Returns true if a resource uses one of these outputs of a sender.
    fn takes(&self, receiver: ResourceId, sender: ResourceId, is_meant: &dyn Fn(&str) -> bool) -> bool {
        let mut takes = false;
        for deferred in self.prepared.resource(receiver).deferred() {
            deferred.template.names(&mut |name, _| {
                if let Name::Output(reference, output) = name {
                    takes |= is_meant(output) && self.prepared.lookup().referred(reference) == Some(sender);
                }
            });
        }
        takes
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
    pub(super) fn receive(&mut self, vertex: ResourceId, attributes: Attributes, sent: Box<[Value]>) {
        self.refused.remove(&vertex);
        let accepted = self.accepted.get(&vertex).map(|accepted| &accepted.attributes);
        let receipts = self.prepared.resource(vertex).deferred().iter().map(|deferred| {
            let name = deferred.attribute.as_str();
            let changed = accepted.is_none_or(|accepted| accepted.get(name) != attributes.get(name));
            ReceivedValue { attribute: deferred.attribute.clone(), from: sources(&deferred.template), changed }
        });
        let receipts = receipts.collect();
        self.resolved.insert(vertex, Arc::new(ResolvedInputs { attributes, receipts, sent }));
    }

    /// Records received outputs that cannot be used. All attributes that differ from the accepted ones stay
    /// pending.
    pub(super) fn refuse(&mut self, vertex: ResourceId, sent: &[Value]) {
        let accepted = self.accepted.get(&vertex).map(|accepted| &accepted.sent);
        let receipts = self.prepared.resource(vertex).deferred().iter().enumerate().map(|(at, deferred)| {
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
    pub(super) fn lost_to(&self, vertex: ResourceId) -> Option<EcoString> {
        let deferred = self.prepared.resource(vertex).deferred().iter();
        let references = deferred.flat_map(|deferred| deferred.template.references());
        let lost = references.filter_map(|reference| self.prepared.lookup().referred(&reference));
        lost.into_iter().find_map(|sender| {
            let reference = &self.prepared.resource(sender).reference;
            let why = self.unavailable_outputs.get(&sender)?;
            Some(eco_format!("what {reference} sent before counts as not kept: {why}"))
        })
    }

    /// Removes the stored outputs before the resource runs again, so that an interrupted run leaves no outdated
    /// ones.
    pub(super) fn forget(&self, vertex: ResourceId) {
        if let (true, Some(outputs)) = (self.output_producers.contains_key(&vertex), &self.kept) {
            outputs.forget(&self.prepared.resource(vertex).reference);
        }
    }

    /// Returns the declared attributes of a resource with receivers, and true if an output is used as a secret.
    pub(in super::super) fn sends_as(&self, vertex: ResourceId) -> Option<(Attributes, bool)> {
        let confidential = *self.output_producers.get(&vertex)?;
        Some((self.declared(vertex).attributes.clone(), confidential))
    }

    /// Stores the outputs of a resource as it was declared before, for a resource with the same declaration.
    pub(in super::super) fn keep_superseded(&self, former: &Target, sent: &Attributes) -> Result<(), EcoString> {
        let (Some((attributes, confidential)), Some(outputs)) = (&former.sends, &self.kept) else { return Ok(()) };
        let provider = self.prepared.registry.at(usize::from(former.of.0));
        let (reference, confidential, apart) =
            (&former.reference, *confidential, provider.capabilities().outputs().output_independent_attributes());
        let kept = outputs.keep(&Declared { reference, attributes, confidential, apart }, sent);
        kept.map_err(|error| eco_format!("its outputs could not be kept: {error}"))
    }

    fn declared(&self, vertex: ResourceId) -> Declared<'_> {
        let resource = self.prepared.resource(vertex);
        Declared {
            reference: &resource.reference,
            attributes: self.resolved.get(&vertex).map_or(&resource.attributes, |resolved| &resolved.attributes),
            confidential: self.output_producers.get(&vertex).is_some_and(|confidential| *confidential),
            apart: self.prepared.provider(vertex).capabilities().outputs().output_independent_attributes(),
        }
    }
}
