//! Results of the hosts of a roll-out.

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};

use super::forward;
use super::hosts::{HostAnswer, Hosts};
use super::plans::{self, HostPlan};
use super::store::StoredHost;
use crate::exit::Exit;
use crate::{foreign, output};

/// State of a host in a roll-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostState {
    /// All its changes were made.
    Applied,
    /// Its plan had no changes.
    Unchanged,
    /// Some changes failed, or it has no plan because of a failure.
    Failed,
    /// The connection was lost during the apply.
    Lost,
    /// It could not be reached.
    NoAnswer,
    /// It has undone the changes.
    Reverted,
    /// Its changes were made, and it was not healthy afterwards.
    Unhealthy,
    /// Its changes were not approved.
    NotApproved,
    /// It was not changed, because its maintenance window was closed.
    OutsideWindow,
    /// The roll-out ended before.
    Untouched,
    /// The apply has begun, and its result is not known.
    Started,
}

impl HostState {
    const ALL: [HostState; 11] = [
        HostState::Applied,
        HostState::Unchanged,
        HostState::Failed,
        HostState::Lost,
        HostState::NoAnswer,
        HostState::Reverted,
        HostState::Unhealthy,
        HostState::NotApproved,
        HostState::OutsideWindow,
        HostState::Untouched,
        HostState::Started,
    ];

    /// Returns the word for programs.
    pub(super) fn word(self) -> &'static str {
        match self {
            HostState::Applied => "applied",
            HostState::Unchanged => "unchanged",
            HostState::Failed => "failed",
            HostState::Lost => "lost",
            HostState::NoAnswer => "no_answer",
            HostState::Reverted => "reverted",
            HostState::Unhealthy => "unhealthy",
            HostState::NotApproved => "not_approved",
            HostState::OutsideWindow => "outside_window",
            HostState::Untouched => "untouched",
            HostState::Started => "started",
        }
    }

    /// Returns the text for people.
    pub(super) fn text(self) -> &'static str {
        match self {
            HostState::NoAnswer => "without an answer",
            HostState::NotApproved => "not approved",
            HostState::OutsideWindow => "outside the window",
            state => state.word(),
        }
    }

    pub(super) fn of_word(word: &str) -> Option<HostState> {
        HostState::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Returns true if the host counts for the limits of failures.
    pub(super) fn is_failure(self) -> bool {
        let is_unreached = matches!(self, HostState::Lost | HostState::NoAnswer);
        is_unreached || matches!(self, HostState::Failed | HostState::Reverted | HostState::Unhealthy)
    }

    /// Returns true if `resume` continues with the host.
    pub(super) fn is_pending(self) -> bool {
        matches!(self, HostState::Untouched | HostState::OutsideWindow | HostState::NoAnswer) || self.is_in_flight()
    }

    /// Returns true if the apply has begun, and only the host knows its result.
    pub(super) fn is_in_flight(self) -> bool {
        matches!(self, HostState::Started | HostState::Lost)
    }

    /// Returns true if the host is a part of the roll-out and has a result.
    pub(super) fn is_asked(self) -> bool {
        self == HostState::Applied || self.is_failure()
    }

    /// Returns true if the host was to be changed, and the changes are not there.
    pub(super) fn is_missing(self) -> bool {
        self.is_failure() || self.is_pending()
    }
}

/// Result of a host.
#[derive(Debug)]
pub(super) enum HostResult {
    /// All its changes were made.
    Applied(String),
    /// Some changes failed, or there is no answer.
    Failed(HostAnswer),
    /// The host was no longer reachable, or not healthy, and has undone the changes.
    Reverted(String),
    /// All its changes were made, and it was not healthy afterwards: the reason.
    Unhealthy(String),
    /// Its maintenance window was closed.
    OutsideWindow,
    /// The roll-out ended before.
    Untouched,
    /// An earlier controller, or the history of the host, has the result.
    Known(HostState, Option<String>),
}

impl HostResult {
    pub(super) fn state(&self) -> HostState {
        match self {
            HostResult::Applied(_) => HostState::Applied,
            HostResult::Failed(HostAnswer::Finished { .. }) => HostState::Failed,
            HostResult::Failed(HostAnswer::Unreachable(_)) => HostState::NoAnswer,
            HostResult::Failed(HostAnswer::Lost { .. }) => HostState::Lost,
            HostResult::Reverted(_) => HostState::Reverted,
            HostResult::Unhealthy(_) => HostState::Unhealthy,
            HostResult::OutsideWindow => HostState::OutsideWindow,
            HostResult::Untouched => HostState::Untouched,
            HostResult::Known(state, _) => *state,
        }
    }

    /// Returns the reason of a failure.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            HostResult::Failed(answer) => Some(answer.reason()),
            HostResult::Unhealthy(reason) => Some(reason.clone()),
            HostResult::Known(_, reason) => reason.clone(),
            _ => None,
        }
    }
}

/// Returns the states of all hosts at the begin of a roll-out.
pub(super) fn states(hosts: &Hosts, plans: &[HostPlan], approved: &[usize]) -> Vec<StoredHost> {
    let stored = |(host, plan): (usize, &HostPlan)| {
        let (state, reason) = match plan {
            HostPlan::Changes(_) if approved.contains(&host) => (HostState::Untouched, None),
            HostPlan::Changes(_) => (HostState::NotApproved, None),
            HostPlan::Unchanged(_) => (HostState::Unchanged, None),
            HostPlan::Failed(lines) => (HostState::Failed, lines.lines.first().map(|line| plain(line))),
            HostPlan::NoAnswer(answer) => (HostState::NoAnswer, Some(answer.reason())),
        };
        StoredHost { name: hosts.name(host).to_owned(), state, reason }
    };
    plans.iter().enumerate().map(stored).collect()
}

