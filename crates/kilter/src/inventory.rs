//! The inventory of a command: `--inventory`, `KILTER_INVENTORY`, or the default path.

use std::path::{Path, PathBuf};

use kilter_inventory::{Inventory, LoadOptions, Problem};
use kilter_process::trust::TrustPolicy;

use crate::exit::Exit;
use crate::{output, paths, signals};

/// Reads the inventory at the given path, or at the default one. None if no path is given and the default one does
/// not exist.
///
/// # Errors
/// If the inventory has problems; reported.
pub(crate) fn open(given: Option<&Path>, trust: &TrustPolicy) -> Result<Option<Inventory>, Exit> {
    let given = given.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned);
    let Some(path) = given.or_else(default_path) else { return Ok(None) };
    let options =
        LoadOptions { trust: trust.clone(), variable: &|name| std::env::var_os(name), cancel: Some(signals::raised()) };
    let inventory = Inventory::load(&path, &options).map_err(|problems| {
        problems.iter().for_each(|problem| report(problem, &|text| output::error(text)));
        Exit::NotStarted
    })?;
    inventory.warnings().iter().for_each(|problem| report(problem, &|text| output::warning(text)));
    Ok(Some(inventory))
}

fn report(problem: &Problem, print: &dyn Fn(&str)) {
    print(&problem.to_string());
    problem.hint.iter().for_each(output::hint);
}

fn default_path() -> Option<PathBuf> {
    paths::inventory().filter(|path| path.exists())
}
