//! Lines of a watch.

use ecow::eco_format;

use super::decode::{entry, trim};
use crate::convention::{LineParser, ProtocolError, WatchLine};

/// Returns the parser. `# simple` starts the watch. `name: NAME` reports a change of a resource, and `ral_any:
/// true` of any resource.
pub(super) fn listener() -> LineParser {
    let mut watches = false;
    Box::new(move |number, line| match trim(line) {
        "" => Ok(WatchLine::Nothing),
        "# simple" if !watches => {
            watches = true;
            Ok(WatchLine::Watching)
        }
        line if !watches => Err(ProtocolError::line(number, line, "the first line must be `# simple`")),
        line => match entry(number, line)? {
            ("name", "") => Err(ProtocolError::line(number, line, "a resource has no name")),
            ("name", name) => Ok(WatchLine::Changed(vec![name.into()])),
            ("ral_any", value) if value.eq_ignore_ascii_case("false") => Ok(WatchLine::Nothing),
            ("ral_any", _) => Ok(WatchLine::Anything),
            (key, _) => {
                let why = eco_format!("a watch prints `name: NAME` or `ral_any: true`, not `{key}`");
                Err(ProtocolError::line(number, line, why))
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_lines_name_changed_resources() {
        let mut listener = listener();
        let mut said = |line: &str| listener(1, line).unwrap();
        assert_eq!(said(""), WatchLine::Nothing);
        assert_eq!(said("# simple\r"), WatchLine::Watching);
        assert_eq!(said("name:  a b "), WatchLine::Changed(vec!["a b".into()]));
        assert_eq!(said("ral_any: true"), WatchLine::Anything);
        assert_eq!(said("ral_any: false"), WatchLine::Nothing);
    }

    #[test]
    fn invalid_watch_line_is_refused_with_number() {
        let mut listener = listener();
        assert!(listener(1, "name: a").unwrap_err().to_string().contains("# simple"));
        assert_eq!(listener(2, "# simple").unwrap(), WatchLine::Watching);
        for (line, why) in [
            ("name:", "no name"),
            ("version: 2", "not `version`"),
            ("changed", "has no `:`"),
            ("# simple", "has no `:`"),
        ] {
            let told = listener(7, line).unwrap_err().to_string();
            assert!(told.contains("line 7") && told.contains(why), "{told}");
        }
    }
}
