//! Laws about boundary values of data types.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ecow::EcoString;
use kilter_model::{AttributeSchema, Attributes, Behaviour, Change, State, Value};

use super::reading::{MissingAttribute, declared, seen, unlike_attributes};
use crate::conformance::edge;
use crate::conformance::harness::{
    DeclaredCase, EarlyEnd, Harness, ProviderUnderTest, Trial, broken, differences_text, untried,
};
use crate::conformance::specimen::Sample;
use crate::conformance::subject::Unsupported;
use crate::conformance::suite::end_of;
use kilter_provider::{Mode, Query};

/// Number of values per result.
#[derive(Default)]
struct Tally {
    taken: usize,
    refused: usize,
    failed: usize,
    passed_over: Vec<String>,
    /// Attributes that rejected every value in `set`.
    never_set: Vec<String>,
}

/// Reaction of a provider to a value.
enum Reception {
    Taken,
    /// Rejected by validate or canonicalize.
    Refused,
    /// Rejected by a check or a set.
    Failed,
}

impl Tally {
    fn count(&mut self, reception: Reception) {
        match reception {
            Reception::Taken => self.taken += 1,
            Reception::Refused => self.refused += 1,
            Reception::Failed => self.failed += 1,
        }
    }

    fn note(self) -> Option<String> {
        let Tally { taken, refused, failed, passed_over, .. } = self;
        let left =
            if passed_over.is_empty() { String::new() } else { format!("; not tried: {}", passed_over.join(", ")) };
        Some(format!("{taken} accepted, {refused} refused, {failed} failed{left}"))
    }
}

pub(super) fn values_survive(bench: &Harness) -> Trial {
    let mut tally = Tally::default();
    let mut attempts = Attempts { bench, kept: None };
    let world = bench.made()?;
    let is_settable =
        |attribute: &&AttributeSchema| !matches!(attribute.behaviour, Behaviour::Namevar | Behaviour::ReadOnly);
    for attribute in world.schema().attributes.iter().filter(is_settable) {
        let name = attribute.name.as_str();
        if let Some((_, why)) = world.subject.spared().iter().find(|(spared, _)| spared == name) {
            tally.passed_over.push(format!("{name} ({why})"));
            continue;
        }
        let values = edge::values(&attribute.data_type);
        if values.is_empty() {
            tally.passed_over.push(format!("{name} (no edge of {} is known)", attribute.data_type));
        }
        let (mut taken, mut failed) = (0, 0);
        for value in values {
            let reception = attempts.attempt(&format!("{name} = {value:?}"), |specimen, _| {
                let mut given = specimen.first().clone();
                given.set(name, value.clone());
                (specimen.clone(), given)
            })?;
            taken += usize::from(matches!(reception, Reception::Taken));
            failed += usize::from(matches!(reception, Reception::Failed));
            tally.count(reception);
        }
        // A script cannot reject a value before a call. If all values fail, the trial shows nothing about the
        // attribute.
        if world.provider().is_external() && taken == 0 && failed > 0 && !is_declared(&world, name) {
            tally.never_set.push(format!("`{name}` ({failed} failed)"));
        }
    }
    attempts.finish()?;
    if !tally.never_set.is_empty() {
        let never = tally.never_set.join(", ");
        return untried(format!(
            "no value could be set of {never}: declare one in a specimen, or give the reason in `sparing`"
        ));
    }
    match tally.taken + tally.refused + tally.failed {
        0 => untried("no value was tried"),
        _ => Ok(tally.note()),
    }
}

/// Returns true if a specimen declares an attribute.
fn is_declared(world: &ProviderUnderTest, name: &str) -> bool {
    let all = world.subject.specimens().iter();
    all.flat_map(|one| one.others().iter().chain([one.first()])).any(|given| given.get(name).is_some())
}

pub(super) fn names_survive(bench: &Harness) -> Trial {
    let mut tally = Tally::default();
    let mut attempts = Attempts { bench, kept: None };
    let world = bench.made()?;
    for namevar in world.schema().namevars() {
        for text in edge::texts() {
            let named = |world: &ProviderUnderTest| Value::from(world.subject.name_like(&text));
            if namevar.data_type.check(&named(&world)).is_err() {
                continue;
            }
            let reception = attempts.attempt(&format!("{} like {text:?}", namevar.name), |specimen, world| {
                (specimen.renamed(world.schema(), namevar.name.as_str(), named(world)), specimen.first().clone())
            })?;
            tally.count(reception);
        }
    }
    attempts.finish()?;
    Ok(tally.note())
}

