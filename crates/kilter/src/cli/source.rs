//! Options for manifests from a source.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::SOURCE;

/// Source of the manifests of a command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = SOURCE)]
pub(crate) struct SourceArgs {
    /// Fetch the manifests from a git repository, written `git+https://HOST/PATH`, `git+ssh://[USER@]HOST/PATH` or
    /// `git+file:///PATH`, or from a directory with a file SHA256SUMS
    #[arg(long, value_name = "SOURCE", conflicts_with = "manifests", value_hint = clap::ValueHint::DirPath)]
    pub(crate) from: Option<String>,
    /// Branch or tag of the repository
    #[arg(long = "ref", value_name = "REF", default_value = "main", requires = "from")]
    pub(crate) reference: String,
    /// Manifest in the source, or a directory whose files *.yaml, *.yml and *.json are the manifests; repeatable
    #[arg(long = "path", value_name = "PATH", default_value = "site.yaml", requires = "from",
          value_hint = clap::ValueHint::Other)]
    pub(crate) paths: Vec<PathBuf>,
    /// Use only commits or tags with an SSH signature by a key in this file (the format of ssh-keygen's
    /// `allowed_signers`)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, requires = "from")]
    pub(crate) signed_by: Option<PathBuf>,
    /// Accept a commit that does not descend from the last one, for example after a force push
    #[arg(long, requires = "from")]
    pub(crate) allow_rewind: bool,
    /// Maximum size of the repository and of its files, each in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, requires = "from",
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) max_size: u64,
}

/// Times at which `kilter run` fetches.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = SOURCE)]
pub(crate) struct FetchTimes {
    /// Interval of the fetches, such as 10m
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = super::runs::duration, requires = "from")]
    pub(crate) interval: Duration,
    /// Maximum delay of the first fetch after a start with a stored version; each host has its own delay
    /// [default: a tenth of the interval]
    #[arg(long, value_name = "TIME", value_parser = delay, requires = "from")]
    pub(crate) splay: Option<Duration>,
}

/// Parses a duration, which may be 0.
fn delay(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s" | "0m" | "0h") { Ok(Duration::ZERO) } else { super::runs::duration(text) }
}
