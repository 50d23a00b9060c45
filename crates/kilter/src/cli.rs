//! The arguments of the command.

mod examples;
mod formats;
mod parse;

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args, Parser, Subcommand};

pub(crate) use formats::{Color, FactsFormat, GraphFormat, ReportFormat, ResourceFormat, StatusFormat, TypesFormat};

use kilter_provider::Strictness;

use crate::commands::provider::ProviderArgs;
use crate::exit::Exit;
use crate::{output, paths};

const INPUT: &str = "Input";
const HOW: &str = "How it is done";
const GENERAL: &str = "General options";

/// Keeps this machine in the state that was declared for it.
///
/// A manifest declares resources (files, users, commands and so on), each written `type[title]`. `plan`
/// shows what would change, `apply` changes it. Every resource can be read and changed from the
/// shell as well.
#[derive(Debug, Parser)]
#[command(
    name = "kilter",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    disable_help_flag = true,
    after_help = examples::KILTER
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = GENERAL)]
pub(crate) struct Global {
    /// When output is coloured; `auto` respects NO_COLOR and CLICOLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// Only data and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also what providers write about their work
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Where state is kept between runs [default: /var/lib/kilter for root, ~/.local/state/kilter otherwise]
    #[arg(long, global = true, value_name = "DIR", env = "KILTER_STATE_DIR", hide_env_values = true)]
    pub(crate) state_dir: Option<PathBuf>,
    /// Search a directory for providers that are scripts, before those of KILTER_PROVIDERS and the usual ones:
    /// files *.prov in it or in its `providers`; repeatable
    #[arg(short = 'I', long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) include: Vec<PathBuf>,
    /// Use manifests, scripts, facts and plans at or below a path, whoever owns it or can write to it; repeatable.
    /// Otherwise root uses only what no other user can change
    #[arg(long, global = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) trust: Vec<PathBuf>,
    /// Use a directory of mold: its scripts in `facts`, `resources` and `actors`
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) mold: Option<PathBuf>,
    /// Append all that the scripts of mold read, write and say on channel 3 to a file, as netstrings; `history` reads it
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) channel3: Option<PathBuf>,
    /// Where resources are exported to and collected from: a directory that machines share, or etcd, such as
    /// https://etcd1:2379,etcd2:2379/kilter [default: `world` in the state directory, which is this machine's alone]
    #[arg(long, global = true, value_name = "PLACE", env = "KILTER_WORLD", hide_env_values = true,
          value_hint = clap::ValueHint::DirPath)]
    pub(crate) world: Option<String>,
    /// What this machine is called there [default: its host name]
    #[arg(long, global = true, value_name = "NAME", env = "KILTER_HOSTNAME", hide_env_values = true)]
    pub(crate) hostname: Option<String>,
    /// What becomes of a provider that does not keep its promises, such as one that reads other values
    /// than it takes: nothing, a warning, or a failure of the resource
    #[arg(long, global = true, value_name = "HOW", default_value = "warning")]
    pub(crate) strict: Strict,
    /// Print help
    #[arg(short, long, global = true, action = clap::ArgAction::Help)]
    pub(crate) help: Option<bool>,
}

impl Global {
    /// The state directory that was given, or the usual one, if there is one: by its whole path, since what is in it is watched.
    pub(crate) fn state_dir_if_any(&self) -> Option<PathBuf> {
        let Some(given) = self.state_dir.as_deref().filter(|path| !path.as_os_str().is_empty()) else {
            return paths::state_dir();
        };
        // It is looked for several times by each command, and a path has many parts.
        static FIRST: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
        let (first, whole) = FIRST.get_or_init(|| (given.to_owned(), paths::whole(given)));
        Some(if first == given { whole.clone() } else { paths::whole(given) })
    }

    /// The same.
    ///
    /// # Errors
    /// When there is none; it has been said.
    pub(crate) fn state_dir(&self) -> Result<PathBuf, Exit> {
        self.state_dir_if_any().ok_or_else(|| {
            output::fail_with("there is no directory to keep state in: HOME is not set", ["give one with --state-dir"])
        })
    }
}

/// How strictly providers are held to their promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Strict {
    Off,
    Warning,
    Error,
}

