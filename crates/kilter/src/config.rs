//! The configuration file: options that the command line does not give (docs/reference/configuration.md).
//!
//! Its keys are the long names of options, so that the parser of the command line checks the values.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, ValueHint};
use kilter_model::suggest;
use kilter_script::TextPosition;
use kilter_script::yaml::{self, Node, YamlKind};

use crate::cli::Cli;
use crate::exit::Exit;
use crate::{output, paths, trust};

/// Maximum size of the file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Key for the manifests of commands that have none on their command line.
const MANIFEST: &str = "manifest";

/// Options that a file cannot set, because they belong to one call.
const ONE_CALL: [&str; 5] = ["help", "on", "version", "quiet", "verbose"];

/// Reason why there is no command to run.
pub(crate) enum ConfigRefusal {
    /// The command line is invalid, or asks for help.
    Words(clap::Error),
    /// The configuration file is invalid; reported.
    Config(Exit),
}

/// Parses a command line, which starts with the name of the program, and adds the options of the configuration file.
///
/// # Errors
/// If the command line or the file is invalid.
pub(crate) fn command_line(words: Vec<OsString>) -> Result<Cli, ConfigRefusal> {
    let Some(path) = path() else { return Cli::of(words).map_err(ConfigRefusal::Words) };
    let Some(text) = read(&path).map_err(ConfigRefusal::Config)? else {
        return Cli::of(words).map_err(ConfigRefusal::Words);
    };
    // Errors and requests for help are answered without the file.
    let matches = Cli::parser().try_get_matches_from(&words).map_err(ConfigRefusal::Words)?;
    let file = ConfigFile { path: &path, matches: &matches };
    let added = file.added(&text).map_err(ConfigRefusal::Config)?;
    Cli::of(added.to(words)).map_err(|refused| match refused.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ConfigRefusal::Words(refused),
        _ => {
            let hint = format!("the command line is valid without {}", path.display());
            let message = refusal_text(&refused);
            ConfigRefusal::Config(match added.position(&refused) {
                Some(at) => file.fail(at, &message, Some(&hint)),
                None => output::fail_with(format_args!("{}: {message}", path.display()), [hint]),
            })
        }
    })
}

/// Returns the reason of a refusal on one line: for a value, its option and the expectation.
fn refusal_text(refused: &clap::Error) -> String {
    let text = refused.render().to_string();
    let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let (option, value) = (options_of(refused).next(), value_of(refused));
    let (Some(option), Some(value)) = (option, value) else { return first };
    let expected = match (refused.get(ContextKind::ValidValue), refused.source()) {
        (Some(ContextValue::Strings(known)), _) => format!("one of {} is expected", known.join(", ")),
        (_, Some(why)) if why.is::<ParseIntError>() => "a whole number is expected".to_owned(),
        (_, Some(why)) => why.to_string(),
        (_, None) => return first,
    };
    format!("invalid value `{value}` for `{option}`: {expected}")
}

/// Returns the long names of the options that a refusal is about.
fn options_of(refused: &clap::Error) -> impl Iterator<Item = &str> {
    let names = |kind| match refused.get(kind) {
        Some(ContextValue::String(name)) => std::slice::from_ref(name),
        Some(ContextValue::Strings(names)) => names,
        _ => &[],
    };
    let names = [ContextKind::InvalidArg, ContextKind::PriorArg].into_iter().flat_map(names);
    // clap names an option with its value: --jobs <N>.
    names.filter_map(|name| name.split_whitespace().next()?.strip_prefix("--"))
}

/// Returns the value that a refusal is about.
fn value_of(refused: &clap::Error) -> Option<&str> {
    match refused.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => Some(value),
        _ => None,
    }
}

/// Returns the path of the file; none if the user has no home, or if `KILTER_CONFIG` is empty.
fn path() -> Option<PathBuf> {
    match std::env::var_os("KILTER_CONFIG") {
        Some(given) => Some(PathBuf::from(given)).filter(|path| !path.as_os_str().is_empty()),
        None => paths::config_file(),
    }
}

