//! Schemas of resource types, and the attributes of a resource.

mod attribute;
mod attributes;
mod comparison;
mod feature;
mod output;
mod part_of;
mod relations;
mod title;

use std::borrow::Cow;

use ecow::EcoString;

pub use attribute::{AttributeSchema, Behaviour};
pub use attributes::Attributes;
pub use comparison::Comparison;
pub use feature::Feature;
pub use output::OutputSchema;
pub use part_of::PartOf;
pub use relations::{AutoRelation, AutoRelationError, AutoTitle};
pub(crate) use title::from_text;
pub use title::{TitleError, TitlePattern};

use crate::catalog::RelationKind;
use crate::data_type::{Aliases, DataType};
use crate::names::{AttributeName, TypeName};
use crate::value::{Hash, Value};

/// Schema of a resource type.
///
/// Build it in Rust with the methods below, or read it from data with
/// [`definition::from_value`](crate::definition::from_value).
#[derive(Clone, Debug, PartialEq)]
pub struct TypeSchema {
    /// Name of the type.
    pub name: TypeName,
    /// Description in Markdown, with examples.
    pub desc: EcoString,
    /// Attributes, in the order in which they are shown and compared.
    pub attributes: Vec<AttributeSchema>,
    /// Schema of attributes with other names. None if the type has no others.
    pub others: Option<Box<AttributeSchema>>,
    /// Features of the provider.
    pub features: Vec<Feature>,
    /// Features that only the author of the provider uses.
    pub own_features: Vec<EcoString>,
    /// Outputs for other resources: `stdout`, ….
    pub outputs: Vec<OutputSchema>,
    /// Title patterns, in the order in which they are tried.
    pub title_patterns: Vec<TitlePattern>,
    /// Automatic relations, derived from the values of a resource.
    pub relations: Vec<AutoRelation>,
    /// The type that contains resources of this type. None for independent resources.
    pub part_of: Option<PartOf>,
    /// Type aliases: names and their definitions.
    pub aliases: Vec<(EcoString, EcoString)>,
    /// Additional keys of the definition, which kilter does not use.
    pub extra: Hash,
}

impl TypeSchema {
    /// Creates a type without attributes.
    pub fn new(name: impl Into<TypeName>, desc: impl Into<EcoString>) -> TypeSchema {
        TypeSchema {
            name: name.into(),
            desc: desc.into(),
            attributes: Vec::new(),
            others: None,
            features: Vec::new(),
            own_features: Vec::new(),
            outputs: Vec::new(),
            title_patterns: Vec::new(),
            relations: Vec::new(),
            part_of: None,
            aliases: Vec::new(),
            extra: Hash::default(),
        }
    }

    /// Adds a type alias for attributes that are added later.
    #[must_use]
    pub fn alias(mut self, name: &str, data_type: &str) -> TypeSchema {
        self.aliases.push((name.into(), data_type.into()));
        self
    }

    /// Returns the parsed type aliases.
    fn aliases(&self) -> Aliases {
        let parsed = |text: &str| crate::data_type::parse(text).expect("built-in schemas hold valid data types");
        let definitions = self.aliases.iter().map(|(name, text)| (name.clone(), parsed(text)));
        Aliases::new(definitions).expect("built-in schemas hold valid names of data types")
    }

    /// Adds an attribute with a data type in the Puppet language. Its regular expressions are compiled when a
    /// value is checked.
    ///
    /// # Panics
    /// If `data_type` is not a valid data type. Built-in schemas are part of the program.
    #[must_use]
    pub fn attribute(self, name: &str, data_type: &str, behaviour: Behaviour, desc: &str) -> TypeSchema {
        let data_type = self.parsed(data_type);
        self.with(AttributeSchema::new(name, data_type, behaviour, desc))
    }

    fn parsed(&self, data_type: &str) -> DataType {
        let parsed = crate::data_type::parse(data_type).expect("built-in schemas hold valid data types");
        if self.aliases.is_empty() { parsed } else { parsed.resolve(&self.aliases()) }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, attribute: AttributeSchema) -> TypeSchema {
        self.attributes.push(attribute);
        self
    }

    /// Allows attributes with other names. Each has this schema except for the name.
    #[must_use]
    pub fn with_others(mut self, attribute: AttributeSchema) -> TypeSchema {
        self.others = Some(Box::new(attribute));
        self
    }

