//! The type `firewall`: tables of nftables.

mod boot;
mod nft;
mod rule;
mod schema;
mod text;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State};
use kilter_provider::{
    AutoEdge, Context, Declaration, Direction, Effect, Explain, Footprint, Insync, Mode, PathState, Predict, Provider,
    ProviderError, Query, Relations, Scope, SideEffects, Suitability, ValidationError, Wanted, Watch, WatchSink,
    WatchSource,
};
use rustc_hash::FxHashMap;

use crate::accounts::System;
use crate::builtin::is_absent;
use crate::{file, tool};
use boot::AtBoot;
pub use rule::FirewallRuleProvider;
use schema::schema;

const PROGRAM: &str = "nft";

/// Maximum number of declared tables whose normal form is remembered.
const MAX_REMEMBERED: usize = 64;

/// Normal form of a declared table, or the reason why it is invalid.
type Normalized = Result<Arc<str>, EcoString>;

/// Provides the type `firewall`.
pub struct FirewallProvider {
    system: System,
    turn: Mutex<()>,
    /// By name and declared content. nft starts only once for a table that stays the same.
    remembered: Mutex<FxHashMap<(EcoString, EcoString), Normalized>>,
}

impl FirewallProvider {
    /// Creates a provider for the tables of a system.
    pub fn new(system: System) -> FirewallProvider {
        FirewallProvider { system, turn: Mutex::new(()), remembered: Mutex::default() }
    }

    /// Returns the content of a table as nft lists it.
    fn normalized(&self, cx: &Context<'_>, name: &str, content: &str) -> Normalized {
        let key = (name.into(), content.into());
        if let Some(known) = self.remembered.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        let normal = nft::normalized(self.system.runner(), cx, name, content);
        let normal = normal.map(|content| text::without_dynamic_elements(&content).into());
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        if !cx.interrupt().is_raised() {
            remembered.insert(key, normal.clone());
        }
        normal
    }

    fn state(&self, name: &EcoString, live: Option<&str>, should: Option<&Attributes>) -> State {
        let declared = should.filter(|should| !is_absent(should)).and_then(|should| should.text("content"));
        let at_boot = match boot::state(&self.system, name, declared) {
            Ok(at_boot) => at_boot,
            Err(why) => return State { unreadable: Some(why), ..State::absent(name.clone()) },
        };
        let mut attributes = Attributes::from_iter([("name", name.clone())]);
        attributes.push("persist", at_boot == AtBoot::Loaded);
        // A table that the next boot would bring back is not absent.
        let is_left = should.is_some_and(is_absent) && at_boot != AtBoot::Absent;
        if live.is_none() && !is_left {
            return State { attributes, ..State::absent(name.clone()) };
        }
        attributes.set("ensure", "present");
        if let Some(content) = live {
            attributes.push("content", text::without_dynamic_elements(content));
        }
        State::present(name.clone(), attributes)
    }

    /// Returns the text that makes a change. None if the table is in its state.
    fn planned(
        &self,
        cx: &Context<'_>,
        live: &[(EcoString, String)],
        change: &Change<'_>,
    ) -> Result<Option<String>, EcoString> {
        if !text::is_table(change.name) {
            return Err(eco_format!("{}", bad_name(change.name)));
        }
        let Some(should) = change.should.filter(|should| !is_absent(should)) else {
            let is_there = live.iter().any(|(name, _)| name == change.name);
            return Ok(is_there.then(|| text::removal(change.name)));
        };
        // Values from other resources have not been validated before.
        if let Some(problem) = text::problems(should).pop() {
            return Err(eco_format!("{problem}"));
        }
        let content = declared(should)?;
        let normal = self.normalized(cx, change.name, content)?;
        let is_same =
            live.iter().any(|(name, live)| name == change.name && text::without_dynamic_elements(live) == *normal);
        Ok((!is_same).then(|| text::replacement(change.name, content)))
    }

    /// Changes the tables in one transaction. If the kernel refuses it, tries each table alone.
    fn change(&self, cx: &Context<'_>, changes: &[Change<'_>]) -> Result<Vec<Outcome>, EcoString> {
        let live = nft::list(self.system.runner(), cx)?;
        let planned: Vec<_> = changes.iter().map(|change| self.planned(cx, &live, change)).collect();
        let texts: Vec<&str> = planned.iter().flatten().flatten().map(String::as_str).collect();
        let whole = match texts.is_empty() {
            true => Ok(()),
            false => nft::load(self.system.runner(), cx, &texts.concat()),
        };
        let is_alone = whole.is_err() && texts.len() > 1;
        let loaded = |text: Option<String>| match text {
            None => Ok(()),
            Some(text) if is_alone => nft::load(self.system.runner(), cx, &text),
            Some(_) => whole.clone(),
        };
        let made = changes.iter().zip(planned.iter().cloned()).map(|(change, planned)| {
            let made = planned.and_then(loaded).and_then(|()| self.settle(cx, change));
            made.map_or_else(Outcome::failed, |()| Outcome::done())
        });
        Ok(made.collect())
    }

    /// Brings the files for the next boot to their state.
    fn settle(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let should = change.should.filter(|should| !is_absent(should));
        match should.map(|should| (should.get_bool("persist"), should.text("content"))) {
            Some((Some(true), Some(content))) => boot::keep(&self.system, cx, change.name, content),
            Some((Some(false), _)) | None => boot::forget(&self.system, cx, change.name),
            Some(_) => Ok(()),
        }
    }
}

