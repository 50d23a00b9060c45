//! The type `file_part`: a separately declared part of the content of a file.

use std::sync::LazyLock;

use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema};
use kilter_provider::{
    Capabilities, Context, Mode, Placement, Predict, Provider, ProviderError, Query, Scheduling, SideEffects,
    ValidationError, Watch, WatchSource,
};

const DESC: &str = "\
A part of the content of a file, declared by itself: by another manifest, or by another machine.

```yaml
resources:
  file[/etc/motd]: { mode: \"0644\" }
  file_part[who to ask]:
    path: /etc/motd
    order: 20
    content: \"Ask the people on the fourth floor.\\n\"
  file_part[what it is]:
    path: /etc/motd
    content: \"This is ${facts.networking.hostname}.\\n\"
```

The file has to be declared too, without any other content. It is put together of its parts by their `order`, and by their titles \
where that is the same; an entry of its attribute [`parts`](file.md) is the same as a `file_part` of that title. A part is nothing by itself: there is no resource of its own in \
the graph, what is related to it is related to the file, and of its `meta` nothing counts but `hidden` and `export`.

With [`export` and `collect`](../world.md) a file is put together of what many machines declare.";

fn schema() -> TypeSchema {
    TypeSchema::new("file_part", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "What it is called.")
        .attribute("path", "String[1]", Behaviour::Parameter, "The file that it is a part of: `/etc/motd`.")
        .required()
        .attribute("content", "Variant[String, Binary]", Behaviour::Parameter, "The content: `\"one line\\n\"`.")
        .required()
        .attribute(
            "order",
            "Integer",
            Behaviour::Parameter,
            "Parts with a lower number come first; 10 where none is given.",
        )
        .part_of("file", "path", "parts")
        .features(&[Feature::SimpleGetFilter])
}

/// Provides the type `file_part`. Its provider is never asked to read or change a resource.
pub struct FilePartProvider {
    schema: LazyLock<TypeSchema>,
}

impl FilePartProvider {
    /// Creates the provider.
    pub fn new() -> FilePartProvider {
        FilePartProvider { schema: LazyLock::new(schema) }
    }
}

impl Default for FilePartProvider {
    fn default() -> FilePartProvider {
        FilePartProvider::new()
    }
}

impl Provider for FilePartProvider {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn type_name(&self) -> &str {
        "file_part"
    }

    fn name(&self) -> &'static str {
        "builtin"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { scheduling: Some(self), predict: Some(self), watch: Some(self), ..Capabilities::default() }
    }

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let Query::Named(wanted) = query else { return Ok(Vec::new()) };
        Ok(wanted.iter().map(|wanted| State::absent(wanted.name.clone())).collect())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        changes.iter().map(|_| Outcome::failed(ALONE)).collect()
    }

    fn validate(&self, _: &str, _: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        // A part in a manifest becomes an entry of its file, unless it is hidden.
        vec![ValidationError::new(ALONE).hint("declare it in a manifest, with the file")]
    }
}

impl Scheduling for FilePartProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }
}

impl Predict for FilePartProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }
}

impl Watch for FilePartProvider {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        Vec::new()
    }
}

const ALONE: &str = "it is a part of a file, and nothing by itself";
