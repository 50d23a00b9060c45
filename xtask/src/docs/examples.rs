//! Plans the manifests in documents and in `examples`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::markdown::divide;
use super::{Document, files_below};

/// Info string of a fenced block with a complete manifest.
const MARK: &str = "yaml kilter";

/// Plans several manifests together.
pub(super) type PlanManifests<'a> = &'a dyn Fn(&[PathBuf]) -> Result<(), String>;

/// Returns the examples that cannot be planned, with their positions.
pub(super) fn failing(root: &Path, documents: &[Document], plan: PlanManifests<'_>) -> Vec<String> {
    let mut problems: Vec<String> = documents.iter().flat_map(|document| failing_in(document, plan)).collect();
    problems.extend(failing_files(root, plan));
    problems
}

fn failing_in(document: &Document, plan: PlanManifests<'_>) -> Vec<String> {
    let marked = divide(&document.text).fences.into_iter().filter(|fence| fence.words == MARK);
    marked
        .filter_map(|fence| {
            let why = in_scratch_file(&fence.text, plan).err()?;
            Some(format!("{}:{}: the example cannot be planned: {why}", document.path.display(), fence.line))
        })
        .collect()
}

/// Passes a text as a temporary file.
fn in_scratch_file(text: &str, plan: PlanManifests<'_>) -> Result<(), String> {
    let directory = std::env::temp_dir().join(format!("xtask-example-{}", std::process::id()));
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let file = directory.join("manifest.yaml");
    let result = std::fs::write(&file, text).map_err(failed).and_then(|()| plan(&[file]));
    std::fs::remove_dir_all(&directory).map_err(failed)?;
    result
}

/// Plans the manifests in `examples`. A file is a manifest, and the manifests of a directory belong together. Hidden
/// directories contain files that manifests read.
fn failing_files(root: &Path, plan: PlanManifests<'_>) -> Vec<String> {
    let sets = sets(root);
    if sets.is_empty() {
        return vec!["examples: there are none".to_owned()];
    }
    let failed = |set: Vec<PathBuf>| {
        let paths: Vec<PathBuf> = set.iter().map(|path| root.join(path)).collect();
        let why = plan(&paths).err()?;
        let names: Vec<String> = set.iter().map(|path| path.display().to_string()).collect();
        Some(format!("{}: cannot be planned: {why}", names.join(" ")))
    };
    sets.into_iter().filter_map(failed).collect()
}

/// Directories of providers, which are no manifests, and of manifests for devices, which tests plan.
const WITHOUT_MANIFESTS: [&str; 2] = ["examples/providers", "examples/devices"];

/// Returns the sets of manifests that are planned together.
fn sets(root: &Path) -> Vec<Vec<PathBuf>> {
    let mut sets: Vec<Vec<PathBuf>> = Vec::new();
    let is_manifest = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_text = matches!(extension, Some("yaml" | "yml" | "json"));
        !WITHOUT_MANIFESTS.iter().any(|directory| path.starts_with(directory))
            && (is_text || is_executable(&root.join(path)))
    };
    for path in files_below(root, Path::new("examples")).into_iter().filter(is_manifest) {
        match path.components().count() {
            2 => sets.push(vec![path]),
            3 => match sets.last_mut().filter(|set| set[0].parent() == path.parent()) {
                Some(set) => set.push(path),
                None => sets.push(vec![path]),
            },
            _ => {}
        }
    }
    sets
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

/// Plans manifests with the command. Changes may be pending, and a normal user may be unable to read some resources.
/// Only the existence of a plan counts.
pub(super) fn plan(kilter: &Path, manifests: &[PathBuf]) -> Result<(), String> {
    // The examples must not depend on kilter's state on this machine.
    let state = std::env::temp_dir().join(format!("xtask-state-{}", std::process::id()));
    let mut command = Command::new(kilter);
    command.args(["plan", "--format", "json", "--state-dir"]).arg(&state).args(manifests);
    let output = command.output();
    // A plan may have stored no state.
    let _ = std::fs::remove_dir_all(&state);
    let output = output.map_err(|error| format!("{}: {error}", kilter.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0 | 2 | 4) => {}
        _ => return Err(format!("{}\n{stderr}", output.status)),
    }
    match serde_json::from_slice::<serde_json::Value>(&output.stdout) {
        Ok(plan) if plan.is_object() => Ok(()),
        Ok(_) => Err("it prints JSON that is not a plan".to_owned()),
        Err(error) => Err(format!("it prints no JSON: {error}\n{stderr}")),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn marked_examples_are_planned_and_others_are_not() {
        let text = "```yaml kilter\nresources: {}\n```\n\n```yaml\nonly: a part\n```\n\n```yaml kilter\nbroken\n```\n";
        let document = Document { path: "docs/a.md".into(), text: text.to_owned() };
        let seen = RefCell::new(Vec::new());
        let problems = failing_in(&document, &|manifests| {
            let text = std::fs::read_to_string(&manifests[0]).unwrap();
            seen.borrow_mut().push(text.clone());
            if text == "broken\n" { Err("no mapping".to_owned()) } else { Ok(()) }
        });
        assert_eq!(problems, ["docs/a.md:10: the example cannot be planned: no mapping"]);
        assert_eq!(*seen.borrow(), ["resources: {}\n", "broken\n"]);
    }

    #[test]
    fn manifests_of_a_directory_are_planned_together() {
        let root = std::env::temp_dir().join(format!("xtask-sets-{}", std::process::id()));
        for file in ["hello.yaml", "web/a.yaml", "web/b.json", "web/files/page.yaml", "notes.md"] {
            let path = root.join("examples").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = sets(&root);
        let problems = failing_files(&root, &|manifests| Err(format!("{} files", manifests.len())));
        std::fs::remove_dir_all(&root).unwrap();
        let expected: [&[&str]; 2] = [&["examples/hello.yaml"], &["examples/web/a.yaml", "examples/web/b.json"]];
        assert_eq!(found, expected.map(|set| set.iter().map(PathBuf::from).collect::<Vec<_>>()));
        assert_eq!(problems[1], "examples/web/a.yaml examples/web/b.json: cannot be planned: 2 files");
        assert_eq!(failing_files(Path::new("/nonexistent"), &|_| Ok(())), ["examples: there are none"]);
    }

    #[test]
    fn a_command_that_prints_no_plan_fails() {
        let program = |body: &str| {
            let path = std::env::temp_dir().join(format!("xtask-plan-{}-{}", std::process::id(), body.len()));
            let script = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$0\" && chmod 755 \"$0\"";
            let status = Command::new("sh").arg("-c").arg(script).arg(&path).arg(body).status();
            assert!(status.unwrap().success());
            let result = plan(&path, &[]);
            std::fs::remove_file(path).unwrap();
            result
        };
        assert_eq!(program("echo '{}'; exit 2"), Ok(()));
        assert!(program("exit 0").unwrap_err().contains("no JSON"));
        assert!(program("echo '{}'; echo why >&2; exit 1").unwrap_err().contains("why"));
        assert!(program("echo 12345").unwrap_err().contains("not a plan"));
    }
}