/// Returns the declared content.
///
/// # Errors
/// If there is none, or if it is a secret.
fn declared(should: &Attributes) -> Result<&str, EcoString> {
    match should.get("content") {
        Some(content) if content.holds_sensitive() => Err("a table cannot hold a secret: programs can list it".into()),
        Some(_) => Ok(should.text("content").unwrap_or_default()),
        None => Err("a table needs a `content`".into()),
    }
}

fn bad_name(name: &str) -> ValidationError {
    let problem = ValidationError::with("name", format!("`{name}` is not the name of a table"));
    problem.hint("write the family and the name: `inet filter`")
}

/// Returns the number of lines that a unified diff removes and adds.
fn counts(diff: &str) -> (usize, usize) {
    let lines = diff.lines().skip(2);
    lines.fold((0, 0), |(removed, added), line| match line.as_bytes().first() {
        Some(b'-') => (removed + 1, added),
        Some(b'+') => (removed, added + 1),
        _ => (removed, added),
    })
}

impl Provider for FirewallProvider {
    crate::builtin::describe!("firewall", "nftables", schema, [relations, predict, explain, watch]);

    fn suitable(&self) -> Suitability {
        match tool::installed(&[PROGRAM], Some("nftables")) {
            Suitability::Suitable => tool::installed(&["unshare"], None),
            missing => missing,
        }
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let live = nft::list(self.system.runner(), cx).map_err(ProviderError::new)?;
        Ok(match query {
            Query::All => live.iter().map(|(name, content)| self.state(name, Some(content), None)).collect(),
            Query::Named(wanted) => {
                let content = |name: &EcoString| live.iter().find(|(live, _)| live == name).map(|(_, text)| &**text);
                wanted.iter().map(|one| self.state(one.name, content(one.name), one.should)).collect()
            }
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = match mode {
            Mode::Apply => self.change(cx, changes),
            Mode::Preview => {
                let planned = changes.iter().map(|change| self.planned(cx, &[], change));
                Ok(planned.map(|planned| planned.map_or_else(Outcome::failed, |_| Outcome::done())).collect())
            }
        };
        outcomes.unwrap_or_else(|why| vec![Outcome::failed(why); changes.len()])
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let mut found = text::problems(should);
        if !text::is_table(name) {
            found.push(bad_name(name));
        }
        if !is_absent(should) && should.get("content").is_none() && !deferred.contains(&"content") {
            let problem = ValidationError::with("content", "a table needs chains");
            found.push(problem.hint("add `content`, or `ensure: absent`"));
        }
        if let Some(attribute) = ["content", "rules"]
            .into_iter()
            .find(|attribute| should.get(attribute).is_some_and(kilter_model::Value::holds_sensitive))
        {
            let problem = ValidationError::with(attribute, "a table cannot hold a secret: programs can list it");
            return vec![problem.hint("use a value that is not secret")];
        }
        found
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            text::put_together(should);
        }
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, cx: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        if attribute != "content" {
            return Insync::Default;
        }
        match declared(should).and_then(|wanted| self.normalized(cx, &is.name, wanted)) {
            Err(why) => Insync::Failed(why),
            Ok(wanted) if is.attributes.text("content") == Some(&wanted) => Insync::Same,
            Ok(_) => Insync::Differs(None),
        }
    }
}

impl Explain for FirewallProvider {
    fn message(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        match attribute {
            "content" => {
                let (removed, added) = counts(&self.diff(attribute, is, should)?);
                Some(eco_format!("lines removed: {removed}, added: {added}"))
            }
            _ => None,
        }
    }

    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        let wanted = declared(should).ok().filter(|_| attribute == "content")?;
        let wanted = self.normalized(&Context::empty(), &is.name, wanted).ok()?;
        file::text_diff(&is.name, is.attributes.text("content").unwrap_or_default(), &wanted)
    }
}

impl Relations for FirewallProvider {
    fn auto_edges(&self, _: &str, _: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        boot::CONFIGURATIONS.iter().for_each(|path| add(AutoEdge::require("file", path)));
        add(AutoEdge::require("package", "nftables"));
        add(AutoEdge { direction: Direction::After, ..AutoEdge::require("service", "nftables") });
    }
}

impl Predict for FirewallProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let unknown = |path: EcoString| Effect::Path { path, node: PathState::Unknown };
        let files = boot::CONFIGURATIONS.map(EcoString::from).into_iter().chain([boot::file_of(change.name).into()]);
        Some(files.map(unknown).collect())
    }

    fn footprint(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        say(Footprint::Writes { path: &boot::file_of(name), is_whole: false });
        boot::CONFIGURATIONS.iter().for_each(|path| say(Footprint::Writes { path, is_whole: false }));
    }
}

impl Watch for FirewallProvider {
    /// Returns the watches for the files. The kernel reports tables to the provider.
    fn watches(&self, name: &str, _: &Attributes) -> Vec<WatchSource> {
        let file = |path: &str| WatchSource::Path {
            path: self.system.root().join(path.trim_start_matches('/')),
            scope: Scope::This,
        };
        let files = boot::CONFIGURATIONS.map(file).into_iter().chain([file(&boot::file_of(name))]);
        files.chain([WatchSource::Provider]).collect()
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        watch::follow(cx, tell).map_err(|errno| ProviderError::new(eco_format!("watch of the firewall: {errno}")))
    }
}

#[cfg(test)]
mod tests;
