//! Arguments of the commands that carry out a manifest: plan, apply and run.

use std::path::PathBuf;

use clap::Args;

use super::{FetchTimes, HOW, INPUT, ReleasedArgs, ReportArgs, ReportFormat, RolloutArgs, SourceArgs};
use crate::maintenance::MaintenanceWindow;

/// Manifests of a command, with their variables and facts.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManifestArgs {
    /// Manifests in YAML or JSON, or executables that read the facts as JSON and print a manifest; `-` is
    /// standard input. Several are merged. With --mold the default is the output of the actor `prescribe`
    #[arg(value_name = "MANIFEST", value_hint = clap::ValueHint::FilePath)]
    pub(crate) manifests: Vec<PathBuf>,
    /// Set a variable to a text; overrides the manifests; repeatable
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable, help_heading = INPUT)]
    pub(crate) vars: Vec<(String, String)>,
    /// Read external facts from this directory instead of the default ones; repeatable
    #[arg(long = "facts-dir", value_name = "DIR", value_hint = clap::ValueHint::DirPath, help_heading = INPUT)]
    pub(crate) facts_dirs: Vec<PathBuf>,
    /// Accept keys in graphs of mgmt that no longer have an effect, with a warning
    #[arg(long, help_heading = INPUT)]
    pub(crate) lenient: bool,
    /// Timeout of an executable manifest, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        help_heading = INPUT
    )]
    pub(crate) timeout: u64,
    /// The inputs of the run come over standard input, from `kilter --on` on another machine
    #[arg(long, hide = true)]
    pub(crate) received: bool,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it has the form NAME=VALUE, such as port=8080".to_owned()),
    }
}

/// Maximum number of concurrent blocking calls.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = HOW)]
pub(crate) struct JobsArgs {
    /// Maximum number of concurrent commands and other blocking calls, and of concurrent reads by one script
    /// [default: two per core, at least 4; 4 by one script]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) jobs: Option<u32>,
}

impl JobsArgs {
    /// Returns the given number, or two for each core, at least 4.
    pub(crate) fn count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.given().unwrap_or_else(|| (2 * cores()).max(4))
    }

    /// Returns the number from the command line.
    pub(crate) fn given(&self) -> Option<usize> {
        self.jobs.map(|jobs| jobs as usize)
    }
}

/// Arguments of `kilter apply`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) input: ManifestArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Only show the pending changes, as `plan`
    #[arg(short, long, help_heading = HOW)]
    pub(crate) noop: bool,
    /// Apply a plan only if its signature belongs to this public key; repeatable
    /// [default: the keys in /etc/kilter/plan-keys for root, ~/.config/kilter/plan-keys otherwise]
    #[arg(long, value_name = "KEY", value_hint = clap::ValueHint::FilePath, help_heading = HOW)]
    pub(crate) verify: Vec<PathBuf>,
    /// Make changes even if `kilter pause` has paused this state directory
    #[arg(long, help_heading = HOW)]
    pub(crate) even_if_paused: bool,
    /// Wait at most this long, such as 5m, for another command that makes changes with this state directory
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = HOW)]
    pub(crate) lock_timeout: Option<std::time::Duration>,
    #[command(flatten)]
    pub(crate) released: ReleasedArgs,
    /// Undo all changes unless `kilter confirm` keeps them within this time after the apply, such as 60s or 10m; also
    /// if the terminal or the connection ends, or the machine reboots
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "noop", help_heading = HOW)]
    pub(crate) confirm_within: Option<std::time::Duration>,
    /// Confirm when this command of /bin/sh succeeds. kilter runs it every second [default time: 60s]
    #[arg(long, value_name = "COMMAND", conflicts_with = "noop", help_heading = HOW)]
    pub(crate) health: Option<String>,
    /// Begin only in this window, such as "Mon..Fri 22:00-04:00 Europe/Berlin", and exit with 7 otherwise; repeatable.
    /// With --on, the variable `maintenance_window` of a host has priority, and its clock decides
    #[arg(long, value_name = "WINDOW", value_parser = MaintenanceWindow::parse, help_heading = HOW)]
    pub(crate) maintenance_window: Vec<MaintenanceWindow>,
    /// Exit with 2 after a change, 4 after a failure, 6 after both
    #[arg(long, help_heading = HOW)]
    pub(crate) detailed_exitcodes: bool,
    /// Do not flush changes to the disk; a crash of the machine may lose them
    #[arg(long, help_heading = HOW)]
    pub(crate) no_flush: bool,
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "human", help_heading = HOW)]
    pub(crate) format: ReportFormat,
    #[command(flatten)]
    pub(crate) reports: ReportArgs,
    #[command(flatten)]
    pub(crate) rollout: RolloutArgs,
}

/// Parses a duration such as `90s` or `10m`.
pub(super) fn duration(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || "a number with a unit is expected, such as 90s, 10m or 1h".to_owned();
    let (number, unit) = text.char_indices().last().map(|(at, unit)| (&text[..at], unit)).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        's' => Some(number),
        'm' => number.checked_mul(60),
        'h' => number.checked_mul(3600),
        _ => None,
    };
    seconds
        .filter(|seconds| (1..=7 * 24 * 3600).contains(seconds))
        .map(std::time::Duration::from_secs)
        .ok_or_else(wrong)
}

/// Arguments of `kilter run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) input: ManifestArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) fetches: FetchTimes,
    /// Only watch: show differences without changing them
    #[arg(short, long, help_heading = HOW)]
    pub(crate) noop: bool,
    /// Time without work after which the run has converged, in seconds; -1: never
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true,
          value_parser = clap::value_parser!(i64).range(-1..), help_heading = HOW)]
    pub(crate) converged_timeout: Option<i64>,
    /// End when the run has converged; by default after five seconds without work
    #[arg(long, help_heading = HOW)]
    pub(crate) converged_exit: bool,
    /// Append `true` or `false` to a file each time the run converges or ceases to be converged
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = HOW)]
    pub(crate) converged_status_file: Option<PathBuf>,
    /// Interval in which executable manifests and used facts are read again, in seconds; 0: only once
    #[arg(long, value_name = "SECONDS", default_value_t = 300, help_heading = HOW)]
    pub(crate) reread: u64,
    /// End after this time, in seconds
    #[arg(long, value_name = "SECONDS", help_heading = HOW)]
    pub(crate) max_runtime: Option<u64>,
    /// Do not flush changes to the disk; a crash of the machine may lose them
    #[arg(long, help_heading = HOW)]
    pub(crate) no_flush: bool,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics, without access control
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = HOW)]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// Output format; `json` prints each event as one line, as `status --follow`, and the report as the last one
    #[arg(long, value_name = "FORMAT", default_value = "human", help_heading = HOW)]
    pub(crate) format: ReportFormat,
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    #[command(flatten)]
    pub(crate) reports: ReportArgs,
}

/// Arguments of `kilter plan`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) input: ManifestArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Save the plan in a file for `kilter apply`
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = HOW)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) released: ReleasedArgs,
    /// Sign the plan with an ed25519 private key, so that it can be applied on another machine or by another user
    #[arg(long, value_name = "KEY", value_hint = clap::ValueHint::FilePath, requires = "output", help_heading = HOW)]
    pub(crate) sign: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    /// Format of the plan
    #[arg(long, value_name = "FORMAT", default_value = "human", help_heading = HOW)]
    pub(crate) format: ReportFormat,
    #[command(flatten)]
    pub(crate) reports: ReportArgs,
}