    /// Modifies the last attribute.
    #[must_use]
    fn last(mut self, change: impl FnOnce(&mut AttributeSchema)) -> TypeSchema {
        if let Some(last) = self.attributes.last_mut() {
            change(last);
        }
        self
    }

    /// Sets the default of the last attribute.
    #[must_use]
    pub fn default(self, value: impl Into<Value>) -> TypeSchema {
        self.last(|last| last.default = Some(value.into()))
    }

    /// Makes the last attribute required.
    #[must_use]
    pub fn required(self) -> TypeSchema {
        self.last(|last| last.required = true)
    }

    /// Sets the comparison of the last attribute.
    #[must_use]
    pub fn compare(self, comparison: Comparison) -> TypeSchema {
        self.last(|last| last.comparison = comparison)
    }

    /// Makes the last attribute lazy: it is read only if it is managed or requested.
    #[must_use]
    pub fn lazy(self) -> TypeSchema {
        self.last(|last| last.lazy = true)
    }

    /// Restricts the last attribute to these providers.
    #[must_use]
    pub fn only_for<'a>(self, providers: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.last(|last| last.providers = providers.into_iter().map(EcoString::from).collect())
    }

    /// Sets the provider features that the last attribute requires.
    #[must_use]
    pub fn requires<'a>(self, features: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.last(|last| last.required_features = features.into_iter().map(EcoString::from).collect())
    }

    /// Adds a custom key to the type.
    #[must_use]
    pub fn extra(mut self, key: &str, value: impl Into<Value>) -> TypeSchema {
        self.extra.insert(key.into(), value.into());
        self
    }

    /// Sets the features of the provider.
    #[must_use]
    pub fn features(mut self, features: &[Feature]) -> TypeSchema {
        self.features = features.to_vec();
        self
    }

    /// Declares an output with a data type in the Puppet language.
    ///
    /// # Panics
    /// If `data_type` is not a valid data type.
    #[must_use]
    pub fn output(mut self, name: &str, data_type: &str, desc: &str) -> TypeSchema {
        let data_type = self.parsed(data_type);
        self.outputs.push(OutputSchema { name: name.into(), data_type, desc: desc.into() });
        self
    }

    /// Adds a title pattern. It is tried after the earlier ones.
    #[must_use]
    pub fn title_pattern(mut self, pattern: &str, desc: &str) -> TypeSchema {
        self.title_patterns.push(TitlePattern::new(pattern, desc));
        self
    }

    /// Declares that resources come after resources of another type. Titles are constants, `$attribute` or
    /// texts with `${…}`.
    ///
    /// # Panics
    /// If a title contains an invalid expression in `${…}`.
    #[must_use]
    pub fn autorequire<'a>(self, type_name: &str, titles: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.auto(RelationKind::Require, type_name, titles)
    }

    /// Declares that resources come before resources of another type.
    ///
    /// # Panics
    /// If a title contains an invalid expression in `${…}`.
    #[must_use]
    pub fn autobefore<'a>(self, type_name: &str, titles: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.auto(RelationKind::Before, type_name, titles)
    }

    /// Declares that resources of another type refresh these resources.
    ///
    /// # Panics
    /// If a title contains an invalid expression in `${…}`.
    #[must_use]
    pub fn autosubscribe<'a>(self, type_name: &str, titles: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.auto(RelationKind::Subscribe, type_name, titles)
    }

    /// Declares that resources refresh resources of another type.
    ///
    /// # Panics
    /// If a title contains an invalid expression in `${…}`.
    #[must_use]
    pub fn autonotify<'a>(self, type_name: &str, titles: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.auto(RelationKind::Notify, type_name, titles)
    }

    /// Makes resources parts of resources of another type. The attribute `by` refers to the owner; the parts
    /// are entries of the owner's attribute `into`.
    #[must_use]
    pub fn part_of(mut self, type_name: &str, by: &str, into: &str) -> TypeSchema {
        self.part_of = Some(PartOf { type_name: type_name.into(), by: by.into(), into: into.into() });
        self
    }

    fn auto<'a>(mut self, kind: RelationKind, type_name: &str, titles: impl IntoIterator<Item = &'a str>) -> Self {
        let titles = titles.into_iter().map(AutoTitle::parse);
        let titles = titles.collect::<Result<_, _>>().expect("built-in schemas hold valid titles");
        self.relations.push(AutoRelation { kind, type_name: type_name.into(), titles });
        self
    }

    /// Returns an attribute by name.
    pub fn find(&self, name: &str) -> Option<&AttributeSchema> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Returns the index of an attribute. The search starts at `next`, which is then set to the following
    /// index. Callers usually process attributes in schema order.
    pub fn place_of(&self, name: &AttributeName, next: &mut usize) -> Option<usize> {
        let count = self.attributes.len();
        let at = (*next..count).chain(0..(*next).min(count)).find(|at| self.attributes[*at].name == *name)?;
        *next = at + 1;
        Some(at)
    }

    /// Returns the schema of an attribute, also if it is not listed and the type allows other attributes.
    pub fn known(&self, name: &str) -> Option<Cow<'_, AttributeSchema>> {
        let other = |other: &AttributeSchema| Cow::Owned(AttributeSchema { name: name.into(), ..other.clone() });
        self.find(name).map(Cow::Borrowed).or_else(|| self.others.as_deref().map(other))
    }

    /// Returns the schema with the unlisted attributes in `attributes` added, in their order.
    #[must_use]
    pub fn listing<'a>(&self, attributes: impl IntoIterator<Item = &'a Attributes>) -> Cow<'_, TypeSchema> {
        let mut schema = Cow::Borrowed(self);
        for (name, _) in attributes.into_iter().filter(|_| self.others.is_some()).flat_map(Attributes::iter) {
            let other = schema.known(name.as_str()).filter(|_| schema.find(name.as_str()).is_none());
            if let Some(other) = other.map(Cow::into_owned) {
                schema.to_mut().attributes.push(other);
            }
        }
        schema
    }

    /// Returns an output by name.
    pub fn find_output(&self, name: &str) -> Option<&OutputSchema> {
        self.outputs.iter().find(|output| output.name == name)
    }

    /// Returns the namevars: the attributes that identify a resource.
    pub fn namevars(&self) -> impl Iterator<Item = &AttributeSchema> {
        self.attributes.iter().filter(|attribute| attribute.behaviour == Behaviour::Namevar)
    }

    /// Returns true if resources of the type can be present or absent.
    pub fn is_ensurable(&self) -> bool {
        self.find("ensure").is_some()
    }

    /// Returns true if the provider declares `feature`.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Returns true if the provider declares this feature, including features of its author.
    pub fn has_word(&self, word: &str) -> bool {
        self.features.iter().any(|feature| feature.word() == word) || self.own_features.iter().any(|own| own == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition;

    #[test]
    fn open_type_accepts_unlisted_attributes() {
        let closed = TypeSchema::new("t", "").attribute("name", "String", Behaviour::Namevar, "");
        assert_eq!(closed.known("size"), None);
        let other = AttributeSchema::new("other", DataType::Any, Behaviour::Property, "");
        let open = closed.clone().with_others(other);
        assert_eq!(open.known("size").unwrap().name, "size");
        assert_eq!(open.known("name").unwrap().behaviour, Behaviour::Namevar);
        assert_eq!(open.find("size"), None);
        let found: Attributes = [("size", Value::from(1)), ("name", Value::from("a"))].into_iter().collect();
        let listed = open.listing([&found, &found]);
        assert_eq!(listed.attributes.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["name", "size"]);
        assert_eq!(closed.listing([&found]).attributes.len(), 1);
    }

    #[test]
    fn named_types_are_visible_to_later_attributes() {
        let schema = TypeSchema::new("listener", "What listens.")
            .alias("Port", "Integer[1, 65535]")
            .alias("Ports", "Array[Port, 1]")
            .attribute("name", "String", Behaviour::Namevar, "Its name.")
            .attribute("ports", "Ports", Behaviour::Property, "Where it listens.");
        let ports = &schema.find("ports").unwrap().data_type;
        assert!(ports.check(&Value::array([Value::Integer(80)])).is_ok());
        let refused = ports.check(&Value::array([Value::Integer(0)])).unwrap_err().to_string();
        assert_eq!(refused, "index 0 expects a Port = Integer[1, 65535] value, got 0");
        assert_eq!(definition::check(&schema), []);
        let (read, _) = definition::from_value(&definition::to_value(&schema)).unwrap();
        assert!(read.find("ports").unwrap().data_type.check(&Value::array([])).is_err());
    }
}