/// Reads the file; none if it does not exist, unless `KILTER_CONFIG` names it.
fn read(path: &Path) -> Result<Option<String>, Exit> {
    let is_named = std::env::var_os("KILTER_CONFIG").is_some();
    // Most machines have no file. This call is cheaper than a check of its directories.
    if !is_named && !path.exists() {
        return Ok(None);
    }
    let bytes = trust::usual().read(path, MAX_BYTES);
    let bytes = bytes.map_err(|distrust| output::fail(trust::refusal("the configuration file ", path, &distrust)))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(output::fail(format_args!("{}: it is not UTF-8", path.display()))),
    }
}

/// Option with its value that a file adds to a command line.
#[derive(Debug, PartialEq, Eq)]
struct AddedOption {
    word: String,
    /// Position of the value in the file.
    at: TextPosition,
}

/// Words that a file adds to a command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct AddedWords {
    /// Options of every command.
    global: Vec<AddedOption>,
    /// Options of the command.
    command: Vec<AddedOption>,
    manifests: Vec<OsString>,
}

impl AddedWords {
    /// Adds the words to a command line.
    fn to(&self, words: Vec<OsString>) -> Vec<OsString> {
        // After `--` there are no options.
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let (options, rest) = words.split_at(end);
        let (program, options) = options.split_at(1.min(options.len()));
        let separator = (!self.manifests.is_empty() && rest.is_empty()).then(|| OsString::from("--"));
        let added = |options: &[AddedOption]| options.iter().map(|one| OsString::from(&one.word)).collect::<Vec<_>>();
        [program, &added(&self.global), options, &added(&self.command), rest]
            .concat()
            .into_iter()
            .chain(separator)
            .chain(self.manifests.iter().cloned())
            .collect()
    }

    /// Returns the position of the value that the parser of the command line refuses.
    fn position(&self, refused: &clap::Error) -> Option<TextPosition> {
        let value = value_of(refused);
        let mut positions = options_of(refused).filter_map(|name| {
            let is_it = |one: &&AddedOption| {
                let (option, own) =
                    one.word.split_once('=').map_or((&*one.word, None), |(name, own)| (name, Some(own)));
                option.strip_prefix("--") == Some(name) && (value.is_none() || value == own)
            };
            Some(self.global.iter().chain(&self.command).find(is_it)?.at)
        });
        positions.next()
    }
}

/// Configuration file for a parsed command line.
struct ConfigFile<'a> {
    path: &'a Path,
    matches: &'a ArgMatches,
}

