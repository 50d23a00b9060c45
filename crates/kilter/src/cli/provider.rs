//! Arguments of `kilter provider`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use kilter_devkit::conformance::LAWS;

use super::{ReportFormat, ResourceFormat};

/// Arguments of `kilter provider`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProviderArgs {
    #[command(subcommand)]
    pub(crate) command: ProviderCommand,
}

/// Commands for authors of providers.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// Check a provider, and print a scorecard
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Create a working provider as a template, with its check
    #[command(after_help = NEW_EXAMPLES)]
    New(NewArgs),
    /// Run a command, and record its queries to scripts and to the machine
    #[command(
        after_help = RECORD_EXAMPLES,
        override_usage = "kilter provider record [OPTIONS] <FILE> <COMMAND>..."
    )]
    Record(RecordArgs),
    /// Replay a recorded command on any machine, without scripts and without changes
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
}

/// Arguments of `kilter provider check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// A script (NAME.prov, or a script in `resources` of a directory of mold), or a type, or TYPE::PROVIDER
    #[arg(value_name = "PROVIDER", value_hint = clap::ValueHint::FilePath)]
    pub(crate) provider: String,
    /// Check file [default: NAME.check.yaml in the directory of the script]
    #[arg(long = "with", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Test only this law; repeatable
    #[arg(long = "law", value_name = "LAW", value_parser = law)]
    pub(crate) laws: Vec<&'static str>,
    /// Only print a check file to start from, with resources generated from the types of the attributes
    #[arg(long)]
    pub(crate) example: bool,
    /// Test on this machine itself, without sandboxes: the provider changes this machine
    #[arg(long)]
    pub(crate) here: bool,
    /// With `--here`, also run the `setup` of the check file on this machine: it is written for disposable sandboxes
    #[arg(long, requires = "here")]
    pub(crate) setup_here: bool,
    /// Time limit of each law, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) limit: u64,
    /// Format of the scorecard
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

fn law(name: &str) -> Result<&'static str, String> {
    let known = || LAWS.iter().map(|law| law.name);
    known().find(|known| *known == name).ok_or_else(|| {
        let meant = kilter_model::suggest::nearest(name, known());
        match meant {
            Some(meant) => format!("there is no such law; did you mean `{meant}`?"),
            None => "there is no such law; docs/reference/conformance.md lists all laws".to_owned(),
        }
    })
}

/// Arguments of `kilter provider new`.
#[derive(Clone, Debug, Args)]
pub(crate) struct NewArgs {
    /// Calling convention: `simple` reads arguments and prints lines, `json` reads and prints JSON for many
    /// resources at once, `mold` inspects and conforms one resource
    #[arg(value_name = "CONVENTION")]
    pub(crate) convention: NewConvention,
    /// Name of the provider and of its files
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Type of its resources [default: NAME]
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) type_name: Option<String>,
    /// Directory of the files, for `mold` its subdirectory `resources`; created if it is missing
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

/// Calling convention of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NewConvention {
    Simple,
    Json,
    Mold,
}

/// Arguments of `kilter provider record`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordArgs {
    /// File of the recording
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// Replace this text like a secret; repeatable
    #[arg(long, value_name = "TEXT")]
    pub(crate) replace: Vec<String>,
    /// Replace each line of this file too
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) replace_from: Vec<PathBuf>,
    /// The command, as after `kilter`: get, set, act, plan, apply, types or graph
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Arguments of `kilter provider replay`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The recording
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Only list the calls of scripts, one per line
    #[arg(short, long, conflicts_with = "exchange")]
    pub(crate) list: bool,
    /// Only show one complete call, as a shell command
    #[arg(short, long, value_name = "NUMBER")]
    pub(crate) exchange: Option<usize>,
    /// Print in another format than the recorded command
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<ResourceFormat>,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  kilter provider check ./colour.prov            a script, with the resources of colour.check.yaml
  kilter provider check minion/resources/colour  a script of mold
  kilter provider check host                     the provider of a type, also a built-in one
  kilter provider check package::apt --law get-is-steady
  kilter provider check ./colour.prov --example > colour.check.yaml

kilter tests each law in separate sandboxes: copies of this machine's files, whose changes are
discarded. Sandboxes share the network and the processes of this machine. Exits with 0 if the
provider conforms, 4 if a law is broken or could not be tested or the provider cannot be used,
1 if the check did not start.";

const NEW_EXAMPLES: &str = "\
Examples:
  kilter provider new simple colour             colour.prov, its metadata and check, in bash
  kilter provider new json files --type colour  the provider `files` of the type `colour`, in Python
  kilter provider new mold colour --directory minion
                                                minion/resources/colour, a script of mold, in Python

The new provider works at once: it stores settings as files. Its comments say what to change. If one
of the files exists, kilter writes none. `kilter provider check` tests the provider.";

const RECORD_EXAMPLES: &str = "\
Examples:
  kilter provider record bug.jsonl get package bash
  kilter provider record bug.jsonl -I . apply site.yaml
  kilter provider record bug.jsonl --replace s3cret set package bash ensure=latest

The command runs as usual, with the same output and exit code. kilter writes its queries to scripts
and to the machine to FILE, with placeholders for secrets. Review FILE before you share it.
`kilter provider replay FILE` runs the command again from the recording.";

const REPLAY_EXAMPLES: &str = "\
Examples:
  kilter provider replay bug.jsonl               run the command again: same output, same exit code
  kilter provider replay bug.jsonl --list        list the calls of scripts, one per line
  kilter provider replay bug.jsonl --exchange 3  show one call, as a shell command

kilter starts no process, reads nothing of this machine and changes nothing. Exits with 3 if the
command differs from the recording.";
