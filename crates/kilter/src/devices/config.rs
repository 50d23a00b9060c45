//! Reader of Puppet's `device.conf`.

/// A section of the file: a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceEntry {
    /// Name of the device.
    pub(super) name: String,
    /// Line of its section, counted from 1.
    pub(super) line: usize,
    /// Name of its transport.
    pub(super) transport: String,
    /// URL of the file with its connection info.
    pub(super) url: Option<String>,
    /// True if the log lines of its transport are shown.
    pub(super) is_debugged: bool,
}

/// Returns true if a text can be the name of a device, which is also the name of its state directory.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('.')
}

/// Parses a text.
///
/// # Errors
/// All problems, each with its line.
pub(super) fn parse(text: &str) -> Result<Vec<DeviceEntry>, Vec<(usize, String)>> {
    let (mut entries, mut problems): (Vec<DeviceEntry>, Vec<(usize, String)>) = (Vec::new(), Vec::new());
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if let Some(name) = content.strip_prefix('[') {
            let name = name.strip_suffix(']').unwrap_or_default();
            if !is_name(name) {
                problems.push((line, "a section is `[NAME]`, with letters, digits, `_`, `.` and `-`".to_owned()));
            }
            if let Some(known) = entries.iter().find(|known| known.name == name && !name.is_empty()) {
                problems.push((line, format!("the device `{name}` is already defined in line {}", known.line)));
            }
            let (name, transport) = (name.to_owned(), String::new());
            entries.push(DeviceEntry { name, line, transport, url: None, is_debugged: false });
            continue;
        }
        let (word, value) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
        let value = value.trim();
        let Some(entry) = entries.last_mut() else {
            problems.push((line, "a section `[NAME]` is expected first".to_owned()));
            continue;
        };
        match word {
            "type" if !value.is_empty() => value.clone_into(&mut entry.transport),
            "url" if !value.is_empty() => entry.url = Some(value.to_owned()),
            "debug" => entry.is_debugged = true,
            "type" | "url" => problems.push((line, format!("`{word}` needs a value"))),
            // The value may contain a password.
            _ => problems.push((line, format!("`{word}` is no entry: there are `type`, `url` and `debug`"))),
        }
    }
    let missing = entries.iter().filter(|entry| entry.transport.is_empty());
    problems.extend(missing.map(|entry| (entry.line, format!("the device `{}` has no `type`", entry.name))));
    problems.sort_by_key(|(line, _)| *line);
    if problems.is_empty() { Ok(entries) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_devices() {
        let text = "# devices\n[edge1.example.com]\n  type nx9k\n  url file:///etc/kilter/devices/edge1.conf\n\n\
                    [edge-2]\ntype box\ndebug\n";
        let entries = parse(text).unwrap();
        assert_eq!(
            entries[0],
            DeviceEntry {
                name: "edge1.example.com".into(),
                line: 2,
                transport: "nx9k".into(),
                url: Some("file:///etc/kilter/devices/edge1.conf".into()),
                is_debugged: false,
            }
        );
        assert_eq!(
            (entries[1].name.as_str(), entries[1].url.as_deref(), entries[1].is_debugged),
            ("edge-2", None, true)
        );
    }

    #[test]
    fn all_problems_are_reported_with_their_lines() {
        let text = "type early\n[a]\ntype box\nport 1\n[a]\nurl\n[b c]\ntype x\n[..]\ntype x\n";
        let problems: Vec<String> =
            parse(text).unwrap_err().into_iter().map(|(line, why)| format!("{line}: {why}")).collect();
        let name = "a section is `[NAME]`, with letters, digits, `_`, `.` and `-`";
        assert_eq!(
            problems,
            [
                "1: a section `[NAME]` is expected first".to_owned(),
                "4: `port` is no entry: there are `type`, `url` and `debug`".to_owned(),
                "5: the device `a` is already defined in line 2".to_owned(),
                "5: the device `a` has no `type`".to_owned(),
                "6: `url` needs a value".to_owned(),
                format!("7: {name}"),
                format!("9: {name}"),
            ]
        );
    }
}
