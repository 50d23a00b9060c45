//! Tables for people: columns beside each other, no lines between them.

use unicode_width::UnicodeWidthStr;

use crate::render::{NAME, styled};

/// What is between two columns.
const GAP: &str = "  ";

/// A table with a heading for each column.
pub(crate) struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new<T: Into<String>>(headings: impl IntoIterator<Item = T>) -> Table {
        let headings = headings.into_iter().map(|text| text.into().to_uppercase()).collect();
        Table { headings, rows: Vec::new() }
    }

    /// Adds a row, one cell for each heading.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.headings.len(), "a row has a cell for each heading");
        self.rows.push(cells);
    }

    /// The table as text, and the headings of the columns that do not fit into so many columns of
    /// a terminal. The first column is always there.
    pub(crate) fn render(&self, columns: Option<usize>) -> (String, Vec<&str>) {
        let widths = self.widths();
        let count = fitting(&widths, columns);
        let mut text = line(&self.headings[..count], &widths, |cell| styled(NAME, cell));
        for row in &self.rows {
            text += &line(&row[..count], &widths, str::to_owned);
        }
        (text, self.headings[count..].iter().map(String::as_str).collect())
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].width());
            cells.chain([self.headings[column].width()]).max().unwrap_or(0)
        };
        (0..self.headings.len()).map(width).collect()
    }
}

/// How many of the first columns fit.
fn fitting(widths: &[usize], columns: Option<usize>) -> usize {
    let Some(columns) = columns else { return widths.len() };
    let mut used = 0;
    let fits = widths.iter().take_while(|width| {
        used += **width + GAP.len();
        used <= columns + GAP.len()
    });
    fits.count().max(1)
}

fn line(cells: &[String], widths: &[usize], style: impl Fn(&str) -> String) -> String {
    let last = cells.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
    let mut text = String::new();
    for (at, cell) in cells.iter().enumerate().take(last + 1) {
        text += &style(cell);
        if at < last {
            text += &" ".repeat(widths[at] - cell.width());
            text += GAP;
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(table: &Table, columns: Option<usize>) -> (String, usize) {
        let (text, left) = table.render(columns);
        (anstream::adapter::strip_str(&text).to_string(), left.len())
    }

    #[test]
    fn columns_are_as_wide_as_what_is_seen() {
        let mut table = Table::new(["name", "uid"]);
        table.row(vec!["日本".to_owned(), "0".to_owned()]);
        table.row(vec!["x".to_owned(), String::new()]);
        assert_eq!(plain(&table, None), ("NAME  UID\n日本  0\nx\n".to_owned(), 0));
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        let mut table = Table::new(["name", "home"]);
        table.row(vec!["root".to_owned(), "/root".to_owned()]);
        assert_eq!(plain(&table, Some(11)).1, 0);
        assert_eq!(plain(&table, Some(10)), ("NAME\nroot\n".to_owned(), 1));
        assert_eq!(plain(&table, Some(1)).1, 1);
    }
}
