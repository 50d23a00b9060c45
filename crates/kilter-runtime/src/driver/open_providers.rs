//! Opened providers. Each is opened as late as possible and once in a pass.

use std::sync::{Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_provider::{Context, Provider, Suitability};

use crate::step::catch_panic;

/// Result of the opening of each provider; none before the first use.
pub(super) struct OpenProviders(Vec<Mutex<Option<Result<(), EcoString>>>>);

impl OpenProviders {
    pub(super) fn new(count: usize) -> OpenProviders {
        OpenProviders((0..count).map(|_| Mutex::new(None)).collect())
    }

    /// Returns the reason why the last attempt to open a provider failed.
    pub(super) fn refusal(&self, at: u16) -> Option<EcoString> {
        let opened = self.0[usize::from(at)].lock().unwrap_or_else(PoisonError::into_inner);
        opened.as_ref().and_then(|opened| opened.as_ref().err().cloned())
    }

    /// Opens a provider unless it is open. After a failed attempt, it is only retried with `again`.
    ///
    /// # Errors
    /// The reason why the provider cannot be used.
    pub(super) fn open(
        &self,
        at: u16,
        provider: &dyn Provider,
        cx: &Context<'_>,
        again: bool,
    ) -> Result<(), EcoString> {
        let mut opened = self.0[usize::from(at)].lock().unwrap_or_else(PoisonError::into_inner);
        match &*opened {
            Some(Err(why)) if !again => Err(why.clone()),
            Some(Ok(())) => Ok(()),
            _ => opened.insert(open(provider, cx)).clone(),
        }
    }
}

fn open(provider: &dyn Provider, cx: &Context<'_>) -> Result<(), EcoString> {
    let type_name = &provider.schema().name;
    catch_panic(provider, || match provider.suitable() {
        Suitability::Suitable => provider.capabilities().session().open(cx).map_err(|error| {
            eco_format!("the provider `{}` of {type_name} is unavailable in this run: {error}", provider.name())
        }),
        Suitability::Unsuitable(why) => {
            Err(eco_format!("the provider `{}` of {type_name} is not suitable here: {why}", provider.name()))
        }
    })?
}
