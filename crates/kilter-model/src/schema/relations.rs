//! Relations that resources have because of their values.

use std::cell::Cell;

use ecow::{EcoString, eco_format};

use super::{Attributes, TypeSchema};
use crate::catalog::RelationKind;
use crate::expr::{EvalError, ExprError, Lookup, Scope, Template, is_plain};
use crate::names::{AttributeName, ResourceRef, TypeName};
use crate::value::Value;

/// Resources of one type that a resource is related to, where the catalog has them.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoRelation {
    /// How it is related to them.
    pub kind: RelationKind,
    /// Their type.
    pub type_name: TypeName,
    /// What their titles are.
    pub titles: Vec<AutoTitle>,
}

/// What the titles of related resources are made of.
#[derive(Clone, Debug)]
pub enum AutoTitle {
    /// One title.
    Constant(EcoString),
    /// Written `$name`: the value of an attribute; each of its elements if it is a list.
    Attribute(AttributeName),
    /// A text with `${…}` in it, in which `vars` are the values of the resource.
    Expression(Template),
}

impl PartialEq for AutoTitle {
    fn eq(&self, other: &AutoTitle) -> bool {
        self.source() == other.source()
    }
}

impl AutoTitle {
    /// Reads a title as definitions write it.
    ///
    /// # Errors
    /// When it holds something in `${…}` that is not an expression.
    pub fn parse(text: &str) -> Result<AutoTitle, ExprError> {
        if !is_plain(text) {
            return Ok(match Template::parse(text)? {
                template if template.is_literal() => AutoTitle::Constant(text.replace("$${", "${").into()),
                template => AutoTitle::Expression(template),
            });
        }
        // As Puppet has it: /\A\$(.*)\Z/, in which `.` is no line break.
        let name = text.strip_prefix('$').map(|name| name.strip_suffix('\n').unwrap_or(name));
        Ok(match name.filter(|name| !name.contains('\n')) {
            Some(name) => AutoTitle::Attribute(name.into()),
            None => AutoTitle::Constant(text.into()),
        })
    }

    /// The title as definitions write it.
    pub fn source(&self) -> EcoString {
        match self {
            AutoTitle::Constant(text) => text.replace("${", "$${"),
            AutoTitle::Attribute(name) => eco_format!("${name}"),
            AutoTitle::Expression(template) => template.source().unwrap_or_default().into(),
        }
    }
}

/// Says why a relation that a type declares could not be made of a resource's values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot tell what auto{kind} of `{type_name}` `{title}` stands for: {reason}", kind = .kind.word())]
pub struct WishError {
    /// How the resource would be related.
    pub kind: RelationKind,
    /// The type of the other.
    pub type_name: TypeName,
    /// The title as the definition has it.
    pub title: EcoString,
    /// What is wrong.
    pub reason: EcoString,
}

impl TypeSchema {
    /// Calls `see` with every relation that a resource with these values has by its type: the kind,
    /// and the type and title of the other. Whether the other exists is left to the caller.
    ///
    /// `name` is the value of a single namevar that the values do not hold. Lists are flattened; what
    /// has no value is left out, and so is an expression that cannot do without it. Sealed values are
    /// no titles, since titles are shown. Returns what went wrong otherwise.
    pub fn wishes(
        &self,
        attributes: &Attributes,
        name: &str,
        see: &mut dyn FnMut(RelationKind, &TypeName, &str),
    ) -> Vec<WishError> {
        let mut errors = Vec::new();
        for relation in &self.relations {
            for title in &relation.titles {
                match self.titles(title, attributes, name) {
                    Ok(titles) => titles.iter().for_each(|title| see(relation.kind, &relation.type_name, title)),
                    Err(reason) => errors.push(WishError {
                        kind: relation.kind,
                        type_name: relation.type_name.clone(),
                        title: title.source(),
                        reason,
                    }),
                }
            }
        }
        errors
    }

    /// What a title stands for with a resource that has these values, as for [`TypeSchema::wishes`].
    ///
    /// # Errors
    /// Why it cannot be told.
    pub fn titles(&self, title: &AutoTitle, attributes: &Attributes, name: &str) -> Result<Vec<EcoString>, EcoString> {
        let values = Values { schema: self, attributes, name, missed: Cell::new(false) };
        let mut titles = Vec::new();
        flatten(&values.of(title)?, &mut titles)?;
        Ok(titles)
    }
}

/// The titles in a value.
fn flatten(value: &Value, titles: &mut Vec<EcoString>) -> Result<(), EcoString> {
    match value {
        Value::Undef => {}
        Value::Sensitive(_) => return Err("a sealed value is no title".into()),
        Value::Array(values) => values.iter().try_for_each(|value| flatten(value, titles))?,
        other => match other.to_text() {
            Some(text) if text.is_empty() => {}
            Some(text) => titles.push(text),
            None => return Err(eco_format!("{} is no title", other.kind())),
        },
    }
    Ok(())
}

/// The values of one resource, as the variables of an expression.
struct Values<'a> {
    schema: &'a TypeSchema,
    attributes: &'a Attributes,
    name: &'a str,
    /// Whether an attribute was asked for that has no value.
    missed: Cell<bool>,
}

