//! The arguments of the command.

mod examples;
mod formats;
mod history;
mod parse;
mod provider;
mod released;
mod remote;
mod reports;
mod rollout;
mod runs;
mod source;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use formats::{
    Color, FactsFormat, GraphFormat, ReportFormat, ResourceFormat, StatusFormat, Strict, TypesFormat,
};

pub(crate) use history::{BlameArgs, ConfirmArgs, ExportFormat, HistoryArgs, HistoryCommand, HistoryFilter, UndoArgs};
pub(crate) use provider::{CheckArgs, NewArgs, NewConvention, ProviderArgs, ProviderCommand, RecordArgs, ReplayArgs};
pub(crate) use released::{Released, ReleasedArgs};
pub(crate) use remote::RemoteArgs;
pub(crate) use reports::ReportArgs;
pub(crate) use rollout::{HOST, ResumeRolloutArgs, RolloutArgs, RolloutCommand, Share, StoredRolloutArgs};
pub(crate) use runs::{ApplyArgs, ManifestArgs, PlanArgs, RunArgs};
pub(crate) use source::{FetchTimes, SourceArgs};

use crate::module_log::LogFilter;

const INPUT: &str = "Input";
const SOURCE: &str = "Manifests from a source";
const HOW: &str = "How it is done";
const GENERAL: &str = "General options";
const HOSTS: &str = "Other hosts";

