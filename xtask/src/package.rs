//! `cargo xtask package`: packages of the static program, with checksums, below `target/packages`.
//!
//! The packages do not depend on the machine, apart from its tools. Times come from the commit, names of directories of
//! the machine are replaced, and archives are sorted.

mod sbom;
mod trial;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist;
use crate::step::{cargo, installed, output, succeeds};

pub(crate) use trial::run as try_packages;

/// Version of cargo-deb for `[package.metadata.deb]`.
const CARGO_DEB: &str = "3.8.0";

/// Version of cargo-generate-rpm for `[package.metadata.generate-rpm]`.
const CARGO_GENERATE_RPM: &str = "0.21.1";

/// Directory of the packages, which the metadata of the crate `kilter` names too.
const PACKAGES: &str = "target/packages";

/// Builds the packages and lists them.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    let packages = build(root).map_err(|why| vec![why])?;
    Ok(packages.iter().map(|package| package.display().to_string()).collect::<Vec<_>>().join("\n"))
}

/// Builds the packages and returns their paths. The last one is the file of checksums.
fn build(root: &Path) -> Result<Vec<PathBuf>, String> {
    let epoch = epoch(root)?;
    let program = dist::build(root)?;
    let release = Release { root, program: &program, epoch: &epoch, target: dist::host()? };
    release.contains_no_directory_of_the_machine()?;
    let packages = root.join(PACKAGES);
    if packages.exists() {
        std::fs::remove_dir_all(&packages).map_err(|error| format!("{}: {error}", packages.display()))?;
    }
    let tree = packages.join("tree");
    release.write_tree(&tree)?;
    let version = release.version()?;
    let stem = format!("kilter-{version}-{}", std::env::consts::ARCH);
    release.tar(&tree, &packages.join(format!("{stem}-linux.tar.gz")), &format!("{stem}-linux"))?;
    release.deb(&packages)?;
    release.rpm(&packages.join(format!("{stem}.rpm")))?;
    let sbom = packages.join(format!("{stem}.cdx.json"));
    copy(&tree.join("share/doc/kilter/sbom.cdx.json"), &sbom, 0o644)?;
    let mut files = files_in(&packages)?;
    files.push(checksums(&packages, &files)?);
    Ok(files)
}

/// Returns the time of all files in the packages: `SOURCE_DATE_EPOCH`, or the time of the commit.
fn epoch(root: &Path) -> Result<String, String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let time = output(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]))
        .map_err(|why| format!("outside of a git repository, set SOURCE_DATE_EPOCH\n{why}"))?;
    Ok(time.trim().to_owned())
}

/// Inputs of all packages.
struct Release<'a> {
    root: &'a Path,
    program: &'a Path,
    epoch: &'a str,
    target: String,
}