/// Trials of declarations, each in a sandbox in which all specimens except the first exist.
struct Attempts<'a> {
    bench: &'a Harness,
    kept: Option<PopulatedSandbox>,
}

impl Attempts<'_> {
    /// Tries a declaration. A sandbox without a trace of earlier declarations is as good as a new one, and saves the
    /// calls that create the other specimens.
    fn attempt(
        &mut self,
        what: &str,
        declare: impl Fn(&Sample, &ProviderUnderTest) -> (Sample, Attributes),
    ) -> Result<Reception, EarlyEnd> {
        let attempt = |around: &mut PopulatedSandbox| {
            let (specimen, given) = declare(&around.world.subject.specimens()[0], &around.world);
            match catch_unwind(AssertUnwindSafe(|| put_through(around, &specimen, &given))) {
                Ok(Err(EarlyEnd::Broken(seen))) => broken(format!("{what}: {seen}")),
                Ok(tried) => tried,
                Err(panic) => match end_of(&*panic) {
                    EarlyEnd::Broken(seen) => broken(format!("{what}: {seen}")),
                    stop => Err(stop),
                },
            }
        };
        if let Some(mut around) = self.kept.take() {
            // Earlier declarations may be the reason of any other result.
            if let Ok(reception) = attempt(&mut around) {
                self.keep(around)?;
                return Ok(reception);
            }
        }
        let mut around = PopulatedSandbox::new(self.bench)?;
        let reception = attempt(&mut around)?;
        self.keep(around)?;
        Ok(reception)
    }

    /// Keeps a sandbox that has no trace of its declarations.
    fn keep(&mut self, around: PopulatedSandbox) -> Result<(), EarlyEnd> {
        match around.is_unchanged() {
            true => self.kept = Some(around),
            false => around.check_rest()?,
        }
        Ok(())
    }

    /// Checks the last sandbox.
    fn finish(self) -> Result<(), EarlyEnd> {
        self.kept.map_or(Ok(()), |around| around.check_rest())
    }
}

/// A sandbox with all specimens except the first.
struct PopulatedSandbox {
    world: ProviderUnderTest,
    others: OtherResources,
    /// Fingerprint before any declaration; none if fingerprints do not show the other specimens.
    fingerprint: Option<String>,
    /// True if the fingerprint alone has shown that a declaration did not change the others.
    is_unread: bool,
}

impl PopulatedSandbox {
    fn new(bench: &Harness) -> Result<PopulatedSandbox, EarlyEnd> {
        let world = bench.world()?;
        let fresh = world.subject.fingerprint();
        world.arrange_all(&world.subject.specimens()[1..])?;
        let fingerprint = Some(world.subject.fingerprint()).filter(|made| *made != fresh);
        Ok(PopulatedSandbox { others: OtherResources::of(&world)?, world, fingerprint, is_unread: false })
    }

    fn is_unchanged(&self) -> bool {
        self.fingerprint.as_ref().is_some_and(|before| *before == self.world.subject.fingerprint())
    }

    /// Checks that a declaration has not changed the other resources.
    fn check(&mut self, one: &DeclaredCase) -> Result<(), EarlyEnd> {
        self.is_unread = self.is_unchanged();
        if self.is_unread { Ok(()) } else { self.others.are_unchanged(&self.world, Some(one)) }
    }

    /// Reads the other resources if that has not been done after the last declarations.
    fn check_rest(&self) -> Result<(), EarlyEnd> {
        if self.is_unread { self.others.are_unchanged(&self.world, None) } else { Ok(()) }
    }
}

fn put_through(around: &mut PopulatedSandbox, specimen: &Sample, given: &Attributes) -> Result<Reception, EarlyEnd> {
    let Ok(one) = around.world.declare(specimen, given) else { return Ok(Reception::Refused) };
    ask_around(&around.world, &one);
    let reception = brought(&around.world, &one);
    around.check(&one)?;
    if matches!(reception?, Reception::Failed) {
        return Ok(Reception::Failed);
    }
    let world = &around.world;
    // A resource that can be created with a value can usually also be changed to it, by other code. Some values
    // cannot be changed to or from other values. Other laws cover absence.
    if one.should.text("ensure") != Some("absent")
        && world.declare(specimen, specimen.first()).and_then(|first| world.converge(&first)).is_ok()
    {
        brought(world, &one)?;
        around.check(&one)?;
    }
    gone_again(&around.world, &one)?;
    Ok(Reception::Taken)
}

