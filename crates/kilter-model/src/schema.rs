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
pub use relations::{AutoRelation, AutoTitle, WishError};
pub(crate) use title::from_text;
pub use title::{TitleError, TitlePattern};

use crate::catalog::RelationKind;
use crate::data_type::{Aliases, DataType};
use crate::names::{AttributeName, TypeName};
use crate::value::{Hash, Value};

/// A type of resources: what it is for and which attributes it has.
///
/// It is built in Rust with the methods below, or read from data by
/// [`definition::from_value`](crate::definition::from_value).
#[derive(Clone, Debug, PartialEq)]
pub struct TypeSchema {
    /// Its name.
    pub name: TypeName,
    /// What it is for, in Markdown, examples included.
    pub desc: EcoString,
    /// Its attributes, in the order in which they are shown and compared.
    pub attributes: Vec<AttributeSchema>,
    /// What is known of attributes that are not listed, under whatever name; none where a type has no others.
    pub others: Option<Box<AttributeSchema>>,
    /// What its provider can do.
    pub features: Vec<Feature>,
    /// What its provider can do that has a meaning for its author alone.
    pub own_features: Vec<EcoString>,
    /// The values that a resource sends to others: `stdout`, ….
    pub outputs: Vec<OutputSchema>,
    /// How titles are taken apart, in the order in which that is tried.
    pub title_patterns: Vec<TitlePattern>,
    /// The relations that resources have because of their values.
    pub relations: Vec<AutoRelation>,
    /// What resources are parts of; none where they are something by themselves.
    pub part_of: Option<PartOf>,
    /// Names that the types of attributes are written with, and what each stands for.
    pub aliases: Vec<(EcoString, EcoString)>,
    /// What else its author said of it; kilter does not look into it.
    pub extra: Hash,
}

impl TypeSchema {
    /// A type without attributes.
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

    /// Gives a data type a name, for the attributes that are added later.
    #[must_use]
    pub fn alias(mut self, name: &str, data_type: &str) -> TypeSchema {
        self.aliases.push((name.into(), data_type.into()));
        self
    }

    /// The names of data types with what they stand for.
    fn aliases(&self) -> Aliases {
        let parsed = |text: &str| crate::data_type::parse(text).expect("built-in schemas hold valid data types");
        let definitions = self.aliases.iter().map(|(name, text)| (name.clone(), parsed(text)));
        Aliases::new(definitions).expect("built-in schemas hold valid names of data types")
    }

    /// Adds an attribute whose type is written in the Puppet language. Its regular expressions are
    /// not compiled before a value is checked.
    ///
    /// # Panics
    /// When `data_type` is not a data type: schemas of built-in types are part of the program.
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

    /// Lets the type have attributes that are not listed, each like this one but for the name.
    #[must_use]
    pub fn with_others(mut self, attribute: AttributeSchema) -> TypeSchema {
        self.others = Some(Box::new(attribute));
        self
    }

    /// Changes the attribute added last.
    #[must_use]
    fn last(mut self, change: impl FnOnce(&mut AttributeSchema)) -> TypeSchema {
        if let Some(last) = self.attributes.last_mut() {
            change(last);
        }
        self
    }

    /// Gives the attribute added last a default.
    #[must_use]
    pub fn default(self, value: impl Into<Value>) -> TypeSchema {
        self.last(|last| last.default = Some(value.into()))
    }

    /// Makes the attribute added last one that must be given.
    #[must_use]
    pub fn required(self) -> TypeSchema {
        self.last(|last| last.required = true)
    }

    /// Says when the attribute added last is as it was wanted.
    #[must_use]
    pub fn compare(self, comparison: Comparison) -> TypeSchema {
        self.last(|last| last.comparison = comparison)
    }

    /// Lets the attribute added last be read only when it is managed or asked for.
    #[must_use]
    pub fn lazy(self) -> TypeSchema {
        self.last(|last| last.lazy = true)
    }

