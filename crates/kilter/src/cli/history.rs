//! Arguments of `kilter history`, `kilter blame` and `kilter undo`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::ReportFormat;

/// Arguments of `kilter history`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct HistoryArgs {
    #[command(subcommand)]
    pub(crate) command: Option<HistoryCommand>,
    /// Show the changes of this resource instead of the runs
    #[arg(value_name = "TYPE[NAME]")]
    pub(crate) resource: Option<String>,
    #[command(flatten)]
    pub(crate) filter: HistoryFilter,
    /// Show at most this many runs or changes; 0 for all
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 50)]
    pub(crate) lines: usize,
    /// Then wait for new runs or changes, and print them
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Output format; `json` prints one object per line
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
    /// With --channel3: only messages of scripts with this prefix, and of their children, such as resources/file
    #[arg(long, value_name = "BEGINNING", requires = "channel3")]
    pub(crate) name: Option<String>,
    /// With --channel3: only messages with this key, such as stdout or exitcode; repeatable
    #[arg(long = "key", value_name = "KEY", requires = "channel3")]
    pub(crate) keys: Vec<String>,
}

/// Choice of runs and changes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct HistoryFilter {
    /// Only at this time or later: an age such as 2h or 3d, today, yesterday, 2026-11-26 or "2026-11-26 17:00"
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only results of resources of this type, or runs with such results
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) type_name: Option<String>,
    /// Only repairs of drift, or runs with repairs
    #[arg(long)]
    pub(crate) corrective: bool,
    /// Only failures, or runs with failures
    #[arg(long)]
    pub(crate) failed: bool,
}

/// Commands of `kilter history`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// Show a run with all its changes, failures and messages
    Show {
        /// Number of the run, or `last`
        #[arg(value_name = "RUN")]
        run: String,
        /// Show the processes of all resources, not only of those that failed
        #[arg(long)]
        processes: bool,
        /// Output format; `json` prints one object per line
        #[arg(long, value_name = "FORMAT", default_value = "human")]
        format: ReportFormat,
    },
    /// Show the difference of the managed machine between two times
    Diff {
        /// First time, such as 2h, yesterday or 2026-11-26; a change at this time is not shown
        #[arg(value_name = "FROM")]
        from: String,
        /// Second time; a change at this time is shown
        #[arg(value_name = "TO", default_value = "now")]
        to: String,
        /// Output format
        #[arg(long, value_name = "FORMAT", default_value = "human")]
        format: ReportFormat,
    },
    /// Show the resources that drift: number and times of the repairs, and the process if it is known
    Drift {
        #[command(flatten)]
        filter: HistoryFilter,
        /// Output format; `json` prints one object per line
        #[arg(long, value_name = "FORMAT", default_value = "human")]
        format: ReportFormat,
    },
    /// Write a period as an HTML page: counts, a timeline, drift, and each run with its changes
    Report {
        #[command(flatten)]
        filter: HistoryFilter,
        /// Write the page to this file
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Print all events for other programs
    Export {
        #[command(flatten)]
        filter: HistoryFilter,
        /// Output format
        #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
        format: ExportFormat,
    },
    /// Add the messages of a raw log of channel 3 of mold's scripts, as --channel3 writes it
    Import {
        /// Path of the log; `-` for standard input
        #[arg(value_name = "LOG")]
        raw_log: PathBuf,
    },
    /// Verify that no event was changed or removed, and print the head of the chain
    Verify {
        /// Fail unless the chain contains this head of an earlier verification; its first eight digits are enough
        #[arg(long, value_name = "HEAD", value_parser = head)]
        expect: Option<String>,
    },
    /// Remove old events; the begin and the end of each run stay
    Prune {
        /// Remove events before this time, such as 90d or 2026-01-01
        #[arg(long, value_name = "TIME")]
        before: String,
    },
}

/// Formats of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object per line
    Jsonl,
    /// One line per changed attribute
    Csv,
    /// One XML document: a test suite for each run, with a test case for each result
    Junit,
    /// Processes and their messages, as a raw log of mold has them
    Netstrings,
}

/// Arguments of `kilter undo`.
#[derive(Clone, Debug, Args)]
pub(crate) struct UndoArgs {
    /// Run to undo: its number, or `last` for the newest run that changed resources; or a resource whose last
    /// change to undo
    #[arg(value_name = "RUN|TYPE[NAME]")]
    pub(crate) subject: Option<String>,
    /// Restore the state at this time, such as 2h or yesterday: of the resource, or of all resources
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// Only show the plan
    #[arg(short, long)]
    pub(crate) noop: bool,
    /// Undo the changes that can be undone, and leave the others
    #[arg(long)]
    pub(crate) partly: bool,
    /// Make the changes even if `kilter pause` has paused this state directory
    #[arg(long)]
    pub(crate) even_if_paused: bool,
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter confirm`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Undo the changes now
    #[arg(long)]
    pub(crate) undo: bool,
    /// Undo the changes when their time is over; `apply` starts this
    #[arg(long, hide = true)]
    pub(crate) supervise: bool,
}

/// Arguments of `kilter blame`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BlameArgs {
    /// The resource
    #[arg(value_name = "TYPE[NAME]")]
    pub(crate) resource: String,
    /// Only this attribute
    #[arg(value_name = "ATTRIBUTE")]
    pub(crate) attribute: Option<String>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

/// Parses the head of a chain, or its beginning.
fn head(text: &str) -> Result<String, String> {
    let is_digest = (8..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_digest {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("8 to 64 hexadecimal digits are expected, as `kilter history verify` prints them".to_owned()),
    }
}
