//! Calls of the program git for a source of manifests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kilter_process::{Cancel, Capture, Environment, Invocation, KillMode, Output, Termination};

use super::FetchError;
use crate::signals;

/// Maximum duration of a query to the source, or of a call on the local copy.
const QUERY_DEADLINE: Duration = Duration::from_secs(120);
/// Maximum duration of a fetch or a checkout.
const FETCH_DEADLINE: Duration = Duration::from_secs(1800);
/// Maximum size of an output in bytes.
const MAX_OUTPUT_BYTES: usize = 64 << 20;
const MAX_ERROR_BYTES: usize = 4 << 10;
/// Number of the signal SIGXFSZ in messages of git about programs that it started.
const TOO_LARGE: &str = "signal 25";

/// Settings of every call. No file of the repository may start a program or change a file's content.
const SETTINGS: [&str; 18] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.symlinks=true",
    "core.fileMode=true",
    "core.logAllRefUpdates=false",
    // A crash of the machine must not leave empty objects.
    "core.fsync=all",
    "transfer.fsckObjects=true",
    "fetch.fsckObjects=true",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "gc.autoDetach=false",
    "maintenance.autoDetach=false",
    // A dead source ends the call.
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
    "advice.detachedHead=false",
    "submodule.recurse=false",
];

/// Settings for the verification of a signature. Signatures of other formats must not be verified with other keys.
const SSH_SIGNATURES: [&str; 6] = [
    "gpg.format=ssh",
    "gpg.ssh.program=ssh-keygen",
    "gpg.program=/bin/false",
    "gpg.openpgp.program=/bin/false",
    "gpg.x509.program=/bin/false",
    "gpg.minTrustLevel=fully",
];

/// Attributes that switch off all conversions. They have precedence over the files `.gitattributes` of the repository.
const ATTRIBUTES: &str = "* -text -eol -ident -filter -working-tree-encoding\n";

/// Reference of the last fetched object.
const FETCHED: &str = "refs/kilter/fetched";
/// Reference of the held commit.
const HELD: &str = "refs/kilter/held";

/// Local copy of a repository, without a work tree.
#[derive(Debug)]
pub(super) struct GitCopy {
    directory: PathBuf,
    url: String,
    protocol: &'static str,
    ssh_config: Option<PathBuf>,
    /// True for a repository of this machine that no untrusted user can change. git refuses it if it belongs to
    /// another user.
    is_trusted_directory: bool,
    max_bytes: u64,
}