/// Brings this machine to its declared state and keeps it there.
///
/// A manifest declares resources (files, users, commands and so on), each written `type[title]`. `plan`
/// shows what would change, `apply` changes it. Every resource can be read and changed from the
/// shell as well.
#[derive(Clone, Debug, Parser)]
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
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = GENERAL)]
pub(crate) struct Global {
    /// When output is coloured; `auto` respects NO_COLOR and CLICOLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// Print only data, warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print the log lines of providers too
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Log of kilter's own modules on standard error, by module and level, such as `info` or
    /// `kilter_native=debug,info`
    #[arg(long, global = true, value_name = "FILTER", env = "KILTER_LOG", hide_env_values = true)]
    pub(crate) log: Option<LogFilter>,
    /// Directory for state between runs [default: /var/lib/kilter for root, ~/.local/state/kilter otherwise]
    #[arg(long, global = true, value_name = "DIR", env = "KILTER_STATE_DIR", hide_env_values = true)]
    pub(crate) state_dir: Option<PathBuf>,
    /// Make changes without a record in the history, for example because its disk is full
    #[arg(long, global = true)]
    pub(crate) without_history: bool,
    /// Search a directory for scripts that are providers, before KILTER_PROVIDERS and the default directories:
    /// files *.prov in it or in its subdirectory `providers`; repeatable. With --on, send its files to the hosts
    #[arg(short = 'I', long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) include: Vec<PathBuf>,
    /// Trust manifests, scripts, facts and plans at or below a path, even if other users can change them; repeatable.
    /// By default root uses only files that no other user can change
    #[arg(long, global = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) trust: Vec<PathBuf>,
    /// Use a directory of mold: its scripts in `facts`, `resources` and `actors`. With --on, send its files to the hosts
    #[arg(long, global = true, value_name = "DIR", env = "KILTER_MOLD", hide_env_values = true,
          value_hint = clap::ValueHint::DirPath)]
    pub(crate) mold: Option<PathBuf>,
    /// Append the input, output and channel 3 of the scripts of mold to a file, as netstrings; `history` reads it
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) channel3: Option<PathBuf>,
    /// Store of exported resources: a directory that machines share, or etcd, such as
    /// https://etcd1:2379,etcd2:2379/kilter [default: `world` in the state directory, for this machine only]
    #[arg(long, global = true, value_name = "PLACE", env = "KILTER_WORLD", hide_env_values = true,
          value_hint = clap::ValueHint::DirPath)]
    pub(crate) world: Option<String>,
    /// Name of this machine in the world [default: its host name]
    #[arg(long, global = true, value_name = "NAME", env = "KILTER_HOSTNAME", hide_env_values = true)]
    pub(crate) hostname: Option<String>,
    /// With --on: configuration of devices, in the format of Puppet's device.conf [default: /etc/kilter/device.conf
    /// for root, ~/.config/kilter/device.conf otherwise]
    #[arg(long, global = true, value_name = "FILE", help_heading = HOSTS, env = "KILTER_DEVICE_CONFIG",
          hide_env_values = true, value_hint = clap::ValueHint::FilePath)]
    pub(crate) device_config: Option<PathBuf>,
    /// Reaction to a provider that violates its contract, for example by reading values that it does not accept:
    /// off, warning or error
    #[arg(long, global = true, value_name = "HOW", default_value = "warning")]
    pub(crate) strict: Strict,
    /// Print help
    #[arg(short, long, global = true, action = clap::ArgAction::Help)]
    pub(crate) help: Option<bool>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring the machine to the state that a manifest declares, once
    #[command(after_help = examples::APPLY)]
    Apply(ApplyArgs),
    /// Show the pending changes, and save them as a plan
    #[command(after_help = examples::PLAN)]
    Plan(PlanArgs),
    /// Check manifests without touching the machine: show all problems and warnings
    #[command(after_help = examples::CHECK)]
    Check(CheckManifestArgs),
    /// Explain a value: the file and line that it comes from, and everything that contributed
    #[command(
        after_help = examples::EXPLAIN,
        override_usage = "kilter explain [OPTIONS] <vars.NAME> <MANIFEST>...\n       kilter explain [OPTIONS] \
                          <TYPE[TITLE]> [ATTRIBUTE] <MANIFEST>..."
    )]
    Explain(ExplainArgs),
    /// Write a first manifest from the state of this machine
    #[command(after_help = examples::INIT)]
    Init(InitArgs),
    /// Give manifests a uniform layout
    #[command(after_help = examples::FMT)]
    Fmt(FmtArgs),
    /// Bring the machine to the declared state and keep it there: watch, repair, and reload the manifest
    #[command(after_help = examples::RUN)]
    Run(RunArgs),
    /// Show the resources of a run, and why a resource is out of sync
    #[command(after_help = examples::STATUS)]
    Status(StatusArgs),
    /// Pause a run: start nothing new until `kilter resume`
    #[command(after_help = examples::PAUSE)]
    Pause(PauseArgs),
    /// Resume a paused run
    #[command(after_help = examples::RESUME)]
    Resume(ResumeArgs),
    /// Remove temporary files that killed runs left behind
    #[command(after_help = examples::CLEAN)]
    Clean(CleanArgs),
    /// Read resources of a type: all, or by name
    #[command(after_help = examples::GET)]
    Get(GetArgs),
    /// Change one resource
    #[command(after_help = examples::SET, override_usage = "kilter set [OPTIONS] <TYPE> <NAME> <ATTR=VALUE>...")]
    Set(SetArgs),
    /// Run an action of a resource once
    #[command(after_help = examples::ACT, override_usage = "kilter act [OPTIONS] <TYPE[NAME]> <ACTION>")]
    Act(ActArgs),
    /// List the types of resources, or describe one with its attributes
    #[command(after_help = examples::TYPES)]
    Types(TypesArgs),
    /// Show the facts of this machine
    #[command(after_help = examples::FACTS)]
    Facts(FactsArgs),
    /// Show the targets and groups of an inventory
    #[command(after_help = examples::INVENTORY)]
    Inventory(InventoryArgs),
    /// Show the stored roll-outs to other hosts, and continue one
    #[command(after_help = examples::ROLLOUT)]
    Rollout(StoredRolloutArgs),
    /// Draw the graph of a manifest
    #[command(after_help = examples::GRAPH)]
    Graph(GraphArgs),
    /// Show past runs, the changes of a resource, and what drifts
    #[command(after_help = examples::HISTORY)]
    History(HistoryArgs),
    /// Restore the state before a run, or an earlier state of a resource
    #[command(after_help = examples::UNDO)]
    Undo(UndoArgs),
    /// Keep the changes of an apply with --confirm-within
    #[command(after_help = examples::CONFIRM)]
    Confirm(ConfirmArgs),
    /// Show which run, user and line of a manifest gave a resource its values
    #[command(after_help = examples::BLAME)]
    Blame(BlameArgs),
    /// For authors of providers: create a provider from a template, and check one
    #[command(after_help = examples::PROVIDER)]
    Provider(ProviderArgs),
    /// Print the JSON Schema of manifests, for editors, or of documents
    #[command(after_help = examples::SCHEMA)]
    Schema(SchemaArgs),
    /// Print the completions for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print or write the manual pages
    #[command(after_help = examples::MAN)]
    Man(ManArgs),
    /// Print words for the completion of a command line
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// Execute the commands of another machine, which come over standard input
    #[command(hide = true)]
    Serve(ServeArgs),
}

