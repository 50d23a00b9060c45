//! Values for the next boot: lines of a sysctl.d(5) file.

use ecow::{EcoString, eco_format};

use super::parameter::{Parameter, normal};
use crate::line_table::{LineEntry, LineTable};

/// The values of a file. Of several lines of a parameter, the last counts.
pub(super) type BootValues = LineTable<BootValue>;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BootValue {
    /// Name of the parameter with dots.
    pub(super) name: EcoString,
    pub(super) value: EcoString,
}

impl LineEntry for BootValue {
    const LAST_COUNTS: bool = true;

    /// Parses `name = value`. A `-` in front makes the system ignore failures.
    fn parse(line: &[u8]) -> Option<BootValue> {
        let line = std::str::from_utf8(line).ok()?.trim();
        if line.starts_with(['#', ';']) {
            return None;
        }
        let (name, value) = line.strip_prefix('-').unwrap_or(line).split_once('=')?;
        Some(BootValue { name: Parameter::parse(name.trim())?.dotted().clone(), value: normal(value)? })
    }

    fn line(&self) -> String {
        format!("{} = {}\n", self.name, self.value)
    }

    fn name(&self) -> &EcoString {
        &self.name
    }
}

/// Returns the message about another file that has another value and is read later.
pub(super) fn overridden(file: &str, bytes: &[u8], name: &str, value: &str) -> Option<EcoString> {
    let other = BootValues::parse(bytes);
    let other = other.find(name).filter(|other| other.value != value)?;
    Some(eco_format!("{file} says {name} = {}, and may be read later", other.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"# mine\n; and this\n\n-net.ipv4.tcp_sack = 0\n  nonsense\n\xff.x = 1\nvm/swappiness=10\n\
                          net.ipv4.ip_forward = 1\nvm.swappiness = 20";

    fn value(name: &str, value: &str) -> BootValue {
        BootValue { name: name.into(), value: value.into() }
    }

    #[test]
    fn last_line_of_a_parameter_counts() {
        let values = BootValues::parse(FILE);
        assert_eq!(values.bytes(), FILE);
        assert_eq!(values.find("vm.swappiness"), Some(&value("vm.swappiness", "20")));
        assert_eq!(values.find("net.ipv4.tcp_sack").unwrap().value, "0");
        let names: Vec<&str> = values.entries().iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["net.ipv4.tcp_sack", "net.ipv4.ip_forward", "vm.swappiness"]);
    }

    #[test]
    fn one_line_is_left_in_the_place_of_the_first() {
        let mut values = BootValues::parse(FILE);
        values.put(value("vm.swappiness", "20"));
        let text = String::from_utf8_lossy(&values.bytes()).into_owned();
        assert!(text.ends_with("vm.swappiness = 20\nnet.ipv4.ip_forward = 1\n"), "{text}");
        values.put(value("a.b", "x y"));
        values.remove("vm.swappiness");
        let text = String::from_utf8_lossy(&values.bytes()).into_owned();
        assert!(text.ends_with("\u{fffd}.x = 1\nnet.ipv4.ip_forward = 1\na.b = x y\n"), "{text}");
    }

    #[test]
    fn equal_line_stays_as_it_is_written() {
        let mut values = BootValues::parse(b"-vm/swappiness=10");
        values.put(value("vm.swappiness", "10"));
        assert_eq!(values.bytes(), b"-vm/swappiness=10");
    }

    #[test]
    fn only_another_value_is_reported() {
        assert_eq!(overridden("/f", FILE, "vm.swappiness", "20"), None);
        assert_eq!(overridden("/f", FILE, "vm.other", "20"), None);
        assert_eq!(
            overridden("/f", FILE, "vm.swappiness", "10").unwrap(),
            "/f says vm.swappiness = 20, and may be read later"
        );
    }
}