    /// Names the only providers that have the attribute added last.
    #[must_use]
    pub fn only_for<'a>(self, providers: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.last(|last| last.providers = providers.into_iter().map(EcoString::from).collect())
    }

    /// Names the features that a provider must have for the attribute added last.
    #[must_use]
    pub fn requires<'a>(self, features: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.last(|last| last.required_features = features.into_iter().map(EcoString::from).collect())
    }

    /// Says something else of the attribute added last.
    #[must_use]
    pub fn attribute_extra(self, key: &str, value: impl Into<Value>) -> TypeSchema {
        self.last(|last| {
            last.extra.insert(key.into(), value.into());
        })
    }

    /// Says something else of the type.
    #[must_use]
    pub fn extra(mut self, key: &str, value: impl Into<Value>) -> TypeSchema {
        self.extra.insert(key.into(), value.into());
        self
    }

    /// Declares what the provider can do.
    #[must_use]
    pub fn features(mut self, features: &[Feature]) -> TypeSchema {
        self.features = features.to_vec();
        self
    }

    /// Declares a value that resources of the type send, of a type written in the Puppet language.
    ///
    /// # Panics
    /// When `data_type` is not a data type.
    #[must_use]
    pub fn output(mut self, name: &str, data_type: &str, desc: &str) -> TypeSchema {
        let data_type = self.parsed(data_type);
        self.outputs.push(OutputSchema { name: name.into(), data_type, desc: desc.into() });
        self
    }

    /// Adds a pattern that takes titles apart, to be tried after those that are there.
    #[must_use]
    pub fn title_pattern(mut self, pattern: &str, desc: &str) -> TypeSchema {
        self.title_patterns.push(TitlePattern::new(pattern, desc));
        self
    }

    /// Lets resources come after those of another type: constants, `$attribute`, texts with `${…}`.
    ///
    /// # Panics
    /// When a title holds something in `${…}` that is not an expression.
    #[must_use]
    pub fn autorequire<'a>(self, type_name: &str, titles: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.auto(RelationKind::Require, type_name, titles)
    }

    /// Lets resources come before those of another type.
    ///
    /// # Panics
    /// When a title holds something in `${…}` that is not an expression.
    #[must_use]
    pub fn autobefore<'a>(self, type_name: &str, titles: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.auto(RelationKind::Before, type_name, titles)
    }

    /// Lets resources be refreshed by those of another type.
    ///
    /// # Panics
    /// When a title holds something in `${…}` that is not an expression.
    #[must_use]
    pub fn autosubscribe<'a>(self, type_name: &str, titles: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.auto(RelationKind::Subscribe, type_name, titles)
    }

    /// Lets resources refresh those of another type.
    ///
    /// # Panics
    /// When a title holds something in `${…}` that is not an expression.
    #[must_use]
    pub fn autonotify<'a>(self, type_name: &str, titles: impl IntoIterator<Item = &'a str>) -> TypeSchema {
        self.auto(RelationKind::Notify, type_name, titles)
    }

    /// Makes resources parts of those of another type: what their attribute `by` names, in whose attribute `into` they are entries.
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

    /// The attribute of a name.
    pub fn find(&self, name: &str) -> Option<&AttributeSchema> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The place of an attribute, looked for from `next` on, which is the place behind it then: most who tell of many
    /// resources do so in the order of the schema.
    pub fn place_of(&self, name: &AttributeName, next: &mut usize) -> Option<usize> {
        let count = self.attributes.len();
        let at = (*next..count).chain(0..(*next).min(count)).find(|at| self.attributes[*at].name == *name)?;
        *next = at + 1;
        Some(at)
    }

    /// What is known of an attribute: it is listed, or the type has others.
    pub fn known(&self, name: &str) -> Option<Cow<'_, AttributeSchema>> {
        let other = |other: &AttributeSchema| Cow::Owned(AttributeSchema { name: name.into(), ..other.clone() });
        self.find(name).map(Cow::Borrowed).or_else(|| self.others.as_deref().map(other))
    }

    /// The type with those others listed that `attributes` hold, in their order.
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

    /// The output of a name.
    pub fn find_output(&self, name: &str) -> Option<&OutputSchema> {
        self.outputs.iter().find(|output| output.name == name)
    }

    /// The attributes that identify a resource.
    pub fn namevars(&self) -> impl Iterator<Item = &AttributeSchema> {
        self.attributes.iter().filter(|attribute| attribute.behaviour == Behaviour::Namevar)
    }

    /// Whether resources of the type can be present or absent.
    pub fn is_ensurable(&self) -> bool {
        self.find("ensure").is_some()
    }

    /// Whether the provider declares `feature`.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Whether the provider declares the feature of this word, one of its author's included.
    pub fn has_word(&self, word: &str) -> bool {
        self.features.iter().any(|feature| feature.word() == word) || self.own_features.iter().any(|own| own == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition;

    #[test]
    fn a_type_may_have_attributes_that_are_not_listed() {
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
    fn named_types_are_known_to_the_attributes_that_follow_and_kept_with_the_definition() {
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