/// Quotes a text for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl GitCopy {
    pub(super) fn new(
        directory: PathBuf,
        (url, protocol): (String, &'static str),
        ssh_config: Option<PathBuf>,
        is_trusted_directory: bool,
        max_bytes: u64,
    ) -> GitCopy {
        GitCopy { directory, url, protocol, ssh_config, is_trusted_directory, max_bytes }
    }

    fn invocation(&self, cwd: &Path) -> Invocation {
        let uid = rustix::process::geteuid().as_raw();
        let environment = Environment::new()
            .user(uid)
            .allow(["SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"])
            .set("GIT_TERMINAL_PROMPT", "0")
            .set("GIT_CONFIG_NOSYSTEM", "1")
            .set("GIT_ATTR_NOSYSTEM", "1")
            .set("GIT_OPTIONAL_LOCKS", "0")
            .set("GIT_NO_REPLACE_OBJECTS", "1")
            .set("GIT_ALLOW_PROTOCOL", self.protocol)
            .set("SSH_ASKPASS_REQUIRE", "never");
        let mut ssh = "core.sshCommand=ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15".to_owned();
        if let Some(config) = &self.ssh_config {
            ssh += &format!(" -F {}", quoted(&config.to_string_lossy()));
        }
        let mut invocation = Invocation::new("git").environment(&environment).cwd(cwd);
        for setting in SETTINGS.into_iter().chain([&*ssh]) {
            invocation = invocation.args(["-c", setting]);
        }
        invocation.umask = Some(0o077);
        invocation.max_file_bytes = Some(self.max_bytes);
        invocation.leftovers = KillMode::Ended;
        invocation.stdout = Capture::AtMost(MAX_OUTPUT_BYTES);
        invocation.stderr = Capture::Last(MAX_ERROR_BYTES);
        invocation
    }

    /// Returns an invocation for the copy.
    fn here(&self) -> Invocation {
        let mut option = std::ffi::OsString::from("--git-dir=");
        option.push(&self.directory);
        self.invocation(&self.directory).arg(option)
    }

    /// Returns the option for the program that reads a directory of another user.
    fn upload_pack(&self) -> Vec<&'static str> {
        match self.is_trusted_directory {
            true => vec!["--upload-pack", "git -c 'safe.directory=*' upload-pack"],
            false => Vec::new(),
        }
    }

    /// Returns the object of a branch or a tag in the source, with its full name. A branch goes first, because
    /// the protection of a branch does not keep other users from pushing a tag of the same name.
    pub(super) fn ask(&self, reference: &str) -> Result<(String, String), FetchError> {
        let names: Vec<String> = match reference.starts_with("refs/") {
            true => vec![reference.to_owned()],
            false => vec![format!("refs/heads/{reference}"), format!("refs/tags/{reference}")],
        };
        let call = self.invocation(Path::new("/")).args(["ls-remote", "--quiet"]).args(self.upload_pack());
        let call = call.arg("--").arg(&self.url).args(&names);
        let answer = run(call, "ls-remote", QUERY_DEADLINE)?.stdout.text().into_owned();
        let objects: Vec<(&str, &str)> = answer.lines().filter_map(|line| line.split_once('\t')).collect();
        let found = names.iter().find_map(|name| objects.iter().find(|(_, found)| found == name));
        let is_object =
            |object: &str| [40, 64].contains(&object.len()) && object.bytes().all(|byte| byte.is_ascii_hexdigit());
        match found {
            Some((object, name)) if is_object(object) => Ok(((*object).to_owned(), (*name).to_owned())),
            _ => Err(FetchError::rejected(format!("the source has no branch or tag `{reference}`"))),
        }
    }

    /// Creates the copy for objects of the same kind as this one, and removes what killed calls left in it.
    pub(super) fn prepare(&self, object: &str) -> Result<(), FetchError> {
        let format = if object.len() == 64 { "sha256" } else { "sha1" };
        let marker = self.directory.join("kilter-format");
        if std::fs::read_to_string(&marker).ok().as_deref() != Some(format) {
            remove_directory(&self.directory)?;
            let mut init = self.invocation(Path::new("/")).args(["init", "--quiet", "--bare", "--template="]);
            init = init.arg(format!("--object-format={format}")).arg("--").arg(self.directory.as_os_str());
            run(init, "init", QUERY_DEADLINE)?;
            let write = |name: &str, text: &str| std::fs::write(self.directory.join(name), text);
            std::fs::create_dir_all(self.directory.join("info"))
                .and_then(|()| write("info/attributes", ATTRIBUTES))
                .and_then(|()| write("kilter-format", format))
                .map_err(|error| FetchError::unavailable(format!("{}: {error}", self.directory.display())))?;
        }
        // The caller holds the lock of the store, so that no other process uses these files.
        remove_entries(&self.directory, |name| name.ends_with(".lock"));
        remove_entries(&self.directory.join("refs/kilter"), |name| name.ends_with(".lock"));
        remove_entries(&self.directory.join("objects/pack"), |name| name.starts_with("tmp_"));
        Ok(())
    }

    /// Fetches an object by the full name of its reference. Returns the object and its commit: the reference may have
    /// moved since the source was asked.
    pub(super) fn fetch(&self, name: &str) -> Result<(String, String), FetchError> {
        let fetch = || {
            let call =
                self.here().args(["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]);
            let call = call.args(self.upload_pack()).arg("--").arg(&self.url).arg(format!("+{name}:{FETCHED}"));
            run(call, "fetch", FETCH_DEADLINE)
        };
        let fetched = match fetch() {
            Err(_) if self.remove_damaged_references() => fetch(),
            fetched => fetched,
        };
        fetched.map_err(|error| self.too_large(error))?;
        let object = self.line(&["rev-parse", "--verify", FETCHED])?;
        let commit = self.line(&["rev-parse", "--verify", &format!("{FETCHED}^{{commit}}")])?;
        Ok((object, commit))
    }

    /// Removes own references without an object, such as an empty one. git refuses each fetch while there is one. A git
    /// that outlives a killed kilter can leave it, because the next kilter removes its lock. Returns true if there was
    /// one.
    fn remove_damaged_references(&self) -> bool {
        let is_damaged = |reference: &&str| self.directory.join(reference).exists() && !self.has(reference);
        let damaged = [FETCHED, HELD].into_iter().filter(is_damaged);
        damaged.filter(|reference| std::fs::remove_file(self.directory.join(reference)).is_ok()).count() > 0
    }

    /// Returns the error of a fetch that a too large file has ended. git reports the signal only in some cases.
    fn too_large(&self, error: FetchError) -> FetchError {
        let files = std::fs::read_dir(self.directory.join("objects/pack")).into_iter().flatten().flatten();
        let is_full = |entry: std::fs::DirEntry| entry.metadata().is_ok_and(|found| found.len() >= self.max_bytes);
        match error.why.contains(TOO_LARGE) || files.into_iter().any(is_full) {
            true => {
                FetchError::rejected(format!("the repository is larger than {} MiB (--max-size)", self.max_bytes >> 20))
            }
            false => error,
        }
    }

    fn line(&self, args: &[&str]) -> Result<String, FetchError> {
        let output = run(self.here().args(args), args[0], QUERY_DEADLINE)?;
        Ok(output.stdout.text().lines().next().unwrap_or_default().to_owned())
    }

    /// Returns true if the copy has an object.
    pub(super) fn has(&self, object: &str) -> bool {
        self.directory.is_dir() && run(self.here().args(["cat-file", "-e", object]), "cat-file", QUERY_DEADLINE).is_ok()
    }

    /// Returns true if a commit descends from another one, or is the same.
    pub(super) fn descends(&self, new: &str, old: &str) -> Result<bool, FetchError> {
        if !self.has(old) {
            return Ok(false);
        }
        let output =
            finished(self.here().args(["merge-base", "--is-ancestor", old, new]), "merge-base", QUERY_DEADLINE)?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(failed("merge-base", &output)),
        }
    }

    /// Verifies the signature of a commit, or of a tag with this full name, by a key in the file `signers`.
    pub(super) fn verify(&self, object: &str, commit: &str, name: &str, signers: &Path) -> Result<(), FetchError> {
        let mut first = None;
        if object != commit {
            match self.verified("verify-tag", object, signers).and_then(|()| self.check_name(object, name)) {
                Ok(()) => return Ok(()),
                Err(error) => first = Some(error),
            }
        }
        let verified = self.verified("verify-commit", commit, signers);
        verified.map_err(|error| first.unwrap_or(error))
    }

    fn verified(&self, action: &str, object: &str, signers: &Path) -> Result<(), FetchError> {
        let mut call = self.here();
        let mut file = std::ffi::OsString::from("gpg.ssh.allowedSignersFile=");
        file.push(signers);
        for setting in SSH_SIGNATURES {
            call = call.args(["-c", setting]);
        }
        let call = call.arg("-c").arg(file).args([action, "--raw", object]);
        let output = finished(call, action, QUERY_DEADLINE)?;
        match output.is_success() {
            true => Ok(()),
            false if matches!(output.stderr.text().trim(), "" | "error: no signature found") => {
                Err(FetchError::rejected("it has no signature".into()))
            }
            false => Err(FetchError::rejected(format!("its signature is not valid: {}", complaint(&output)))),
        }
    }

    /// Checks that a tag was made with the name of its reference: the signature covers the name in the tag.
    fn check_name(&self, object: &str, name: &str) -> Result<(), FetchError> {
        let output = run(self.here().args(["cat-file", "tag", object]), "cat-file", QUERY_DEADLINE)?;
        let text = output.stdout.text();
        let signed = text.lines().take_while(|line| !line.is_empty()).find_map(|line| line.strip_prefix("tag "));
        match signed.zip(name.strip_prefix("refs/tags/")).is_some_and(|(signed, name)| signed == name) {
            true => Ok(()),
            false => Err(FetchError::rejected("its signature is for a tag of another name".into())),
        }
    }

    /// Checks the size of a commit's files.
    pub(super) fn check_size(&self, commit: &str) -> Result<(), FetchError> {
        let output =
            run(self.here().args(["ls-tree", "-r", "-l", "-z", "--full-tree", commit]), "ls-tree", QUERY_DEADLINE)?;
        let mut total: u64 = 0;
        // MODE TYPE OBJECT SIZE<tab>PATH
        for entry in output.stdout.bytes.split(|byte| *byte == 0) {
            let head = entry.split(|byte| *byte == b'\t').next().unwrap_or_default();
            let size = String::from_utf8_lossy(head).split_whitespace().nth(3).and_then(|size| size.parse().ok());
            total = total.saturating_add(size.unwrap_or(0));
        }
        match total > self.max_bytes {
            true => Err(FetchError::rejected(format!(
                "its files have {} MiB, more than {} MiB (--max-size)",
                total.div_ceil(1 << 20),
                self.max_bytes >> 20
            ))),
            false => Ok(()),
        }
    }

    /// Writes the files of a commit to an empty directory, without conversions.
    pub(super) fn check_out(&self, commit: &str, directory: &Path, index: &Path) -> Result<(), FetchError> {
        let here = || {
            let mut option = std::ffi::OsString::from("--work-tree=");
            option.push(directory);
            self.here().arg(option).cwd(directory).env("GIT_INDEX_FILE", index)
        };
        run(here().args(["read-tree", commit]), "read-tree", FETCH_DEADLINE)?;
        run(here().args(["checkout-index", "--all", "--quiet"]), "checkout-index", FETCH_DEADLINE)?;
        Ok(())
    }

    /// Keeps the history of a commit in the copy.
    pub(super) fn keep(&self, commit: &str) -> Result<(), FetchError> {
        run(self.here().args(["update-ref", HELD, commit]), "update-ref", QUERY_DEADLINE).map(drop)
    }
}

