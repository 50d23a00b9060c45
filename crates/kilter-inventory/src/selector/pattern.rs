//! Patterns of names, in Ansible's form.

use std::net::Ipv6Addr;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use indexmap::IndexMap;
use kilter_model::{Regexp, suggest};
use rustc_hash::FxBuildHasher;

use super::{SelectError, glob};
use crate::destination;
use crate::inventory::Inventory;
use crate::target::Target;

/// Maximum number of terms of a pattern.
const MAX_TERMS: usize = 1000;

/// A parsed pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    terms: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    effect: Effect,
    /// The text without the sign of the effect and the index.
    text: EcoString,
    kind: TermKind,
    index: Option<Index>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Union,
    Intersection,
    Exclusion,
}

#[derive(Clone, Debug)]
enum TermKind {
    Name,
    Glob,
    Regexp(Regexp),
    /// A destination that is not searched in the inventory: `ssh://web1`.
    Destination,
}

/// Choice of targets by their place.
#[derive(Clone, Copy, Debug)]
enum Index {
    One(i64),
    /// From one place to another one, both included; to the end if none.
    Range(usize, Option<usize>),
}

type Targets = IndexMap<EcoString, Arc<Target>, FxBuildHasher>;

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Pattern, SelectError> {
        let terms = split(text);
        if terms.is_empty() {
            return Err(SelectError::new(
                "the selection is empty",
                "name hosts or groups, such as web1,db; `all` is every host",
            ));
        }
        if terms.len() > MAX_TERMS {
            return Err(SelectError::new(eco_format!("the selection has more than {MAX_TERMS} terms"), "name a group"));
        }
        Ok(Pattern { terms: terms.into_iter().map(Term::parse).collect::<Result<_, _>>()? })
    }

    pub(super) fn select(&self, inventory: &Inventory) -> Result<Vec<Arc<Target>>, SelectError> {
        let of = |effect: Effect| self.terms.iter().filter(move |term| term.effect == effect);
        let mut selected = Targets::default();
        for term in of(Effect::Union) {
            selected.extend(term.select(inventory)?);
        }
        if of(Effect::Union).next().is_none() {
            selected.extend(inventory.targets().iter().map(named));
        }
        for term in of(Effect::Intersection) {
            let only: Targets = term.select(inventory)?.into_iter().collect();
            selected.retain(|name, _| only.contains_key(name));
        }
        for term in of(Effect::Exclusion) {
            let without: Targets = term.select(inventory)?.into_iter().collect();
            selected.retain(|name, _| !without.contains_key(name));
        }
        Ok(selected.into_values().collect())
    }
}

fn named(target: &Arc<Target>) -> (EcoString, Arc<Target>) {
    (target.name.clone(), Arc::clone(target))
}