impl From<Strict> for Strictness {
    fn from(strict: Strict) -> Strictness {
        match strict {
            Strict::Off => Strictness::Off,
            Strict::Warning => Strictness::Warning,
            Strict::Error => Strictness::Error,
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring the machine to the state that a manifest declares, once
    #[command(after_help = examples::APPLY)]
    Apply(ApplyArgs),
    /// Show what would change, and keep it as a plan
    #[command(after_help = examples::PLAN)]
    Plan(PlanArgs),
    /// Bring the machine to the declared state and hold it: watch, mend, and read the manifest again
    #[command(after_help = examples::RUN)]
    Run(RunArgs),
    /// Show what a run holds, and why anything is not in its state
    #[command(after_help = examples::STATUS)]
    Status(StatusArgs),
    /// Have a run begin nothing further: for a backup, or for work by hand
    #[command(after_help = examples::PAUSE)]
    Pause(PauseArgs),
    /// Have a run go on that was paused
    #[command(after_help = examples::RESUME)]
    Resume(ResumeArgs),
    /// Remove temporary files that killed runs left behind
    #[command(after_help = examples::CLEAN)]
    Clean(CleanArgs),
    /// Read resources of a type: all, or by name
    #[command(after_help = examples::GET)]
    Get(GetArgs),
    /// Bring one resource to a state
    #[command(after_help = examples::SET, override_usage = "kilter set [OPTIONS] <TYPE> <NAME> <ATTR=VALUE>...")]
    Set(SetArgs),
    /// Carry out a one-time action on a resource
    #[command(after_help = examples::ACT, override_usage = "kilter act [OPTIONS] <TYPE[NAME]> <ACTION>")]
    Act(ActArgs),
    /// List the types of resources, or describe one with its attributes
    #[command(after_help = examples::TYPES)]
    Types(TypesArgs),
    /// Show what is known of this machine
    #[command(after_help = examples::FACTS)]
    Facts(FactsArgs),
    /// Draw the graph of a manifest
    #[command(after_help = examples::GRAPH)]
    Graph(GraphArgs),
    /// Show what happened: so far, what scripts of mold did
    #[command(after_help = examples::HISTORY)]
    History(HistoryArgs),
    /// For authors of providers: write a provider to start from, put one to the test
    #[command(after_help = examples::PROVIDER)]
    Provider(ProviderArgs),
    /// Print the JSON Schema of manifests, for editors, or of mold's documents
    #[command(after_help = examples::SCHEMA)]
    Schema(SchemaArgs),
    /// Print the completions for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print or write the manual pages
    #[command(after_help = examples::MAN)]
    Man(ManArgs),
}

/// The manifests of a command, and what they are read with.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManifestArgs {
    /// Manifests in YAML or JSON, or executables that get the facts as JSON and print one; `-` is
    /// the standard input. Several are merged. With --mold and none given, what its actor `prescribe` prescribes
    #[arg(value_name = "MANIFEST", value_hint = clap::ValueHint::FilePath)]
    pub(crate) manifests: Vec<PathBuf>,
    /// Set a variable to a text, over what the manifests say; repeatable
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable, help_heading = INPUT)]
    pub(crate) vars: Vec<(String, String)>,
    /// Read external facts here, in the place of the usual directories; repeatable
    #[arg(long = "facts-dir", value_name = "DIR", value_hint = clap::ValueHint::DirPath, help_heading = INPUT)]
    pub(crate) facts_dirs: Vec<PathBuf>,
    /// Accept what graphs of mgmt had once and has no effect any more, with a warning
    #[arg(long, help_heading = INPUT)]
    pub(crate) lenient: bool,
    /// Seconds that an executable manifest may take
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        help_heading = INPUT
    )]
    pub(crate) timeout: u64,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it has the form NAME=VALUE, such as port=8080".to_owned()),
    }
}

/// How many calls that may wait are made at a time.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = HOW)]
pub(crate) struct JobsArgs {
    /// At most so many commands and other calls that wait at a time, and so many reads by one script
    /// [default: two a core, at least 4; by one script 4]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) jobs: Option<u32>,
}

impl JobsArgs {
    /// What was given, or two for each core, at least 4.
    pub(crate) fn count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.given().unwrap_or_else(|| (2 * cores()).max(4))
    }

    /// What was given.
    pub(crate) fn given(&self) -> Option<usize> {
        self.jobs.map(|jobs| jobs as usize)
    }
}

