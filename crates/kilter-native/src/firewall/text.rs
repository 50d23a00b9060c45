//! Texts of nft(8): what is declared, and what `nft list` prints.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Value};
use kilter_provider::ValidationError;

/// Families of tables.
const FAMILIES: [&str; 6] = ["inet", "ip", "ip6", "arp", "bridge", "netdev"];

/// Default order of a rule, as of a `file_part`.
const ORDER: i64 = 10;

/// Maximum length of a comment in bytes, of which the kernel stores one for the end.
const MAX_COMMENT_BYTES: usize = 127;

/// Returns true for names of tables and chains.
fn is_identifier(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && text.len() <= 255
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./".contains(letter))
}

/// Returns true for the name of a resource: a family and a table.
pub(super) fn is_table(name: &str) -> bool {
    let table = name.split_once(' ');
    table.is_some_and(|(family, table)| FAMILIES.contains(&family) && is_identifier(table))
}

/// Checks that a text stays inside of its block: quotes and braces are balanced.
fn check_block(text: &str) -> Result<(), &'static str> {
    let (mut depth, mut is_quoted, mut is_comment) = (0_usize, false, false);
    for letter in text.chars() {
        match letter {
            '\n' if is_quoted => return Err("a text in quotes has no end"),
            '\n' => is_comment = false,
            '\t' => {}
            letter if letter.is_control() => return Err("it contains a control character"),
            _ if is_comment => {}
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '#' => is_comment = true,
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1).ok_or("a `}` has no `{`, so it would end the table")?,
            _ => {}
        }
    }
    match (is_quoted, depth) {
        (true, _) => Err("a text in quotes has no end"),
        (_, 1..) => Err("a `{` has no `}`"),
        _ => Ok(()),
    }
}

/// Checks that a text is a single rule without a comment.
fn check_rule(text: &str) -> Result<(), &'static str> {
    check_block(text)?;
    let (mut is_quoted, mut bare) = (false, String::new());
    for letter in text.chars() {
        is_quoted ^= letter == '"';
        bare.push(if is_quoted { '"' } else { letter });
    }
    if bare.trim().is_empty() {
        return Err("the rule is empty");
    }
    if bare.contains(['\n', ';', '#']) {
        return Err("a rule is a single line without `;` and `#`: declare several resources");
    }
    let outside = bare.split(['{', '}']).step_by(2);
    match outside.flat_map(str::split_ascii_whitespace).any(|word| word == "comment") {
        true => Err("the comment of a rule is its name"),
        false => Ok(()),
    }
}

/// Returns the rules of a table by order and name: name, chain, text.
fn rules(should: &Attributes) -> Vec<(&str, &str, &str)> {
    let mut rules = Vec::new();
    for (name, rule) in should.get("rules").and_then(Value::as_hash).into_iter().flatten() {
        let Some(rule) = rule.as_hash() else { continue };
        let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or_default();
        let order = rule.get("order").and_then(Value::as_integer).unwrap_or(ORDER);
        rules.push((order, name.as_str(), text("chain"), text("rule")));
    }
    rules.sort_unstable();
    rules.into_iter().map(|(_, name, chain, text)| (name, chain, text)).collect()
}

/// Returns the problems of a declared content and of rules.
pub(super) fn problems(should: &Attributes) -> Vec<ValidationError> {
    let mut found = Vec::new();
    if let Some(Err(why)) = should.text("content").map(check_block) {
        found.push(ValidationError::with("content", why));
    }
    for (name, chain, text) in rules(should) {
        let mut problem = |why: EcoString| found.push(ValidationError::with("rules", why));
        if name.len() > MAX_COMMENT_BYTES
            || name.contains(|letter: char| letter.is_control() || "\"\\".contains(letter))
        {
            problem(eco_format!(
                "`{name}` cannot be the name of a rule, which is its comment: it has at most {MAX_COMMENT_BYTES} bytes \
                 and no quotes"
            ));
        }
        if !is_identifier(chain) {
            problem(eco_format!("rule `{name}`: `{chain}` is not the name of a chain"));
        }
        if let Err(why) = check_rule(text) {
            problem(eco_format!("rule `{name}`: {why}"));
        }
    }
    found
}

/// Moves the rules of a declaration to the end of their chains in its content.
pub(super) fn put_together(should: &mut Attributes) {
    let mut content = should.text("content").unwrap_or_default().trim_end().to_owned();
    for (name, chain, rule) in rules(should) {
        content.push_str(&format!("\nchain {chain} {{\n\t{} comment \"{name}\"\n}}", rule.trim()));
    }
    if should.get("rules").is_some() {
        should.remove("rules");
        should.set("content", content + "\n");
    }
}

/// Returns the text of a table with this content.
pub(super) fn table(name: &str, content: &str) -> String {
    format!("table {name} {{\n{}\n}}\n", content.trim_end())
}

/// Returns the text that replaces a table as a whole. The first line makes the second one succeed.
pub(super) fn replacement(name: &str, content: &str) -> String {
    format!("{}{}", removal(name), table(name, content))
}

/// Returns the text that removes a table, which may be missing.
pub(super) fn removal(name: &str) -> String {
    format!("table {name} {{}}\ndelete table {name}\n")
}