/// Arguments of `kilter status`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    /// Resources, written `type[title]` [default: those that are out of sync or have pending work]
    #[arg(value_name = "RESOURCE")]
    pub(crate) resources: Vec<String>,
    /// All resources
    #[arg(short, long, conflicts_with = "resources")]
    pub(crate) all: bool,
    /// Print events as they happen, each as one line of JSON
    #[arg(short, long, conflicts_with_all = ["resources", "all"])]
    pub(crate) follow: bool,
    /// Output format; `prometheus` prints metrics in the text format of Prometheus
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: StatusFormat,
}

/// Arguments of `kilter inventory`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InventoryArgs {
    /// Targets to show: names, patterns such as `web:&prod`, or a condition such as `vars.site == "fra"`
    /// [default: all]
    #[arg(value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// List the targets; the default
    #[arg(long, conflicts_with_all = ["host", "graph"])]
    pub(crate) list: bool,
    /// Show the options, groups and variables of one target
    #[arg(long, value_name = "NAME", conflicts_with_all = ["graph", "pattern"])]
    pub(crate) host: Option<String>,
    /// Show the groups as a tree
    #[arg(long)]
    pub(crate) graph: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter pause`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PauseArgs {
    /// Reason, shown by `kilter status`
    #[arg(value_name = "WHY")]
    pub(crate) why: Option<String>,
    /// Resume automatically after this time, in seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) longest: Option<u64>,
    /// Do not wait for calls in flight
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// Arguments of `kilter clean`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CleanArgs {
    /// Search these directories too, without their subdirectories
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) directories: Vec<PathBuf>,
    /// Only list the files
    #[arg(short, long)]
    pub(crate) noop: bool,
    /// Format of the list
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter resume`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResumeArgs {
    /// End this pause, by the number that `kilter pause` and `kilter status` show [default: the pauses of this session]
    #[arg(value_name = "ID", conflicts_with = "all")]
    pub(crate) id: Option<u64>,
    /// End all pauses, of all sessions
    #[arg(long)]
    pub(crate) all: bool,
}

/// Arguments of `kilter check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckManifestArgs {
    #[command(flatten)]
    pub(crate) input: ManifestArgs,
    /// Format of the problems and warnings
    #[arg(long, value_name = "FORMAT", default_value = "human", help_heading = HOW)]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter explain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A variable, written `vars.NAME`, or a resource, written `type[title]`. Before the manifests of a resource, one
    /// of its attributes [default: all that have a value]
    #[arg(value_name = "SUBJECT")]
    pub(crate) subject: String,
    #[command(flatten)]
    pub(crate) input: ManifestArgs,
    /// Format of the explanation
    #[arg(long, value_name = "FORMAT", default_value = "human", help_heading = HOW)]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter init`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InitArgs {
    /// Types to include [default: package, file, group, user, ssh_authorized_key, mount, host, sysctl, cron, service]
    #[arg(value_name = "TYPE")]
    pub(crate) types: Vec<String>,
    /// Write the manifest to a new file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Include all resources of the types with all attributes, not only those that differ from the distribution
    #[arg(short, long)]
    pub(crate) all: bool,
}

/// Arguments of `kilter fmt`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FmtArgs {
    /// Files in YAML, or directories with files *.yaml and *.yml at any depth; `-` and none are standard input
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Only list the files that would change
    #[arg(short, long)]
    pub(crate) check: bool,
}

