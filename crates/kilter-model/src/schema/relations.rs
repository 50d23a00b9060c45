//! Automatic relations, derived from the values of a resource.

use std::cell::Cell;

use ecow::{EcoString, eco_format};

use super::{Attributes, TypeSchema};
use crate::catalog::RelationKind;
use crate::expr::{EvalError, ExprError, Lookup, Scope, Template, is_plain};
use crate::names::{AttributeName, ResourceRef, TypeName};
use crate::value::Value;

/// A relation to resources of a type, if the catalog contains them.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoRelation {
    /// Kind of the relation.
    pub kind: RelationKind,
    /// Type of the related resources.
    pub type_name: TypeName,
    /// Titles of the related resources.
    pub titles: Vec<AutoTitle>,
}

/// Title of a related resource.
#[derive(Clone, Debug)]
pub enum AutoTitle {
    /// A fixed title.
    Constant(EcoString),
    /// Written `$name`: the value of an attribute, or each of its elements if it is a list.
    Attribute(AttributeName),
    /// A text with `${…}`, in which `vars` are the attributes of the resource.
    Expression(Template),
}

impl PartialEq for AutoTitle {
    fn eq(&self, other: &AutoTitle) -> bool {
        self.source() == other.source()
    }
}

impl AutoTitle {
    /// Parses a title of a definition.
    ///
    /// # Errors
    /// If `${…}` contains an invalid expression.
    pub fn parse(text: &str) -> Result<AutoTitle, ExprError> {
        if !is_plain(text) {
            return Ok(match Template::parse(text)? {
                template if template.is_literal() => AutoTitle::Constant(text.replace("$${", "${").into()),
                template => AutoTitle::Expression(template),
            });
        }
        // Same as in Puppet: /\A\$(.*)\Z/, in which `.` matches no line break.
        let name = text.strip_prefix('$').map(|name| name.strip_suffix('\n').unwrap_or(name));
        Ok(match name.filter(|name| !name.contains('\n')) {
            Some(name) => AutoTitle::Attribute(name.into()),
            None => AutoTitle::Constant(text.into()),
        })
    }

    /// Returns the title as written in definitions.
    pub fn source(&self) -> EcoString {
        match self {
            AutoTitle::Constant(text) => text.replace("${", "$${"),
            AutoTitle::Attribute(name) => eco_format!("${name}"),
            AutoTitle::Expression(template) => template.source().unwrap_or_default().into(),
        }
    }
}

/// Error in an automatic relation of a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot tell what auto{kind} of `{type_name}` `{title}` refers to: {reason}", kind = .kind.word())]
pub struct AutoRelationError {
    /// Kind of the relation.
    pub kind: RelationKind,
    /// Type of the related resource.
    pub type_name: TypeName,
    /// Title as written in the definition.
    pub title: EcoString,
    /// Reason of the error.
    pub reason: EcoString,
}

impl TypeSchema {
    /// Calls `see` with every automatic relation of a resource with these values: the kind, and the type and
    /// title of the other resource. The caller checks if the other resource exists. Returns the errors.
    ///
    /// `name` is the value of a single namevar that is missing in `attributes`. Lists are flattened. Missing
    /// values are skipped, and so are expressions that need them. A sensitive value is an error, because titles
    /// are shown.
    pub fn auto_relations(
        &self,
        attributes: &Attributes,
        name: &str,
        see: &mut dyn FnMut(RelationKind, &TypeName, &str),
    ) -> Vec<AutoRelationError> {
        let mut errors = Vec::new();
        for relation in &self.relations {
            for title in &relation.titles {
                match self.titles(title, attributes, name) {
                    Ok(titles) => titles.iter().for_each(|title| see(relation.kind, &relation.type_name, title)),
                    Err(reason) => errors.push(AutoRelationError {
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

    /// Returns the titles of related resources for these values, as for [`TypeSchema::auto_relations`].
    ///
    /// # Errors
    /// The reason why a title is unknown.
    pub fn titles(&self, title: &AutoTitle, attributes: &Attributes, name: &str) -> Result<Vec<EcoString>, EcoString> {
        let values = RuleVariables { schema: self, attributes, name, missed: Cell::new(false) };
        let mut titles = Vec::new();
        flatten(&values.of(title)?, &mut titles)?;
        Ok(titles)
    }
}

/// Collects the titles in a value.
fn flatten(value: &Value, titles: &mut Vec<EcoString>) -> Result<(), EcoString> {
    match value {
        Value::Undef => {}
        Value::Sensitive(_) => return Err("a sensitive value cannot be a title".into()),
        Value::Array(values) => values.iter().try_for_each(|value| flatten(value, titles))?,
        other => match other.to_text() {
            Some(text) if text.is_empty() => {}
            Some(text) => titles.push(text),
            None => return Err(eco_format!("{} is not a title", other.kind())),
        },
    }
    Ok(())
}

/// The attributes of a resource as variables of an expression.
struct RuleVariables<'a> {
    schema: &'a TypeSchema,
    attributes: &'a Attributes,
    name: &'a str,
    /// True if the expression used an attribute without a value.
    missed: Cell<bool>,
}

impl RuleVariables<'_> {
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

impl Scope for RuleVariables<'_> {
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

    fn auto_relations(schema: &TypeSchema, values: &[(&str, Value)]) -> (Vec<String>, Vec<String>) {
        let attributes = values.iter().cloned().collect();
        let mut seen = Vec::new();
        let errors = schema.auto_relations(&attributes, "web", &mut |kind, type_name, title| {
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
        let (seen, errors) = auto_relations(&schema, &[("source", "/k".into()), ("groups", nested)]);
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
        let (seen, errors) = auto_relations(&schema, &[]);
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert!(errors.is_empty());
    }

    #[test]
    fn relation_expressions_use_own_attributes() {
        let schema = schema()
            .autorequire("file", ["/etc/${vars.name}.d", "${vars.groups}", "$${vars.name}"])
            .autobefore("file", ["${has(vars.source) ? vars.source : null}", "${vars.source}/x"]);
        let (seen, errors) = auto_relations(&schema, &[("groups", Value::strings(["a", "b"]))]);
        assert_eq!(
            seen,
            ["require file[/etc/web.d]", "require file[a]", "require file[b]", "require file[${vars.name}]"]
        );
        assert!(errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn relation_without_title_is_omitted_with_warning() {
        let schema = schema().autorequire("file", ["${1 / 0}", "$secret", "x${vars.secret}", "${vars.nam}", "ok"]);
        let (seen, errors) = auto_relations(&schema, &[("secret", Value::sensitive("hunter2".into()))]);
        assert_eq!(seen, ["require file[ok]"]);
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert!(
            errors[0].starts_with("cannot tell what autorequire of `file` `${1 / 0}` refers to: "),
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