/// Splits the output of `nft list ruleset` into names and contents of tables.
pub(super) fn tables(listing: &str) -> Vec<(EcoString, String)> {
    let mut tables: Vec<(EcoString, String)> = Vec::new();
    let mut is_inside = false;
    for line in listing.lines() {
        // nft adds `# Warning: …` to tables of iptables.
        if line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("table ").and_then(|rest| rest.split(" {").next()) {
            tables.push((name.into(), String::new()));
            is_inside = !line.ends_with('}');
        } else if line == "}" {
            is_inside = false;
        } else if let Some((_, content)) = tables.last_mut().filter(|_| is_inside) {
            content.push_str(line.strip_prefix('\t').unwrap_or(line));
            content.push('\n');
        }
    }
    tables
}

/// Returns the content of a table without the elements that the kernel adds and removes by itself: those of sets and
/// maps with the flag `dynamic` or with a timeout.
pub(super) fn without_dynamic_elements(content: &str) -> String {
    let mut kept = String::with_capacity(content.len());
    let (mut is_dynamic, mut is_element) = (false, false);
    for line in content.lines() {
        let is_start = line.starts_with("\telements = {");
        match line {
            line if !line.starts_with('\t') && !is_element => is_dynamic = false,
            line if line.starts_with("\tflags ") => {
                is_dynamic |=
                    line["\tflags ".len()..].split(',').any(|flag| matches!(flag.trim(), "dynamic" | "timeout"));
            }
            _ => {}
        }
        is_element |= is_start && is_dynamic;
        if !is_element {
            kept.push_str(line);
            kept.push('\n');
        }
        is_element &= !line.ends_with('}');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_inside_of_their_block() {
        for text in ["", "chain a { }", "set s { elements = { 1.2.3.4 comment \"a }\" } } # }", "chain a {\n# \"\n}"] {
            assert_eq!(check_block(text), Ok(()), "{text}");
        }
        for text in ["}", "chain a { } } flush ruleset; table inet x {", "chain a {", "log prefix \"x\n\"", "\"", "a\0"]
        {
            assert!(check_block(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rule_is_a_single_statement_without_comment() {
        for rule in ["accept", "tcp dport { 22, 80 } accept", "log prefix \"a; # comment \" drop", "ip saddr @s drop"] {
            assert_eq!(check_rule(rule), Ok(()), "{rule}");
        }
        for rule in
            ["", " ", "accept; drop", "accept\ndrop", "accept # x", "accept comment \"x\"", "accept }", "tcp dport {"]
        {
            assert!(check_rule(rule).is_err(), "{rule}");
        }
        assert_eq!(check_rule("ip saddr { 10.0.0.1 comment \"x\" } drop"), Ok(()), "comments of elements are allowed");
    }

    #[test]
    fn tables_are_families_with_names() {
        for name in ["inet filter", "ip nat", "netdev a_b-c"] {
            assert!(is_table(name), "{name}");
        }
        for name in
            ["filter", "inet", "inet ", "inet  filter", "ipv4 filter", "inet a b", "inet 1", "inet a;b", "inet a{"]
        {
            assert!(!is_table(name), "{name}");
        }
    }

    #[test]
    fn rules_follow_by_order_and_name() {
        let rule = |chain: &str, rule: &str, order: Option<i64>| {
            let fields = [("chain", Value::from(chain)), ("rule", rule.into())];
            Value::hash(fields.into_iter().chain(order.map(|order| ("order", Value::Integer(order)))))
        };
        let rules = Value::hash([
            ("b", rule("input", "accept", None)),
            ("last", rule("input", "drop", Some(90))),
            ("a", rule("other", "accept", None)),
        ]);
        let mut should = Attributes::from_iter([("content", Value::from("chain input { }\n")), ("rules", rules)]);
        assert_eq!(problems(&should), []);
        put_together(&mut should);
        let content = should.text("content").unwrap();
        assert_eq!(
            content,
            "chain input { }\nchain other {\n\taccept comment \"a\"\n}\nchain input {\n\taccept comment \
             \"b\"\n}\nchain input {\n\tdrop comment \"last\"\n}\n"
        );
        assert_eq!(should.get("rules"), None);
    }

    #[test]
    fn listing_is_split_into_tables() {
        let listing = "# Warning: table ip nat is managed by iptables-nft, do not touch!\ntable ip nat {\n\tchain a \
            {\n\t\taccept\n\t}\n}\ntable inet filter {\n}\n";
        assert_eq!(
            tables(listing),
            [("ip nat".into(), "chain a {\n\taccept\n}\n".to_owned()), ("inet filter".into(), String::new())]
        );
    }

    #[test]
    fn only_dynamic_elements_are_left_out() {
        let content = "set a {\n\ttype ipv4_addr\n\telements = { 1.1.1.1 }\n}\n\nset b {\n\ttype ipv4_addr\n\tflags \
            dynamic,timeout\n\telements = { 1.1.1.1,\n\t\t     2.2.2.2 }\n}\n\nset c {\n\tflags interval\n\telements = \
            { 1.1.1.1 }\n}\n";
        let expected = "set a {\n\ttype ipv4_addr\n\telements = { 1.1.1.1 }\n}\n\nset b {\n\ttype ipv4_addr\n\tflags \
            dynamic,timeout\n}\n\nset c {\n\tflags interval\n\telements = { 1.1.1.1 }\n}\n";
        assert_eq!(without_dynamic_elements(content), expected);
    }
}
