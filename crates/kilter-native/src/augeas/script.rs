//! Changes and conditions in the notation of Puppet's type `augeas`, translated to commands of augtool(1).

use ecow::{EcoString, eco_format};
use kilter_model::{Regexp, Value};

/// Kinds of words in a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordKind {
    /// A path expression, relative to the context unless it begins with `/` or `$`.
    Path,
    /// A path expression that another one contains.
    Inner,
    Text,
    /// A text that may be missing.
    Optional,
    /// `before` or `after`.
    Side,
}

use WordKind::{Inner, Optional, Path, Side, Text};

/// Commands that change the tree: names, the name in augtool, and the words.
const CHANGES: &[(&[&str], &str, &[WordKind])] = &[
    (&["set"], "set", &[Path, Optional]),
    (&["setm"], "setm", &[Path, Inner, Optional]),
    (&["rm", "remove"], "rm", &[Path]),
    (&["clear"], "clear", &[Path]),
    (&["clearm"], "clearm", &[Path, Inner]),
    (&["touch"], "touch", &[Path]),
    (&["ins", "insert"], "ins", &[Text, Side, Path]),
    (&["mv", "move"], "mv", &[Path, Path]),
    (&["rename"], "rename", &[Path, Text]),
    (&["defvar"], "defvar", &[Text, Path]),
    (&["defnode"], "defnode", &[Text, Path, Optional]),
];

/// Takes the next word of a command. Returns it without its quotes, and the rest.
fn next(line: &str, is_path: bool) -> Result<Option<(String, &str)>, EcoString> {
    let line = line.trim_start();
    let Some(first) = line.chars().next() else { return Ok(None) };
    let mut word = String::new();
    if first == '"' || first == '\'' {
        let mut chars = line.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, c)) if c == first || c == '\\' => word.push(c),
                    Some((_, c)) => word.extend(['\\', c]),
                    None => break,
                },
                c if c == first => {
                    let rest = &line[at + 1..];
                    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
                        return Err(eco_format!("`{rest}` follows a closing quote without a space"));
                    }
                    return Ok(Some((word, rest)));
                }
                c => word.push(c),
            }
        }
        return Err("a quote is not closed".into());
    }
    let (mut depth, mut quote) = (0_u32, None);
    let mut is_escaped = false;
    for (at, c) in line.char_indices() {
        let is_end = match (is_path, quote) {
            _ if std::mem::take(&mut is_escaped) => false,
            (true, Some(open)) => {
                quote = quote.filter(|_| c != open);
                false
            }
            (true, None) => {
                match c {
                    '\\' => is_escaped = true,
                    '[' => depth += 1,
                    ']' => depth = depth.checked_sub(1).ok_or("`]` without `[`")?,
                    '"' | '\'' if depth > 0 => quote = Some(c),
                    _ => {}
                }
                depth == 0 && c.is_whitespace()
            }
            (false, _) => c.is_whitespace(),
        };
        if is_end {
            return Ok(Some((word, &line[at..])));
        }
        word.push(c);
    }
    match depth {
        0 => Ok(Some((word, ""))),
        _ => Err("`[` is not closed".into()),
    }
}

/// Returns the whole path of a path expression.
fn absolute(context: &str, path: &str) -> String {
    match path.starts_with(['/', '$', '(']) || context.is_empty() {
        true => path.to_owned(),
        false => format!("{}/{path}", context.trim_end_matches('/')),
    }
}

