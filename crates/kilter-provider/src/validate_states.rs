//! Validates the states that a provider returns against its contract.

use std::borrow::Cow;

use ecow::EcoString;
use kilter_model::{Attributes, Feature, State, TypeSchema, Value};

use crate::check::{is_composite, read};
use crate::context::{Context, Level, Strictness};
use crate::contract::{Declaration, Provider, ProviderError, Query, ValidationError, Wanted};
use crate::redact::Redactor;

/// Reads the resources of a query. Each returned state is valid by the schema.
///
/// # Errors If the provider cannot read, or returns values that its schema does not allow. See the Puppet
/// Resource API: "It is an error to return values not matching the type". The reading stops at the first
/// resource that cannot be read.
pub fn get_checked(provider: &dyn Provider, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
    let mut states = match query {
        Query::Named(wanted) => match provider.capabilities().read_one {
            Some(reader) => wanted.iter().map(|one| reader.get_one(cx, *one)).collect::<Result<_, _>>()?,
            None => read_named(provider, cx, wanted)?,
        },
        Query::All => provider.get(cx, query)?,
    };
    accept(provider, cx, &mut states, &|_| None).into_iter().collect::<Result<(), _>>()?;
    Ok(states)
}

/// Name of a resource, and its state or the reason why it cannot be read.
pub type Reading = (EcoString, Result<State, ProviderError>);

