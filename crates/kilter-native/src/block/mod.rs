//! The type `block`: marked lines of a file that others own too.

use std::sync::LazyLock;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::{Claim, Insync, ValidationError};

use crate::builtin::is_absent;
use crate::edit::{
    Edits, FoundPart, PartProvider, PartType, Probe, about_files, common, line_problem, pattern, pattern_problem,
};

/// Provides the type `block`.
pub type BlockProvider = PartProvider<Block>;

/// The marked blocks of files.
pub struct Block;

const MARKER: &str = "# {mark} kilter {name}";

const DESC: &str = concat!(
    "\
Blocks of lines, between two marker lines, of a file that other programs or people own too.

```yaml
resources:
  block[deployers]:
    path: /etc/ssh/sshd_config
    content: |
      Match Group deploy
        PasswordAuthentication no
  block[colours]:
    path: /etc/vim/vimrc.local
    marker: '\" {mark} {name}'
    insert_after: ^syntax
    content: colorscheme desert
    create: true
```

The first block becomes:

```text
# BEGIN kilter deployers
Match Group deploy
  PasswordAuthentication no
# END kilter deployers
```

The lines between the markers belong to the resource: kilter replaces them if they differ. kilter does not move a \
block. If a marker is missing or occurs twice, the extent of the block is unknown, and the resource fails. `ensure: \
absent` removes the block with its markers.",
    about_files!()
);

static SCHEMA: LazyLock<TypeSchema> = LazyLock::new(|| {
    let schema = TypeSchema::new("block", DESC)
        .attribute(
            "ensure",
            "Enum[present, absent]",
            Behaviour::Property,
            "State of the block: `present`, or `absent`, which removes it with its markers.",
        )
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the block, which is part of its markers.");
    common(schema)
        .attribute(
            "content",
            "String",
            Behaviour::Property,
            "Lines of the block, without the markers. Required, unless `ensure` is `absent`. The line break of the \
             last line is optional.",
        )
        .attribute(
            "marker",
            "String[1]",
            Behaviour::Parameter,
            "Marker line with `{mark}`, which stands for `BEGIN` and `END`, and `{name}`: `// {mark} {name}`. It must \
             be a comment in the syntax of the file, and differ between the blocks of a file. kilter does not find a \
             block whose marker was changed.",
        )
        .default(MARKER)
        .attribute(
            "insert_after",
            "String[1]",
            Behaviour::Parameter,
            "Regular expression: a new block is inserted after the last line that matches. Without a match, at the \
             end.",
        )
        .attribute(
            "insert_before",
            "String[1]",
            Behaviour::Parameter,
            "Regular expression: a new block is inserted before the first line that matches. `^` inserts it at the \
             start of the file. Without a match, at the end. Not allowed together with `insert_after`.",
        )
        .features(&[Feature::CustomInsync, Feature::SimpleGetFilter])
});

/// Returns the marker lines.
fn markers(name: &str, should: &Attributes) -> [String; 2] {
    let template = should.text("marker").unwrap_or(MARKER);
    // The name is replaced last, because it may contain `{mark}`.
    ["BEGIN", "END"].map(|mark| template.replace("{mark}", mark).replace("{name}", name))
}

fn lines(content: &str) -> Vec<&str> {
    content.lines().collect()
}

impl PartType for Block {
    const NAME: &'static str = "block";
    const PROPERTY: &'static str = "content";
    const NOUN: &'static str = "a block";

