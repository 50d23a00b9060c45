//! Parser for clauses in libral's notation.
//!
//! ```text
//! clause := all ("or" all)*
//! all    := one ("and" one)*
//! one    := "not" one | "(" clause ")" | "true" | "false" | "command(" NAME ")"
//!         | FACT | FACT ("=" | "==" | "!=") ("'" text "'" | '"' text '"' | WORD)
//! ```

use ecow::{EcoString, eco_format};

use super::test::{Test, command};

/// Maximum nesting depth of a clause.
const DEEPEST: u32 = 32;

/// Parses a whole text as one clause.
///
/// # Errors
/// The syntax error.
pub(super) fn clause(text: &str) -> Result<Test, EcoString> {
    let mut reader = ConditionReader { rest: text, depth: 0 };
    let test = reader.either()?;
    reader.skip();
    match reader.rest.is_empty() {
        true => Ok(test),
        false => Err(eco_format!("unexpected `{}`", reader.rest)),
    }
}

struct ConditionReader<'a> {
    rest: &'a str,
    depth: u32,
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.')
}

fn is_word(c: char) -> bool {
    is_name(c) || matches!(c, '-' | '/' | '+' | ':')
}

impl<'a> ConditionReader<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Consumes `text` if it comes next.
    fn takes(&mut self, text: &str) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Consumes `word` if it comes next as a whole word.
    fn takes_word(&mut self, word: &str) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(word).filter(|rest| !rest.starts_with(is_word));
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn word(&mut self, of: fn(char) -> bool) -> Option<&'a str> {
        self.skip();
        let end = self.rest.find(|c| !of(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn either(&mut self) -> Result<Test, EcoString> {
        let mut tests = vec![self.all()?];
        while self.takes_word("or") {
            tests.push(self.all()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::Or(tests) })
    }

    fn all(&mut self) -> Result<Test, EcoString> {
        let mut tests = vec![self.one()?];
        while self.takes_word("and") {
            tests.push(self.one()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::And(tests) })
    }

    fn one(&mut self) -> Result<Test, EcoString> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(eco_format!("it is nested more than {DEEPEST} levels deep"));
        }
        let test = self.primary();
        self.depth -= 1;
        test
    }

    fn primary(&mut self) -> Result<Test, EcoString> {
        if self.takes_word("not") {
            return Ok(Test::Not(Box::new(self.one()?)));
        }
        if self.takes("(") {
            let inner = self.either()?;
            return if self.takes(")") { Ok(inner) } else { Err("a `(` is not closed".into()) };
        }
        let Some(name) = self.word(is_name) else {
            return Err(match self.rest {
                "" => "it ends where a fact or command(NAME) is expected".into(),
                rest => eco_format!("unexpected `{rest}` where a fact or command(NAME) is expected"),
            });
        };
        match name {
            "true" | "false" => Ok(Test::Constant(name == "true")),
            "command" if self.takes("(") => self.command(),
            "and" | "or" => Err(eco_format!("unexpected `{name}`")),
            _ if !name.starts_with(|c: char| c.is_ascii_alphabetic()) => Err(eco_format!("unexpected `{name}`")),
            _ => self.comparison(name),
        }
    }

    fn command(&mut self) -> Result<Test, EcoString> {
        let Some((name, rest)) = self.rest.split_once(')') else { return Err("`command(` is not closed".into()) };
        self.rest = rest;
        let name = name.trim();
        let quoted = |quote| name.strip_prefix(quote).and_then(|name: &str| name.strip_suffix(quote));
        let name = quoted('\'').or_else(|| quoted('"')).unwrap_or(name);
        match name.is_empty() || name.contains(['(', '\'', '"']) {
            true => Err("command(NAME) takes the name of one command".into()),
            false => Ok(command(name)),
        }
    }

    fn comparison(&mut self, fact: &str) -> Result<Test, EcoString> {
        let equal = match () {
            () if self.takes("!=") => false,
            () if self.takes("==") || self.takes("=") => true,
            () => return Ok(Test::Fact(fact.into())),
        };
        let text = self.literal()?;
        Ok(Test::Compare { fact: fact.into(), equal, text: text.into() })
    }

    fn literal(&mut self) -> Result<&'a str, EcoString> {
        self.skip();
        for quote in ['\'', '"'] {
            if let Some(rest) = self.rest.strip_prefix(quote) {
                let (text, rest) = rest.split_once(quote).ok_or("a text in quotes does not end")?;
                self.rest = rest;
                return Ok(text);
            }
        }
        self.word(is_word).ok_or_else(|| "a text is expected after the comparison".into())
    }
}