/// Quotes a word for augtool.
fn quoted(word: &str) -> String {
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('"');
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Translates a change to a command of augtool.
///
/// # Errors
/// If the notation is wrong.
fn change(context: &str, line: &str) -> Result<String, EcoString> {
    let (name, rest) = line.trim_start().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let Some((_, command, words)) = CHANGES.iter().find(|(names, ..)| names.contains(&name)) else {
        let known: Vec<&str> = CHANGES.iter().map(|(names, ..)| names[0]).collect();
        return Err(eco_format!("there is no change `{name}`, but {}", known.join(", ")));
    };
    let mut translated = (*command).to_owned();
    let mut left = rest;
    for word in *words {
        let Some((text, rest)) = next(left, matches!(word, Path | Inner))? else {
            match word {
                Optional => continue,
                _ => return Err(eco_format!("`{name}` needs more words")),
            }
        };
        if *word == Side && !matches!(text.as_str(), "before" | "after") {
            return Err(eco_format!("`{text}` is neither `before` nor `after`"));
        }
        let text = if *word == Path { absolute(context, &text) } else { text };
        translated.push(' ');
        // augtool reads quotes and backslashes in an unquoted path as parts of the path.
        translated.push_str(&if matches!(word, Path | Inner) && !text.contains(['\n', '\0']) {
            path(&text)
        } else {
            quoted(&text)
        });
        left = rest;
    }
    match left.trim() {
        "" => Ok(translated),
        more => Err(eco_format!("`{name}` does not take `{more}`: quote a value with spaces")),
    }
}

/// Returns a path expression as a word of augtool. One with spaces outside of brackets needs quotes.
fn path(path: &str) -> String {
    let is_plain = matches!(next(path, true), Ok(Some((word, rest))) if rest.is_empty() && word == path);
    if is_plain { path.to_owned() } else { quoted(path) }
}

/// Translates declared changes: a text with a change in each line, or a list.
///
/// # Errors
/// If the notation of a change is wrong.
pub(super) fn commands(context: &str, changes: &Value) -> Result<Vec<String>, EcoString> {
    let changes = changes.expose();
    let texts = crate::value_text::texts(Some(&changes));
    let lines: Vec<&str> = match changes.as_array() {
        Some(_) => texts.iter().map(EcoString::as_str).collect(),
        None => texts.iter().flat_map(|text| text.lines()).collect(),
    };
    let lines = lines.into_iter().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| change(context, line).map_err(|why| eco_format!("`{line}`: {why}"))).collect()
}

/// A condition on the tree, before changes.
#[derive(Debug)]
pub(super) struct TreeCondition {
    /// Command of augtool whose output decides.
    pub(super) query: String,
    test: TreeTest,
}

#[derive(Debug)]
enum TreeTest {
    /// `get PATH COMPARATOR TEXT`
    Value(ValueComparator, String),
    /// `match PATH size COMPARATOR NUMBER`
    Size(ValueComparator, String),
    /// `match PATH include TEXT`, and `not_include`: the paths; `values` the values.
    Include { is_wanted: bool, of_values: bool, text: String },
    /// `match PATH == [TEXT, …]`, and `!=`
    List { is_wanted: bool, of_values: bool, list: Vec<String> },
}

#[derive(Debug)]
enum ValueComparator {
    Order(fn(std::cmp::Ordering) -> bool),
    Matches(Box<Regexp>),
}

fn comparator(word: &str, text: &str) -> Result<ValueComparator, EcoString> {
    Ok(ValueComparator::Order(match word {
        "==" => std::cmp::Ordering::is_eq,
        "!=" => std::cmp::Ordering::is_ne,
        "<" => std::cmp::Ordering::is_lt,
        "<=" => std::cmp::Ordering::is_le,
        ">" => std::cmp::Ordering::is_gt,
        ">=" => std::cmp::Ordering::is_ge,
        "=~" => {
            let regexp = Regexp::new(text);
            let compiled = regexp.compile().map(drop);
            compiled.map_err(|error| eco_format!("`{text}` is not a regular expression: {error}"))?;
            return Ok(ValueComparator::Matches(Box::new(regexp)));
        }
        _ => return Err(eco_format!("`{word}` is not one of ==, !=, <, <=, >, >=, =~")),
    }))
}

/// Compares numbers if both are numbers, otherwise texts.
fn order(is: &str, wanted: &str) -> std::cmp::Ordering {
    match (is.parse::<f64>(), wanted.parse::<f64>()) {
        (Ok(is), Ok(wanted)) => is.partial_cmp(&wanted).unwrap_or(std::cmp::Ordering::Less),
        _ => is.cmp(wanted),
    }
}