    fn schema() -> &'static TypeSchema {
        &SCHEMA
    }

    fn probes(name: &str, should: &Attributes) -> Vec<Probe> {
        markers(name, should).into_iter().map(|marker| Probe::Equal(marker.into_bytes())).collect()
    }

    fn edit(name: &str, should: &Attributes, edits: &mut Edits<'_>) -> Result<FoundPart, EcoString> {
        let [begin, end] = markers(name, should);
        let wanted = lines(should.text("content").unwrap_or_default());
        // Values from other resources have not been validated before.
        if let Some(problem) = content_problem(should, [&begin, &end]) {
            return Err(problem.message);
        }
        let (begins, ends) = (edits.equal(begin.as_bytes()), edits.equal(end.as_bytes()));
        let (first, last) = match (&begins[..], &ends[..]) {
            ([], []) if is_absent(should) => return Ok(FoundPart::ABSENT),
            ([], []) => return insert(should, edits, &begin, &wanted, &end),
            ([first], [last]) if first < last => (*first, *last),
            _ => {
                return Err(eco_format!(
                    "the markers of the block are damaged: `{begin}` occurs {} times and `{end}` {} times, and each \
                     must occur once, in this order",
                    begins.len(),
                    ends.len()
                ));
            }
        };
        let inside = edits.between(first, last);
        let is: Vec<&[u8]> = inside.iter().map(|at| edits.line(*at)).collect();
        let mut text = is.join(&b"\n"[..]);
        text.extend((!is.is_empty()).then_some(b'\n'));
        let before = FoundPart::text(&text);
        if is_absent(should) {
            edits.remove(&[&[first][..], &inside, &[last]].concat());
        } else if !is.iter().copied().eq(wanted.iter().map(|line| line.as_bytes())) {
            edits.remove(&inside);
            wanted.iter().rev().for_each(|line| edits.insert_after(&[first], line.as_bytes()));
        }
        Ok(before)
    }

    fn validate(name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let given = |attribute: &str| should.get(attribute).is_some() || deferred.contains(&attribute);
        let [begin, end] = markers(name, should);
        let mut problems: Vec<ValidationError> = line_problem("name", name).into_iter().collect();
        if let Some(marker) = should.text("marker") {
            problems.extend(line_problem("marker", marker));
            if !marker.contains("{mark}") {
                let problem = ValidationError::with("marker", "the two markers must differ");
                problems.push(problem.hint("write `{mark}` for `BEGIN` and `END`: \"# {mark} {name}\""));
            }
        }
        problems.extend(content_problem(should, [&begin, &end]));
        let places = ["insert_after", "insert_before"];
        problems.extend(places.into_iter().filter_map(|attribute| pattern_problem(should, attribute)));
        if places.into_iter().all(given) {
            problems
                .push(ValidationError::with("insert_before", "`insert_after` and `insert_before` exclude each other"));
        }
        if !is_absent(should) && !given("content") {
            problems.push(ValidationError::with("content", "a block needs a content").hint("add `content`"));
        }
        problems
    }

    fn claims(name: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        let [begin, _] = markers(name, should);
        say(Claim::whole(&begin));
    }

    fn insync(is: Option<&Value>, should: &Attributes) -> Insync {
        let is = is.and_then(Value::as_str).unwrap_or_default();
        match lines(is) == lines(should.text("content").unwrap_or_default()) {
            true => Insync::Same,
            false => Insync::Differs(None),
        }
    }
}

/// Returns the problem of lines that cannot be the content of a block with these markers.
fn content_problem(should: &Attributes, markers: [&str; 2]) -> Option<ValidationError> {
    let content = lines(should.text("content")?);
    let problem = if content.iter().any(|line| line.contains(['\r', '\0'])) {
        "a line contains a NUL or a carriage return"
    } else if content.iter().any(|line| markers.contains(line)) {
        "the content contains a marker of the block"
    } else {
        return None;
    };
    Some(ValidationError::with("content", problem))
}

/// Inserts a new block.
fn insert(
    should: &Attributes,
    edits: &mut Edits<'_>,
    begin: &str,
    wanted: &[&str],
    end: &str,
) -> Result<FoundPart, EcoString> {
    let block: Vec<&str> = [&[begin], wanted, &[end]].concat();
    let after = pattern(should, "insert_after")?.map(|pattern| edits.matching(&pattern)).transpose()?;
    let before = pattern(should, "insert_before")?.map(|pattern| edits.matching(&pattern)).transpose()?;
    if let Some(at) = after.and_then(|places| places.last().copied()) {
        block.iter().rev().for_each(|line| edits.insert_after(&[at], line.as_bytes()));
    } else if let Some(at) = before.and_then(|places| places.first().copied()) {
        block.iter().rev().for_each(|line| edits.insert_before(at, line.as_bytes()));
    } else {
        block.iter().for_each(|line| edits.append(line.as_bytes()));
    }
    Ok(FoundPart::ABSENT)
}

#[cfg(test)]
mod tests;
