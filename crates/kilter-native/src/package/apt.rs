//! apt: candidates, virtual packages, and changes of the machine.

use std::path::Path;
use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_process::{Invocation, Output};
use kilter_provider::{Context, Level};
use rustc_hash::FxHashMap;

use super::version;
use crate::accounts::System;
use crate::tool::{self, RecordedPart, ending_of};

/// Maximum duration of a change. Some packages build kernel modules or databases.
const CHANGE: Duration = Duration::from_secs(3 * 3600);
const QUERY: Duration = Duration::from_secs(300);

/// Maximum kept output in bytes.
const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// Maximum wait for the lock of another program, in seconds.
const LOCK_TIMEOUT: u32 = 600;

/// Time between two checks of the lock. The kernel does not report its release without taking it.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Directory of the package lists.
pub(crate) const LISTS: &str = "/var/lib/apt/lists";

/// File in the state directory whose time is that of the last successful `apt-get update`.
pub(super) const REFRESHED: &str = "package/lists-refreshed";

/// Directory of apt's caches below that of the provider's data.
const CACHES: &str = "package";

/// Versions of a package that apt knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    /// Version that apt would install.
    pub(super) candidate: Option<EcoString>,
    /// All versions, the newest first.
    pub(super) versions: Vec<EcoString>,
}

impl Policy {
    /// Returns true if apt would not install a newer version than the installed one. A pin may prefer an older
    /// version; `latest` never means a downgrade.
    pub(super) fn is_latest(&self, installed: &str) -> bool {
        self.candidate.as_ref().is_none_or(|candidate| version::compare(candidate, installed).is_le())
    }
}

/// A call that failed: the message, and true if another program held the lock.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) message: EcoString,
    pub(crate) is_locked: bool,
}

/// apt on a machine.
pub(crate) struct Apt<'a> {
    pub(crate) system: &'a System,
    pub(crate) cx: &'a Context<'a>,
}

