//! `kilter init`: a first manifest from the resources of this machine.

mod distribution;

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use ecow::EcoString;
use kilter_model::{State, Value};
use kilter_provider::{Level, Provider, Query, Registry, Suitability, Wanted, get_checked, get_named};

use crate::cli::InitArgs;
use crate::exit::Exit;
use crate::render::progress::PrintedLog;
use crate::resources::{self, SecretHandling};
use crate::session::Session;
use crate::yaml::{Texts, Yaml};
use crate::{output, output_file, providers, signals};
use distribution::Distribution;

/// Maximum size in bytes of a file whose content becomes part of the manifest.
const MAX_CONTENT_BYTES: u64 = 64 << 10;

/// Selection of the resources of a type.
struct Selection {
    type_name: &'static str,
    /// Comment above the resources.
    title: &'static str,
    /// Declared attributes; none for all. With `ensure` alone, the resources are a list of titles.
    attributes: &'static [&'static str],
    /// Returns true if the resource differs from a fresh installation of the distribution.
    differs: fn(&mut Distribution, &State) -> bool,
}

/// Types of the manifest, in its order.
const SELECTIONS: [Selection; 10] = [
    Selection {
        type_name: "package",
        title: "Packages that were installed by choice and not as a dependency",
        attributes: &["ensure"],
        differs: Distribution::is_chosen_package,
    },
    Selection {
        type_name: "file",
        title: "Configuration files of packages that were edited",
        attributes: &["content", "mode", "owner", "group"],
        differs: |_, _| true,
    },
    Selection {
        type_name: "group",
        title: "Groups of people and applications",
        attributes: &["gid"],
        differs: Distribution::is_local_group,
    },
    Selection {
        type_name: "user",
        title: "Accounts of people and applications",
        attributes: &["uid", "gid", "comment", "home", "shell", "groups"],
        differs: Distribution::is_local_user,
    },
    Selection { type_name: "ssh_authorized_key", title: "SSH keys of accounts", attributes: &[], differs: |_, _| true },
    Selection { type_name: "mount", title: "File systems of /etc/fstab", attributes: &[], differs: |_, _| true },
    Selection {
        type_name: "host",
        title: "Entries of /etc/hosts",
        attributes: &[],
        differs: Distribution::is_added_host,
    },
    Selection { type_name: "sysctl", title: "Kernel parameters", attributes: &[], differs: |_, _| true },
    Selection { type_name: "cron", title: "Cron jobs", attributes: &[], differs: |_, _| true },
    Selection {
        type_name: "service",
        title: "Units that are enabled or disabled against the distribution's preset",
        attributes: &["ensure", "enable"],
        differs: Distribution::is_changed_service,
    },
];

/// Selection of a type without one of its own: all resources with all attributes.
const EVERYTHING: Selection = Selection { type_name: "", title: "", attributes: &[], differs: |_, _| true };