/// Divides a pattern at commas; at colons outside of brackets if it has no comma.
fn split(text: &str) -> Vec<&str> {
    let is_one = text.contains("://") || text.parse::<Ipv6Addr>().is_ok() || is_host_with_port(text);
    let terms: Vec<&str> = match text.contains(',') {
        true => text.split(',').collect(),
        false if is_one => vec![text],
        false => {
            let mut depth = 0_usize;
            text.split(|c| {
                match c {
                    '[' => depth += 1,
                    ']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                c == ':' && depth == 0
            })
            .collect()
        }
    };
    terms.into_iter().map(str::trim).filter(|term| !term.is_empty()).collect()
}

/// Returns true for `HOST:22`: no group has such a name.
fn is_host_with_port(text: &str) -> bool {
    let port = text.rsplit_once(':').map(|(host, port)| (host.contains([':', '~', '!', '&']), port));
    matches!(port, Some((false, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Term {
    fn parse(text: &str) -> Result<Term, SelectError> {
        let (effect, rest) = match text.as_bytes()[0] {
            b'!' => (Effect::Exclusion, &text[1..]),
            b'&' => (Effect::Intersection, &text[1..]),
            _ => (Effect::Union, text),
        };
        if rest.is_empty() {
            return Err(SelectError::new(eco_format!("`{text}` is not followed by a name"), "such as web:!web1"));
        }
        if let Some(source) = rest.strip_prefix('~') {
            let regexp = Regexp::new(eco_format!("\\A(?:{source})"));
            if let Err(error) = regexp.compile() {
                let message = eco_format!("`{source}` is not a regular expression: {}", error);
                return Err(SelectError::new(message, "such as ~web[0-9]+"));
            }
            return Ok(Term { effect, text: rest.into(), kind: TermKind::Regexp(regexp), index: None });
        }
        if rest.contains("://") || is_host_with_port(rest) {
            return Ok(Term { effect, text: rest.into(), kind: TermKind::Destination, index: None });
        }
        let (name, index) = index(rest)?;
        let kind = if name.contains(['*', '?', '[']) { TermKind::Glob } else { TermKind::Name };
        Ok(Term { effect, text: name.into(), kind, index })
    }

    fn select(&self, inventory: &Inventory) -> Result<Vec<(EcoString, Arc<Target>)>, SelectError> {
        let found = match &self.kind {
            TermKind::Destination => vec![self.destination()?],
            TermKind::Name => match self.known(inventory) {
                Some(found) => found,
                None => return self.unknown(inventory),
            },
            TermKind::Glob => self.matching(inventory, &|name| Ok(glob::matches(&self.text, name)))?,
            TermKind::Regexp(regexp) => self.matching(inventory, &|name| {
                regexp.is_match(name).map_err(|error| {
                    SelectError::new(eco_format!("`{}` for {name}: {}", self.text, error), "simplify the expression")
                })
            })?,
        };
        let chosen = match self.index {
            None => found,
            Some(Index::One(at)) => {
                let at = if at < 0 {
                    at.unsigned_abs().try_into().ok().and_then(|n| found.len().checked_sub(n))
                } else {
                    usize::try_from(at).ok()
                };
                match at.and_then(|at| found.get(at)) {
                    Some(target) => vec![Arc::clone(target)],
                    None => {
                        let message = eco_format!(
                            "`{}` has {} targets, and the index is outside of them",
                            self.text,
                            found.len()
                        );
                        return Err(SelectError::new(message, "the first one has the index 0"));
                    }
                }
            }
            Some(Index::Range(first, last)) => {
                let count = last.map_or(usize::MAX, |last| last.saturating_sub(first).saturating_add(1));
                found.iter().skip(first).take(count).cloned().collect()
            }
        };
        Ok(chosen.iter().map(named).collect())
    }

    /// Returns the members of a group, or one target.
    fn known(&self, inventory: &Inventory) -> Option<Vec<Arc<Target>>> {
        match inventory.group(&self.text) {
            Some(group) => Some(inventory.members(group).cloned().collect()),
            None => inventory.target(&self.text).map(|target| vec![Arc::clone(target)]),
        }
    }

    /// Returns the targets whose names, or whose groups' names, match.
    fn matching(
        &self,
        inventory: &Inventory,
        is_match: &dyn Fn(&str) -> Result<bool, SelectError>,
    ) -> Result<Vec<Arc<Target>>, SelectError> {
        let mut found = Targets::default();
        for group in inventory.groups() {
            if is_match(&group.name)? {
                found.extend(inventory.members(group).map(named));
            }
        }
        for target in inventory.targets() {
            if is_match(&target.name)? {
                found.extend([named(target)]);
            }
        }
        if found.is_empty() && self.effect != Effect::Exclusion {
            let message = eco_format!("no host and no group of the inventory matches `{}`", self.text);
            return Err(SelectError::new(message, "`kilter inventory` lists them"));
        }
        Ok(found.into_values().collect())
    }

    fn destination(&self) -> Result<Arc<Target>, SelectError> {
        let target = destination::parse(&self.text);
        target.map(Arc::new).map_err(|fault| SelectError::new(fault, "such as web1, ops@web1 or ssh://ops@web1:2222"))
    }

    /// Returns the destination of a name that is in no inventory, unless it is similar to a known one.
    fn unknown(&self, inventory: &Inventory) -> Result<Vec<(EcoString, Arc<Target>)>, SelectError> {
        let name = &self.text;
        let is_similar =
            suggest::nearest(name, inventory.names().filter(|known| !matches!(*known, "all" | "ungrouped")));
        let message = eco_format!("the inventory has no host and no group `{name}`");
        match is_similar {
            Some(near) => {
                let hint = match self.effect {
                    Effect::Union => {
                        eco_format!("did you mean `{near}`? ssh://{name} is a host outside of the inventory")
                    }
                    _ => eco_format!("did you mean `{near}`?"),
                };
                Err(SelectError::new(message, hint))
            }
            None if self.effect != Effect::Union || self.index.is_some() || name == "all" || name == "ungrouped" => {
                Err(SelectError::new(message, "`kilter inventory` lists them"))
            }
            None => self.destination().map(|target| vec![named(&target)]),
        }
    }
}

/// Divides a name from its index.
fn index(text: &str) -> Result<(&str, Option<Index>), SelectError> {
    let Some((name, inside)) = text.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) else {
        return Ok((text, None));
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = || SelectError::new(eco_format!("`[{inside}]` is not an index"), "such as web[0], web[-1] or web[0:2]");
    if name.is_empty() {
        return Ok((text, None));
    }
    if is_number(inside.strip_prefix('-').unwrap_or(inside)) {
        return Ok((name, Some(Index::One(inside.parse().map_err(|_| wrong())?))));
    }
    let Some((first, last)) = inside.split_once([':', '-']).filter(|(first, _)| is_number(first)) else {
        // A set of characters of a shell pattern.
        return Ok((text, None));
    };
    let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
    match last {
        "" => Ok((name, Some(Index::Range(number(first)?, None)))),
        last if is_number(last) => Ok((name, Some(Index::Range(number(first)?, Some(number(last)?))))),
        _ => Ok((text, None)),
    }
}
