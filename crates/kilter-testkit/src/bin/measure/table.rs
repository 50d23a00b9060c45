//! Table of measurements.

use std::fmt;

#[derive(Default)]
pub(crate) struct CostTable {
    rows: Vec<Row>,
}

struct Row {
    what: String,
    measured: String,
    beside: String,
    target: String,
    holds: bool,
}

impl CostTable {
    /// Adds a figure with an upper limit.
    pub(crate) fn limit(&mut self, what: &str, measured: f64, unit: &str, limit: f64) {
        self.limit_beside(what, measured, String::new(), unit, limit);
    }

    /// Adds a figure with an upper limit and a remark.
    pub(crate) fn limit_beside(&mut self, what: &str, measured: f64, beside: String, unit: &str, limit: f64) {
        self.rows.push(Row {
            what: what.to_owned(),
            measured: format!("{measured:.2} {unit}"),
            beside,
            target: format!("≤ {} {unit}", (limit * 100.0).round() / 100.0),
            holds: measured <= limit,
        });
    }

    /// Adds a figure with another one of the same run, and the maximum of their ratio. Without a target, it is
    /// infinite.
    pub(crate) fn ratio(&mut self, what: &str, measured: f64, beside: f64, unit: &str, name: &str, limit: f64) {
        let ratio = measured / beside.max(f64::MIN_POSITIVE);
        self.rows.push(Row {
            what: what.to_owned(),
            measured: format!("{measured:.2} {unit}"),
            beside: format!("{name} {beside:.2} {unit}, {ratio:.2}×"),
            target: if limit.is_finite() { format!("≤ {limit}×") } else { "none".to_owned() },
            holds: ratio <= limit,
        });
    }

    /// Returns true if all targets are met. False if there are no measurements.
    pub(crate) fn holds(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.holds)
    }
}

impl fmt::Display for CostTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| measurement | kilter | compared with | target | met |")?;
        writeln!(f, "|---|---:|---:|---:|---|")?;
        for Row { what, measured, beside, target, holds } in &self.rows {
            let holds = if *holds { "yes" } else { "**no**" };
            writeln!(f, "| {what} | {measured} | {beside} | {target} | {holds} |")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_holds_when_it_has_rows_and_all_of_them_hold() {
        let mut table = CostTable::default();
        assert!(!table.holds());
        table.limit("a", 1.0, "ms", 1.0);
        assert!(table.holds());
        table.ratio("b", 3.1, 1.0, "ms", "floor", 3.0);
        assert!(!table.holds() && table.to_string().contains("**no**"));
    }
}