impl Release<'_> {
    /// Returns the output of the program, which depends on no setting and no provider of this machine.
    fn printed(&self, args: &[&str]) -> Result<String, String> {
        output(Command::new(self.program).args(args).env_clear().env("PATH", "/usr/bin:/bin"))
    }

    /// Fails if the program contains a name of a directory that differs between machines.
    fn contains_no_directory_of_the_machine(&self) -> Result<(), String> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let toolchain = output(Command::new(rustc).args(["--print", "sysroot"]))?;
        let replaced = dist::remapped(self.root).into_iter();
        let mut names = replaced.filter(|(from, to)| from != Path::new(to)).map(|(from, _)| from).collect::<Vec<_>>();
        names.push(toolchain.trim().into());
        let program = std::fs::read(self.program).map_err(|error| format!("{}: {error}", self.program.display()))?;
        match names.iter().find(|name| contains(&program, name.as_os_str().as_encoded_bytes())) {
            Some(name) => Err(format!("{} contains the path {}", self.program.display(), name.display())),
            None => Ok(()),
        }
    }

    fn version(&self) -> Result<String, String> {
        let line = self.printed(&["--version"])?;
        line.trim().strip_prefix("kilter ").map(str::to_owned).ok_or_else(|| format!("the version is `{line}`"))
    }

    /// Writes the files that are installed below `/usr` or `/usr/local`.
    fn write_tree(&self, tree: &Path) -> Result<(), String> {
        let documents = tree.join("share/doc/kilter");
        copy(self.program, &tree.join("bin/kilter"), 0o755)?;
        for (from, to) in [
            ("examples/kilter.service", "lib/systemd/system/kilter.service"),
            ("crates/kilter/packaging/site.yaml", "share/doc/kilter/site.yaml"),
            ("CHANGELOG.md", "share/doc/kilter/changelog"),
            ("LICENSE-APACHE", "share/doc/kilter/LICENSE-APACHE"),
            ("LICENSE-MIT", "share/doc/kilter/LICENSE-MIT"),
        ] {
            copy(&self.root.join(from), &tree.join(to), 0o644)?;
        }
        for (shell, to) in [
            ("bash", "share/bash-completion/completions/kilter"),
            ("zsh", "share/zsh/site-functions/_kilter"),
            ("fish", "share/fish/vendor_completions.d/kilter.fish"),
        ] {
            write(&tree.join(to), self.printed(&["completions", shell])?.as_bytes())?;
        }
        write(&tree.join("share/kilter/manifest.schema.json"), self.printed(&["schema"])?.as_bytes())?;
        write(&documents.join("sbom.cdx.json"), sbom::document(self.root, &self.target)?.as_bytes())?;
        let manual = tree.join("share/man/man1");
        self.printed(&["man", &manual.to_string_lossy()])?;
        let mut compressed = files_in(&manual)?;
        compressed.push(documents.join("changelog"));
        succeeds(Command::new("gzip").args(["-n", "-9", "--"]).args(compressed))
    }

    fn tar(&self, tree: &Path, archive: &Path, name: &str) -> Result<(), String> {
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(tree).args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
        // The modes do not depend on the umask.
        tar.args(["--mode=u=rwX,go=rX", &format!("--mtime=@{}", self.epoch)]);
        tar.args([&format!("--transform=s,^\\.,{name},"), "-I", "gzip -n -9", "-cf"]).arg(archive).arg(".");
        succeeds(&mut tar)
    }

    fn deb(&self, packages: &Path) -> Result<(), String> {
        installed(self.root, "cargo-deb", CARGO_DEB)?;
        let mut deb = cargo(self.root);
        deb.args(["deb", "--quiet", "--locked", "--no-build", "--no-strip", "-p", "kilter", "--target", &self.target]);
        succeeds(deb.arg("--output").arg(packages.join("")).env("SOURCE_DATE_EPOCH", self.epoch))
    }

    fn rpm(&self, package: &Path) -> Result<(), String> {
        installed(self.root, "cargo-generate-rpm", CARGO_GENERATE_RPM)?;
        let mut rpm = cargo(self.root);
        rpm.args(["generate-rpm", "-p", "crates/kilter", "--target", &self.target, "--output"]).arg(package);
        succeeds(rpm.env("SOURCE_DATE_EPOCH", self.epoch))
    }
}

fn contains(content: &[u8], part: &[u8]) -> bool {
    content.windows(part.len()).any(|window| window == part)
}

/// Writes `SHA256SUMS` and returns its path.
fn checksums(packages: &Path, files: &[PathBuf]) -> Result<PathBuf, String> {
    let names = files.iter().filter_map(|file| file.file_name());
    let sums = output(Command::new("sha256sum").current_dir(packages).arg("--").args(names))?;
    let path = packages.join("SHA256SUMS");
    write(&path, sums.as_bytes())?;
    Ok(path)
}

/// Returns the files in a directory, sorted.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", directory.display());
    let entries = std::fs::read_dir(directory).map_err(wrong)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut files = paths.map_err(wrong)?;
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

/// Writes a file and creates its directory.
fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(path.parent().expect("a file has a directory")).map_err(wrong)?;
    std::fs::write(path, content).map_err(wrong)
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let content = std::fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    write(to, &content)?;
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(to, mode).map_err(|error| format!("{}: {error}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_at_the_ends_too() {
        for part in ["/srv", "/kilter", "v/k"] {
            assert!(contains(b"/srv/kilter", part.as_bytes()), "{part}");
        }
        assert!(!contains(b"/srv/kilter", b"/tmp") && !contains(b"/srv", b"/srv/kilter"));
    }

    #[test]
    fn checksums_are_those_of_the_files_by_name() {
        let directory = std::env::temp_dir().join(format!("xtask-package-{}", std::process::id()));
        write(&directory.join("b"), b"").unwrap();
        write(&directory.join("a"), b"a\n").unwrap();
        write(&directory.join("tree/c"), b"").unwrap();
        let sums = checksums(&directory, &files_in(&directory).unwrap()).unwrap();
        let sums = std::fs::read_to_string(sums).unwrap();
        std::fs::remove_dir_all(directory).unwrap();
        let expected = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7  a\n\
                        e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n";
        assert_eq!(sums, expected);
    }
}