impl Apt<'_> {
    /// Returns the versions that apt knows of packages. Names that apt does not know are missing.
    ///
    /// # Errors
    /// If apt-cache fails.
    pub(super) fn policies(&self, names: &[&str]) -> Result<FxHashMap<EcoString, Policy>, EcoString> {
        if names.is_empty() {
            return Ok(FxHashMap::default());
        }
        let output = self.query(self.cache("policy").arg("--").args(names))?;
        Ok(policies(&output))
    }

    /// Returns the packages that provide each virtual package.
    ///
    /// # Errors
    /// If apt-cache fails.
    pub(super) fn providers(&self, names: &[&str]) -> Result<FxHashMap<EcoString, Vec<EcoString>>, EcoString> {
        if names.is_empty() {
            return Ok(FxHashMap::default());
        }
        let output = self.query(self.cache("showpkg").arg("--").args(names))?;
        Ok(providers(&output))
    }

    /// Returns a call of apt-cache. Its caches are kilter's own, because a read must not write those of the machine. A
    /// read without caches takes a second.
    fn cache(&self, command: &str) -> Invocation {
        let directory = self.cx.var_dir().map(|data| data.join(CACHES)).filter(|path| is_usable(path));
        let file = |name: &str| match &directory {
            Some(directory) => format!("Dir::Cache::{name}={}/{name}.bin", directory.display()),
            None => format!("Dir::Cache::{name}="),
        };
        Invocation::new("apt-cache").args(["-o", &file("pkgcache"), "-o", &file("srcpkgcache"), command])
    }

    /// Returns the fields `Package`, `Version` and `Architecture` of a package file.
    ///
    /// # Errors
    /// If it is no package file.
    pub(super) fn fields(&self, file: &str) -> Result<[EcoString; 3], EcoString> {
        const FIELDS: [&str; 3] = ["Package", "Version", "Architecture"];
        let output = self.query(Invocation::new("dpkg-deb").args(["-f", file]).args(FIELDS))?;
        let value = |field: &&str| {
            let of =
                |line: &'_ str| line.strip_prefix(field)?.strip_prefix(':').map(|value| EcoString::from(value.trim()));
            output.lines().find_map(of).unwrap_or_default()
        };
        Ok([value(&FIELDS[0]), value(&FIELDS[1]), value(&FIELDS[2])])
    }

    /// Returns the packages that a change would remove, by a simulation.
    ///
    /// # Errors
    /// If apt-get refuses the change.
    pub(super) fn removals(&self, args: &[String]) -> Result<Vec<EcoString>, EcoString> {
        Ok(removed(&self.query(Invocation::new("apt-get").args(["-s", "-q", "-y"]).args(args))?))
    }

    /// Returns all packages that a removal removes, and those that nothing needs afterwards, by a simulation; none if
    /// apt-get refuses the removal.
    pub(super) fn removal_effects(&self, names: &[&str]) -> (Vec<EcoString>, Vec<EcoString>) {
        let simulated = Invocation::new("apt-get").args(["-s", "-q", "-y", "remove", "--"]).args(names);
        self.query(simulated).map(|output| (removed(&output), unneeded(&output))).unwrap_or_default()
    }

    fn query(&self, invocation: Invocation) -> Result<EcoString, EcoString> {
        let name = invocation.program.to_string_lossy().into_owned();
        let invocation = invocation.captured(MAX_OUTPUT_BYTES).deadline(QUERY);
        let finished = tool::start(self.system.runner(), self.cx, &invocation, RecordedPart::Errors);
        let finished = finished.map_err(|error| EcoString::from(error.with_sources()))?;
        if finished.is_success() { Ok(finished.stdout.text().into()) } else { Err(failure(&name, &finished, QUERY)) }
    }

    /// Updates the package lists.
    ///
    /// # Errors
    /// If apt-get fails.
    pub(crate) fn update(&self) -> Result<(), Failed> {
        self.run_update(&[])?;
        // Without a state directory, the age of the directory of lists decides alone.
        let path = self.cx.var_dir().map(|data| data.join(REFRESHED));
        let _ = path.filter(|path| path.parent().is_some_and(is_usable)).map(|path| std::fs::write(path, ""));
        Ok(())
    }

    /// Updates the package lists of the repositories in one file.
    ///
    /// # Errors
    /// If apt-get fails.
    pub(crate) fn update_of(&self, file: &str) -> Result<(), Failed> {
        let only = format!("Dir::Etc::sourcelist={file}");
        self.run_update(&["-o", &only, "-o", "Dir::Etc::sourceparts=/dev/null", "-o", "APT::Get::List-Cleanup=0"])
    }

    fn run_update(&self, options: &[&str]) -> Result<(), Failed> {
        // apt-get does not wait for this lock itself.
        self.wait_for(super::lock::LISTS, "the package lists")?;
        self.change(apt_get().args(options).args(["-o", "APT::Update::Error-Mode=any", "update"])).map(drop)
    }

    /// Changes packages in one transaction. Returns the output of apt-get.
    ///
    /// # Errors
    /// If apt-get fails.
    pub(super) fn transaction(&self, args: &[String]) -> Result<EcoString, Failed> {
        let confold = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"];
        self.change(apt_get().args(confold).args(args))
    }

    /// Sets or removes the hold of packages.
    ///
    /// # Errors
    /// If apt-mark fails.
    pub(super) fn mark(&self, word: &str, names: &[&str]) -> Result<(), Failed> {
        if names.is_empty() {
            return Ok(());
        }
        self.change(Invocation::new("apt-mark").args([word, "--"]).args(names)).map(drop)
    }

    /// Waits until no other program holds the lock of dpkg. apt-get can wait too, but the state of packages is only
    /// certain after the wait, and apt-mark does not wait.
    ///
    /// # Errors
    /// If the program holds the lock too long, or if the run is interrupted.
    pub(super) fn wait_for_lock(&self) -> Result<(), Failed> {
        self.wait_for(super::lock::DPKG, "dpkg")
    }

    fn wait_for(&self, locks: &[&str], of: &str) -> Result<(), Failed> {
        let holder_of = || super::lock::holder(self.system.root(), locks);
        let Some(mut holder) = holder_of() else { return Ok(()) };
        let message = format!("waits up to {LOCK_TIMEOUT} s for the lock of {of}, which {holder} holds");
        self.cx.log(Level::Notice, "package", "", &message);
        let locked = |message: String| Failed { message: message.into(), is_locked: true };
        let until = Instant::now() + Duration::from_secs(LOCK_TIMEOUT.into());
        while Instant::now() < until {
            if self.cx.is_stopping() || self.cx.interrupt().is_raised() {
                return Err(locked(format!("interrupted while {holder} held the lock of {of}")));
            }
            std::thread::sleep(LOCK_PAUSE);
            match holder_of() {
                Some(next) => holder = next,
                None => return Ok(()),
            }
        }
        Err(locked(format!("{holder} held the lock of {of} for {LOCK_TIMEOUT} s")))
    }

    fn holder(&self) -> Option<String> {
        let root = self.system.root();
        super::lock::holder(root, super::lock::DPKG).or_else(|| super::lock::holder(root, super::lock::LISTS))
    }

    fn change(&self, invocation: Invocation) -> Result<EcoString, Failed> {
        self.wait_for_lock()?;
        let name = invocation.program.to_string_lossy().into_owned();
        let invocation = invocation.captured(MAX_OUTPUT_BYTES).deadline(CHANGE);
        let finished = tool::start(self.system.runner(), self.cx, &invocation, RecordedPart::Outputs);
        let unlocked = |message: EcoString| Failed { message, is_locked: false };
        let finished = finished.map_err(|error| unlocked(error.with_sources().into()))?;
        for line in finished.stdout.text().lines().filter(|line| !line.trim().is_empty()) {
            // dpkg overwrites its progress: `5%\r10%\r`.
            let line = line.trim_end().rsplit('\r').next().unwrap_or_default();
            self.cx.log(Level::Debug, "package", "", line);
        }
        if finished.is_success() {
            return Ok(finished.stdout.text().into());
        }
        let is_locked = finished.stderr.text().contains("Could not get lock");
        let message = failure(&name, &finished, CHANGE);
        match self.holder().filter(|_| is_locked) {
            Some(holder) => Err(Failed { message: format!("{message}\n{holder} holds the lock").into(), is_locked }),
            None => Err(Failed { message, is_locked }),
        }
    }
}

