//! What a provider returned, held against its promises.

use ecow::EcoString;
use kilter_model::{Feature, State, TypeSchema, Value};

use crate::check::{is_composite, read};
use crate::context::{Context, Level, Strictness};
use crate::contract::{Provider, ProviderError, Query, Wanted};
use crate::seal::Seal;

/// All resources that a query is about, each valid by the schema.
///
/// # Errors
/// When the provider cannot read, or returns what its own schema does not allow (Puppet Resource
/// API: "It is an error to return values not matching the type").
pub fn get_checked(provider: &dyn Provider, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
    match query {
        Query::All => provider.get(cx, query)?.into_iter().map(|state| accepted(provider, cx, state)).collect(),
        Query::Named(wanted) => get_named(provider, cx, wanted)?.into_iter().map(|(_, state)| state).collect(),
    }
}

/// The name of a resource, and how it is, or why that cannot be read.
pub type Reading = (EcoString, Result<State, ProviderError>);

/// The resources of these names that there are, each valid by the schema, or why it alone is not to be had.
///
/// # Errors
/// When the provider as a whole cannot read.
pub fn get_named(
    provider: &dyn Provider,
    cx: &Context<'_>,
    wanted: &[Wanted<'_>],
) -> Result<Vec<Reading>, ProviderError> {
    let checked = |state: State| (state.name.clone(), accepted(provider, cx, state));
    if provider.reads_singly() {
        let one_by_one = wanted.iter().map(|one| match provider.get_one(cx, *one) {
            Ok(state) => checked(state),
            Err(error) => (one.name.clone(), Err(error)),
        });
        return Ok(one_by_one.collect());
    }
    let is_asked = |state: &State| wanted.iter().any(|wanted| *wanted.name == state.name);
    Ok(read(provider, cx, wanted)?.into_iter().filter(is_asked).map(checked).collect())
}

/// A state as it can be relied on: sealed where the schema says so, valid by it, its title that of
/// its namevars, canonical.
///
/// # Errors
/// When it is none of this, or could not be read. What is canonical and which title fits only counts where the context is
/// strict.
pub(crate) fn accepted(provider: &dyn Provider, cx: &Context<'_>, mut state: State) -> Result<State, ProviderError> {
    if let Some(why) = state.unreadable {
        return Err(ProviderError::new(why));
    }
    let schema = provider.schema();
    for (name, value) in state.attributes.iter_mut() {
        let Some(attribute) = schema.known(name.as_str()) else {
            let why = format!("it returned the unknown attribute `{name}`");
            return Err(broken(provider, &state.name, &why));
        };
        if attribute.data_type.is_sensitive() && !value.is_undef() {
            *value = Value::sensitive(std::mem::take(value));
        }
        if let Err(mismatch) = attribute.data_type.check(value) {
            let why = format!("it returned data that does not match the schema: {name} {mismatch}");
            return Err(broken(provider, &state.name, &why));
        }
    }
    if let Some(why) = misnamed(schema, &state) {
        return Err(broken(provider, &state.name, &why));
    }
    if !state.exists || cx.strictness() == Strictness::Off {
        return Ok(state);
    }
    if let Some(why) = untitled(provider, &state).or_else(|| changed_by_canonicalisation(provider, &state)) {
        match cx.strictness() {
            Strictness::Error => return Err(broken(provider, &state.name, &why)),
            Strictness::Warning | Strictness::Off => {
                cx.log(
                    Level::Warning,
                    schema.name.as_str(),
                    &state.name,
                    &format!("the provider {}: {why}", provider.name()),
                );
            }
        }
    }
    Ok(state)
}

/// Whether the only namevar of a resource says another name than it has.
fn misnamed(schema: &TypeSchema, state: &State) -> Option<String> {
    let mut namevars = schema.namevars();
    let (namevar, None) = (namevars.next()?, namevars.next()) else { return None };
    let named = state.attributes.get(namevar.name.as_str())?.unwrap_sensitive().to_text()?;
    (named != state.name).then(|| format!("its namevar `{}` is another name", namevar.name))
}

fn broken(provider: &dyn Provider, name: &str, why: &str) -> ProviderError {
    let type_name = &provider.schema().name;
    ProviderError::new(format!(
        "the provider `{}` does not keep its promises for {type_name}[{name}]: {why}",
        provider.name()
    ))
}

/// What is wrong with the title of a resource with several namevars.
fn untitled(provider: &dyn Provider, state: &State) -> Option<EcoString> {
    let schema = provider.schema();
    if !is_composite(schema) {
        return None;
    }
    match &state.title {
        None => Some("it returned no title".into()),
        Some(title) => schema.check_title(title, &state.attributes).err().map(|error| error.to_string().into()),
    }
}

/// Which values `get` has not returned in their canonical form.
fn changed_by_canonicalisation(provider: &dyn Provider, state: &State) -> Option<EcoString> {
    if !provider.schema().has(Feature::Canonicalize) {
        return None;
    }
    let mut canonical = state.attributes.clone();
    if let Err(problem) = provider.canonicalize(&state.name, &mut canonical) {
        let problem = Seal::of(&state.attributes).problem(problem);
        return Some(format!("it returned what it cannot bring into its canonical form: {problem}").into());
    }
    let changed =
        state.attributes.iter().find(|(name, value)| canonical.get(name.as_str()) != Some(*value) && !value.is_undef());
    let (name, value) = changed?;
    let form = canonical.get(name.as_str()).cloned().unwrap_or_default();
    Some(format!("it returned `{name}` as {value}, which is not canonical: {form}").into())
}
