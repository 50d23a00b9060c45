//! The type `tidy`: removes files by age, size and name.

mod criteria;
mod walk;

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Difference, Feature, Outcome, State, TypeSchema, Unknown, Value};
use kilter_provider::{
    AutoEdge, Context, Effect, Footprint, Found, Level, Match, Mode, POLL, PathState, Predict, Provider, ProviderError,
    Query, ReadOne, Redactor, Relations, Scope, Session, SideEffects, ValidationError, Wanted, Watch, WatchSource,
    get_each, redacted_outcome,
};
use rustc_hash::FxHashSet;

use super::apply::{BatchContext, FileBatch};
use super::error::FileError;
use super::spec::Spec;
use super::{FileProvider, basis, declared, entry, open, tree_apply};
use crate::accounts::Accounts;
use criteria::Criteria;

const TYPE: &str = "tidy";

/// Maximum number of entries that a check lists.
const MAX_LISTED: usize = 1000;

/// Maximum number of entries that a change removes after one search.
const MAX_REMOVED: usize = 50_000;

const DESC: &str = "\
Removes files by age, size and name.

```yaml
resources:
  tidy[/var/spool/reports]:
    recurse: true
    age: 30d
    type: mtime
    matches: [\"*.pdf\", \"*.tmp\"]
  tidy[/var/cache/app]:
    recurse: 2
    age: 1w
    size: 100m
    rmdirs: true
```

A file is removed if it is as old as `age` or as large as `size`, and if its name matches one of `matches`. Without \
`age` and `size`, all files with these names are removed. Each removal is an entry of the plan. A plan lists at \
most 1,000 entries and the number of the others.

kilter follows no links, neither to files nor to directories, and leaves mounted file systems alone. It removes \
regular files and links, and with `rmdirs` empty directories. Sockets, FIFOs and devices stay. The directory `path` \
itself stays if `recurse` is set. A path that another resource writes stays, also if its directory is searched. \
Directories more than 100 levels deep are not searched.

`kilter run` searches every five minutes if there is an `age`, because time causes no event. A saved plan is \
refused when other files than the listed ones have become old enough.";

const AGE: &str = "\
Minimum age: `30s`, `10m`, `12h`, `7d`, `4w`. A number without a unit means days. `0` removes files of any age.";

const SIZE: &str = "\
Minimum size of a file: `100b`, `64k`, `10m`, `2g`, `1t`. A number without a unit means kilobytes.";

const MATCHES: &str = "\
Patterns of names: `\"*.log\"`, `[\"core.*\", \"[0-9]?.tmp\"]`. kilter compares the last component of a path. `*` \
matches no dot at the start of a name. Needs `recurse`.";

const KIND: &str = "\
Time that the age is measured from: `atime` (last read), `mtime` (last change of the content), `ctime` (last change \
of the content, the owner or the mode). Many file systems record reads once a day. For directories, `atime` means \
`mtime`.";

/// Provides the type `tidy`.
#[derive(Default)]
pub struct TidyProvider {
    files: FileProvider,
}

impl TidyProvider {
    /// Creates a provider that shares accounts with other providers.
    pub(crate) fn sharing(accounts: Arc<Accounts>) -> TidyProvider {
        TidyProvider { files: FileProvider::sharing(accounts) }
    }