/// Returns a call of apt-get that asks nothing and waits for the lock of dpkg.
fn apt_get() -> Invocation {
    let invocation = Invocation::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive");
    let invocation = invocation.env("APT_LISTCHANGES_FRONTEND", "none").env("NEEDRESTART_SUSPEND", "1");
    invocation.args(["-q", "-y", "-o", &format!("DPkg::Lock::Timeout={LOCK_TIMEOUT}")])
}

/// Creates a directory for caches. Returns false if it cannot be used.
fn is_usable(path: &Path) -> bool {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).is_ok()
}

/// Describes a failed program by its errors, or else by the end of its output.
fn failure(name: &str, finished: &Output, deadline: Duration) -> EcoString {
    let output = [finished.stdout.text(), finished.stderr.text()].concat();
    let telling = errors(&output);
    let said = if telling.is_empty() { ending_of(&output) } else { ending_of(&telling.join("\n")) };
    let script = refusal_of_script(&finished.stderr.text()).and_then(|script| ending_of(&script));
    let said = script.into_iter().chain(said).reduce(|script, said| format!("{script}\n{said}"));
    crate::tool::failure(name, finished, deadline, said)
}

/// Returns the lines that the first failed script of a package printed, from the standard error of apt-get.
fn refusal_of_script(errors: &str) -> Option<String> {
    let lines: Vec<&str> = errors.lines().collect();
    let end = lines.iter().position(|line| line.starts_with("dpkg: error processing"))?;
    let is_of_dpkg = |line: &&&str| ["dpkg", "E:", "W:", "N:", "debconf:"].iter().any(|start| line.starts_with(start));
    let printed: Vec<&str> = lines[..end].iter().rev().take_while(|line| !is_of_dpkg(line)).copied().collect();
    Some(printed.into_iter().rev().collect::<Vec<_>>().join("\n"))
}

