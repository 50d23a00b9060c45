//! `cargo xtask package --try`: installs the packages on a host that systemd has booted.
//!
//! The tests of the workspace do not do this, because the build of the packages takes minutes.

use std::path::Path;
use std::process::Command;

use crate::package;
use crate::step::{output, succeeds};

/// Script in the sandbox: boots a host with the packages and runs the second script in it.
const BOOT: &str = r#"
    host=$0 packages=$1 script=$2 repository=$3
    "$host" up host "$packages:/srv/packages" "$script:/srv/try.bash" "$repository:/srv/repository"
    "$host" run host bash /srv/try.bash"#;

/// Builds the packages, then installs, upgrades, removes and purges them.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    let hosts = root.join("crates/kilter-testkit/hosts");
    let try_packages = || {
        package::build(root)?;
        // The host installs rpm to run the scripts of that package.
        let repository = output(Command::new(hosts.join("repository")).arg("rpm"))?;
        let mut sandbox = Command::new(hosts.join("sandbox"));
        sandbox.args(["bash", "-euc", BOOT]).arg(hosts.join("host")).arg(root.join(package::PACKAGES));
        sandbox.arg(root.join("xtask/src/package/try.bash")).arg(repository.trim_end());
        succeeds(&mut sandbox)
    };
    try_packages().map_err(|why| vec![why])?;
    Ok("the packages work".to_owned())
}