/// Arguments of `kilter get`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GetArgs {
    /// The type, or a resource written `type[name]`
    #[arg(value_name = "TYPE", index = 1)]
    pub(crate) type_name: String,
    /// Resources [default: all]
    #[arg(value_name = "NAME", index = 2)]
    pub(crate) names: Vec<String>,
    /// Print only these attributes, lazy ones included
    #[arg(short, long = "attribute", value_name = "ATTR", value_delimiter = ',')]
    pub(crate) attributes: Vec<String>,
    /// Output format; `yaml` is a manifest for `kilter apply`, `puppet` a manifest for Puppet
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ResourceFormat,
    /// Print secrets in clear
    #[arg(long)]
    pub(crate) show_sensitive: bool,
}

/// Arguments of `kilter set`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SetArgs {
    /// The type, or the resource written `type[name]`
    #[arg(value_name = "TYPE", index = 1)]
    pub(crate) type_name: String,
    /// The resource and its declared attributes; `ATTR=-` reads the value from standard input
    #[arg(value_name = "NAME ATTR=VALUE", index = 2, required = true)]
    pub(crate) words: Vec<String>,
    /// Only show the pending changes
    #[arg(short, long)]
    pub(crate) noop: bool,
    /// Make the change even if `kilter pause` has paused this state directory
    #[arg(long)]
    pub(crate) even_if_paused: bool,
    /// Do not flush the change to the disk; a crash of the machine may lose it
    #[arg(long)]
    pub(crate) no_flush: bool,
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
    #[command(flatten)]
    pub(crate) reports: ReportArgs,
}

/// Arguments of `kilter act`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ActArgs {
    /// The resource written `type[name]`, or its type
    #[arg(value_name = "TYPE[NAME]", index = 1)]
    pub(crate) type_name: String,
    /// The name, if the first argument is a type, and the action
    #[arg(value_name = "ACTION", index = 2, required = true)]
    pub(crate) words: Vec<String>,
    /// Run the action even if `kilter pause` has paused this state directory
    #[arg(long)]
    pub(crate) even_if_paused: bool,
    /// Format of the result
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
}

/// Arguments of `kilter types`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TypesArgs {
    /// The type to describe
    #[arg(value_name = "TYPE", index = 1)]
    pub(crate) type_name: Option<String>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: TypesFormat,
}

/// Arguments of `kilter facts`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FactsArgs {
    /// A fact or a part of one, such as `os.release.major` [default: all facts]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Read external facts from this directory instead of the default ones; repeatable
    #[arg(long = "facts-dir", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) facts_dirs: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: FactsFormat,
}

/// Arguments of `kilter graph`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) input: ManifestArgs,
    /// Output format; `human` is a list
    #[arg(long, value_name = "FORMAT", default_value = "human", help_heading = HOW)]
    pub(crate) format: GraphFormat,
    /// Show the current state of each resource in `kilter run`
    #[arg(short, long, help_heading = HOW)]
    pub(crate) live: bool,
}

/// Arguments of `kilter schema`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Documents of the schema
    #[arg(value_name = "DOCUMENT", default_value = "manifest")]
    pub(crate) of: SchemaOf,
}

/// Documents that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SchemaOf {
    /// Manifests.
    Manifest,
    /// Input and output of scripts of mold, one schema each in `$defs`.
    Mold,
    /// Saved plans: `kilter plan -o FILE`.
    Plan,
    /// Reports of runs: `--format json`.
    Report,
    /// Events: `kilter run --format json`, each line.
    Events,
}

/// Arguments of `kilter completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
    /// Name of the command; the completion of ralsh is for bash
    #[arg(long = "for", value_name = "COMMAND", default_value = "kilter")]
    pub(crate) called: Called,
}

/// Names of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Called {
    Kilter,
    Ralsh,
}

/// Arguments of `kilter complete`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompleteArgs {
    /// The words after the name of the program, up to the cursor
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

/// Arguments of `kilter serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// Remove the file of this program first
    #[arg(long)]
    pub(crate) remove: bool,
}

/// Arguments of `kilter man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this directory [default: print the page of `kilter`]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
}