/// Arguments of `kilter apply`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) input: ManifestArgs,
    /// Only show what would change; the same as `plan`
    #[arg(short, long, help_heading = HOW)]
    pub(crate) noop: bool,
    /// Apply a plan only if it is signed with the key that belongs to this public key; repeatable
    /// [default: the keys in /etc/kilter/plan-keys for root, ~/.config/kilter/plan-keys otherwise]
    #[arg(long, value_name = "KEY", value_hint = clap::ValueHint::FilePath, help_heading = HOW)]
    pub(crate) verify: Vec<PathBuf>,
    /// Make changes although `kilter pause` has paused the runs with this state directory
    #[arg(long, help_heading = HOW)]
    pub(crate) even_if_paused: bool,
    /// Exit with 2 when something changed, 4 when something failed, 6 when both
    #[arg(long, help_heading = HOW)]
    pub(crate) detailed_exitcodes: bool,
    /// Do not wait until changes are on the disk: a crash of the machine may lose them
    #[arg(long, help_heading = HOW)]
    pub(crate) no_flush: bool,
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    /// How the report is printed
    #[arg(long, value_name = "FORMAT", default_value = "human", help_heading = HOW)]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) input: ManifestArgs,
    /// Only watch: show what differs, and change nothing
    #[arg(short, long, help_heading = HOW)]
    pub(crate) noop: bool,
    /// Count as converged when nothing had to be done for so many seconds; -1 for never
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..),
          help_heading = HOW)]
    pub(crate) converged_timeout: Option<i64>,
    /// End when converged: after five seconds of quiet, unless told otherwise
    #[arg(long, help_heading = HOW)]
    pub(crate) converged_exit: bool,
    /// Append `true` or `false` to a file whenever it becomes converged, or ceases to be
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = HOW)]
    pub(crate) converged_status_file: Option<PathBuf>,
    /// Ask manifests that are programs, and facts that manifests use, every so many seconds; 0 for once only
    #[arg(long, value_name = "SECONDS", default_value_t = 300, help_heading = HOW)]
    pub(crate) reread: u64,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", help_heading = HOW)]
    pub(crate) max_runtime: Option<u64>,
    /// Do not wait until changes are on the disk: a crash of the machine may lose them
    #[arg(long, help_heading = HOW)]
    pub(crate) no_flush: bool,
    /// Tell metrics there, for Prometheus: http://ADDRESS/metrics. Whoever reaches the address can read them
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = HOW)]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
}

/// Arguments of `kilter status`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    /// The resources, written `type[title]`; those that are not in their state when none is named
    #[arg(value_name = "RESOURCE")]
    pub(crate) resources: Vec<String>,
    /// All resources
    #[arg(short, long, conflicts_with = "resources")]
    pub(crate) all: bool,
    /// Print what happens from now on, as it happens, each event a line of JSON
    #[arg(short, long, conflicts_with_all = ["resources", "all"])]
    pub(crate) follow: bool,
    /// How it is printed; `prometheus` are metrics, in its text format
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: StatusFormat,
}

/// Arguments of `kilter pause`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PauseArgs {
    /// Why, for those who look at the run meanwhile
    #[arg(value_name = "WHY")]
    pub(crate) why: Option<String>,
    /// Resume by itself after so many seconds, whatever happens
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) longest: Option<u64>,
    /// Do not wait until what is under way has ended
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// Arguments of `kilter clean`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CleanArgs {
    /// Search these directories as well, without what is below them
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) directories: Vec<PathBuf>,
    /// Only list what would be removed
    #[arg(short, long)]
    pub(crate) noop: bool,
    /// How the list is printed
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter resume`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResumeArgs {
    /// End this pause, by the number that `kilter pause` and `kilter status` show [default: the pauses of this session]
    #[arg(value_name = "ID", conflicts_with = "all")]
    pub(crate) id: Option<u64>,
    /// End all pauses, also those of others
    #[arg(long)]
    pub(crate) all: bool,
}

/// Arguments of `kilter plan`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) input: ManifestArgs,
    /// Keep the plan in a file that `kilter apply` takes
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = HOW)]
    pub(crate) output: Option<PathBuf>,
    /// Sign the plan with an ed25519 private key, so that it can be applied on another machine or by another user
    #[arg(long, value_name = "KEY", value_hint = clap::ValueHint::FilePath, requires = "output", help_heading = HOW)]
    pub(crate) sign: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    /// How the plan is printed
    #[arg(long, value_name = "FORMAT", default_value = "human", help_heading = HOW)]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter get`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GetArgs {
    /// The type, or a resource written `type[name]`
    #[arg(value_name = "TYPE", index = 1)]
    pub(crate) type_name: String,
    /// The resources; all that there are when none is named
    #[arg(value_name = "NAME", index = 2)]
    pub(crate) names: Vec<String>,
    /// Print only these attributes; lazy ones are read when they are named
    #[arg(short, long = "attribute", value_name = "ATTR", value_delimiter = ',')]
    pub(crate) attributes: Vec<String>,
    /// How they are printed; `yaml` is a manifest that `kilter apply` takes, `puppet` one for Puppet
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ResourceFormat,
    /// Print secrets too
    #[arg(long)]
    pub(crate) show_sensitive: bool,
}

