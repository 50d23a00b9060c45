//! Tables for people: columns without lines between them.

use unicode_width::UnicodeWidthStr;

use crate::style::{NAME, styled};

/// Number of spaces between two columns.
const GAP: usize = 2;

/// Table with a heading for each column.
pub(crate) struct Table {
    headings: Vec<String>,
    /// Text of all cells, row after row.
    text: String,
    /// End of each cell in the text.
    ends: Vec<usize>,
}

impl Table {
    /// Creates a table without rows.
    pub(crate) fn new<T: Into<String>>(headings: impl IntoIterator<Item = T>) -> Table {
        let headings = headings.into_iter().map(|text| text.into().to_uppercase()).collect();
        Table { headings, text: String::new(), ends: Vec::new() }
    }

    /// Adds a row, one cell for each heading.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        for cell in cells {
            self.text.push_str(cell.as_ref());
            self.ends.push(self.text.len());
        }
        debug_assert_eq!(self.ends.len() % self.headings.len(), 0, "a row has a cell for each heading");
    }

    /// Returns the table as text, and the headings of the columns that do not fit the width `columns`. The first
    /// column is always shown.
    pub(crate) fn render(&self, columns: Option<usize>) -> (String, Vec<&str>) {
        let widths = self.widths();
        let count = fitting(&widths, columns);
        let mut text = String::with_capacity(self.text.len() + self.ends.len());
        let headings: Vec<&str> = self.headings.iter().map(String::as_str).collect();
        line(&mut text, &headings[..count], &widths, |text, cell| text.push_str(&styled(NAME, cell)));
        let mut row = Vec::with_capacity(count);
        for first in (0..self.ends.len()).step_by(self.headings.len()) {
            row.clear();
            row.extend((first..first + count).map(|at| self.cell(at)));
            line(&mut text, &row, &widths, String::push_str);
        }
        (text, headings[count..].to_vec())
    }

    fn cell(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[at]]
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.headings.iter().map(|heading| width(heading)).collect();
        for at in 0..self.ends.len() {
            let widest = &mut widths[at % self.headings.len()];
            *widest = width(self.cell(at)).max(*widest);
        }
        widths
    }
}

fn width(cell: &str) -> usize {
    if cell.is_ascii() { cell.len() } else { cell.width() }
}

/// Returns the number of leading columns that fit.
fn fitting(widths: &[usize], columns: Option<usize>) -> usize {
    let Some(columns) = columns else { return widths.len() };
    let mut used = 0;
    let fits = widths.iter().take_while(|width| {
        used += **width + GAP;
        used <= columns + GAP
    });
    fits.count().max(1)
}

fn line(text: &mut String, cells: &[&str], widths: &[usize], push: impl Fn(&mut String, &str)) {
    let last = cells.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
    for (at, cell) in cells.iter().enumerate().take(last + 1) {
        push(text, cell);
        if at < last {
            text.extend(std::iter::repeat_n(' ', widths[at] - width(cell) + GAP));
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(table: &Table, columns: Option<usize>) -> (String, usize) {
        let (text, left) = table.render(columns);
        (anstream::adapter::strip_str(&text).to_string(), left.len())
    }

    #[test]
    fn column_width_follows_visible_width() {
        let mut table = Table::new(["name", "uid"]);
        table.row(["日本", "0"]);
        table.row(["x", ""]);
        assert_eq!(plain(&table, None), ("NAME  UID\n日本  0\nx\n".to_owned(), 0));
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        let mut table = Table::new(["name", "home"]);
        table.row(["root", "/root"]);
        assert_eq!(plain(&table, Some(11)).1, 0);
        assert_eq!(plain(&table, Some(10)), ("NAME\nroot\n".to_owned(), 1));
        assert_eq!(plain(&table, Some(1)).1, 1);
    }
}