/// Removes a directory with its content, if it exists.
pub(super) fn remove_directory(path: &Path) -> Result<(), FetchError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(FetchError::unavailable(format!("cannot remove {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

fn remove_entries(directory: &Path, is_leftover: impl Fn(&str) -> bool) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(&is_leftover) {
            // git reports a file that stays.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn run(invocation: Invocation, action: &str, deadline: Duration) -> Result<Output, FetchError> {
    let output = finished(invocation, action, deadline)?;
    if output.is_success() { Ok(output) } else { Err(failed(action, &output)) }
}

fn finished(mut invocation: Invocation, action: &str, deadline: Duration) -> Result<Output, FetchError> {
    invocation.deadline = Some(deadline);
    let output = kilter_process::run(&invocation, Some(Cancel::new(signals::raised())))
        .map_err(|error| FetchError::unavailable(error.with_sources()))?;
    match output.ending {
        Termination::Exited => Ok(output),
        Termination::Deadline => {
            Err(FetchError::unavailable(format!("git {action} did not end within {} s", deadline.as_secs())))
        }
        Termination::OutputLimit => {
            Err(FetchError::rejected(format!("git {action} printed more than {} MiB", MAX_OUTPUT_BYTES >> 20)))
        }
        Termination::Cancelled => Err(FetchError::unavailable(format!("git {action} was interrupted"))),
    }
}

fn failed(action: &str, output: &Output) -> FetchError {
    FetchError::unavailable(format!("git {action}: {}", complaint(output)))
}

/// Returns the errors of git on one line, or its exit status.
fn complaint(output: &Output) -> String {
    let text = output.stderr.text();
    // git adds the same advice to each failure of ssh.
    let is_advice = |line: &str| {
        ["Please make sure you have the correct access rights", "and the repository exists."].contains(&line)
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_advice(line)).collect();
    let last = &lines[lines.len().saturating_sub(4)..];
    if last.is_empty() { output.status.to_string() } else { last.join("; ") }
}
