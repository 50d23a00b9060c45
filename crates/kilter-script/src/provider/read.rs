//! Reads resources through a script.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, State};

use kilter_provider::{Context, ProviderError, Wanted};
use rustc_hash::FxHashMap;

use super::ScriptProvider;
use super::call::AnsweredCall;
use super::error::ScriptError;
use super::state::{Anomaly, DecodedState};
use crate::convention::{Record, Reply, Request};
use crate::parallel_map::parallel_map;

/// Maximum number of resources that are found individually. For more resources, the script first lists all.
const FEW: usize = 4;

impl ScriptProvider {
    /// Lists all resources.
    pub(super) fn list(&self, cx: &Context<'_>) -> Result<Vec<State>, ProviderError> {
        if !self.metadata.actions.list {
            return Err(ProviderError::new(eco_format!(
                "the provider `{}` of {} cannot list its resources: it has no action `list`; name the resources to \
                 find",
                self.metadata.name,
                self.metadata.schema.name
            )));
        }
        let mut odd = Anomaly::default();
        let (mut records, by) = self.records(cx, &Request::List)?;
        let mut states = Vec::with_capacity(records.len());
        // Converted records are freed immediately. For many resources, keeping both would take half as much
        // memory again.
        records.reverse();
        while let Some(record) = records.pop() {
            if records.len() * 2 < records.capacity() {
                records.shrink_to_fit();
            }
            if record.error.is_none() {
                states.push(self.listed(cx, record, &by, &mut odd));
            }
        }
        self.log_anomaly(cx, &odd);
        Ok(states)
    }

    /// Reads the requested resources. An unreadable resource has an error of its own.
    pub(super) fn named(&self, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Result<Vec<State>, ProviderError> {
        let mut odd = Anomaly::default();
        let mut records: StatesByName =
            if self.takes_many() { self.together(cx, wanted)? } else { self.one_by_one(cx, wanted)? };
        let states = wanted
            .iter()
            .map(|one| match records.remove(one.name) {
                Some(Ok(told)) => self.found(cx, one, told, &mut odd),
                Some(Err(error)) => {
                    State { unreadable: Some(eco_format!("{error}")), ..State::absent(one.name.clone()) }
                }
                None => State::absent(one.name.clone()),
            })
            .collect();
        self.log_anomaly(cx, &odd);
        Ok(states)
    }

    fn records(
        &self,
        cx: &Context<'_>,
        request: &Request<'_>,
    ) -> Result<(Vec<Record>, Arc<AnsweredCall>), Box<ScriptError>> {
        let (reply, by) = self.call(cx, request)?;
        let records = match reply {
            Reply::Resources(records) => records,
            // A convention only returns replies that match the request.
            Reply::Described(_) | Reply::Changed(_) | Reply::Watched => Vec::new(),
        };
        Ok((records, Arc::new(by)))
    }

    /// Reads all resources in a single call.
    fn together(&self, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Result<StatesByName, Box<ScriptError>> {
        let names: Vec<&str> = wanted.iter().map(|one| one.name.as_str()).collect();
        let identifying = &self.metadata.identifying;
        if identifying.is_empty() || wanted.iter().all(|one| one.should.is_none()) {
            return Ok(by_name(self.records(cx, &Request::Find(&names))?).collect());
        }
        let declared = |one: &Wanted<'_>| {
            let values = identifying.iter().filter_map(|name| Some((name.clone(), one.should?.get(name)?.clone())));
            values.collect()
        };
        let declared: Vec<Attributes> = wanted.iter().map(declared).collect();
        Ok(by_name(self.records(cx, &Request::FindAs(&names, &declared))?).collect())
    }

    /// Without a `find` action, lists all. Otherwise, finds a few resources with a call for each. For more
    /// resources, lists all first, then finds the missing resources by name, because scripts find more than
    /// they list.
    fn one_by_one(&self, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Result<StatesByName, Box<ScriptError>> {
        let actions = self.metadata.actions;
        let mut found = StatesByName::default();
        if actions.list && (!actions.find || wanted.len() > FEW) {
            found.extend(by_name(self.records(cx, &Request::List)?));
        }
        if !actions.find {
            return Ok(found);
        }
        let lacking: Vec<&Wanted<'_>> = wanted.iter().filter(|one| !self.has_all(&found, one)).collect();
        let results = parallel_map(&lacking, self.surroundings.limits.jobs, |one| {
            let (records, by) = self.records(cx, &Request::Find(&[one.name.as_str()]))?;
            Ok(records.into_iter().next().map(|record| DecodedState { record, by }))
        });
        for (one, result) in lacking.iter().zip(results) {
            match result {
                Ok(Some(told)) => found.insert(one.name.clone(), Ok(told)),
                Ok(None) => found.remove(one.name),
                Err(error) => found.insert(one.name.clone(), Err(error)),
            };
        }
        Ok(found)
    }

    /// Returns true if a list contains all compared attributes of a resource.
    fn has_all(&self, found: &StatesByName, wanted: &Wanted<'_>) -> bool {
        let Some(Ok(DecodedState { record, .. })) = found.get(wanted.name) else { return false };
        let compared = |name: &str| self.metadata.schema.find(name).is_some_and(|known| known.behaviour.is_compared());
        wanted.should.is_none_or(|should| {
            let mut names = should.iter().map(|(name, _)| name.as_str());
            names.all(|name| !compared(name) || record.attributes.get(name).is_some())
        })
    }
}

/// Results by name.
type StatesByName = FxHashMap<EcoString, Result<DecodedState, Box<ScriptError>>>;

fn by_name(
    answer: (Vec<Record>, Arc<AnsweredCall>),
) -> impl Iterator<Item = (EcoString, Result<DecodedState, Box<ScriptError>>)> {
    let (records, by) = answer;
    records.into_iter().map(move |record| (record.name.clone(), Ok(DecodedState { record, by: Arc::clone(&by) })))
}
