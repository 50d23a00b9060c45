//! Pages that the command generates about itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Pages, files_below};
use crate::step::output;

/// A generated page.
pub(super) struct Page {
    /// Path of the page.
    file: &'static str,
    content: PageContent,
}

/// Source of a page's content.
enum PageContent {
    /// Output of a command that prints Markdown.
    Printed(&'static [&'static str]),
    /// Help of the program and of these commands.
    Help(&'static [&'static str]),
}

/// Defines the page of a type.
macro_rules! of_type {
    ($name:literal) => {
        Page {
            file: concat!("docs/reference/types/", $name, ".md"),
            content: PageContent::Printed(&["types", $name, "--format", "markdown"]),
        }
    };
    // The default provider depends on the programs of the machine.
    ($name:literal, $provider:literal) => {
        Page {
            file: concat!("docs/reference/types/", $name, ".md"),
            content: PageContent::Printed(&["types", concat!($name, "::", $provider), "--format", "markdown"]),
        }
    };
}

/// All generated pages.
pub(super) const TABLE: &[Page] = &[
    Page { file: "docs/reference/cli.md", content: PageContent::Help(&COMMANDS) },
    of_type!("alternatives"),
    of_type!("apt_repository"),
    of_type!("archive"),
    of_type!("augeas"),
    of_type!("block"),
    of_type!("ca_certificate"),
    of_type!("container", "podman"),
    of_type!("cron"),
    of_type!("exec"),
    of_type!("exported"),
    of_type!("file"),
    of_type!("file_part"),
    of_type!("firewall"),
    of_type!("firewall_rule"),
    of_type!("group"),
    of_type!("host"),
    of_type!("hostname"),
    of_type!("image", "podman"),
    of_type!("ini"),
    of_type!("kernel_module"),
    of_type!("known_hosts"),
    of_type!("kv"),
    of_type!("line"),
    of_type!("locale"),
    of_type!("mount"),
    of_type!("net"),
    of_type!("noop"),
    of_type!("notify"),
    of_type!("nspawn"),
    of_type!("package", "apt"),
    Page {
        file: "docs/reference/types/package-managers.md",
        content: PageContent::Printed(&["types", "package::dnf", "--format", "markdown"]),
    },
    of_type!("password"),
    of_type!("reboot"),
    of_type!("resources"),
    of_type!("selboolean"),
    of_type!("service", "systemd"),
    of_type!("ssh_authorized_key"),
    of_type!("structured"),
    of_type!("sysctl"),
    of_type!("systemd_timer"),
    of_type!("test"),
    of_type!("tidy"),
    of_type!("timer"),
    of_type!("timezone"),
    of_type!("user"),
    of_type!("value"),
    of_type!("vcsrepo"),
    of_type!("virt"),
    of_type!("virtual_disk"),
];

/// All commands, in the order of the manual.
const COMMANDS: [&str; 42] = [
    "types",
    "get",
    "set",
    "act",
    "plan",
    "check",
    "explain",
    "init",
    "fmt",
    "apply",
    "run",
    "status",
    "pause",
    "resume",
    "clean",
    "facts",
    "inventory",
    "rollout",
    "rollout list",
    "rollout show",
    "rollout resume",
    "graph",
    "history",
    "history show",
    "history diff",
    "history drift",
    "history report",
    "history export",
    "history import",
    "history verify",
    "history prune",
    "blame",
    "undo",
    "confirm",
    "provider",
    "provider new",
    "provider check",
    "provider record",
    "provider replay",
    "schema",
    "completions",
    "man",
];

/// Directory with generated pages only. A page that is not in the table is obsolete.
const DIRECTORY: &str = "docs/reference/types";

/// Writes or compares the pages. Returns the problems.
pub(super) fn run(root: &Path, mode: Pages, kilter: &Path) -> Vec<String> {
    // The help is wrapped to the width of the terminal by default.
    let print = |args: &[&str]| output(Command::new(kilter).args(args).current_dir(root).env("COLUMNS", "100"));
    let mut problems: Vec<String> = TABLE.iter().filter_map(|page| treat(root, mode, page, &print).err()).collect();
    problems.extend(strangers(root, TABLE));
    problems
}

type Print<'a> = &'a dyn Fn(&[&str]) -> Result<String, String>;

/// Returns the text of a page without the note about its origin.
fn text_of(content: &PageContent, print: Print<'_>) -> Result<String, String> {
    let printed = |args: &[&str]| {
        let text = print(args)?;
        match text.trim_end() {
            "" => Err(format!("`kilter {}` prints nothing", args.join(" "))),
            text => Ok(text.to_owned()),
        }
    };
    match content {
        PageContent::Printed(args) => printed(args),
        PageContent::Help(commands) => {
            let help = printed(&["--help"])?;
            let mut missing = unlisted(&help, "", commands);
            let mut text = format!("# The command\n\n```text\n{help}\n```\n");
            for command in *commands {
                let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
                let help = printed(&words)?;
                missing.extend(unlisted(&help, &format!("{command} "), commands));
                text.push_str(&format!("\n## kilter {command}\n\n```text\n{help}\n```\n"));
            }
            match &missing[..] {
                [] => Ok(text.trim_end().to_owned()),
                _ => Err(format!("COMMANDS in xtask/src/docs/pages.rs lacks {}", missing.join(", "))),
            }
        }
    }
}

