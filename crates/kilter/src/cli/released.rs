//! Treatment of resources that left the manifests (`--released`).

use clap::{Args, ValueEnum};

use super::HOW;

/// Treatment of resources that left the manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Released {
    /// They stay as they are.
    #[default]
    Keep,
    /// Resources that kilter has created are removed; others stay.
    Remove,
    /// The state before the first change by kilter is restored.
    Revert,
}

/// Treatment of some of the resources: `remove`, `package=remove`, `file[/etc/motd]=revert`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReleasedRule {
    /// Type of the resources. None for all types.
    type_name: Option<String>,
    /// Title or name of a resource. None for all of the type.
    title: Option<String>,
    how: Released,
}

impl ReleasedRule {
    /// Parses a rule.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub(crate) fn parse(text: &str) -> Result<ReleasedRule, String> {
        let (scope, how) = match text.rsplit_once('=') {
            Some((scope, how)) => (Some(scope), how),
            None => (None, text),
        };
        let how = Released::from_str(how, false).map_err(|_| format!("`{how}` is not keep, remove or revert"))?;
        let (type_name, title) = match scope.map(|scope| (scope, scope.split_once('['))) {
            None => (None, None),
            Some((_, Some((type_name, rest)))) => (Some(type_name), Some(rest.strip_suffix(']').unwrap_or_default())),
            Some((type_name, None)) => (Some(type_name), None),
        };
        match type_name == Some("") || title == Some("") {
            true => Err("write a type or a resource before `=`: package=remove, file[/etc/motd]=revert".to_owned()),
            false => Ok(ReleasedRule { type_name: type_name.map(str::to_owned), title: title.map(str::to_owned), how }),
        }
    }

    fn is_for(&self, type_name: &str, names: [&str; 2]) -> bool {
        self.type_name.as_ref().is_none_or(|known| known == type_name)
            && self.title.as_ref().is_none_or(|title| names.contains(&title.as_str()))
    }
}

/// Treatment of all resources that left the manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct ReleasedArgs {
    /// Treatment of resources that left the manifest since its last run: `keep` (the default), `remove` those that
    /// kilter has created, or `revert` to the state before its first change. For a type or a resource:
    /// `package=remove`, `file[/etc/motd]=revert`; repeatable
    #[arg(long = "released", value_name = "[SCOPE=]HOW", value_parser = ReleasedRule::parse, help_heading = HOW)]
    rules: Vec<ReleasedRule>,
}

impl ReleasedArgs {
    /// Returns the types that rules name.
    pub(crate) fn types(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter_map(|rule| rule.type_name.as_deref())
    }

    /// Returns true if no rule is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns true if all resources stay as they are.
    pub(crate) fn keeps_all(&self) -> bool {
        self.rules.iter().all(|rule| rule.how == Released::Keep)
    }

    /// Returns the treatment of a resource, by its title or its name. The rule for the resource comes before that for its
    /// type, and that before the rule for all. The last of equal rules counts.
    pub(crate) fn of(&self, type_name: &str, names: [&str; 2]) -> Released {
        let rules = self.rules.iter().filter(|rule| rule.is_for(type_name, names));
        let rule = rules.max_by_key(|rule| (rule.title.is_some(), rule.type_name.is_some()));
        rule.map_or(Released::Keep, |rule| rule.how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_of_the_resource_comes_first() {
        let rules = ["file[/a=b]=keep", "remove", "file=revert", "file[/c]=remove", "file[/c]=keep"];
        let rules = ReleasedArgs { rules: rules.map(|rule| ReleasedRule::parse(rule).unwrap()).into() };
        for (type_name, names, how) in [
            ("user", ["u", "u"], Released::Remove),
            ("file", ["x", "/x"], Released::Revert),
            ("file", ["x", "/a=b"], Released::Keep),
            ("file", ["/c", "/c"], Released::Keep),
        ] {
            assert_eq!(rules.of(type_name, names), how, "{type_name} {names:?}");
        }
        assert!(!rules.keeps_all() && ReleasedArgs::default().keeps_all());
        assert_eq!(rules.types().collect::<Vec<_>>(), ["file"; 4]);
        assert_eq!(ReleasedArgs::default().of("file", ["x", "x"]), Released::Keep);
    }

    #[test]
    fn wrong_rule_is_refused() {
        for (rule, why) in [
            ("delete", "`delete` is not keep, remove or revert"),
            ("file=", "`` is not keep"),
            ("=keep", "write a type or a resource"),
            ("[x]=keep", "write a type or a resource"),
            ("file[=keep", "write a type or a resource"),
            ("file[x=keep", "write a type or a resource"),
        ] {
            assert!(ReleasedRule::parse(rule).unwrap_err().contains(why), "{rule}");
        }
    }
}