/// Returns a line without colours.
pub(super) fn plain(line: &str) -> String {
    anstream::adapter::strip_str(line).to_string()
}

/// Shows the results of the hosts.
pub(super) fn show_results(hosts: &Hosts, results: &[(usize, HostResult)]) {
    let applied = plans::groups(results.iter().filter_map(|(host, result)| match result {
        HostResult::Applied(text) => Some((*host, text.lines().last().unwrap_or_default().to_owned())),
        _ => None,
    }));
    for group in &applied {
        plans::show_group(hosts, group);
    }
    for (host, result) in results {
        match result {
            HostResult::Failed(HostAnswer::Finished { finished, stdout, stderr }) => {
                output::error(format_args!("{}: the apply ended with {}", hosts.name(*host), finished.code));
                let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
                text.lines().for_each(|line| output::line(format_args!("  {}", foreign::line(line))));
            }
            HostResult::Failed(answer) => forward::report(hosts.name(*host), answer),
            HostResult::Reverted(_) => {
                output::error(format_args!("{}: not confirmed: the changes were undone", hosts.name(*host)));
            }
            HostResult::Unhealthy(reason) => {
                output::error(format_args!("{}: not healthy: {}", hosts.name(*host), foreign::line(reason)));
            }
            HostResult::Known(state, Some(reason)) => {
                let reason = foreign::line(reason);
                output::error(format_args!("{}: {}: {reason}", hosts.name(*host), state.text()));
            }
            _ => {}
        }
    }
    let states: Vec<(&str, HostState)> =
        results.iter().map(|(host, result)| (hosts.name(*host), result.state())).collect();
    output::line(format_args!("{}: {}", plans::number_of_hosts(results.len()), summary(&states)));
}

/// Returns the number of hosts in each state.
pub(super) fn counts(states: impl Iterator<Item = HostState> + Clone) -> String {
    let count = |state: HostState| (states.clone().filter(|found| *found == state).count(), state.text());
    let counts = HostState::ALL.into_iter().map(count).filter(|(count, _)| *count > 0);
    counts.map(|(count, text)| format!("{count} {text}")).collect::<Vec<String>>().join(", ")
}

/// Returns the number of hosts in each state. Hosts that are not as they should be are named.
pub(super) fn summary(states: &[(&str, HostState)]) -> String {
    let mut parts = Vec::new();
    for state in HostState::ALL {
        let names: Vec<&str> = states.iter().filter(|(_, found)| *found == state).map(|(name, _)| *name).collect();
        let is_named = !matches!(state, HostState::Applied | HostState::Unchanged);
        let shown = if is_named { format!(" ({})", names.join(", ")) } else { String::new() };
        if !names.is_empty() {
            parts.push(format!("{} {}{shown}", names.len(), state.text()));
        }
    }
    parts.join(", ")
}

/// Returns the results and the plans as JSON.
pub(super) fn results_json(hosts: &Hosts, plans: &[HostPlan], results: &[(usize, HostResult)], rollout: u64) -> Json {
    let results: HashMap<usize, &HostResult> = results.iter().map(|(host, result)| (*host, result)).collect();
    let mut document = plans::json(hosts, plans);
    let entry = |host: usize| {
        let result = results.get(&host)?;
        let mut entry = json!({ "result": result.state().word() });
        match result {
            HostResult::Applied(text) | HostResult::Reverted(text) => {
                entry["report"] = serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into());
            }
            HostResult::Failed(HostAnswer::Finished { finished, stdout, stderr }) => {
                let text = String::from_utf8_lossy(stdout);
                entry["exit"] = finished.code.into();
                entry["report"] = serde_json::from_str(&text).unwrap_or_else(|_| text.as_ref().into());
                entry["messages"] = String::from_utf8_lossy(stderr).as_ref().into();
            }
            other => {
                if let Some(reason) = other.reason() {
                    entry["error"] = reason.into();
                }
            }
        }
        Some((hosts.name(host).to_owned(), entry))
    };
    document["rollout"] = rollout.into();
    document["results"] = (0..hosts.len()).filter_map(entry).collect::<Map<String, Json>>().into();
    document
}

/// Returns the exit code: a host that failed, has no answer or was not reached is a failure.
pub(super) fn exit_of_states(states: impl Iterator<Item = HostState> + Clone) -> Exit {
    let has = |is: fn(HostState) -> bool| states.clone().any(is);
    if has(|state| state.is_failure() && state != HostState::Reverted || state == HostState::Started) {
        Exit::Failed
    } else if has(|state| state == HostState::Reverted) {
        Exit::Reverted
    } else if has(HostState::is_missing) {
        Exit::Failed
    } else {
        Exit::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_word_and_none_but_success_ends_with_zero() {
        for state in HostState::ALL {
            assert_eq!(HostState::of_word(state.word()), Some(state));
            let is_good = matches!(state, HostState::Applied | HostState::Unchanged | HostState::NotApproved);
            assert_eq!(exit_of_states([HostState::Applied, state].into_iter()) == Exit::Done, is_good, "{state:?}");
            assert_eq!(state.is_missing(), !is_good, "{state:?}");
        }
        assert_eq!(exit_of_states([HostState::Reverted, HostState::Untouched].into_iter()), Exit::Reverted);
        assert_eq!(exit_of_states([HostState::Reverted, HostState::Lost].into_iter()), Exit::Failed);
    }

    #[test]
    fn summary_names_the_hosts_that_are_not_as_they_should_be() {
        let states = [("a", HostState::Applied), ("b", HostState::NoAnswer), ("c", HostState::Untouched)];
        assert_eq!(summary(&states), "1 applied, 1 without an answer (b), 1 untouched (c)");
    }
}
