//! `kilter provider new`: a working provider as a template.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::cli::{Global, NewArgs, NewConvention};
use crate::exit::Exit;
use crate::output;

/// File to write.
struct Draft {
    path: PathBuf,
    text: String,
    mode: u32,
}

pub(super) fn run(args: &NewArgs, global: &Global) -> Exit {
    match write(args) {
        Ok(drafts) if global.quiet => drop(drafts),
        Ok(drafts) => return output::data(&summary(args, &drafts)),
        Err(exit) => return exit,
    }
    Exit::Done
}

fn write(args: &NewArgs) -> Result<Vec<Draft>, Exit> {
    check_names(args)?;
    let drafts = drafts(args);
    let there: Vec<String> = drafts.iter().filter(|draft| is_there(&draft.path)).map(shown).collect();
    if !there.is_empty() {
        let exist = if there.len() == 1 { "exists" } else { "exist" };
        let message = format!("nothing is written: {} {exist} already", there.join(" and "));
        return Err(output::fail_with(message, ["give it another name, or write it elsewhere with --directory"]));
    }
    let mut made = CreatedPaths::default();
    for draft in &drafts {
        if let Err(error) = made.write(draft) {
            return Err(output::fail(format_args!("nothing is written: {}: {error}", draft.path.display())));
        }
    }
    made.keep();
    Ok(drafts)
}

fn shown(draft: &Draft) -> String {
    draft.path.display().to_string()
}

/// Returns true if the path exists, even as a dangling link.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Created files and directories, which are removed again on an error.
#[derive(Default)]
struct CreatedPaths {
    files: Vec<PathBuf>,
    directories: Vec<PathBuf>,
}

impl CreatedPaths {
    fn write(&mut self, draft: &Draft) -> std::io::Result<()> {
        if let Some(directory) = draft.path.parent().filter(|path| !path.as_os_str().is_empty()) {
            self.directory(directory)?;
        }
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(draft.mode).open(&draft.path)?;
        self.files.push(draft.path.clone());
        file.write_all(draft.text.as_bytes())?;
        // Root runs no script that a group can change, for any umask.
        file.set_permissions(std::fs::Permissions::from_mode(draft.mode))
    }

    fn directory(&mut self, path: &Path) -> std::io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            self.directory(above)?;
        }
        DirBuilder::new().mode(0o755).create(path)?;
        self.directories.push(path.to_owned());
        Ok(())
    }

    fn keep(&mut self) {
        self.files.clear();
        self.directories.clear();
    }
}

impl Drop for CreatedPaths {
    fn drop(&mut self) {
        // A failure here follows the error that is reported.
        self.files.iter().for_each(|path| drop(std::fs::remove_file(path)));
        self.directories.iter().rev().for_each(|path| drop(std::fs::remove_dir(path)));
    }
}

fn check_names(args: &NewArgs) -> Result<(), Exit> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_type = |name: &str| name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_part);
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+'))
    };
    let of_type = type_name(args);
    if args.convention == NewConvention::Mold && args.type_name.as_ref().is_some_and(|of| *of != args.name) {
        return Err(output::fail("the type of a script of mold is the name of its file: leave --type out"));
    }
    if !is_name(&args.name) {
        let message = format!("`{}` cannot be the name of a provider", args.name);
        return Err(output::fail_with(message, ["a name has letters, digits, `_`, `-` and `+`"]));
    }
    if !is_type(of_type) {
        let hint = match args.type_name {
            Some(_) => "a type is a small letter, and then small letters, digits and `_`",
            None => "a type is a small letter, and then small letters, digits and `_`: give one with --type",
        };
        return Err(output::fail_with(format!("`{of_type}` cannot be the name of a type"), [hint]));
    }
    Ok(())
}

fn type_name(args: &NewArgs) -> &str {
    args.type_name.as_deref().unwrap_or(&args.name)
}

/// Returns the files, the script first.
fn drafts(args: &NewArgs) -> Vec<Draft> {
    let (script, metadata, check) = match args.convention {
        NewConvention::Simple => (
            include_str!("templates/simple.prov"),
            include_str!("templates/simple.yaml"),
            include_str!("templates/simple.check.yaml"),
        ),
        NewConvention::Json => (
            include_str!("templates/json.prov"),
            include_str!("templates/json.yaml"),
            include_str!("templates/json.check.yaml"),
        ),
        NewConvention::Mold => (
            include_str!("templates/mold"),
            include_str!("templates/mold.yaml"),
            include_str!("templates/mold.check.yaml"),
        ),
    };
    let (directory, script_name) = match args.convention {
        NewConvention::Mold => (args.directory.join("resources"), args.name.clone()),
        _ => (args.directory.clone(), format!("{}.prov", args.name)),
    };
    let directory = directory.strip_prefix(".").unwrap_or(&directory).to_owned();
    let filled = |text: &str| text.replace("@NAME@", &args.name).replace("@TYPE@", type_name(args));
    [(script_name, script, 0o755), (format!("{}.yaml", args.name), metadata, 0o644)]
        .into_iter()
        .chain([(format!("{}.check.yaml", args.name), check, 0o644)])
        .map(|(name, text, mode)| Draft { path: directory.join(name), text: filled(text), mode })
        .collect()
}

/// Returns the list of written files, and the next commands.
fn summary(args: &NewArgs, drafts: &[Draft]) -> String {
    let what = ["the provider", "its metadata", "its check file"];
    let width = drafts.iter().map(|draft| shown(draft).len()).max().unwrap_or(0);
    let written: String =
        drafts.iter().zip(what).map(|(draft, what)| format!("{:width$}  {what}\n", shown(draft))).collect();
    let (type_name, script) = (type_name(args), shown(&drafts[0]));
    let directory = args.directory.display();
    let (given, there) = match args.convention {
        NewConvention::Mold => (format!("--mold {directory}"), "exists=true"),
        _ => (format!("-I {directory}"), "ensure=present"),
    };
    let next = [
        (format!("kilter provider check {}", shell_path(&script)), "test it"),
        (format!("kilter {given} types {type_name}"), "show its type"),
        (format!("kilter {given} set {type_name} sky {there} value=blue"), "make a resource"),
        (format!("kilter {given} get {type_name} sky"), "read it"),
    ];
    let width = next.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let next: String = next.iter().map(|(command, what)| format!("  {command:width$}  # {what}\n")).collect();
    format!("{written}\nNext:\n{next}")
}

/// Returns a path for a shell: a word without a slash would be a type.
fn shell_path(script: &str) -> String {
    if script.contains('/') || script.ends_with(".prov") { script.to_owned() } else { format!("./{script}") }
}