/// Returns the commands in a help text that are not in the list. Commands are the indented lines below `Commands:`.
fn unlisted(help: &str, prefix: &str, commands: &[&str]) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let names = names.map(|name| format!("{prefix}{name}"));
    names.filter(|name| !commands.contains(&name.as_str())).collect()
}

fn origin(content: &PageContent) -> String {
    match content {
        PageContent::Printed(args) => format!("kilter {}", args.join(" ")),
        PageContent::Help(_) => "kilter --help".to_owned(),
    }
}

fn treat(root: &Path, mode: Pages, page: &Page, print: Print<'_>) -> Result<(), String> {
    let text = text_of(&page.content, print).map_err(|problem| format!("{}: {problem}", page.file))?;
    let origin = origin(&page.content);
    let text = format!("<!-- Written by `{origin}`: `cargo xtask docs` brings it up to date. -->\n\n{text}\n");
    let path = root.join(page.file);
    if mode == Pages::Check {
        return match std::fs::read_to_string(&path) {
            Ok(known) if known == text => Ok(()),
            Ok(known) => Err(format!("{}: {}; run `cargo xtask docs`", page.file, first_difference(&known, &text))),
            Err(error) => Err(format!("{}: {error}; run `cargo xtask docs`", page.file)),
        };
    }
    let directory = path.parent().expect("a page lies in a directory");
    let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, text));
    written.map_err(|error| format!("{}: {error}", page.file))
}

fn first_difference(known: &str, new: &str) -> String {
    let same = known.lines().zip(new.lines()).take_while(|(known, new)| known == new).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(its end)").to_owned();
    format!("line {} is not what the command prints:\n  - {}\n  + {}", same + 1, line(known), line(new))
}

/// Returns the files in the directory of generated pages that no command writes.
fn strangers(root: &Path, table: &[Page]) -> Vec<String> {
    let listed = |path: &PathBuf| table.iter().any(|page| Path::new(page.file) == path);
    let strange = files_below(root, Path::new(DIRECTORY)).into_iter().filter(|path| !listed(path));
    strange.map(|path| format!("{}: no command in xtask/src/docs/pages.rs writes it", path.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Page = Page { file: "docs/reference/types/file.md", content: PageContent::Printed(&["types", "file"]) };

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("xtask-pages-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn changed_page_or_command_is_reported() {
        let scratch = Scratch::new("roundtrip");
        let old = |_: &[&str]| Ok("# file\n\nOld words.\n".to_owned());
        let new = |_: &[&str]| Ok("# file\n\nNew words.\n".to_owned());
        assert!(treat(&scratch.0, Pages::Check, &PAGE, &old).unwrap_err().contains("run `cargo xtask docs`"));
        assert_eq!(treat(&scratch.0, Pages::Write, &PAGE, &old), Ok(()));
        assert_eq!(treat(&scratch.0, Pages::Check, &PAGE, &old), Ok(()));
        let problem = treat(&scratch.0, Pages::Check, &PAGE, &new).unwrap_err();
        assert!(
            problem.contains("line 5 is not what the command prints:\n  - Old words.\n  + New words."),
            "{problem}"
        );
        assert_eq!(strangers(&scratch.0, &[PAGE]), [""; 0]);
        assert_eq!(strangers(&scratch.0, &[]).len(), 1);
    }

    #[test]
    fn a_command_that_prints_nothing_makes_no_page() {
        let scratch = Scratch::new("nothing");
        let problem = treat(&scratch.0, Pages::Write, &PAGE, &|_| Ok("\n".to_owned())).unwrap_err();
        assert_eq!(problem, "docs/reference/types/file.md: `kilter types file` prints nothing");
    }

    #[test]
    fn the_help_of_every_command_is_on_one_page() {
        let print = |args: &[&str]| Ok(format!("help of {}\n", args.join(" ")));
        let text = text_of(&PageContent::Help(&["plan"]), &print).unwrap();
        assert_eq!(
            text,
            "# The command\n\n```text\nhelp of --help\n```\n\n## kilter plan\n\n```text\nhelp of plan --help\n```"
        );
    }

    #[test]
    fn command_that_is_not_listed_is_reported() {
        let help = "Commands:\n  plan   Show the changes\n         of a manifest\n  check  Check it\n  help   \
            Help\n\nOptions:\n  -q";
        assert_eq!(unlisted(help, "", &["plan"]), ["check"]);
        assert_eq!(unlisted(help, "all ", &["all plan", "all check"]), [""; 0]);
        let print = |_: &[&str]| Ok(help.to_owned());
        let problem = text_of(&PageContent::Help(&["plan", "check"]), &print).unwrap_err();
        assert!(problem.ends_with("lacks plan plan, plan check, check plan, check check"), "{problem}");
    }
}
