//! Laws about `get`.

use std::time::{Duration, Instant};

use kilter_model::{Attributes, State};

use crate::conformance::fingerprint;
use crate::conformance::harness::{
    DeclaredCase, EarlyEnd, Harness, ProviderUnderTest, Trial, broken, differences_text, not_applicable, untried,
};
use kilter_provider::compare;
use kilter_provider::read;
use kilter_provider::{Query, Wanted, get_one};

/// Duration above which a get of one resource gets a note.
const SLOW_GET: Duration = Duration::from_secs(1);

/// Returns the first declarations of all specimens.
pub(super) fn declared(world: &ProviderUnderTest) -> Result<Vec<DeclaredCase>, EarlyEnd> {
    world.subject.specimens().iter().map(|specimen| world.first(specimen)).collect()
}

/// Reads a resource. Ends the trial if this fails.
pub(super) fn seen(world: &ProviderUnderTest, declared: &DeclaredCase) -> Result<State, EarlyEnd> {
    world.see(declared).or_else(|why| untried(format!("{} cannot be read: {why}", declared.name)))
}

pub(super) fn changes_nothing(bench: &Harness) -> Trial {
    let [fresh, made] = bench.fingerprinted()?;
    // The names of the specimens are unknown in the sandbox without them. A read of several names and a read of one,
    // with and without a desired state, may each be other code, so both sandboxes get some of the four.
    let unknown: Vec<Wanted<'_>> = made.subject.unknown_names().iter().map(|name| Wanted::new(name, None)).collect();
    let (absent, present) = (declared(&fresh)?, declared(&made)?);
    let absent_wanted: Vec<Wanted<'_>> = absent.iter().map(DeclaredCase::wanted).collect();
    let present_wanted: Vec<Wanted<'_>> = present.iter().map(DeclaredCase::wanted).collect();
    let absent_bare: Vec<Wanted<'_>> = absent.iter().map(|one| fresh.nameless(one)).collect();
    let present_bare: Vec<Wanted<'_>> = present.iter().map(|one| made.nameless(one)).collect();
    leave_no_trace(
        &fresh,
        &[
            ("all", ReadCall::Together(Query::All)),
            ("those that are wanted", ReadCall::Together(Query::Named(&absent_wanted))),
            ("names, one by one", ReadCall::OneByOne(&absent_bare)),
        ],
    )?;
    leave_no_trace(
        &made,
        &[
            ("all", ReadCall::Together(Query::All)),
            ("those that are wanted", ReadCall::Together(Query::Named(&present_wanted))),
            ("those that are wanted, one by one", ReadCall::OneByOne(&present_wanted)),
            ("names", ReadCall::Together(Query::Named(&present_bare))),
            ("unknown names", ReadCall::Together(Query::Named(&unknown))),
            ("nothing", ReadCall::Together(Query::Named(&[]))),
        ],
    )?;
    Ok(None)
}

/// Calls of `get`.
enum ReadCall<'a> {
    /// One call.
    Together(Query<'a>),
    /// One call for each name.
    OneByOne(&'a [Wanted<'a>]),
}

