//! Checks links between documents.

use std::path::Path;

use super::Document;
use super::markdown::{anchors, divide, link_targets};

/// Returns the broken relative links, with their positions.
pub(super) fn broken(root: &Path, documents: &[Document]) -> Vec<String> {
    documents.iter().flat_map(|document| broken_in(root, document)).collect()
}

/// Table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Returns the pages below `docs` that the table of contents does not list.
pub(super) fn unlisted(documents: &[Document]) -> Vec<String> {
    let summary = documents.iter().find(|document| document.path == Path::new(SUMMARY));
    let listed: Vec<String> = summary.map_or_else(Vec::new, |summary| {
        divide(&summary.text).prose.into_iter().flat_map(|(_, line)| link_targets(line)).collect()
    });
    let pages = documents.iter().filter_map(|document| document.path.strip_prefix("docs").ok());
    let unlisted = pages.filter(|page| *page != Path::new("SUMMARY.md"));
    let unlisted = unlisted.filter(|page| !listed.iter().any(|listed| Path::new(listed) == *page));
    unlisted.map(|page| format!("docs/{}: {SUMMARY} does not list this page", page.display())).collect()
}

fn broken_in(root: &Path, document: &Document) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in divide(&document.text).prose {
        for target in link_targets(line).iter().filter(|target| !is_elsewhere(target)) {
            if let Some(why) = why_broken(root, document, target) {
                problems
                    .push(format!("{}:{number}: the link `{target}` leads nowhere: {why}", document.path.display()));
            }
        }
    }
    problems
}

fn is_elsewhere(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

fn why_broken(root: &Path, document: &Document, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let base = document.path.parent().unwrap_or(Path::new(""));
    let file = root.join(base).join(path);
    if !path.is_empty() && !file.exists() {
        return Some("there is no such file".to_owned());
    }
    let anchor = anchor?;
    let text = if path.is_empty() { document.text.clone() } else { std::fs::read_to_string(&file).unwrap_or_default() };
    (!anchors(&text).iter().any(|known| known == anchor)).then(|| format!("no heading is called `{anchor}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_missing_in_the_summary_are_listed() {
        let document = |path: &str, text: &str| Document { path: path.into(), text: text.to_owned() };
        let documents =
            [document("docs/SUMMARY.md", "- [A](a.md)\n"), document("docs/a.md", ""), document("docs/b/c.md", "")];
        assert_eq!(unlisted(&documents), ["docs/b/c.md: docs/SUMMARY.md does not list this page"]);
    }

    #[test]
    fn broken_links_are_reported_with_places() {
        let root = std::env::temp_dir().join(format!("xtask-links-{}", std::process::id()));
        std::fs::create_dir_all(root.join("docs")).unwrap();
        std::fs::write(root.join("docs/b.md"), "# One heading\n").unwrap();
        let text = "# Top\n[ok](docs/b.md#one-heading) [ok](#top) [ok](https://example.com/x)\n\
            [gone](docs/c.md)\n```\n[code](gone)\n```\n[bad](docs/b.md#other)\n";
        let document = Document { path: "a.md".into(), text: text.to_owned() };
        let problems = broken(&root, &[document]);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            problems,
            [
                "a.md:3: the link `docs/c.md` leads nowhere: there is no such file",
                "a.md:7: the link `docs/b.md#other` leads nowhere: no heading is called `other`",
            ]
        );
    }
}