/// Runs the command.
pub(crate) fn run(args: &InitArgs, session: &Session) -> Exit {
    match init(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn init(args: &InitArgs, session: &Session) -> Result<Exit, Exit> {
    signals::listen()?;
    let registry = providers::registry(session)?;
    let types: Vec<&str> = match args.types.is_empty() {
        true => SELECTIONS.iter().map(|selection| selection.type_name).collect(),
        false => args.types.iter().map(String::as_str).collect(),
    };
    // A wrong name is an error before the first long read.
    for type_name in &types {
        providers::find(&registry, type_name)?;
    }
    if let Some(path) = args.output.as_ref().filter(|path| path.symlink_metadata().is_ok()) {
        let hint = "choose another file, or print the manifest without --output";
        return Err(output::fail_with(format_args!("{} exists, and init overwrites no file", path.display()), [hint]));
    }
    let unwritable = |path: &Path, why: &str| output::fail(format_args!("cannot write {}: {why}", path.display()));
    args.output.as_ref().map_or(Ok(()), |path| output_file::check(path).map_err(|why| unwritable(path, &why)))?;
    let mut draft =
        Draft { yaml: Yaml::new(Texts::Manifest), counts: Vec::new(), distribution: Distribution::default() };
    draft.head(session);
    for type_name in types {
        draft.section(type_name, args.all, &registry, session)?;
        if let Some(exit) = signals::exit() {
            return Err(exit);
        }
    }
    let Draft { yaml, counts, .. } = draft;
    let mut text = yaml.finish();
    if counts.is_empty() {
        text += "resources: {}\n";
    }
    let Some(path) = &args.output else { return Ok(output::data(&text)) };
    output_file::create(path, &text).map_err(|why| unwritable(path, &why))?;
    if !session.global.quiet {
        let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let counts = if counts.is_empty() { "no resources".to_owned() } else { counts.join(", ") };
        let path = path.display();
        output::line(format_args!("{path}: {counts}. `kilter plan {path}` shows no change until you edit it"));
    }
    Ok(Exit::Done)
}

/// Manifest under construction.
struct Draft {
    yaml: Yaml,
    /// Number of written resources by type. It is empty until `resources` is written.
    counts: Vec<(EcoString, usize)>,
    distribution: Distribution,
}

impl Draft {
    fn head(&mut self, session: &Session) {
        let host = session.host();
        self.yaml.comment(0, &format!("State of {host}, written by `kilter init`. Edit it, then: kilter plan FILE"));
    }

    /// Writes the resources of a type.
    fn section(&mut self, type_name: &str, is_all: bool, registry: &Registry, session: &Session) -> Result<(), Exit> {
        let provider = providers::find(registry, type_name)?.as_ref();
        let selection = SELECTIONS.iter().find(|one| one.type_name == type_name).unwrap_or(&EVERYTHING);
        match signals::interruptible(|| provider.suitable())? {
            Suitability::Suitable => {}
            Suitability::Unsuitable(why) => {
                self.yaml.comment(0, &format!("{type_name}: not read, because {why}"));
                return Ok(());
            }
        }
        let (mut states, left_out) = read(provider, &mut self.distribution, session).map_err(|why| {
            let message = format_args!("cannot read {type_name} resources: {why}");
            output::fail_with(message, ["name the types to include: kilter init package user"])
        })?;
        states.retain(|state| is_all || (selection.differs)(&mut self.distribution, state));
        let attributes = selection.attributes;
        if !attributes.is_empty() && !is_all {
            for state in &mut states {
                state.attributes.retain(|name, _| attributes.contains(&name.as_str()));
            }
        }
        if !states.is_empty() {
            match self.counts.is_empty() {
                true => self.yaml.open(0, "resources"),
                false => self.yaml.blank(),
            }
            self.yaml.comment(1, if selection.title.is_empty() { type_name } else { selection.title });
            match attributes {
                ["ensure"] if !is_all => {
                    self.yaml.open(1, type_name);
                    self.yaml.entry(2, "titles", &Value::strings(states.iter().map(|state| &*state.name)));
                }
                _ => resources::yaml_entries(&mut self.yaml, provider.schema(), &states, SecretHandling::Hidden),
            }
            self.counts.push((type_name.into(), states.len()));
        }
        left_out.iter().for_each(|why| self.yaml.comment(1, why));
        Ok(())
    }
}

/// Resources, and the reasons for omitted ones.
type FoundStates = (Vec<State>, Vec<String>);

/// Reads the resources of a type. Files are those that the distribution knows and that differ from its version.
fn read(provider: &dyn Provider, distribution: &mut Distribution, session: &Session) -> Result<FoundStates, String> {
    let log = PrintedLog { from: Level::Warning };
    let state_dir = session.state_dir_if_any();
    let cx = session.context(&log).with_var_dir(state_dir.as_deref());
    if provider.schema().name != "file" {
        let states = get_checked(provider, &cx, Query::All).map_err(|error| error.to_string())?;
        return Ok((states.into_iter().filter(|state| state.exists).collect(), Vec::new()));
    }
    let (paths, left_out): (Vec<_>, Vec<_>) =
        distribution.edited_files().into_iter().map(|path| readable(&path).map(|()| path)).partition(Result::is_ok);
    let names: Vec<EcoString> = paths.into_iter().flatten().map(|path| path.to_string_lossy().into()).collect();
    let mut left_out: Vec<String> = left_out.into_iter().filter_map(Result::err).collect();
    let asked = ["ensure", "content", "mode", "owner", "group"].map(EcoString::from);
    let cx = cx.with_requested_attributes(&asked);
    let wanted = names.iter();
    let wanted: Vec<Wanted<'_>> = wanted
        .map(|name| Wanted { name, namevars: None, should: None, received: &[], noop: false, refresh: false })
        .collect();
    let mut states = Vec::new();
    for (name, state) in get_named(provider, &cx, &wanted).map_err(|error| error.to_string())? {
        match state {
            // Bytes that are not text would be unreadable in a manifest.
            Ok(state) if matches!(state.attributes.get("content"), Some(Value::String(_))) => states.push(state),
            Ok(_) => {
                left_out.push(format!("file[{name}] was edited, and is not text: keep a copy, and declare `source`"))
            }
            Err(error) => left_out.push(format!("file[{name}] was edited, but cannot be read: {error}")),
        }
    }
    Ok((states, left_out))
}

/// Returns the reason why the content of a file does not become part of the manifest, which other users may read.
fn readable(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let found = path.symlink_metadata().map_err(|error| format!("file[{shown}] was edited: {error}"))?;
    let hint = "keep a copy, and declare `source`";
    match () {
        () if !found.file_type().is_file() || found.file_type().is_fifo() => {
            Err(format!("file[{shown}] was replaced, and is no regular file"))
        }
        () if found.permissions().mode() & 0o004 == 0 => {
            Err(format!("file[{shown}] was edited, but not all users may read it: {hint}"))
        }
        () if found.len() > MAX_CONTENT_BYTES => {
            Err(format!("file[{shown}] was edited, and is larger than {} KiB: {hint}", MAX_CONTENT_BYTES >> 10))
        }
        () => Ok(()),
    }
}