/// Returns the lines of apt that give the reason of a failure: its errors, the unmet dependencies with their further
/// lines, and the packages that it would have to remove.
fn errors(output: &str) -> Vec<&str> {
    let mut is_list = false;
    let is_telling = |line: &&str| {
        if !line.starts_with(' ') {
            is_list = line.starts_with("The following") && line.contains("REMOVED");
        }
        ["E:", "W:", "N:", "dpkg:", "The following"].iter().any(|start| line.starts_with(start))
            || line.starts_with(' ')
                && (is_list || [" : ", "Depends: ", "Conflicts: ", "Breaks: "].iter().any(|word| line.contains(word)))
    };
    output.lines().filter(is_telling).collect()
}

/// Parses the output of a simulation: the packages that it removes.
fn removed(output: &str) -> Vec<EcoString> {
    let removed = |line: &str| {
        let line = line.strip_prefix("Remv ").or_else(|| line.strip_prefix("Purg "))?;
        line.split(' ').next().map(EcoString::from)
    };
    output.lines().filter_map(removed).collect()
}

/// Parses the output of `apt-cache policy`.
fn policies(output: &str) -> FxHashMap<EcoString, Policy> {
    let mut all = FxHashMap::default();
    let mut current: Option<(EcoString, Policy)> = None;
    for line in output.lines() {
        if !line.starts_with(' ') {
            all.extend(current.take());
            current = line.strip_suffix(':').map(|name| (name.into(), Policy::default()));
            continue;
        }
        let Some((_, policy)) = &mut current else { continue };
        if let Some(candidate) = line.strip_prefix("  Candidate: ") {
            policy.candidate = (candidate != "(none)").then(|| candidate.into());
            continue;
        }
        // ` *** 1.0 500` and `     1.0 500`; the lines of the sources are indented further.
        let version =
            line.strip_prefix(" *** ").or_else(|| line.strip_prefix("     ").filter(|rest| !rest.starts_with(' ')));
        if let Some(version) = version.and_then(|rest| rest.split(' ').next()) {
            policy.versions.push(version.into());
        }
    }
    all.extend(current);
    all
}

/// Returns the packages that apt installed as dependencies and that nothing needs, from the output of apt-get.
pub(super) fn unneeded(output: &str) -> Vec<EcoString> {
    let is_heading = |line: &str| line.starts_with("The following package") && line.ends_with("no longer required:");
    let after = output.lines().skip_while(|line| !is_heading(line)).skip(1);
    let names = after.take_while(|line| line.starts_with(' ')).flat_map(str::split_whitespace);
    names.map(EcoString::from).collect()
}

