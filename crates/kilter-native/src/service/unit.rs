//! Names of units (systemd.unit(5)) and of their objects on the bus.

use ecow::{EcoString, eco_format};

/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Types of units, as the ends of names.
const TYPES: [&str; 11] = [
    ".service",
    ".socket",
    ".timer",
    ".path",
    ".target",
    ".mount",
    ".automount",
    ".swap",
    ".slice",
    ".scope",
    ".device",
];

const UNIT_PATH: &str = "/org/freedesktop/systemd1/unit/";

/// Returns true if a name ends with a type of units.
pub(super) fn has_type(name: &str) -> bool {
    TYPES.iter().any(|end| name.len() > end.len() && name.ends_with(end))
}

/// Returns the unit of a resource: `nginx` is `nginx.service`.
pub(super) fn unit_of(name: &str) -> EcoString {
    if has_type(name) { name.into() } else { eco_format!("{name}.service") }
}

/// Returns the name of a service in lists: without `.service`, unless the rest is a unit of another type.
pub(super) fn listed_name(unit: &str) -> &str {
    unit.strip_suffix(".service").filter(|rest| !has_type(rest)).unwrap_or(unit)
}

/// Returns true if a unit is a template.
pub(super) fn is_template(unit: &str) -> bool {
    unit.contains("@.")
}

/// Returns the problem of a name that cannot be the name of a resource.
pub(super) fn problem(name: &str) -> Option<EcoString> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b":_.\\@-".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_valid) {
        return Some(eco_format!("`{name}` is not the name of a unit"));
    }
    let unit = unit_of(name);
    let (prefix, _) = unit.split_once("@.").filter(|_| is_template(&unit))?;
    Some(eco_format!("{unit} is a template: name an instance of it, such as {prefix}@NAME"))
}

/// Returns the path of the object of a unit.
pub(super) fn path_of(unit: &str) -> String {
    let mut path = UNIT_PATH.to_owned();
    for (at, byte) in unit.bytes().enumerate() {
        match byte {
            b'0'..=b'9' if at == 0 => path += &format!("_{byte:02x}"),
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => path.push(char::from(byte)),
            _ => path += &format!("_{byte:02x}"),
        }
    }
    path
}

/// Returns the unit of an object.
pub(super) fn of_path(path: &str) -> Option<String> {
    let mut bytes = path.strip_prefix(UNIT_PATH)?.bytes();
    let mut unit = Vec::new();
    while let Some(byte) = bytes.next() {
        unit.push(match byte {
            b'_' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_units() {
        for (name, unit, listed) in [
            ("nginx", "nginx.service", "nginx"),
            ("nginx.service", "nginx.service", "nginx"),
            ("getty@tty1", "getty@tty1.service", "getty@tty1"),
            ("backup.timer", "backup.timer", "backup.timer"),
            ("a.socket.service", "a.socket.service", "a.socket.service"),
            ("-.mount", "-.mount", "-.mount"),
            (".service", ".service.service", ".service"),
        ] {
            assert_eq!((unit_of(name).as_str(), listed_name(&unit_of(name))), (unit, listed), "{name}");
        }
    }

    #[test]
    fn impossible_names_are_refused() {
        for name in ["", "a b", "a/b", "x'; y", "ü", &"a".repeat(256)] {
            assert!(problem(name).unwrap().contains("is not the name of a unit"), "{name}");
        }
        let template = "getty@.service is a template: name an instance of it, such as getty@NAME";
        assert_eq!(problem("getty@").as_deref(), Some(template));
        assert_eq!(problem("getty@.service").as_deref(), Some(template));
        for name in ["a", "-.mount", r"dev-disk-by\x2duuid.swap", "getty@tty1", "a@b.timer"] {
            assert_eq!(problem(name), None, "{name}");
        }
    }

    #[test]
    fn paths_of_objects_are_those_of_systemd() {
        for (unit, path) in [
            ("cron.service", "cron_2eservice"),
            ("-.mount", "_2d_2emount"),
            ("6to4@a_b.service", "_36to4_40a_5fb_2eservice"),
        ] {
            assert_eq!(path_of(unit), format!("{UNIT_PATH}{path}"));
            assert_eq!(of_path(&path_of(unit)).as_deref(), Some(unit));
        }
        assert_eq!(of_path("/org/freedesktop/systemd1/job/1"), None);
        assert_eq!(of_path("/org/freedesktop/systemd1/unit/a_2"), None);
    }
}
