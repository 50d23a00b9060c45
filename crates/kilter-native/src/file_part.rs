//! The type `file_part`: a separately declared part of the content of a file.

use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema};
use kilter_provider::{Context, Mode, Provider, ProviderError, Query, ValidationError};

const DESC: &str = "\
Parts of the content of a file, declared separately: in another manifest or by another machine.

```yaml
resources:
  file[/etc/motd]: { mode: \"0644\" }
  file_part[contact]:
    path: /etc/motd
    order: 20
    content: \"Ask the operators on the fourth floor.\\n\"
  file_part[name]:
    path: /etc/motd
    content: \"This is ${facts.networking.hostname}.\\n\"
```

The file must be declared too, without another content. Its content is the concatenation of its parts by `order`. \
Parts with the same `order` are in the order of their \
titles. An entry of the attribute [`parts`](file.md) of the file has the same effect as a `file_part` with that title.

A part is not a resource in the graph. A relation to a part is a relation to the file. kilter ignores its `meta` \
except `hidden` and `export`.

With [`export` and `collect`](../world.md), many machines can each declare one part of a file.";

fn schema() -> TypeSchema {
    TypeSchema::new("file_part", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the part.")
        .attribute("path", "String[1]", Behaviour::Parameter, "Path of the file: `/etc/motd`.")
        .required()
        .attribute("content", "Variant[String, Binary]", Behaviour::Parameter, "Content: `\"one line\\n\"`.")
        .required()
        .attribute(
            "order",
            "Integer",
            Behaviour::Parameter,
            "Position: parts with a lower number come first. The default is 10.",
        )
        .part_of("file", "path", "parts")
        .features(&[Feature::SimpleGetFilter])
}

/// Provides the type `file_part`. Its provider is never asked to read or change a resource.
pub struct FilePartProvider;

impl Provider for FilePartProvider {
    crate::builtin::describe!("file_part", "builtin", schema, [], InProcess: [predict, scheduling, watch]);

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        crate::builtin::no_parts(query)
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        changes.iter().map(|_| Outcome::failed(ALONE)).collect()
    }

    fn validate(&self, _: &str, _: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        // A part in a manifest becomes an entry of its file, unless it is hidden.
        vec![ValidationError::new(ALONE).hint("declare it in a manifest together with the file")]
    }
}

const ALONE: &str = "a part of a file cannot be managed without its file";
