//! Names that accounts can have.

use kilter_provider::Problem;

/// What is wrong with the name of a user or group, by the rules of Debian's shadow tools
/// (useradd(8), "CAVEATS"): wider than upstream's, so that every account that exists can be named.
pub(crate) fn name_problem(attribute: &str, name: &str) -> Option<Problem> {
    let why = if name.is_empty() {
        "is empty"
    } else if name.len() > 32 {
        "is longer than 32 bytes"
    } else if name.starts_with(['-', '+', '~']) {
        "starts with `-`, `+` or `~`"
    } else if name.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | ',' | '/')) {
        "holds white space, `:`, `,` or `/`"
    } else if name == "." || name == ".." {
        "means a directory"
    } else if name.bytes().all(|b| b.is_ascii_digit()) {
        "is a number"
    } else {
        return None;
    };
    let problem = Problem::with(attribute, format!("`{name}` cannot name an account: it {why}"));
    Some(problem.hint("names start with a letter or `_` and hold letters, digits, `_`, `-` and `.`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_taken_for_something_else_are_refused() {
        for name in ["", "-r", "+", "~x", "a:b", "a b", "a/b", "..", "1000", "a,b", "a\nb", &"x".repeat(33)] {
            assert!(name_problem("name", name).is_some(), "{name}");
        }
        for name in ["root", "_apt", "systemd-network", "Upper.Case", "www-data", "samba$", "7up"] {
            assert!(name_problem("name", name).is_none(), "{name}");
        }
    }
}
