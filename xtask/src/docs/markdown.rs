//! Minimal Markdown parser for links and fenced examples.

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fence<'a> {
    /// Info string of the opening fence, such as `yaml kilter`.
    pub(super) words: &'a str,
    /// Number of its first line, from 1.
    pub(super) line: usize,
    /// Content without the indentation of the fence.
    pub(super) text: String,
}

/// A text divided into fenced blocks and other lines.
pub(super) struct Divided<'a> {
    /// Fenced blocks.
    pub(super) fences: Vec<Fence<'a>>,
    /// Other lines, with their numbers from 1.
    pub(super) prose: Vec<(usize, &'a str)>,
}

pub(super) fn divide(text: &str) -> Divided<'_> {
    let mut divided = Divided { fences: Vec::new(), prose: Vec::new() };
    let mut open: Option<(&str, usize)> = None;
    for (number, line) in text.lines().enumerate().map(|(number, line)| (number + 1, line)) {
        let indent = line.len() - line.trim_start().len();
        let fence = fence_of(line.trim_start());
        match (open, fence) {
            (None, Some(fence)) => {
                let words = line.trim_start()[fence.len()..].trim();
                divided.fences.push(Fence { words, line: number + 1, text: String::new() });
                open = Some((fence, indent));
            }
            (None, None) => divided.prose.push((number, line)),
            (Some((opened, _)), Some(fence)) if fence.starts_with(opened) && line.trim() == fence => open = None,
            (Some((_, indent)), _) => {
                let block = divided.fences.last_mut().expect("a block was begun when its fence was opened");
                let own = line.len() - line.trim_start().len();
                block.text.push_str(&line[indent.min(own)..]);
                block.text.push('\n');
            }
        }
    }
    divided
}

/// Returns the fence at the start of a line.
fn fence_of(line: &str) -> Option<&str> {
    let first = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == first).count();
    (length >= 3).then(|| &line[..length])
}

/// Returns the anchors of a text's headings in GitHub's format.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in divide(text).prose {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let plain = anchor(title.trim());
        let earlier = found.iter().filter(|known| **known == plain).count();
        found.push(if earlier == 0 { plain } else { format!("{plain}-{earlier}") });
    }
    found
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the targets of the links in a line, except in code spans.
pub(super) fn link_targets(line: &str) -> Vec<String> {
    let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let mut targets = Vec::new();
    let mut rest = outside.as_str();
    while let Some((_, after)) = rest.split_once("](") {
        let Some((target, after)) = after.split_once(')') else { break };
        // A title may follow the target.
        targets.extend(target.split_whitespace().next().map(str::to_owned));
        rest = after;
    }
    // The definition of a reference: `[name]: target`.
    if let Some((_, target)) = outside.strip_prefix('[').and_then(|line| line.split_once("]: ")) {
        targets.extend(target.split_whitespace().next().map(str::to_owned));
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_distinguished_from_prose() {
        let divided = divide("# a\n- x\n  ```yaml kilter\n  k: 1\n    d: 2\n  ```\nz\n~~~~\n~~~\n~~~~\n");
        let fence = |words, line, text: &str| Fence { words, line, text: text.to_owned() };
        assert_eq!(divided.fences, [fence("yaml kilter", 4, "k: 1\n  d: 2\n"), fence("", 9, "~~~\n")]);
        assert_eq!(divided.prose, [(1, "# a"), (2, "- x"), (7, "z")]);
    }

    #[test]
    fn anchors_match_github() {
        let text = "# The *main* job: `apply`\n## Exit codes\n```\n# no heading\n```\n## Exit codes\n#hash\n";
        assert_eq!(anchors(text), ["the-main-job-apply", "exit-codes", "exit-codes-1"]);
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let line = "[a](b.md#c), `[x](y)` and [d](<e> \"title\"), [l](m.md \"t\")";
        assert_eq!(link_targets(line), ["b.md#c", "<e>", "m.md"]);
        assert_eq!(link_targets("[name]: docs/x.md"), ["docs/x.md"]);
    }
}
