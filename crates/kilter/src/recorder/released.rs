//! Names of resources that left the manifests.

use crate::output;
use crate::visible::visible;

/// Maximum number of named resources that left the manifests.
const MAX_NAMED: usize = 10;

/// Names resources that left the manifests.
pub(super) fn name_released(released: &[String]) {
    if !released.is_empty() {
        let names: Vec<String> = released.iter().map(|name| visible(name)).collect();
        output::line(kept_text(&names));
    }
}

/// Returns the names of resources that left the manifests and stay as they are.
pub(crate) fn kept_text(names: &[String]) -> String {
    let more = match names.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let named = &names[..names.len().min(MAX_NAMED)];
    format!("no longer declared, and left as they are: {}{more}", named.join(", "))
}