/// Checks that reads neither change a sandbox nor try to.
fn leave_no_trace(world: &ProviderUnderTest, reads: &[(&str, ReadCall<'_>)]) -> Result<(), EarlyEnd> {
    let before = world.subject.fingerprint();
    // Discards attempts of earlier calls.
    drop(world.subject.tried());
    for (what, read) in reads {
        // Other laws cover the results.
        match read {
            ReadCall::Together(query) => drop(world.provider().get(&world.cx(), *query)),
            ReadCall::OneByOne(names) => names.iter().for_each(|one| drop(world.state(world.provider(), *one))),
        }
        if let Some(change) = fingerprint::unlike(&before, &world.subject.fingerprint()) {
            return broken(format!("a get of {what} changed the fingerprint of the sandbox{change}"));
        }
        if let Some(tried) = world.subject.tried() {
            return broken(format!("a get of {what} tried to {tried}, and was refused"));
        }
    }
    Ok(())
}

pub(super) fn returns_what_is(bench: &Harness) -> Trial {
    let world = bench.made()?;
    for one in declared(&world)? {
        match world.see(&one) {
            Err(why) => return broken(format!("{} was created, but cannot be read: {why}", one.name)),
            Ok(state) if !state.exists => return broken(format!("{} was created, but does not exist", one.name)),
            Ok(state) if state.attributes.text("ensure") == Some("absent") => {
                return broken(format!("{} was created and exists, but is returned with `ensure: absent`", one.name));
            }
            Ok(_) => {}
        }
    }
    Ok(None)
}

pub(super) fn is_steady(bench: &Harness) -> Trial {
    let world = bench.made()?;
    let mut slowest = Duration::ZERO;
    for one in declared(&world)? {
        let begun = Instant::now();
        let first = seen(&world, &one)?;
        slowest = slowest.max(begun.elapsed());
        if let Some(what) = unlike(&first, &seen(&world, &one)?) {
            return broken(format!("{}: {what}", one.name));
        }
    }
    Ok((slowest > SLOW_GET).then(|| format!("a get of one resource took {:.1} s", slowest.as_secs_f32())))
}

pub(super) fn one_and_many(bench: &Harness) -> Trial {
    let world = bench.made()?;
    let all = declared(&world)?;
    let wanted: Vec<Wanted<'_>> = all.iter().map(DeclaredCase::wanted).collect();
    let many = read(world.provider(), &world.cx(), &wanted)
        .or_else(|error| broken(format!("many cannot be read at once: {error}")))?;
    for one in &all {
        let single = get_one(world.provider(), &world.cx(), one.wanted());
        let single = single.or_else(|error| broken(format!("{} cannot be read alone: {error}", one.name)))?;
        let absent = State::absent(one.name.clone());
        let among = many.iter().find(|state| state.name == one.name).unwrap_or(&absent);
        if let Some(why) = single.unreadable.as_ref().or(among.unreadable.as_ref()) {
            return broken(format!("{} cannot be read: {why}", one.name));
        }
        if let Some(what) = unlike(&single, among) {
            return broken(format!("{}, in a get of one and of several: {what}", one.name));
        }
    }
    Ok(None)
}

pub(super) fn does_not_echo(bench: &Harness) -> Trial {
    let world = bench.made()?;
    let mut tried = 0;
    for specimen in world.subject.specimens() {
        let first = world.first(specimen)?;
        let true_state = seen(&world, &first)?;
        for other in specimen.others() {
            let other = world.valid_declaration(specimen, other)?;
            let changes = |state: &State| {
                compare(world.provider(), &world.cx(), state, &other.should)
                    .or_else(|error| untried(error.message.to_string()))
            };
            if changes(&true_state)?.is_empty() {
                continue;
            }
            tried += 1;
            let state = seen(&world, &other)?;
            if changes(&state)?.is_empty() {
                let wanted = differences_text(&changes(&true_state)?);
                return broken(format!(
                    "{} is returned with its declared value, but does not have it: {wanted}",
                    one(&other)
                ));
            }
        }
    }
    match tried {
        0 => not_applicable("no specimen has an attribute that is read back and has another value when it is changed"),
        _ => Ok(None),
    }
}

fn one(declared: &DeclaredCase) -> &str {
    &declared.name
}

pub(super) fn is_on_the_system(bench: &Harness) -> Trial {
    let world = bench.made()?;
    agrees_anew(&world, &declared(&world)?)
}

/// Checks that a new provider instance returns the same states.
pub(super) fn agrees_anew(world: &ProviderUnderTest, all: &[DeclaredCase]) -> Trial {
    let other = world.subject.provider_anew();
    other
        .capabilities()
        .session()
        .open(&world.cx())
        .or_else(|error| untried(format!("another provider cannot be opened: {error}")))?;
    for one in all {
        let here = seen(world, one)?;
        let there = world.state(&*other, one.wanted());
        let there = there.or_else(|why| broken(format!("{}: another provider cannot read it: {why}", one.name)))?;
        if let Some(what) = unlike(&here, &there) {
            return broken(format!("{}, by this provider instance and by another: {what}", one.name));
        }
    }
    Ok(None)
}

/// Returns a difference between two states.
fn unlike(one: &State, other: &State) -> Option<String> {
    if one.exists != other.exists {
        return Some(format!("exists is {} and {}", one.exists, other.exists));
    }
    unlike_attributes(&one.attributes, &other.attributes, MissingAttribute::Matters).or_else(|| {
        (one.drift != other.drift)
            .then(|| format!("drift: {} and {}", differences_text(&one.drift), differences_text(&other.drift)))
    })
}

/// Treatment of an attribute that only one of two states has.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum MissingAttribute {
    Matters,
    /// Lazy attributes are read only on request.
    MayBe,
}

/// Returns a difference between two sets of attributes.
pub(super) fn unlike_attributes(one: &Attributes, other: &Attributes, missing: MissingAttribute) -> Option<String> {
    let names = one.iter().chain(other.iter()).map(|(name, _)| name.as_str());
    names.into_iter().find_map(|name| match (one.get(name), other.get(name)) {
        (Some(one), Some(other)) if one.is_same(other) => None,
        (Some(_), None) | (None, Some(_)) if missing == MissingAttribute::MayBe => None,
        (None, None) => None,
        (one, other) => Some(format!("`{name}` is {one:?} and {other:?}")),
    })
}