    fn read_state(cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, EcoString> {
        let attributes = Attributes::from_iter([("path", Value::String(wanted.name.clone()))]);
        let mut state = State::present(wanted.name.clone(), attributes);
        let Some(should) = wanted.should else { return Ok(state) };
        let (path, criteria) = (normal(wanted.name)?, Criteria::of(should)?);
        let found = walk::removals(cx, path, &criteria, MAX_LISTED).map_err(text)?;
        if let Some(deep) = found.too_deep {
            let line = format!("does not search {deep}: directories are nested too deeply");
            cx.log(Level::Warning, TYPE, wanted.name, &line);
        }
        state.drift = found.entries;
        if found.more > 0 {
            state.drift.push(further(found.more));
        }
        // An earlier resource of a plan may create further files. They are not old.
        if cx.is_noop() && !criteria.is_aged() {
            let is_meant = |path: &str| !cx.preview_context().is_written(path);
            let because = cx.preview_context().below(wanted.name, path, &is_meant);
            state.unknown.extend(because.map(|because| Unknown { attribute: "path".into(), because: because.into() }));
        }
        Ok(state)
    }

    fn apply(batch: &mut FileBatch<'_>, index: usize, change: &Change<'_>) -> Result<(), EcoString> {
        let should = change.should.ok_or("a tidy is changed only by its declaration")?;
        let (path, criteria) = (normal(change.name)?, Criteria::of(should)?);
        let listed: FxHashSet<&str> = change.differences.iter().filter_map(|one| one.entry.as_deref()).collect();
        let removes_all = change.differences.iter().any(|one| one.entry.is_none());
        let directory = Attributes::from_iter([
            ("ensure", Value::from("directory")),
            ("backup", should.get_bool("backup").unwrap_or_default().into()),
        ]);
        let mut searches = None;
        loop {
            // Files that have been used or written since the check stay.
            let mut found = walk::removals(batch.around.cx, path, &criteria, MAX_REMOVED).map_err(text)?;
            if !removes_all {
                found.entries.retain(|one| one.entry.as_deref().is_some_and(|entry| listed.contains(entry)));
            }
            if !found.entries.is_empty() {
                let root = walk::root(path, &criteria);
                tree_apply::converge(batch, index, root, &Spec::of(&directory), &found.entries).map_err(text)?;
            }
            let left = searches.get_or_insert(found.more.div_ceil(MAX_REMOVED));
            if !removes_all || *left == 0 {
                return Ok(());
            }
            *left -= 1;
        }
    }
}

fn normal(path: &str) -> Result<&str, EcoString> {
    open::normal(path).map_err(text)
}

#[expect(clippy::needless_pass_by_value, reason = "the argument of map_err")]
fn text(error: FileError) -> EcoString {
    eco_format!("{error}")
}

/// Returns the difference that stands for entries that are not listed.
fn further(count: usize) -> Difference {
    Difference::new("path", Value::Undef, Value::Undef).saying(eco_format!("and {count} more to remove"))
}

fn schema() -> TypeSchema {
    let parameter = |schema: TypeSchema, name: &str, data_type: &str, desc: &str| {
        schema.attribute(name, data_type, Behaviour::Parameter, desc)
    };
    let schema = TypeSchema::new(TYPE, DESC).attribute(
        "path",
        "String[1]",
        Behaviour::Namevar,
        "Absolute path of a directory to search, or without `recurse` of a single file.",
    );
    let schema = parameter(schema, "age", "Variant[Integer[0], String[1]]", AGE);
    let schema = parameter(schema, "size", "Variant[Integer[0], String[1]]", SIZE);
    let schema = parameter(schema, "matches", "Variant[String[1], Array[String[1], 1]]", MATCHES);
    let schema = parameter(
        schema,
        "recurse",
        "Variant[Boolean, Integer[0], Enum[inf]]",
        "True to search the directory with all directories below, or the number of levels: `1` for its entries alone.",
    );
    let schema = parameter(schema, "type", "Enum[atime, mtime, ctime]", KIND).default("atime");
    let schema = parameter(
        schema,
        "rmdirs",
        "Boolean",
        "True to remove directories too. A directory must be empty, or become empty by the removals, and fulfil the \
         criteria.",
    );
    let schema = parameter(
        schema,
        "backup",
        "Boolean",
        "True to keep the files in the state directory, as [`file`](file.md) does.",
    );
    schema.features(&[Feature::SimpleGetFilter, Feature::SupportsNoop])
}

impl Provider for TidyProvider {
    crate::builtin::describe!("tidy", "posix", schema, [read_one, session, relations, predict, watch]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || Err(ProviderError::new("a tidy is not on the system: declare one")))
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return changes.iter().map(|_| Outcome::done()).collect();
        }
        let FileProvider { accounts, touched, cleaned } = &self.files;
        let mut batch = FileBatch::new(BatchContext { cx, accounts, touched, cleaned }, changes.len());
        let done: Vec<_> =
            changes.iter().enumerate().map(|(index, change)| TidyProvider::apply(&mut batch, index, change)).collect();
        let outcomes = batch.finish().into_iter().zip(done);
        let outcomes = outcomes.map(|(outcome, done)| done.map_or_else(Outcome::failed, |()| outcome));
        outcomes.zip(changes).map(|(outcome, change)| redacted_outcome(change, outcome)).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let mut problems = criteria::problems(should, deferred);
        let path = open::trim(should.text("path").unwrap_or(name));
        if !open::is_normal(path) {
            problems.push(declared::not_normal("path", path));
        } else if path == "/" {
            let problem = ValidationError::with("path", "kilter does not tidy the root directory");
            problems.push(problem.hint("name a directory below it"));
        }
        let seal = Redactor::of(should);
        problems.into_iter().map(|problem| seal.problem(problem)).collect()
    }
}

impl ReadOne for TidyProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        TidyProvider::read_state(cx, wanted).map_err(|reason| match wanted.should {
            Some(should) => Redactor::of(should).error(ProviderError::new(reason)),
            None => ProviderError::new(reason),
        })
    }
}

impl Session for TidyProvider {
    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        self.files.flush(cx)
    }
}

impl Relations for TidyProvider {
    fn auto_edges(&self, name: &str, _: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let path = open::trim(name);
        add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", path) });
        add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("mount", path) });
    }
}

impl Predict for TidyProvider {
    fn basis(&self, cx: &Context<'_>, wanted: Wanted<'_>, found: &Found) -> Option<Value> {
        let criteria = Criteria::of(wanted.should?).ok()?;
        let directory = Attributes::from_iter([("ensure", "directory")]);
        basis::basis(cx, walk::root(open::trim(wanted.name), &criteria), &directory, found)
    }

    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let path = open::trim(change.name);
        let root = walk::root(path, &Criteria::of(change.should?).ok()?).trim_end_matches('/');
        let effect = |one: &Difference| {
            let Some(entry) = &one.entry else {
                return Some(Effect::Path { path: path.into(), node: PathState::Unknown });
            };
            let below = String::from_utf8(entry::bytes(entry)?).ok()?;
            Some(Effect::Path { path: eco_format!("{root}/{below}"), node: PathState::Absent })
        };
        Some(change.differences.iter().filter_map(effect).collect())
    }

    fn footprint(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        say(Footprint::Writes { path: open::trim(name), is_whole: false });
    }
}

impl Watch for TidyProvider {
    /// Returns the watch for the directory. With an `age`, the directory is polled instead.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        if should.get("age").is_some() {
            return vec![WatchSource::Poll(POLL)];
        }
        let is_tree = Criteria::of(should).is_ok_and(|criteria| criteria.levels.is_some());
        let scope = if is_tree { Scope::Tree } else { Scope::This };
        vec![WatchSource::Path { path: open::trim(name).into(), scope }]
    }

    fn depends_on_catalog(&self, _: &Attributes) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