/// Parses the output of `apt-cache showpkg`: the section `Reverse Provides` of each package.
fn providers(output: &str) -> FxHashMap<EcoString, Vec<EcoString>> {
    let mut all: FxHashMap<EcoString, Vec<EcoString>> = FxHashMap::default();
    let (mut name, mut is_section) = (EcoString::new(), false);
    for line in output.lines() {
        if let Some(package) = line.strip_prefix("Package: ") {
            (name, is_section) = (package.into(), false);
        } else if line.starts_with("Reverse Provides:") {
            is_section = true;
        } else if is_section && let Some(provider) = line.split(' ').next().filter(|word| !word.is_empty()) {
            let known = all.entry(name.clone()).or_default();
            if !known.iter().any(|one| one == provider) {
                known.push(provider.into());
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "\
bash:
  Installed: 5.2.15-2+b7
  Candidate: 5.2.21-1
  Version table:
     5.2.21-1 100
        100 http://deb.example.org/debian trixie/main amd64 Packages
 *** 5.2.15-2+b7 500
        500 http://deb.example.org/debian bookworm/main amd64 Packages
        100 /var/lib/dpkg/status
mail-transport-agent:
  Installed: (none)
  Candidate: (none)
  Version table:
libc6:i386:
  Installed: (none)
  Candidate: 2.36-9
  Version table:
     2.36-9 500
        500 http://deb.example.org/debian bookworm/main i386 Packages
";

    #[test]
    fn failed_script_of_a_package_gives_its_reason() {
        let errors = "W: a warning\nNo root password has been set.\nRefusing to remove sudo.\n\
                      dpkg: error processing package sudo (--remove):\n exit status 1\nother\n\
                      dpkg: error processing package x (--remove):\nE: too many errors\n";
        let script = refusal_of_script(errors).unwrap();
        assert_eq!(script, "No root password has been set.\nRefusing to remove sudo.");
        assert_eq!(refusal_of_script("E: no package x\n"), None);
    }

    #[test]
    fn policies_have_candidates_and_versions() {
        let all = policies(POLICY);
        let bash = &all["bash"];
        assert_eq!(bash.candidate.as_deref(), Some("5.2.21-1"));
        assert_eq!(bash.versions, ["5.2.21-1", "5.2.15-2+b7"]);
        assert!(!bash.is_latest("5.2.15-2+b7") && bash.is_latest("5.2.21-1") && bash.is_latest("6.0"));
        assert_eq!(all["mail-transport-agent"], Policy::default());
        assert_eq!(all["libc6:i386"].versions, ["2.36-9"]);
    }

    #[test]
    fn unneeded_packages_follow_their_heading() {
        let output = "Reading package lists...\nThe following packages were automatically installed and are no longer \
                      required:\n  git-man libcurl3\n  patch\nUse 'apt autoremove' to remove them.\nThe following \
                      packages will be REMOVED:\n  git\n";
        assert_eq!(unneeded(output), ["git-man", "libcurl3", "patch"]);
        let one = "The following package was automatically installed and is no longer required:\n  patch\nUse it\n";
        assert_eq!(unneeded(one), ["patch"]);
        assert_eq!(unneeded("The following packages will be REMOVED:\n  git\n"), [""; 0]);
    }

    #[test]
    fn removed_packages_are_those_of_the_simulation() {
        let output = "Reading package lists...\nThe following packages will be REMOVED:\n  git git-email\nRemv git-email \
                      [1:2.39.5-0+deb12u3]\nPurg git [1:2.39.5-0+deb12u3] [libc6:i386 ]\nInst other [1]\n";
        assert_eq!(removed(output), ["git-email", "git"]);
    }

    #[test]
    fn errors_of_apt_have_all_unmet_dependencies() {
        let output = "Reading package lists...\nSome packages could not be installed.\nThe following packages have \
                      unmet dependencies:\n app : Depends: lib (>= 2) but 1.0 is to be installed\n       Depends: gone \
                      but it is not installable\nE: Unable to correct problems, you have held broken packages.\n";
        let expected = [
            "The following packages have unmet dependencies:",
            " app : Depends: lib (>= 2) but 1.0 is to be installed",
            "       Depends: gone but it is not installable",
            "E: Unable to correct problems, you have held broken packages.",
        ];
        assert_eq!(errors(output), expected);
        let output = "The following packages will be REMOVED:\n  exim4\nThe following NEW packages will be installed:\n  \
                      postfix\nE: Packages need to be removed but remove is disabled.\n";
        assert_eq!(errors(output)[1], "  exim4");
        assert!(!errors(output).contains(&"  postfix"));
    }

    #[test]
    fn providers_of_virtual_packages_are_listed_once() {
        let output = "Package: awk\nVersions: \n\nReverse Depends: \n  base-files,awk\nDependencies: \nProvides: \
            \nReverse Provides: \nmawk 1.3.4 (= )\noriginal-awk 1:2 (= )\nmawk 1.3.3 (= )\nPackage: bash\nVersions: \
            \n5.2\nReverse Provides: \n";
        let all = providers(output);
        assert_eq!(all["awk"], ["mawk", "original-awk"]);
        assert!(!all.contains_key("bash"));
    }
}