impl Values<'_> {
    fn of(&self, title: &AutoTitle) -> Result<Value, EcoString> {
        match title {
            AutoTitle::Constant(text) => Ok(Value::String(text.clone())),
            AutoTitle::Attribute(name) => Ok(self.get(name.as_str()).unwrap_or_default()),
            AutoTitle::Expression(template) => {
                self.missed.set(false);
                match template.render(self) {
                    Err(_) if self.missed.get() => Ok(Value::Undef),
                    Err(EvalError::Failed { message, .. }) => Err(message),
                    Err(unknown) => Err(eco_format!("it is {unknown}")),
                    Ok(value) => Ok(value),
                }
            }
        }
    }

    fn get(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.attributes.get(name) {
            return Some(value.clone());
        }
        let mut namevars = self.schema.namevars();
        let only = namevars.next().filter(|_| namevars.next().is_none())?;
        (only.name == name && !self.name.is_empty()).then(|| Value::from(self.name))
    }
}

impl Scope for Values<'_> {
    fn var(&self, name: &str) -> Lookup {
        match self.get(name) {
            Some(value) => Lookup::Found(value),
            None if self.schema.find(name).is_some() => {
                self.missed.set(true);
                Lookup::Found(Value::Undef)
            }
            None => Lookup::Missing,
        }
    }

    fn fact(&self, _: &str) -> Lookup {
        Lookup::Missing
    }

    fn output(&self, _: &ResourceRef, _: &str) -> Lookup {
        Lookup::Missing
    }

    fn var_names(&self) -> Vec<EcoString> {
        self.schema.attributes.iter().map(|attribute| attribute.name.text().clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Behaviour;

    fn schema() -> TypeSchema {
        TypeSchema::new("t", "")
            .attribute("name", "String", Behaviour::Namevar, "")
            .attribute("source", "Optional[String]", Behaviour::Parameter, "")
            .attribute("groups", "Array[Any]", Behaviour::Property, "")
            .attribute("secret", "Sensitive[String]", Behaviour::Property, "")
    }

    fn wishes(schema: &TypeSchema, values: &[(&str, Value)]) -> (Vec<String>, Vec<String>) {
        let attributes = values.iter().cloned().collect();
        let mut seen = Vec::new();
        let errors = schema.wishes(&attributes, "web", &mut |kind, type_name, title| {
            seen.push(format!("{} {type_name}[{title}]", kind.word()));
        });
        (seen, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn constants_and_values_of_attributes_become_titles() {
        let schema = schema()
            .autorequire("package", ["apt"])
            .autorequire("file", ["$source", "/etc/apt"])
            .autobefore("service", ["$name"])
            .autosubscribe("group", ["$groups"])
            .autonotify("exec", ["reload\n$x"]);
        let nested = Value::array(["a".into(), Value::array([Value::Undef, Value::Integer(7)]), "".into()]);
        let (seen, errors) = wishes(&schema, &[("source", "/k".into()), ("groups", nested)]);
        assert_eq!(
            seen,
            [
                "require package[apt]",
                "require file[/k]",
                "require file[/etc/apt]",
                "before service[web]",
                "subscribe group[a]",
                "subscribe group[7]",
                "notify exec[reload\n$x]",
            ]
        );
        assert!(errors.is_empty());
        let (seen, errors) = wishes(&schema, &[]);
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert!(errors.is_empty());
    }

    #[test]
    fn expressions_are_made_of_the_resources_own_values() {
        let schema = schema()
            .autorequire("file", ["/etc/${vars.name}.d", "${vars.groups}", "$${vars.name}"])
            .autobefore("file", ["${has(vars.source) ? vars.source : null}", "${vars.source}/x"]);
        let (seen, errors) = wishes(&schema, &[("groups", Value::strings(["a", "b"]))]);
        assert_eq!(
            seen,
            ["require file[/etc/web.d]", "require file[a]", "require file[b]", "require file[${vars.name}]"]
        );
        assert!(errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn what_has_no_title_is_told_and_left_out() {
        let schema = schema().autorequire("file", ["${1 / 0}", "$secret", "x${vars.secret}", "${vars.nam}", "ok"]);
        let (seen, errors) = wishes(&schema, &[("secret", Value::sensitive("hunter2".into()))]);
        assert_eq!(seen, ["require file[ok]"]);
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert!(
            errors[0].starts_with("cannot tell what autorequire of `file` `${1 / 0}` stands for: "),
            "{}",
            errors[0]
        );
        assert!(errors.iter().all(|error| !error.contains("hunter2")), "{errors:?}");
    }

    #[test]
    fn a_title_is_written_as_it_is_read() {
        for text in ["apt", "$source", "a${vars.b}", "$${x}", "a\n$b", "$"] {
            assert_eq!(AutoTitle::parse(text).unwrap().source(), text);
        }
        assert_eq!(AutoTitle::parse("$a\n").unwrap(), AutoTitle::Attribute("a".into()));
        assert_eq!(AutoTitle::parse("$").unwrap(), AutoTitle::Attribute("".into()));
        assert!(AutoTitle::parse("${").is_err());
    }
}
