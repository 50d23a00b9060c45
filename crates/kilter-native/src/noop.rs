//! The type `noop`: a resource without any effect.

use kilter_model::{Behaviour, Change, Feature, Outcome, State, TypeSchema};
use kilter_provider::{Context, Mode, Provider, ProviderError, Query, ReadOne, Refresh, Wanted, get_each};

use crate::builtin::{present, stateless};

const DESC: &str = "\
A resource without an effect, for relations between other resources.

```yaml
resources:
  noop[storage is ready]:
    comment: Resources with data run after this one.
    require: [\"file[/srv]\", \"file[/srv/data]\"]
  file[/srv/data/app]:
    ensure: directory
    require: noop[storage is ready]
```

It is always in sync and sends no refreshes. It does not forward a refresh.";

fn schema() -> TypeSchema {
    TypeSchema::new("noop", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource.")
        .attribute("comment", "String", Behaviour::Parameter, "Purpose of the resource.")
        .features(&[Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `noop`.
pub struct NoopProvider;

impl Provider for NoopProvider {
    crate::builtin::describe!("noop", "builtin", schema, [read_one, refresh], InProcess: [predict, scheduling, watch]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || Ok(Vec::new()))
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        stateless(changes)
    }
}

impl ReadOne for NoopProvider {
    fn get_one(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        Ok(present(wanted.name))
    }
}

impl Refresh for NoopProvider {
    /// Does nothing: the resource has nothing to refresh.
    fn refresh(&self, _: &Context<'_>, _: Wanted<'_>) -> Outcome {
        Outcome { refreshed: true, ..Outcome::default() }
    }
}