/// Reads the existing resources with these names. Each is valid by the schema, or has an error of its own.
///
/// # Errors
/// If the provider as a whole cannot read, or if an interrupt leaves some resources unread.
pub fn get_named(
    provider: &dyn Provider,
    cx: &Context<'_>,
    wanted: &[Wanted<'_>],
) -> Result<Vec<Reading>, ProviderError> {
    let Some(reader) = provider.capabilities().read_one else {
        let states = read_named(provider, cx, wanted)?;
        return Ok(accepted(provider, cx, states.into_iter().map(|state| (state.name.clone(), Ok(state))).collect()));
    };
    let one_by_one = wanted.iter().map(|one| {
        if cx.interrupt().is_raised() {
            // A resource missing from the result would count as absent.
            return Err(ProviderError::new("not all were read: the run was interrupted"));
        }
        Ok((one.name.clone(), reader.get_one(cx, *one)))
    });
    let readings: Vec<Reading> = one_by_one.collect::<Result<_, _>>()?;
    Ok(accepted(provider, cx, readings))
}

/// Validates the states that could be read.
fn accepted(provider: &dyn Provider, cx: &Context<'_>, mut readings: Vec<Reading>) -> Vec<Reading> {
    let read = |(_, read): &mut Reading| read.as_mut().ok().map(std::mem::take);
    let mut states: Vec<State> = readings.iter_mut().filter_map(read).collect();
    let results = accept(provider, cx, &mut states, &|_| None);
    let mut results = states.into_iter().zip(results).map(|(state, result)| result.map(|()| state));
    for (_, reading) in readings.iter_mut().filter(|(_, reading)| reading.is_ok()) {
        *reading = results.next().expect("each state that was read has a result");
    }
    readings
}

/// Reads several resources at once, and returns the requested ones.
fn read_named(provider: &dyn Provider, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Result<Vec<State>, ProviderError> {
    let is_asked = |state: &State| wanted.iter().any(|wanted| *wanted.name == state.name);
    Ok(read(provider, cx, wanted)?.into_iter().filter(is_asked).collect())
}

/// Validates states, each for the declaration that `should` returns: secrets are sensitive according to the schema,
/// values are valid and canonical, and the title matches the namevars. The provider canonicalises all states in one
/// call.
///
/// A current value outside of its type counts as a difference to repair if the declaration has another value, unless
/// the context is strict. Non-canonical values and wrong titles are errors only if the context is strict.
pub(crate) fn accept<'a>(
    provider: &dyn Provider,
    cx: &Context<'_>,
    states: &mut [State],
    should: &dyn Fn(usize) -> Option<&'a Attributes>,
) -> Vec<Result<(), ProviderError>> {
    let mut results: Vec<Result<(), ProviderError>> = states
        .iter_mut()
        .enumerate()
        .map(|(at, state)| {
            let declared = should(at);
            let value = |name: &str| declared.and_then(|declared| declared.get(name));
            let is_declared = |name: &str| value(name).is_some_and(|value| !value.is_undef());
            let is_repairable = |name: &str| cx.strictness() != Strictness::Error && is_declared(name);
            accept_values(provider, cx, state, &is_repairable, &|name| value(name).is_some_and(Value::holds_sensitive))
        })
        .collect();
    if cx.strictness() == Strictness::Off {
        return results;
    }
    let judged: Vec<usize> = (0..states.len()).filter(|&at| results[at].is_ok() && states[at].exists).collect();
    let uncanonical = changed_by_canonicalisation(provider, cx, states, &judged);
    for (at, uncanonical) in judged.into_iter().zip(uncanonical) {
        let state = &states[at];
        let Some(why) = untitled(provider, state).or(uncanonical) else { continue };
        if cx.strictness() == Strictness::Error {
            results[at] = Err(broken(provider, &state.name, &why));
        } else {
            let message = format!("the provider {}: {why}", provider.name());
            cx.log(Level::Warning, provider.schema().name.as_str(), &state.name, &message);
        }
    }
    results
}

/// Validates the values of a state. Some attributes may have values outside of their type, and some are declared as
/// secrets.
fn accept_values(
    provider: &dyn Provider,
    cx: &Context<'_>,
    state: &mut State,
    is_repairable: &dyn Fn(&str) -> bool,
    is_secret: &dyn Fn(&str) -> bool,
) -> Result<(), ProviderError> {
    if let Some(why) = state.unreadable.take() {
        return Err(ProviderError::new(why));
    }
    let schema = provider.schema();
    let mut next = 0;
    for (name, value) in state.attributes.iter_mut() {
        let listed = schema.place_of(name, &mut next).map(|at| Cow::Borrowed(&schema.attributes[at]));
        let Some(attribute) = listed.or_else(|| schema.known(name.as_str())) else {
            let why = format!("it returned the unknown attribute `{name}`");
            return Err(broken(provider, &state.name, &why));
        };
        if attribute.data_type.is_plainly(value) {
            continue;
        }
        *value = attribute.data_type.sealed(std::mem::take(value));
        if let Err(mismatch) = attribute.data_type.check(value) {
            let hides = attribute.data_type.may_hold_secrets() || is_secret(name.as_str()) || value.holds_sensitive();
            if !is_repairable(name.as_str()) {
                let why = match hides {
                    true => format!("it returned data that does not match the schema: {name}, which is sensitive"),
                    false => format!("it returned data that does not match the schema: {name} {mismatch}"),
                };
                return Err(broken(provider, &state.name, &why));
            }
            if hides && !value.holds_sensitive() {
                *value = Value::sensitive(std::mem::take(value));
            }
            let message = match hides {
                true => format!("`{name}` is found with a value that its type does not allow"),
                false => format!("`{name}` is found with a value that its type does not allow: it {mismatch}"),
            };
            cx.log(Level::Warning, schema.name.as_str(), &state.name, &message);
        }
    }
    if let Some(why) = misnamed(schema, state) {
        return Err(broken(provider, &state.name, &why));
    }
    Ok(())
}

/// Returns the fault if the only namevar of a resource differs from its name.
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

/// Returns the fault in the title of a resource with several namevars.
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

/// Returns the fault of each of the states `at` if `get` returned a value that is not canonical.
fn changed_by_canonicalisation(
    provider: &dyn Provider,
    cx: &Context<'_>,
    states: &[State],
    at: &[usize],
) -> Vec<Option<EcoString>> {
    if at.is_empty() || !provider.schema().has(Feature::Canonicalize) {
        return vec![None; at.len()];
    }
    let mut forms: Vec<Attributes> = at.iter().map(|&at| states[at].attributes.clone()).collect();
    let named = forms.iter_mut().zip(at);
    let mut resources: Vec<Declaration<'_>> =
        named.map(|(should, &at)| Declaration { name: &states[at].name, should }).collect();
    let mut problems = provider.canonicalize(cx, &mut resources);
    problems.resize_with(at.len(), || vec![ValidationError::new("it did not answer")]);
    let judged = at.iter().zip(&forms).zip(problems);
    judged.map(|((&at, form), problems)| uncanonical(provider, &states[at], form, problems)).collect()
}

/// Returns the fault of a state with this canonical form.
fn uncanonical(
    provider: &dyn Provider,
    state: &State,
    canonical: &Attributes,
    problems: Vec<ValidationError>,
) -> Option<EcoString> {
    if let Some(problem) = problems.into_iter().next() {
        let problem = Redactor::of(&state.attributes).problem(problem);
        return Some(format!("it returned a state that it cannot canonicalize: {problem}").into());
    }
    let changed = state.attributes.iter().find(|(name, value)| {
        !value.is_undef() && !canonical.get(name.as_str()).is_some_and(|form| form.is_same(value))
    });
    let (name, value) = changed?;
    let form = canonical.get(name.as_str()).cloned().unwrap_or_default();
    let attribute = provider.schema().known(name.as_str());
    let form = attribute.map_or(form.clone(), |attribute| attribute.data_type.sealed(form));
    Some(format!("it returned `{name}` as {value}, which is not canonical: {form}").into())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use kilter_model::{Behaviour, Change, Outcome};

    use super::*;
    use crate::capabilities::{Capabilities, ReadOne};
    use crate::context::Interrupt;
    use crate::contract::Mode;

    /// Records the requested names. `bad` cannot be read, and a request for `last` raises the interrupt.
    struct Single {
        schema: TypeSchema,
        asked: Mutex<Vec<EcoString>>,
        flag: AtomicBool,
    }

    impl Provider for Single {
        fn schema(&self) -> &TypeSchema {
            &self.schema
        }

        fn name(&self) -> &'static str {
            "single"
        }

        fn capabilities(&self) -> Capabilities<'_> {
            Capabilities { read_one: Some(self), ..Capabilities::default() }
        }

        fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
            Ok(Vec::new())
        }

        fn set(&self, _: &Context<'_>, _: &[Change<'_>], _: Mode) -> Vec<Outcome> {
            Vec::new()
        }
    }

    impl ReadOne for Single {
        fn get_one(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
            self.asked.lock().unwrap().push(wanted.name.clone());
            self.flag.fetch_or(wanted.name == "last", Ordering::Release);
            match wanted.name.as_str() {
                "bad" => Err(ProviderError::new("it hangs")),
                _ => Ok(State::absent(wanted.name.clone())),
            }
        }
    }

    fn single() -> Single {
        Single { schema: TypeSchema::new("t", "T."), asked: Mutex::default(), flag: AtomicBool::new(false) }
    }

    fn readings(provider: &Single, names: &[&str]) -> Result<Vec<Reading>, ProviderError> {
        let names: Vec<EcoString> = names.iter().map(|name| EcoString::from(*name)).collect();
        let wanted: Vec<Wanted<'_>> = names.iter().map(|name| Wanted::new(name, None)).collect();
        get_named(provider, &Context::empty().with_interrupt(Interrupt::new(&provider.flag, None)), &wanted)
    }

    #[test]
    fn found_values_are_checked_and_marked_sensitive() {
        let schema = TypeSchema::new("t", "T.")
            .attribute("name", "String", Behaviour::Namevar, "N.")
            .attribute("size", "Integer", Behaviour::Property, "S.")
            .attribute("pin", "Sensitive[String]", Behaviour::Property, "P.");
        let provider = Single { schema, asked: Mutex::default(), flag: AtomicBool::new(false) };
        let accepted = |values: &[(&str, Value)]| {
            let mut attributes = Attributes::new();
            values.iter().for_each(|(name, value)| attributes.push(*name, value.clone()));
            let mut states = vec![State::present("a", attributes)];
            accept(&provider, &Context::empty(), &mut states, &|_| None).remove(0).map(|()| states.remove(0))
        };
        let (name, size, pin) = (("name", "a".into()), ("size", Value::Integer(1)), ("pin", Value::from("s")));
        for values in [[&name, &size, &pin], [&pin, &size, &name], [&size, &pin, &size], [&pin, &pin, &name]] {
            let values = values.map(Clone::clone);
            let state = accepted(&values).unwrap();
            assert!(state.attributes.iter().all(|(name, value)| value.holds_sensitive() == (name == "pin")));
        }
        let wrong = ("size", Value::from("x"));
        for values in [[&name, &wrong, &pin], [&pin, &wrong, &name], [&size, &pin, &wrong]] {
            let why = accepted(&values.map(Clone::clone)).unwrap_err().message;
            assert!(why.contains("size expects an Integer"), "{why}");
        }
    }

    #[derive(Default)]
    struct Kept(Mutex<String>);

    impl crate::context::Log for Kept {
        fn log(&self, _: Level, _: &str, _: &str, message: &str) {
            self.0.lock().unwrap().push_str(message);
        }
    }

    #[test]
    fn invalid_found_value_is_hidden_next_to_declared_secret() {
        let schema = TypeSchema::new("t", "T.").attribute("name", "String", Behaviour::Namevar, "N.").attribute(
            "pin",
            "Enum[one, two]",
            Behaviour::Property,
            "P.",
        );
        let provider = Single { schema, asked: Mutex::default(), flag: AtomicBool::new(false) };
        let found = |should: Value| {
            let log = Kept::default();
            let (mut attributes, mut declared) = (Attributes::new(), Attributes::new());
            attributes.push("name", Value::from("a"));
            attributes.push("pin", Value::from("hunter2"));
            declared.push("pin", should);
            let cx = Context::empty().with_log(&log);
            let mut states = [State::present("a", attributes)];
            accept(&provider, &cx, &mut states, &|_| Some(&declared)).remove(0).unwrap();
            let [state] = states;
            (state.attributes.get("pin").unwrap().holds_sensitive(), log.0.into_inner().unwrap())
        };
        let (is_sealed, message) = found(Value::sensitive(Value::from("one")));
        assert!(is_sealed && !message.is_empty() && !message.contains("hunter2"), "{message}");
        let (is_sealed, message) = found(Value::from("one"));
        assert!(!is_sealed && message.contains("hunter2"), "{message}");
    }

    #[test]
    fn strict_reader_stops_at_first_error() {
        let provider = single();
        let names = ["good", "bad", "good"].map(EcoString::from);
        let wanted = names.each_ref().map(|name| Wanted::new(name, None));
        assert_eq!(get_checked(&provider, &Context::empty(), Query::Named(&wanted)).unwrap_err().message, "it hangs");
        assert_eq!(*provider.asked.lock().unwrap(), ["good", "bad"]);
    }

    #[test]
    fn lenient_reader_continues_after_error() {
        let read = readings(&single(), &["bad", "good", "last"]).unwrap();
        let is_read: Vec<_> = read.iter().map(|(name, state)| (name.as_str(), state.is_ok())).collect();
        assert_eq!(is_read, [("bad", false), ("good", true), ("last", true)]);
    }

    #[test]
    fn interrupted_read_reports_no_absent_resources() {
        let provider = single();
        let error = readings(&provider, &["last", "good", "good"]).unwrap_err();
        assert_eq!(error.message, "not all were read: the run was interrupted");
        assert_eq!(*provider.asked.lock().unwrap(), ["last"]);
    }
}
