//! The arguments of `ralsh`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, ValueEnum};

use super::complete::Completed;
use super::error::Error;
use super::log::LogLevel;

const AFTER: &str = "\
The arguments choose the action:
  ralsh                              lists all providers
  ralsh TYPE                         lists the resources of a type
  ralsh TYPE NAME                    shows one resource
  ralsh TYPE NAME ATTRIBUTE=VALUE …  changes it, and shows it and its changes

TYPE is a type, or a provider written type::provider. Scripts are searched in the directories of
-I, then in those of RALSH_DATA_DIR and of KILTER_PROVIDERS, then in the usual ones.

Exit status:
  0  success
  1  the resource does not exist
  2  error";

/// Shows and changes the resources of this machine, with the command line of libral.
#[derive(Debug, Parser)]
#[command(
    name = "ralsh",
    override_usage = "ralsh [OPTION]... [TYPE [NAME [ATTRIBUTE=VALUE]...]]",
    after_help = AFTER,
    max_term_width = 100,
    infer_long_args = true,
    args_override_self = true,
    disable_version_flag = true,
    disable_help_flag = true
)]
pub(super) struct Args {
    /// Explain a type: its provider and its attributes
    #[arg(short, long)]
    pub(super) explain: bool,
    /// Work on another machine, over ssh
    #[arg(short, long, value_name = "TARGET")]
    pub(super) target: Option<String>,
    /// Use sudo on the target
    #[arg(short, long)]
    pub(super) sudo: bool,
    /// Keep kilter on the target, as without this option
    #[arg(short, long)]
    pub(super) keep: bool,
    /// Print help
    #[arg(short, long, action = clap::ArgAction::Help)]
    pub(super) help: Option<bool>,
    /// Search DIR/providers for scripts; repeatable
    #[arg(short = 'I', long, value_name = "DIR", action = clap::ArgAction::Append)]
    pub(super) include: Vec<PathBuf>,
    /// Log from this level on: none, trace, debug, info, warn, error or fatal
    #[arg(short, long, value_name = "LEVEL", default_value = "warn", ignore_case = true, hide_possible_values = true)]
    pub(super) log_level: LogLevel,
    /// Print JSON
    #[arg(short, long)]
    pub(super) json: bool,
    /// Print errors only
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Report an absent resource as not found
    #[arg(short, long)]
    pub(super) absent: bool,
    /// Print the version
    #[arg(long)]
    pub(super) version: bool,
    /// Print words for shell completion; makes no changes
    #[arg(long, hide = true, value_name = "WORDS")]
    pub(super) complete: Option<Completed>,
    #[arg(value_name = "TYPE", hide = true)]
    pub(super) resource_type: Option<String>,
    #[arg(value_name = "NAME", hide = true)]
    pub(super) name: Option<String>,
    #[arg(value_name = "ATTRIBUTE=VALUE", hide = true)]
    pub(super) words: Vec<String>,
}

impl Args {
    /// Verifies that the options are possible together.
    ///
    /// # Errors
    /// An impossible option or combination.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.explain && self.json {
            true => {
                Err(Error::new("--json and --explain exclude each other").hint("'ralsh --json' explains all providers"))
            }
            false => Ok(()),
        }
    }
}

impl Args {
    /// Returns the words of this command line for `ralsh` on the target.
    pub(super) fn words_for_target(&self) -> Vec<String> {
        let flags =
            [(self.explain, "--explain"), (self.json, "--json"), (self.quiet, "--quiet"), (self.absent, "--absent")];
        let mut words: Vec<String> =
            flags.iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| (*flag).to_owned()).collect();
        if let Some(level) = self.log_level.to_possible_value() {
            words.push(format!("--log-level={}", level.get_name()));
        }
        words.push("--".to_owned());
        words.extend(self.resource_type.iter().chain(&self.name).chain(&self.words).cloned());
        words
    }
}

/// Reads the arguments.
///
/// # Errors
/// If they are invalid, or ask for help.
pub(super) fn parse(args: impl Iterator<Item = OsString>) -> Result<Args, clap::Error> {
    Args::try_parse_from(args)
}

/// Returns the error in the arguments, on one line.
pub(super) fn complaint(refused: &clap::Error) -> String {
    let context = |kind| match refused.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = context(ContextKind::InvalidArg).unwrap_or_default();
    // clap names an option with its value: --log-level <LEVEL>.
    let name = option.split_whitespace().next().unwrap_or_default();
    match (refused.kind(), context(ContextKind::InvalidValue)) {
        (ErrorKind::UnknownArgument, _) => format!("unrecognised option '{option}'"),
        (ErrorKind::InvalidValue, None | Some("")) => format!("the required argument for option '{name}' is missing"),
        (ErrorKind::InvalidValue | ErrorKind::ValueValidation, Some(value)) => {
            format!("the argument ('{value}') for option '{name}' is invalid")
        }
        _ => {
            let text = refused.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    }
}

impl ValueEnum for LogLevel {
    fn value_variants<'a>() -> &'a [LogLevel] {
        use LogLevel::{Debug, Error, Fatal, Info, None, Trace, Warn};
        &[None, Trace, Debug, Info, Warn, Error, Fatal]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            LogLevel::None => PossibleValue::new("none"),
            LogLevel::Trace => PossibleValue::new("trace"),
            LogLevel::Debug => PossibleValue::new("debug"),
            LogLevel::Info => PossibleValue::new("info"),
            LogLevel::Warn => PossibleValue::new("warn").alias("warning"),
            LogLevel::Error => PossibleValue::new("error"),
            LogLevel::Fatal => PossibleValue::new("fatal"),
        })
    }
}