/// Brings a resource to its declared state. The provider must reach exactly this state, or fail with a reason.
fn brought(world: &ProviderUnderTest, one: &DeclaredCase) -> Result<Reception, EarlyEnd> {
    let Ok((is, differences)) = world.check(one) else { return Ok(Reception::Failed) };
    if !differences.is_empty() {
        let change = Change::new(&one.name, &is, Some(&one.should), &differences);
        let outcome = world.set(&[change], Mode::Apply).into_iter().next().unwrap_or_default();
        match outcome.failure {
            Some(failure) if failure.trim().is_empty() => return broken("it failed without a word"),
            Some(failure) if outcome.crashed => return broken(format!("it crashed: {failure}")),
            Some(_) => return Ok(Reception::Failed),
            None => {}
        }
    }
    match world.check(one) {
        Err(why) => broken(format!("it was accepted, but cannot be read: {why}")),
        Ok((_, left)) if !left.is_empty() => {
            broken(format!("it was accepted, but the found state differs: {}", differences_text(&left)))
        }
        Ok((state, _)) => still_canonical(world, one, &state.attributes).map(|()| Reception::Taken),
    }
}

/// Calls the other methods that the engine uses. They must accept the value too.
fn ask_around(world: &ProviderUnderTest, one: &DeclaredCase) {
    let capabilities = world.provider().capabilities();
    let (scheduling, relations) = (capabilities.scheduling(), capabilities.relations());
    let _ = (scheduling.placement(&one.should), scheduling.set_placement(&one.should));
    let _ = capabilities.predict().side_effects(&one.should);
    relations.identities(&one.name, &one.should, &mut |_| {});
    relations.auto_edges(&one.name, &one.should, &mut |_| {});
    let _ = relations.conflicts(&one.name, &one.should, &|_, _| None);
}

fn still_canonical(world: &ProviderUnderTest, one: &DeclaredCase, found: &Attributes) -> Result<(), EarlyEnd> {
    let read = DeclaredCase { name: one.name.clone(), should: found.clone() };
    let canonical =
        world.canonical(read).or_else(|why| broken(format!("the found state cannot be canonicalized: {why}")))?;
    match unlike_attributes(found, &canonical.should, MissingAttribute::MayBe) {
        Some(what) => broken(format!("as found and as canonicalized: {what}")),
        None => Ok(()),
    }
}

/// Checks that a created resource can be removed, with any value.
fn gone_again(world: &ProviderUnderTest, one: &DeclaredCase) -> Result<(), EarlyEnd> {
    let is = seen(world, one)?;
    if world.subject.reason(Unsupported::Removal).is_some() || !is.exists {
        return Ok(());
    }
    world.remove(&is).or_else(|why| broken(format!("it was accepted, but cannot be removed: {why}")))?;
    match world.read_removed(one) {
        Ok(left) if left.exists => broken("it was accepted, but still exists after its removal"),
        Ok(_) => Ok(()),
        Err(why) => broken(format!("it was accepted, but cannot be read after its removal: {why}")),
    }
}

/// The other resources. They must not change with the value of this resource.
struct OtherResources {
    names: Vec<EcoString>,
    states: Vec<State>,
}

impl OtherResources {
    fn of(world: &ProviderUnderTest) -> Result<OtherResources, EarlyEnd> {
        let others = declared(world)?.into_iter().skip(1);
        let states = others.map(|other| seen(world, &other)).collect::<Result<_, _>>()?;
        let is_listed = world.subject.reason(Unsupported::Listing).is_none();
        let listed = if is_listed { world.get(Query::All).unwrap_or_default() } else { Vec::new() };
        Ok(OtherResources { names: listed.into_iter().map(|state| state.name).collect(), states })
    }

    fn are_unchanged(&self, world: &ProviderUnderTest, one: Option<&DeclaredCase>) -> Result<(), EarlyEnd> {
        let now = OtherResources::of(world)?;
        let is_other = |name: &EcoString| one.is_none_or(|one| one.name != *name);
        let lacks = |names: &[EcoString], name: &EcoString| is_other(name) && !names.contains(name);
        if let Some(name) = now.names.iter().find(|name| lacks(&self.names, name)) {
            return broken(format!("`{name}` has come with it"));
        }
        if let Some(name) = self.names.iter().find(|name| lacks(&now.names, name)) {
            return broken(format!("`{name}` has disappeared too"));
        }
        let mut states = self.states.iter().zip(&now.states);
        match states.find(|(before, after)| is_other(&before.name) && before != after) {
            Some((before, _)) => broken(format!("{} is another one with it", before.name)),
            None => Ok(()),
        }
    }
}
