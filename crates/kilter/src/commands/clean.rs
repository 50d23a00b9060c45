//! `kilter clean`: removes temporary files that killed runs left behind.

use std::path::Path;

use kilter_native::{CleanedFiles, clean_temporary_files};
use kilter_runtime::StateDir;
use serde_json::json;

use super::exec_options::fail;
use crate::cli::{CleanArgs, ReportFormat};
use crate::exit::Exit;
use crate::session::Session;
use crate::visible::visible;
use crate::{output, paths};

/// Runs the command.
pub(crate) fn run(args: &CleanArgs, session: &Session) -> Exit {
    match clean(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn clean(args: &CleanArgs, session: &Session) -> Result<Exit, Exit> {
    if let Some(missing) = args.directories.iter().find(|path| !path.is_dir()) {
        return Err(output::fail(format_args!("there is no directory {}", visible(&shown(missing)))));
    }
    let directories: Vec<_> = args.directories.iter().map(|path| paths::whole(path)).collect();
    let state_dir = session.state_dir()?;
    // A missing state directory has no records, and is not created.
    let state_dir = state_dir.is_dir().then_some(state_dir);
    let lock = state_dir.as_ref().map(|path| StateDir::new(path).hold()).transpose();
    let _lock = lock.map_err(|error| fail(error.into()))?;
    let cleaned = clean_temporary_files(state_dir.as_deref(), &directories, args.noop);
    let told = match args.format {
        ReportFormat::Human => human(&cleaned, args.noop, session.global.quiet),
        ReportFormat::Json => json(&cleaned, args.noop),
    };
    for (path, why) in &cleaned.failed {
        output::error(format_args!("cannot clean {}: {why}", visible(&shown(path))));
    }
    let exit = output::data(&told);
    Ok(match exit {
        Exit::Done if !cleaned.failed.is_empty() => Exit::Failed,
        Exit::Done if args.noop && !cleaned.removed.is_empty() => Exit::Pending,
        exit => exit,
    })
}

fn human(cleaned: &CleanedFiles, noop: bool, quiet: bool) -> String {
    if quiet {
        return String::new();
    }
    let mut text: String = cleaned.removed.iter().map(|path| format!("- {}\n", visible(&shown(path)))).collect();
    let (count, files) = match cleaned.removed.len() {
        0 => return "no temporary files\n".to_owned(),
        1 => (1, "file"),
        count => (count, "files"),
    };
    text += &format!("{count} temporary {files} {}\n", if noop { "to remove" } else { "removed" });
    text
}

fn json(cleaned: &CleanedFiles, noop: bool) -> String {
    let removed: Vec<String> = cleaned.removed.iter().map(|path| shown(path)).collect();
    let failed: Vec<_> =
        cleaned.failed.iter().map(|(path, why)| json!({ "path": shown(path), "error": why })).collect();
    format!("{:#}\n", json!({ "noop": noop, "removed": removed, "failed": failed }))
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