impl ConfigFile<'_> {
    /// Returns the options of the file that the command line does not give.
    fn added(&self, text: &str) -> Result<AddedWords, Exit> {
        if text.lines().all(|line| line.trim_start().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(AddedWords::default());
        }
        let document = yaml::parse(text).map_err(|fault| self.fail(fault.at, &fault.message, fault.hint.as_deref()))?;
        let mut added = AddedWords::default();
        let whole = Cli::parser();
        let Some((name, matches)) = self.matches.subcommand() else { return Ok(added) };
        let Some(command) = whole.find_subcommand(name) else { return Ok(added) };
        for (key, value) in self.entries(&document)? {
            let word = self.key(key)?;
            if word == MANIFEST {
                let takes_manifests = command.get_arguments().any(|arg| arg.get_id() == "manifests");
                if takes_manifests && matches.value_source("manifests") != Some(ValueSource::CommandLine) {
                    added.manifests = self.values(value, true)?.into_iter().map(|(path, _)| path.into()).collect();
                }
            } else if let Some(of) = whole.find_subcommand(word).filter(|_| !is_option(&whole, word, value)) {
                for (key, value) in self.entries(value)? {
                    let arg = self.option(of, key)?;
                    if word == name && !is_given(matches, arg) {
                        added.command.extend(self.words(arg, value)?);
                    }
                }
            } else {
                let arg = self.option(&whole, key)?;
                if !is_given(matches, arg) {
                    added.global.extend(self.words(arg, value)?);
                }
            }
        }
        // The source contains the manifests.
        let takes_source = command.get_arguments().any(|arg| arg.get_id() == "from");
        let is_from = |option: &AddedOption| option.word.starts_with("--from=");
        if takes_source && (matches.value_source("from").is_some() || added.command.iter().any(is_from)) {
            added.manifests.clear();
        }
        Ok(added)
    }

    fn entries<'n>(&self, node: &'n Node) -> Result<&'n [(Node, Node)], Exit> {
        match node.entries() {
            Some(entries) => Ok(entries),
            None if node.is_null() => Ok(&[]),
            None => Err(self.fail(
                node.at,
                &format!("options are expected, not {}", node.what()),
                Some("write NAME: VALUE"),
            )),
        }
    }

    fn key<'n>(&self, key: &'n Node) -> Result<&'n str, Exit> {
        key.text()
            .map(|text| text.as_str())
            .ok_or_else(|| self.fail(key.at, &format!("the name of an option is expected, not {}", key.what()), None))
    }

    /// Returns the option with the name of a key. `_` is accepted for `-`.
    fn option<'c>(&self, command: &'c clap::Command, key: &Node) -> Result<&'c Arg, Exit> {
        let name = self.key(key)?.replace('_', "-");
        let of = |arg: &&Arg| arg.get_long().is_some_and(|long| long == name);
        match command.get_arguments().find(of) {
            Some(arg) if !ONE_CALL.contains(&&*name) => Ok(arg),
            Some(_) => Err(self.fail(key.at, &format!("`{name}` can only be given on the command line"), None)),
            None => {
                let known = command.get_arguments().filter_map(Arg::get_long).filter(|long| !ONE_CALL.contains(long));
                let commands = command.get_subcommands().map(clap::Command::get_name);
                let known: Vec<&str> = known.chain(commands).chain([MANIFEST]).collect();
                let hint = match suggest::nearest(&name, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "the keys are the long options of kilter, and names of commands".to_owned(),
                };
                Err(self.fail(key.at, &format!("{} has no option `{name}`", command.get_name()), Some(&hint)))
            }
        }
    }

    /// Returns an option once for each of its values.
    fn words(&self, arg: &Arg, value: &Node) -> Result<Vec<AddedOption>, Exit> {
        let name = arg.get_long().unwrap_or_default();
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            return match value.as_bool() {
                Some(true) => Ok(vec![AddedOption { word: format!("--{name}"), at: value.at }]),
                Some(false) => Ok(Vec::new()),
                None => Err(self.fail(value.at, &format!("`{name}` is true or false, not {}", value.what()), None)),
            };
        }
        let is_list = matches!(value.kind, YamlKind::Sequence(_));
        if is_list && !matches!(arg.get_action(), ArgAction::Append) {
            return Err(self.fail(value.at, &format!("`{name}` has one value, not a list"), None));
        }
        let is_path = matches!(arg.get_value_hint(), ValueHint::DirPath | ValueHint::FilePath | ValueHint::AnyPath);
        let values = self.values(value, is_path)?;
        let added = |(value, at)| AddedOption { word: format!("--{name}={value}"), at };
        Ok(values.into_iter().map(added).collect())
    }

    /// Returns the values of an option with their positions. Relative paths start at the directory of the file.
    fn values(&self, value: &Node, are_paths: bool) -> Result<Vec<(String, TextPosition)>, Exit> {
        let of = |node: &Node| match node.text().filter(|_| !node.is_null()) {
            Some(text) if are_paths && !text.contains("://") => {
                let directory = self.path.parent().unwrap_or(Path::new("/"));
                Ok((directory.join(text.as_str()).to_string_lossy().into_owned(), node.at))
            }
            Some(text) => Ok((text.to_string(), node.at)),
            None => Err(self.fail(node.at, &format!("a value is expected, not {}", node.what()), None)),
        };
        match &value.kind {
            YamlKind::Sequence(values) => values.iter().map(of).collect(),
            _ => Ok(vec![of(value)?]),
        }
    }

    fn fail(&self, at: TextPosition, message: &str, hint: Option<&str>) -> Exit {
        let TextPosition { line, column } = at;
        output::fail_with(format_args!("{}:{line}:{column}: {message}", self.path.display()), hint)
    }
}

