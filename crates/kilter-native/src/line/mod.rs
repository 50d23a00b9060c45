//! The type `line`: a line of a file that others own too.

use std::sync::LazyLock;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::{AllDeclared, Claim, Insync, Opposites, ValidationError};
use rustc_hash::FxHashMap;

use crate::builtin::is_absent;
use crate::edit::{
    Edits, FoundPart, LinePattern, PartProvider, PartType, Position, Probe, about_files, common, line_problem, path_of,
    pattern, pattern_problem,
};

/// Provides the type `line`.
pub type LineProvider = PartProvider<Line>;

/// The lines of files.
pub struct Line;

const DESC: &str = concat!(
    "\
Lines of a file that other programs or people own too.

```yaml
resources:
  line[no root login]:
    path: /etc/ssh/sshd_config
    line: PermitRootLogin no
    match: '^#?\\s*PermitRootLogin\\s'
    multiple: true
  line[swap]:
    path: /etc/sysctl.d/local.conf
    line: vm.swappiness = 10
    create: true
  line[old mirror]:
    ensure: absent
    path: /etc/hosts
    match: mirror\\.example\\.org$
    match_for_absence: true
```

The attributes are those of `file_line` in Puppet's stdlib. The resource is in sync if the file contains the line \
anywhere. Otherwise kilter replaces the line that matches `match`. Without such a line it inserts the line after the \
line that matches `after`, or at the end. `ensure: absent` removes all lines that are equal to `line`.

An expression is in Ruby's dialect, as in [data types](../data-types.md). kilter tries it on each line without its \
line break.

kilter refuses two resources that would undo each other in every run. Examples are two resources whose expressions \
match the lines of each other, and a resource that removes the line of another.",
    about_files!()
);

static SCHEMA: LazyLock<TypeSchema> = LazyLock::new(|| {
    let schema = TypeSchema::new("line", DESC)
        .attribute(
            "ensure",
            "Enum[present, absent]",
            Behaviour::Property,
            "State of the line: `present`, or `absent`, which removes it.",
        )
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource. The file does not contain it.");
    common(schema)
        .attribute(
            "line",
            "String",
            Behaviour::Property,
            "The line, without a line break: `PermitRootLogin no`. Required, unless `match_for_absence` is `true`. A \
             report shows the line that it replaces.",
        )
        .attribute(
            "match",
            "String[1]",
            Behaviour::Parameter,
            "Regular expression of the line to replace: `^#?\\s*PermitRootLogin\\s`. It is an error if it matches \
             several lines, unless `multiple` is `true`. To stay idempotent it need not match `line`.",
        )
        .attribute(
            "after",
            "String[1]",
            Behaviour::Parameter,
            "Regular expression of the line after which a new line is inserted: `^\\[mysqld\\]`. It is an error if it \
             matches several lines, unless `multiple` is `true`. kilter does not move an existing line.",
        )
        .attribute(
            "multiple",
            "Boolean",
            Behaviour::Parameter,
            "Change all lines that match `match`, or insert after all that match `after`.",
        )
        .default(false)
        .attribute(
            "replace",
            "Boolean",
            Behaviour::Parameter,
            "Replace the line that matches `match`. With `false`, a matching line is in sync, whatever it says.",
        )
        .default(true)
        .attribute(
            "append_on_no_match",
            "Boolean",
            Behaviour::Parameter,
            "Add the line if neither `match` nor `after` matches. With `false`, such a file is in sync.",
        )
        .default(true)
        .attribute(
            "match_for_absence",
            "Boolean",
            Behaviour::Parameter,
            "With `ensure: absent`, remove the lines that match `match` instead of those that are equal to `line`.",
        )
        .default(false)
        .features(&[Feature::CustomInsync, Feature::SimpleGetFilter])
});

impl PartType for Line {
    const NAME: &'static str = "line";
    const PROPERTY: &'static str = "line";
    const NOUN: &'static str = "a line";

