//! Names and values of kernel parameters.

use ecow::EcoString;
use kilter_model::Value;

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    /// Name with dots. A slash stands for a dot within a component (sysctl(8)).
    dotted: EcoString,
}

impl Parameter {
    /// Parses `net.ipv4.conf.eth0/7.log_martians` or `net/ipv4/conf/eth0.7/log_martians`. The first separator decides
    /// which of the two forms the name has. Returns none for other texts.
    pub(super) fn parse(name: &str) -> Option<Parameter> {
        let path: EcoString = match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
            Some(b'.') => exchanged(name),
            _ => name.into(),
        };
        let is_valid = path.contains('/') && path.split('/').all(is_component);
        is_valid.then(|| Parameter { dotted: exchanged(&path) })
    }

    pub(super) fn dotted(&self) -> &EcoString {
        &self.dotted
    }

    /// Returns the path below `/proc/sys`.
    pub(super) fn path(&self) -> EcoString {
        exchanged(&self.dotted)
    }
}

/// Returns true if a text is a component of a name. A component does not start with a dot, so that no name leaves
/// `/proc/sys`.
fn is_component(text: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(is_first) && text.chars().all(|c| is_first(c) || matches!(c, '.' | ':' | '@' | '+' | '-'))
}

/// Exchanges dots and slashes.
fn exchanged(name: &str) -> EcoString {
    let other = |c| match c {
        '.' => '/',
        '/' => '.',
        c => c,
    };
    name.chars().map(other).collect()
}

/// Returns a value as the kernel and the file have it: on one line, numbers with one space between them. Returns none
/// for a text with control characters.
pub(super) fn normal(text: &str) -> Option<EcoString> {
    let text = text.trim_ascii();
    let is_numbers = |c: char| c.is_ascii_digit() || c.is_ascii_whitespace() || c == '-';
    match text.chars().all(is_numbers) {
        true if !text.contains(['\n', '\r']) => {
            Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" ").into())
        }
        _ => (!text.contains(|c: char| c.is_control() && c != '\t')).then(|| text.into()),
    }
}

/// Returns the declared value in this form.
pub(super) fn declared(value: &Value) -> Option<EcoString> {
    normal(&value.to_text()?)
}

/// Returns true if two values have the same fields.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_name_are_the_same_parameter() {
        for (name, dotted, path) in [
            ("net.ipv4.ip_forward", "net.ipv4.ip_forward", "net/ipv4/ip_forward"),
            ("net/ipv4/ip_forward", "net.ipv4.ip_forward", "net/ipv4/ip_forward"),
            ("net/ipv4/conf/eth0.7/tag", "net.ipv4.conf.eth0/7.tag", "net/ipv4/conf/eth0.7/tag"),
            ("net.ipv4.conf.eth0/7.tag", "net.ipv4.conf.eth0/7.tag", "net/ipv4/conf/eth0.7/tag"),
            ("kernel.sched-x@1:2+3", "kernel.sched-x@1:2+3", "kernel/sched-x@1:2+3"),
        ] {
            let parameter = Parameter::parse(name).unwrap();
            assert_eq!((parameter.dotted().as_str(), parameter.path().as_str()), (dotted, path));
        }
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for name in [
            "",
            "ip_forward",
            "/net/ipv4",
            "net/ipv4/",
            "net..x",
            "net/../kernel/ostype",
            "../../etc/passwd",
            "net.ipv4.*",
            "net.ipv4 .x",
            "net.ipv4\n.x",
            "net.ipv4.\u{e9}",
            ".net.x",
        ] {
            assert_eq!(Parameter::parse(name), None, "{name}");
        }
    }

    #[test]
    fn only_numbers_lose_their_white_space() {
        assert_eq!(normal(" 4096\t 131072 -1 ").unwrap(), "4096 131072 -1");
        assert_eq!(normal("  two  words\t").unwrap(), "two  words");
        assert_eq!(normal("").unwrap(), "");
        for text in ["1\nkernel.panic = 1", "1\n2", "a\0", "a\u{1b}"] {
            assert_eq!(normal(text), None, "{text:?}");
        }
        assert!(is_same("a  b", "a\tb") && !is_same("1 2", "12"));
    }
}
