//! Markdown on a terminal: wraps paragraphs and lists, and leaves the rest unchanged.

use unicode_width::UnicodeWidthStr;

use crate::style::NAME;

/// Renders `text` at most `width` columns wide, `indent` included.
pub(crate) fn render(text: &str, indent: usize, width: usize) -> String {
    let mut page = Page { out: String::new(), indent, width, open: Vec::new(), hang: 0 };
    let mut in_code = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        if fence || in_code {
            page.close();
            in_code ^= fence;
            if !fence {
                page.as_is(line);
            }
        } else if line.trim().is_empty() {
            page.close();
            page.empty_line();
        } else if line.starts_with(['|', '#']) || line.starts_with("    ") {
            page.close();
            page.as_is(line);
        } else {
            page.words(line);
        }
    }
    page.close();
    page.out
}

/// Returns the first sentence of a text, on one line.
pub(crate) fn summary(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.find(". ") {
        Some(end) => words[..=end].to_owned(),
        None => words,
    }
}

struct Page<'a> {
    out: String,
    indent: usize,
    width: usize,
    /// Words of the open paragraph.
    open: Vec<&'a str>,
    /// Indentation of its lines after the first.
    hang: usize,
}

impl<'a> Page<'a> {
    fn words(&mut self, line: &'a str) {
        let item = line.trim_start();
        if item.starts_with("- ") || item.starts_with("* ") {
            self.close();
            self.hang = line.len() - item.len() + 2;
            self.out += &" ".repeat(self.indent + self.hang - 2);
            self.out += "- ";
            self.open.extend(item[2..].split_whitespace());
            return;
        }
        self.open.extend(item.split_whitespace());
    }

    /// Ends the paragraph.
    fn close(&mut self) {
        let words = std::mem::take(&mut self.open);
        let hang = std::mem::take(&mut self.hang);
        if words.is_empty() {
            return;
        }
        let start = self.indent + hang;
        let mut used = start;
        if hang == 0 {
            self.out += &" ".repeat(start);
        }
        let mut text = String::new();
        for word in words {
            let width = visible_width(word);
            let begins = used == start;
            if !begins && used + 1 + width > self.width {
                text.push('\n');
                text += &" ".repeat(start);
                used = start;
            } else if !begins {
                text.push(' ');
                used += 1;
            }
            text += word;
            used += width;
        }
        self.out += &strong(&text);
        self.out.push('\n');
    }

    fn as_is(&mut self, line: &str) {
        if line.is_empty() {
            return self.empty_line();
        }
        self.out += &" ".repeat(self.indent + 4);
        self.out += line;
        self.out.push('\n');
    }

    fn empty_line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }
}

/// Returns the columns of a word, without marks of emphasis.
fn visible_width(word: &str) -> usize {
    word.replace("**", "").width()
}

/// Renders text between two `**` in bold.
fn strong(text: &str) -> String {
    let parts: Vec<&str> = text.split("**").collect();
    if parts.len().is_multiple_of(2) {
        return text.to_owned();
    }
    let styled = parts.iter().enumerate().map(|(at, part)| match at % 2 {
        0 => (*part).to_owned(),
        _ => format!("{NAME}{part}{NAME:#}"),
    });
    styled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, indent: usize, width: usize) -> String {
        anstream::adapter::strip_str(&render(text, indent, width)).to_string()
    }

    #[test]
    fn paragraphs_and_lists_are_wrapped_and_code_is_not() {
        let text = "One two\nthree four.\n\n- five six seven eight\n- nine\n\n```yaml\na:   b c d e f g h i\n```\n";
        let expected =
            "  One two three\n  four.\n\n  - five six seven\n    eight\n  - nine\n\n      a:   b c d e f g h i\n";
        assert_eq!(plain(text, 2, 18), expected);
    }

    #[test]
    fn emphasis_has_no_width() {
        assert_eq!(plain("**ab** cd", 0, 5), "ab cd\n");
    }

    #[test]
    fn the_summary_is_the_first_sentence() {
        assert_eq!(summary("A file\nor a link. More.\n\nRest."), "A file or a link.");
    }
}