    fn schema() -> &'static TypeSchema {
        &SCHEMA
    }

    fn probes(_: &str, should: &Attributes) -> Vec<Probe> {
        let line = should.text("line").map(|line| Probe::Equal(line.into()));
        let patterns = ["match", "after"].into_iter().filter_map(|attribute| pattern(should, attribute).ok()?);
        let prefixes = patterns.filter_map(|pattern| Some(Probe::Prefix(pattern.prefix()?.to_vec())));
        line.into_iter().chain(prefixes).collect()
    }

    fn edit(_: &str, should: &Attributes, edits: &mut Edits<'_>) -> Result<FoundPart, EcoString> {
        let line = should.text("line").unwrap_or_default();
        // Values from other resources have not been validated before.
        if line.contains(['\n', '\r', '\0']) {
            return Err("`line` must be a single line".into());
        }
        let line = line.as_bytes();
        let matched = pattern(should, "match")?;
        let matched = matched.as_ref();
        if is_absent(should) {
            let places = match matched.filter(|_| flag(should, "match_for_absence", false)) {
                Some(pattern) => found(edits, pattern, should)?,
                None => edits.equal(line),
            };
            let Some(first) = places.first() else { return Ok(FoundPart::ABSENT) };
            let before = FoundPart::text(edits.line(*first));
            edits.remove(&places);
            return Ok(before);
        }
        if !edits.equal(line).is_empty() {
            return Ok(FoundPart::text(line));
        }
        // A file that must stay as it is counts as a line without a text.
        let satisfied = FoundPart { exists: true, value: None };
        if let Some(pattern) = matched {
            if !flag(should, "replace", true) {
                if let Some(first) = edits.matching(pattern)?.first() {
                    return Ok(FoundPart::text(edits.line(*first)));
                }
            } else {
                let places = found(edits, pattern, should)?;
                if let Some(first) = places.first() {
                    let before = FoundPart::text(edits.line(*first));
                    edits.replace(&places, line);
                    return Ok(before);
                }
            }
            if !flag(should, "append_on_no_match", true) {
                return Ok(satisfied);
            }
        }
        if let Some(after) = pattern(should, "after")? {
            let places = found(edits, &after, should)?;
            if !places.is_empty() {
                edits.insert_after(&places, line);
                return Ok(FoundPart::ABSENT);
            }
            if !flag(should, "append_on_no_match", true) {
                return Ok(satisfied);
            }
        }
        edits.append(line);
        Ok(FoundPart::ABSENT)
    }

    fn validate(_: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let given = |attribute: &str| should.get(attribute).is_some() || deferred.contains(&attribute);
        let by_match = is_absent(should) && flag(should, "match_for_absence", false);
        let mut problems = Vec::new();
        problems.extend(should.text("line").and_then(|line| line_problem("line", line)));
        problems.extend(["match", "after"].into_iter().filter_map(|attribute| pattern_problem(should, attribute)));
        if by_match && !given("match") {
            let problem = ValidationError::with("match_for_absence", "`match_for_absence` needs a `match`");
            problems.push(problem.hint("add `match`, or remove `match_for_absence`"));
        }
        if !by_match && !given("line") {
            problems.push(ValidationError::with("line", "the text of the line is missing").hint("add `line`"));
        }
        problems
    }

    fn claims(_: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        let (line, is_absent) = (should.text("line"), is_absent(should));
        let by_match = is_absent && flag(should, "match_for_absence", false);
        if let Ok(Some(pattern)) = pattern(should, "match") {
            // A line that does not match is not replaced again by another resource with this expression.
            let is_replaced = || line.is_some_and(|line| pattern.is_match(line.as_bytes()).unwrap_or(false));
            if by_match || !is_absent && flag(should, "replace", true) && is_replaced() {
                say(Claim::whole(&format!("match: {}", pattern.source())));
            }
        }
        if let Some(line) = line.filter(|_| !by_match) {
            say(Claim { target: &format!("line: {line}"), is_whole: is_absent });
        }
    }

    fn opposites(all: AllDeclared<'_>) -> Vec<Opposites> {
        let mut by_path: FxHashMap<&str, Vec<LineRule<'_>>> = FxHashMap::default();
        let mut found = Vec::new();
        for (at, should) in all().into_iter().enumerate() {
            let Some(second) = LineRule::of(at, should) else { continue };
            let others = by_path.entry(path_of(should)).or_default();
            let reasons = others.iter().filter_map(|first| Some((first.at, first.opposes(&second)?)));
            found.extend(reasons.map(|(first, reason)| Opposites { pair: (first, at), reason }));
            others.push(second);
        }
        found
    }

    fn insync(is: Option<&Value>, should: &Attributes) -> Insync {
        match is {
            None => Insync::Same,
            Some(_) if !flag(should, "replace", true) => Insync::Same,
            Some(_) => Insync::Default,
        }
    }
}

/// Effect of a resource on the lines of others.
struct LineRule<'a> {
    at: usize,
    /// Line that the resource adds; none if it removes lines.
    line: Option<&'a str>,
    /// Lines that the resource replaces or removes.
    pattern: Option<LinePattern>,
}

impl<'a> LineRule<'a> {
    /// Returns the effect of a resource; none if it is unknown or does not concern lines of others.
    fn of(at: usize, should: &'a Attributes) -> Option<LineRule<'a>> {
        let matched = || pattern(should, "match").ok();
        let is_known = !path_of(should).is_empty();
        match is_absent(should) {
            _ if !is_known => None,
            true if flag(should, "match_for_absence", false) => {
                Some(LineRule { at, line: None, pattern: Some(matched()??) })
            }
            true => None,
            false => {
                let pattern = if flag(should, "replace", true) { matched()? } else { None };
                // Such a resource does not add a line again that another one has removed.
                let adds = flag(should, "append_on_no_match", true);
                should.text("line").filter(|_| adds).map(|line| LineRule { at, line: Some(line), pattern })
            }
        }
    }

    fn is_match(&self, line: &str) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(line.as_bytes()).unwrap_or(false))
    }

    fn source(&self) -> Option<&str> {
        self.pattern.as_ref().map(LinePattern::source)
    }

    /// Returns the reason why two resources would undo each other. Equal expressions are [claims](PartType::claims).
    fn opposes(&self, second: &LineRule<'_>) -> Option<&'static str> {
        let reason = match (self.line, second.line) {
            (Some(one), None) if second.is_match(one) => "sets a line that this resource removes",
            (None, Some(other)) if self.is_match(other) => "removes the line that this resource sets",
            (Some(one), Some(other)) if one != other && self.is_match(other) && second.is_match(one) => {
                "and this resource replace the line of each other"
            }
            _ => return None,
        };
        (self.source() != second.source()).then_some(reason)
    }
}

fn flag(should: &Attributes, attribute: &str, default: bool) -> bool {
    should.get_bool(attribute).unwrap_or(default)
}

/// Returns the places of the lines that match.
///
/// # Errors
/// If there are several, and `multiple` is false.
fn found(edits: &Edits<'_>, pattern: &LinePattern, should: &Attributes) -> Result<Vec<Position>, EcoString> {
    let places = edits.matching(pattern)?;
    match places.len() {
        count @ 2.. if !flag(should, "multiple", false) => Err(eco_format!(
            "{count} lines match `{}`: write a stricter expression, or `multiple: true`",
            pattern.source()
        )),
        _ => Ok(places),
    }
}

#[cfg(test)]
mod tests;