/// Arguments of `kilter set`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SetArgs {
    /// The type, or the resource written `type[name]`
    #[arg(value_name = "TYPE", index = 1)]
    pub(crate) type_name: String,
    /// The resource, and what is to be of it; `ATTR=-` reads the value from the standard input
    #[arg(value_name = "NAME ATTR=VALUE", index = 2, required = true)]
    pub(crate) words: Vec<String>,
    /// Only show what would change
    #[arg(short, long)]
    pub(crate) noop: bool,
    /// Make the change although `kilter pause` has paused the runs with this state directory
    #[arg(long)]
    pub(crate) even_if_paused: bool,
    /// Do not wait until the change is on the disk
    #[arg(long)]
    pub(crate) no_flush: bool,
    /// How the report is printed
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter act`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ActArgs {
    /// The resource written `type[name]`, or its type
    #[arg(value_name = "TYPE[NAME]", index = 1)]
    pub(crate) type_name: String,
    /// The name, if it was not given with the type, and the action
    #[arg(value_name = "ACTION", index = 2, required = true)]
    pub(crate) words: Vec<String>,
    /// Act although `kilter pause` has paused the runs with this state directory
    #[arg(long)]
    pub(crate) even_if_paused: bool,
    /// How the outcome is printed
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter types`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TypesArgs {
    /// The type to describe
    #[arg(value_name = "TYPE", index = 1)]
    pub(crate) type_name: Option<String>,
    /// How it is printed
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: TypesFormat,
}

/// Arguments of `kilter facts`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FactsArgs {
    /// One fact or a part of one, such as `os.release.major`; all facts when none is named
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Read external facts here, in the place of the usual directories; repeatable
    #[arg(long = "facts-dir", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) facts_dirs: Vec<PathBuf>,
    /// How they are printed
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: FactsFormat,
}

/// Arguments of `kilter graph`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) input: ManifestArgs,
    /// How it is drawn; `human` is a list
    #[arg(long, value_name = "FORMAT", default_value = "human", help_heading = HOW)]
    pub(crate) format: GraphFormat,
    /// Show where each resource stands in the `kilter run` that holds it, now
    #[arg(short, long, help_heading = HOW)]
    pub(crate) live: bool,
}

/// Arguments of `kilter schema`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Of which documents
    #[arg(value_name = "WHAT", default_value = "manifest")]
    pub(crate) of: SchemaOf,
}

/// Documents that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SchemaOf {
    /// Manifests.
    Manifest,
    /// What scripts of mold read and print, one each in `$defs`.
    Mold,
}

/// Arguments of `kilter history`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Only messages of scripts, and of their children, whose names begin so: resources/file
    #[arg(long, value_name = "BEGINNING")]
    pub(crate) name: Option<String>,
    /// Only messages with this key, such as stdout or exitcode; repeatable
    #[arg(long = "key", value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// How it is printed; `json` has one object on each line
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
    /// The name by which kilter is called; the completion of ralsh is for bash
    #[arg(long = "for", value_name = "COMMAND", default_value = "kilter")]
    pub(crate) called: Called,
}

/// The names by which kilter can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Called {
    Kilter,
    Ralsh,
}

/// Arguments of `kilter man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page for each command into this directory; the page of `kilter` is printed when
    /// none is given
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
}