/// Parses a list of Puppet: `["a", 'b']`.
fn list(text: &str) -> Result<Vec<String>, EcoString> {
    let inner = text.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let mut rest =
        inner.ok_or_else(|| eco_format!("`{text}` is not a list such as [\"a\", \"b\"]"))?.replace(',', " , ");
    let mut found = Vec::new();
    while let Some((word, left)) = next(&rest, false)? {
        if word != "," {
            found.push(word);
        }
        rest = left.to_owned();
    }
    Ok(found)
}

impl TreeCondition {
    /// Parses the value of `onlyif`.
    ///
    /// # Errors
    /// If the notation is wrong.
    pub(super) fn parse(context: &str, text: &str) -> Result<TreeCondition, EcoString> {
        let (name, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let command = match name {
            "get" => "get",
            "match" | "values" => "match",
            _ => return Err(eco_format!("there is no condition `{name}`, but get, match, values")),
        };
        let missing = || EcoString::from("the condition needs more words");
        let (subject, rest) = next(rest, true)?.ok_or_else(missing)?;
        let (verb, rest) = next(rest, false)?.ok_or_else(missing)?;
        let one = |rest| -> Result<String, EcoString> {
            let (word, rest) = next(rest, false)?.ok_or_else(missing)?;
            match rest.trim() {
                "" => Ok(word),
                more => Err(eco_format!("`{more}` is too much: quote a value with spaces")),
            }
        };
        let of_values = name == "values";
        let test = match (command, verb.as_str()) {
            ("get", _) => {
                let text = one(rest)?;
                TreeTest::Value(comparator(&verb, &text)?, text)
            }
            (_, "size") if !of_values => {
                let (verb, rest) = next(rest, false)?.ok_or_else(missing)?;
                let number = one(rest)?;
                if number.parse::<u32>().is_err() || verb == "=~" {
                    return Err(eco_format!("`{verb} {number}` does not compare a number"));
                }
                TreeTest::Size(comparator(&verb, &number)?, number)
            }
            (_, "include" | "not_include") => {
                TreeTest::Include { is_wanted: verb == "include", of_values, text: one(rest)? }
            }
            (_, "==" | "!=") => TreeTest::List { is_wanted: verb == "==", of_values, list: list(rest)? },
            _ => return Err(eco_format!("`{verb}` is not one of size, include, not_include, ==, !=")),
        };
        Ok(TreeCondition { query: format!("{command} {}", path(&absolute(context, &subject))), test })
    }

    /// Decides by the output of the query.
    ///
    /// # Errors
    /// If a comparison fails.
    pub(super) fn holds(&self, output: &str) -> Result<bool, EcoString> {
        let is_none = |line: &&str| line.trim() == "(no matches)";
        let rows = output.lines().filter(|line| !is_none(line) && line.starts_with('/'));
        let rows = rows.map(|line| line.split_once(" = ").unwrap_or((line, "(none)")));
        let items = |of_values: bool| -> Vec<String> {
            let rows = rows.clone().filter(|(_, value)| !of_values || *value != "(none)");
            rows.map(|(path, value)| if of_values { value } else { path }.to_owned()).collect()
        };
        Ok(match &self.test {
            TreeTest::Value(comparator, wanted) => {
                // A missing node compares as an empty text.
                let value = output.split_once(" = ").map_or("", |(_, value)| value.strip_suffix('\n').unwrap_or(value));
                match comparator {
                    ValueComparator::Order(holds) => holds(order(value, wanted)),
                    ValueComparator::Matches(regexp) => {
                        regexp.is_match(value).map_err(|error| eco_format!("onlyif: {error}"))?
                    }
                }
            }
            TreeTest::Size(comparator, wanted) => {
                let count = rows.count().to_string();
                matches!(comparator, ValueComparator::Order(holds) if holds(order(&count, wanted)))
            }
            TreeTest::Include { is_wanted, of_values, text } => items(*of_values).contains(text) == *is_wanted,
            TreeTest::List { is_wanted, of_values, list } => (items(*of_values) == *list) == *is_wanted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> String {
        change("/files/etc/hosts", line).unwrap_or_else(|why| format!("error: {why}"))
    }

    #[test]
    fn changes_become_commands() {
        for (line, expected) in [
            ("set 1/canonical web", r#"set /files/etc/hosts/1/canonical "web""#),
            ("set /files/x/y 'two words'", r#"set /files/x/y "two words""#),
            (r#"set Match[User = "a b"]/Port "2 \"2\"""#, r#"set /files/etc/hosts/Match[User = "a b"]/Port "2 \"2\"""#),
            ("set 1/alias", "set /files/etc/hosts/1/alias"),
            ("remove $node/alias", "rm $node/alias"),
            ("insert alias after 1/canonical", r#"ins "alias" "after" /files/etc/hosts/1/canonical"#),
            ("setm . alias x", r#"setm /files/etc/hosts/. alias "x""#),
            ("defnode n 01 ''", r#"defnode "n" /files/etc/hosts/01 """#),
            ("mv 1 2", "mv /files/etc/hosts/1 /files/etc/hosts/2"),
        ] {
            assert_eq!(translated(line), expected, "{line}");
        }
    }

    #[test]
    fn wrong_changes_are_errors() {
        for (line, expected) in [
            ("save", "there is no change `save`"),
            ("load-file /etc/shadow", "there is no change `load-file`"),
            ("set", "`set` needs more words"),
            ("set 1/canonical two words", "does not take `words`"),
            ("set 1/canonical 'open", "a quote is not closed"),
            ("set x[1 y", "`[` is not closed"),
            ("ins a beside b", "neither `before` nor `after`"),
            ("rm a b", "does not take `b`"),
        ] {
            assert!(translated(line).contains(expected), "{line}: {}", translated(line));
        }
    }

    #[test]
    fn a_value_is_no_second_command() {
        let line = change("", "set /x \"a\\nb\"").unwrap();
        assert_eq!(line, r#"set /x "a\\nb""#);
        let value = Value::strings(["set /x 'a\nsave'"]);
        assert_eq!(commands("", &value).unwrap(), [r#"set /x "a\nsave""#]);
        assert!(commands("", &Value::strings(["rm /x\nsave"])).is_err());
    }

    #[test]
    fn conditions_decide_by_outputs() {
        for (text, output, expected) in [
            ("get 1/ipaddr == 127.0.0.1", "/files/etc/hosts/1/ipaddr = 127.0.0.1\n", true),
            ("get x > 9", "/x = 10\n", true),
            ("get x == ''", "/x (o)\n", true),
            ("get x =~ ^a+$", "/x = aaa\n", true),
            ("get x != a", "/x = a\n", false),
            ("match x size == 0", "  (no matches)\n", true),
            ("match x size > 1", "/x[1] = a\n/x[2] = b\n", true),
            ("match x include /x[2]", "/x[1] = a\n/x[2] = b\n", true),
            ("match x not_include /x[3]", "/x[1] = a\n", true),
            ("values x include b", "/x[1] = a\n/x[2] = b\n", true),
            ("values x == ['a', \"b\"]", "/x[1] = a\n/x[2] = b\n", true),
            ("values x != [a]", "/x[1] = a\n", false),
        ] {
            let condition = TreeCondition::parse("/files/etc/hosts", text).unwrap();
            assert_eq!(condition.holds(output), Ok(expected), "{text}");
        }
        assert_eq!(TreeCondition::parse("/c", "match a[b = 'c d'] size == 1").unwrap().query, "match /c/a[b = 'c d']");
        for bad in ["", "get x", "get x like y", "match x size == a", "print x", "values x size == 1", "get x =~ ("] {
            assert!(TreeCondition::parse("", bad).is_err(), "{bad}");
        }
    }
}