/// Returns true if a key is a general option with the name of a command, such as `inventory`: options of a command are
/// a mapping.
fn is_option(whole: &clap::Command, word: &str, value: &Node) -> bool {
    let mut options = whole.get_arguments().filter_map(Arg::get_long);
    value.entries().is_none() && options.any(|long| long == word)
}

/// Returns true if the command line or the environment gives an option.
fn is_given(matches: &ArgMatches, arg: &Arg) -> bool {
    let source = matches.value_source(arg.get_id().as_str());
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(line: &str, text: &str) -> Result<AddedWords, Exit> {
        let words = ["kilter"].into_iter().chain(line.split(' '));
        let matches = Cli::parser().try_get_matches_from(words).unwrap();
        ConfigFile { path: Path::new("/etc/kilter/kilter.yaml"), matches: &matches }.added(text)
    }

    fn shown(options: &[AddedOption]) -> String {
        options.iter().map(|option| option.word.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn joined(words: &[OsString]) -> String {
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_of_the_command_line_replace_those_of_the_file() {
        let text = "state-dir: state\ninclude: [/a, b]\nmanifest: site.yaml\nplan: {jobs: 3}\napply: {jobs: 4, \
            no_flush: yes}\n";
        let all = added("apply", text).unwrap();
        assert_eq!(shown(&all.global), "--state-dir=/etc/kilter/state --include=/a --include=/etc/kilter/b");
        assert_eq!(shown(&all.command), "--jobs=4 --no-flush");
        assert_eq!(joined(&all.manifests), "/etc/kilter/site.yaml");
        let some = added("apply -I /c --jobs 1 own.yaml", text).unwrap();
        assert_eq!(
            (shown(&some.global), shown(&some.command)),
            ("--state-dir=/etc/kilter/state".into(), "--no-flush".into())
        );
        assert!(some.manifests.is_empty());
        assert_eq!(added("facts", text).unwrap().command, []);
    }

    #[test]
    fn option_with_the_name_of_a_command_is_a_text() {
        let added = added("inventory", "inventory: hosts.yaml\n").unwrap();
        assert_eq!(
            (shown(&added.global), shown(&added.command)),
            ("--inventory=/etc/kilter/hosts.yaml".into(), "".into())
        );
        let added = self::added("inventory", "inventory: {format: json}\n").unwrap();
        assert_eq!((shown(&added.global), shown(&added.command)), ("".into(), "--format=json".into()));
    }

    #[test]
    fn words_are_added_before_the_end_of_options() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let of = |line: &str| {
            let option =
                |word: &str| vec![AddedOption { word: word.to_owned(), at: TextPosition { line: 1, column: 1 } }];
            let added =
                AddedWords { global: option("--include=a"), command: option("--jobs=2"), manifests: Vec::new() };
            joined(&added.to(words(line)))
        };
        assert_eq!(of("kilter apply -- -x"), "kilter --include=a apply --jobs=2 -- -x");
        let added = AddedWords { manifests: words("m.yaml"), ..AddedWords::default() };
        assert_eq!(joined(&added.to(words("kilter apply"))), "kilter apply -- m.yaml");
    }

    #[test]
    fn wrong_files_are_refused() {
        for text in [
            "state_dri: x",
            "quiet: true",
            "apply: 3",
            "apply: {jbos: 3}",
            "jobs: 3",
            "state-dir: [a]",
            "apply: {no-flush: 3}",
            "- a",
            "a: [",
        ] {
            assert!(added("apply", text).is_err(), "{text}");
        }
        for empty in ["", "# manifest: site.yaml\n\n"] {
            assert_eq!(added("apply", empty).unwrap(), AddedWords::default());
        }
    }
}
