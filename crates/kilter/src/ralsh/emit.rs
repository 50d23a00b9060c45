//! Output forms: for people, as JSON, and none.

mod human;
mod json;

use human::ResourceStyle;
use kilter_model::{Attributes, Difference, State, Value};
use kilter_provider::Provider;

use super::args::Args;
use super::lookup;
use super::trouble::Error;
use crate::exit::Exit;
use crate::output;
use crate::providers::Providers;
use crate::render::{FAILED, styled};

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Human,
    Json,
    Quiet,
}

impl Form {
    /// Returns the requested form.
    pub(super) fn of(args: &Args) -> Form {
        match (args.quiet, args.json) {
            (true, _) => Form::Quiet,
            (_, true) => Form::Json,
            _ => Form::Human,
        }
    }

    /// Prints the providers.
    pub(super) fn providers(self, providers: &Providers) -> Exit {
        let suitable = lookup::suitable(providers);
        self.tell(
            || suitable.iter().map(|provider| lookup::qualified(*provider) + "\n").collect(),
            || json::providers(&suitable, &|provider| lookup::source(providers, provider)),
        )
    }

    /// Prints the resources of a provider.
    pub(super) fn list(self, provider: &dyn Provider, states: &[State]) -> Exit {
        if self == Form::Human {
            let look = ResourceStyle::of(provider);
            return output::parts(states.iter().map(|state| human::resource(&look, &state.name, &shown(state))));
        }
        self.tell(String::new, || json::list(provider, states.iter().map(|state| (state.name.as_str(), shown(state)))))
    }

    /// Prints a resource, or that there is none.
    pub(super) fn found(self, provider: &dyn Provider, state: Option<&State>) -> Exit {
        self.tell(
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
        self.tell(
            || human::resource(&ResourceStyle::of(provider), name, &shown) + &human::changes(changes) + "\n",
            || json::updated(provider, (name, shown.clone()), changes),
        )
    }

    /// Prints an error.
    pub(super) fn fail(self, trouble: &Error) {
        match self {
            _ if trouble.message.is_empty() => {}
            Form::Json => {
                // The exit code reports the error even if the pipe is closed.
                let _ = output::data(&format!("{}\n", json::error(trouble)));
            }
            Form::Human | Form::Quiet => {
                output::line(styled(FAILED, crate::render::diff::visible(&trouble.message)));
                trouble.hint.iter().for_each(output::line);
            }
        }
    }

    fn tell(self, human: impl FnOnce() -> String, json: impl FnOnce() -> serde_json::Value) -> Exit {
        match self {
            Form::Human => output::data(&human()),
            Form::Json => output::data(&format!("{}\n", json())),
            Form::Quiet => Exit::Done,
        }
    }
}

/// Shown attributes sorted by name, without the name of the resource.
type Shown<'s> = Vec<(&'s str, &'s Value)>;

/// Returns the shown attributes of a resource. An absent resource only has `ensure`.
fn shown(state: &State) -> Shown<'_> {
    sorted(&state.attributes)
}

fn sorted(attributes: &Attributes) -> Shown<'_> {
    let is_absent = attributes.text("ensure") == Some("absent");
    let told = attributes.iter().filter(|(name, value)| **name != *"name" && !value.is_undef());
    let told = told.filter(|(name, _)| !is_absent || **name == *"ensure");
    let mut shown: Shown<'_> = told.map(|(name, value)| (name.as_str(), value)).collect();
    shown.sort_unstable_by_key(|(name, _)| *name);
    shown
}
