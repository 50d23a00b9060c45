//! Output forms: for people, as JSON, and none.

mod human;
mod json;

use human::ResourceStyle;
use kilter_model::{Attributes, Difference, State, Value};
use kilter_provider::Provider;

use super::args::Args;
use super::error::Error;
use super::lookup;
use crate::exit::Exit;
use crate::output;
use crate::providers::Providers;
use crate::style::{FAILED, styled};

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputFormat {
    Human,
    Json,
    Quiet,
}

impl OutputFormat {
    /// Returns the requested form.
    pub(super) fn of(args: &Args) -> OutputFormat {
        match (args.quiet, args.json) {
            (true, _) => OutputFormat::Quiet,
            (_, true) => OutputFormat::Json,
            _ => OutputFormat::Human,
        }
    }

    /// Prints the providers.
    pub(super) fn providers(self, providers: &Providers) -> Exit {
        let suitable = lookup::suitable(providers);
        self.print(
            || suitable.iter().map(|provider| lookup::qualified(*provider) + "\n").collect(),
            || json::providers(&suitable, &|provider| lookup::source(providers, provider)),
        )
    }

    /// Prints the resources of a provider.
    pub(super) fn list(self, provider: &dyn Provider, states: &[State]) -> Exit {
        if self == OutputFormat::Human {
            let look = ResourceStyle::of(provider);
            return output::parts(states.iter().map(|state| human::resource(&look, &state.name, &shown(state))));
        }
        self.print(String::new, || json::list(provider, states.iter().map(|state| (state.name.as_str(), shown(state)))))
    }

    /// Prints a resource, or that there is none.
    pub(super) fn found(self, provider: &dyn Provider, state: Option<&State>) -> Exit {
        self.print(
            || {
                state
                    .map(|state| human::resource(&ResourceStyle::of(provider), &state.name, &shown(state)))
                    .unwrap_or_default()
            },
            || json::found(provider, state.map(|state| (state.name.as_str(), shown(state)))),
        )
    }

    /// Prints the current state of a resource, and the changes.
    pub(super) fn updated(
        self,
        provider: &dyn Provider,
        name: &str,
        attributes: &Attributes,
        changes: &[Difference],
    ) -> Exit {
        let shown = sorted(attributes);
        self.print(
            || human::resource(&ResourceStyle::of(provider), name, &shown) + &human::changes(changes) + "\n",
            || json::updated(provider, (name, shown.clone()), changes),
        )
    }

    /// Prints an error.
    pub(super) fn fail(self, trouble: &Error) {
        match self {
            _ if trouble.message.is_empty() => {}
            OutputFormat::Json => {
                // The exit code reports the error even if the pipe is closed.
                let _ = output::data(&format!("{}\n", json::error(trouble)));
            }
            OutputFormat::Human | OutputFormat::Quiet => {
                output::line(styled(FAILED, crate::visible::visible(&trouble.message)));
                trouble.hint.iter().for_each(output::line);
            }
        }
    }

    fn print(self, human: impl FnOnce() -> String, json: impl FnOnce() -> serde_json::Value) -> Exit {
        match self {
            OutputFormat::Human => output::data(&human()),
            OutputFormat::Json => output::data(&format!("{}\n", json())),
            OutputFormat::Quiet => Exit::Done,
        }
    }
}

/// ShownAttributes attributes sorted by name, without the name of the resource.
type ShownAttributes<'s> = Vec<(&'s str, &'s Value)>;

/// Returns the shown attributes of a resource. An absent resource only has `ensure`.
fn shown(state: &State) -> ShownAttributes<'_> {
    sorted(&state.attributes)
}

fn sorted(attributes: &Attributes) -> ShownAttributes<'_> {
    let is_absent = attributes.text("ensure") == Some("absent");
    let told = attributes.iter().filter(|(name, value)| **name != *"name" && !value.is_undef());
    let told = told.filter(|(name, _)| !is_absent || **name == *"ensure");
    let mut shown: ShownAttributes<'_> = told.map(|(name, value)| (name.as_str(), value)).collect();
    shown.sort_unstable_by_key(|(name, _)| *name);
    shown
}
